"""Bugs in the engine: rows of a unit that count, and what is equal."""

from mutant import Mutant

TABLE, GROUPS = "engine/table.py", "sql/rewrite/groups.py"

PLANTED = (
    Mutant(
        "one row of a unit more counts than max_rows",
        "a person with many rows loses more than is charged",
        TABLE,
        'some = f"SELECT {columns} FROM ({drawn}) AS d WHERE place <= {int(max_rows)}"',
        'some = f"SELECT {columns} FROM ({drawn}) AS d WHERE place <= {int(max_rows) + 1}"',
        ("engine/test_duckdb.py::test_rows_without_a_unit_take_no_part",),
    ),
    Mutant(
        "rows without a unit all count",
        "they belong to nobody, so nothing bounds how many are of one person",
        TABLE,
        'for part in (f"NOT {is_null(unit.sql, unit.kind)}", self._filter) if part)',
        'for part in ("TRUE", self._filter) if part)',
        ("engine/test_duckdb.py::test_rows_without_a_unit_take_no_part",),
    ),
    Mutant(
        "the rows of a unit that count are drawn by a salt that all ledgers share",
        "which of a person's rows count can be worked out, and arranged",
        TABLE,
        'hashlib.blake2b(b"sample", key=key, digest_size=16)',
        'hashlib.blake2b(b"sample", digest_size=16)',
        ("test_fresh_randomness.py::test_every_ledger_samples_rows_of_its_own",),
    ),
    Mutant(
        "groups that are one in Python overwrite each other",
        "one person in a group of the same look turns a count of 200 into 1",
        GROUPS,
        "            if places.size < rows.size:\n",
        "            if places.size < 0:\n",
        ("sql/test_rewrite.py::test_groups_that_are_one_here_are_an_error",),
    ),
    Mutant(
        "a child of a fork counts through its parent's connection",
        "parent and child mix up their answers",
        TABLE,
        "        in_child(self._forget_parent)\n",
        "",
        ("test_forks.py::test_a_child_asks_through_a_connection_of_its_own",),
    ),
    Mutant(
        "levels that are asked for are taken for the first ones",
        "cells are measured that were not charged",
        TABLE,
        "        position[list(axis.levels)] = np.arange(axis.size)\n",
        "        position[: axis.size] = np.arange(axis.size)\n",
        ("engine/test_duckdb.py::test_an_axis_of_some_levels_counts_those",),
    ),
)
