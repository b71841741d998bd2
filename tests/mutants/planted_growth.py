"""Bugs in tables that grow by parts: whose rows a part may have, and what its cells have paid."""

from mutant import Mutant

SPEND, CELLS, PRICING = "ledger/extension.py", "privacy/spend.py", "planner/pricing.py"
PARTS, LEDGER, ROWS = "engine/parts.py", "ledger/ledger.py", "session/protected_rows.py"
TOTAL = "ledger/test_growth.py::test_the_total_is_what_the_unit_that_lost_most_has_lost"
LOST = "test_growing_tables.py::test_nobody_loses_more_than_was_paid"
TWICE = "test_growing_tables.py::TestRowsInTwoParts::test_an_export_of_all_until_now_is_refused_before_it_is_a_part"
LEFT_OUT = "test_growing_tables.py::test_rows_of_units_that_an_earlier_part_has_are_left_out"

PLANTED = (
    Mutant(
        "whoever is in several parts loses what the dearest part costs",
        "a patient who comes back every month loses twelve times what is said",
        SPEND,
        "    found = Spend(sizes, spend.limit, spend.merge, name)\n",
        "    found = Spend(sizes, spend.limit, spend.merge)\n",
        (TOTAL,),
    ),
    Mutant(
        "what counts a unit once in all parts is forgotten",
        "statements over a table whose parts add up cost nothing",
        CELLS,
        "        self.everywhere += once\n",
        "",
        (TOTAL,),
    ),
    Mutant(
        "what reads several parts costs as what reads one",
        "with Gaussian noise, a unit in three parts changes a sum by three times as much and pays a third of that",
        PRICING,
        "return len(parts_read(measurement)) if table.adds else 0",
        "return 1 if table.adds else 0",
        (LOST,),
    ),
    Mutant(
        "units that an earlier part has stay",
        "who is in two parts pays for one of them",
        PARTS,
        "kept = frame.iloc[np.sort(numbers[new])]",
        "kept = frame.iloc[np.sort(numbers)]",
        (LEFT_OUT,),
    ),
    Mutant(
        "units are told apart within a part only",
        "who is in two parts pays for one of them",
        ROWS,
        "        if earlier and table.unit is not None:\n",
        "        if earlier and table.unit is None:\n",
        (LEFT_OUT,),
    ),
    Mutant(
        "a statement pays for the parts that any of its conditions names",
        "rows that another condition lets in lose what nobody pays for",
        "sql/linear/parts.py",
        "operands(one) if isinstance(one, exp.And) else [one]",
        "operands(one) if isinstance(one, exp.And | exp.Or) else [one]",
        ("test_growing_tables.py::test_a_statement_is_charged_to_the_parts_that_it_reads",),
    ),
    Mutant(
        "a part comes while a charge waits",
        "what was paid for one part is measured over two",
        LEDGER,
        "            self._check_answered(connection, view, name)\n            known, parts =",
        "            known, parts =",
        ("ledger/test_growth.py::test_what_is_charged_and_not_answered_is_waited_for",),
    ),
    Mutant(
        "an export of all until now becomes a part",
        "whose row is in two parts is measured in both, for the price of one",
        PARTS,
        "    if shared < FEWEST_SHARED:\n",
        "    if shared >= FEWEST_SHARED:\n",
        (TWICE,),
    ),
)
