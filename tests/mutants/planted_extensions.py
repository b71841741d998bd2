"""Bugs in what becomes of a table whose domain is declared otherwise: what its rows had paid, and who may go on."""

from mutant import Mutant

SPEND, REPLAY, LEDGER = "ledger/extension.py", "ledger/replay.py", "ledger/ledger.py"
BRUTE_FORCE = "ledger/test_extensions.py::test_every_cell_has_spent_what_its_rows_may_have_lost"

PLANTED = (
    Mutant(
        "rows that come in by an extension have paid nothing",
        "statements about them are forgotten",
        SPEND,
        "constant_values=outside - found.everywhere",
        "constant_values=0",
        (BRUTE_FORCE,),
    ),
    Mutant(
        "rows that a new column leaves out have paid for statements alone",
        "they come in again by another extension, and what they paid is forgotten",
        REPLAY,
        "outside = table.outside if same_sample and not leaves_rows_out else table.units",
        "outside = table.outside",
        (BRUTE_FORCE,),
    ),
    Mutant(
        "another sample of a unit's rows pays apart from the earlier one",
        "a unit has lost twice what the dearest cell says",
        REPLAY,
        'return registered["unit"] is None or same',
        "return True",
        ("ledger/test_extensions.py::test_the_sample_of_units_may_be_another_one",),
    ),
    Mutant(
        "a measurement of an earlier domain is refined",
        "only the difference is paid, for sums that may be over other rows",
        REPLAY,
        "            if line.since != self.tables[table].since:\n",
        "            if line.since is None:\n",
        ("ledger/test_extensions.py::test_what_was_measured_before_is_not_refined",),
    ),
    Mutant(
        "a kernel goes on with the domain that another one changed",
        "it is charged for cells that are others",
        LEDGER,
        "                check_domain(table, self._said.get(table), state.since)\n",
        "",
        ("ledger/test_corrections.py::test_another_kernel_with_the_old_domain_is_refused",),
    ),
    Mutant(
        "a domain is corrected after something was charged",
        "what was spent on its cells is forgotten",
        REPLAY,
        "return not self.table(name).charges and name not in self._read",
        "return name not in self._read",
        ("ledger/test_corrections.py::test_nothing_is_corrected_that_something_rests_on",),
    ),
)
