"""Bugs in whose rows are whose: joins, set operations, samples, subqueries."""

from mutant import Mutant

JOINS, POPULATIONS, SELECTS = "sql/ownership/joins.py", "sql/ownership/populations.py", "sql/ownership/selects.py"

PLANTED = (
    Mutant(
        "UNION ALL of units is taken for a set of them",
        "a person with several rows counts as often, for the price of one",
        "sql/ownership/set_operations.py",
        '    distinct = query.args.get("distinct") is not False\n',
        "    distinct = True\n",
        ("sql/test_populations.py::test_a_unit_is_once_in_a_set_of_units_and_nowhere_else",),
    ),
    Mutant(
        "outer joins keep rows whose unit has left another population",
        "one person of one table moves another's row: twice what is charged",
        POPULATIONS,
        'kept_left = how in ("LEFT", "FULL") and not right.populations <= left.populations',
        "kept_left = False",
        ("sql/test_populations.py::test_what_may_stay_when_somebody_leaves_needs_one_population",),
    ),
    Mutant(
        "joins do not equate the units",
        "rows of two people are joined, and each moves what is charged to the other",
        JOINS,
        "    if both:\n        parts.insert(0,",
        "    if not both and left.owner is not None and right.owner is not None:\n        parts.insert(0,",
        ("sql/test_ownership.py::test_rows_belong_to_their_unit_alone",),
    ),
    Mutant(
        "outer joins keep rows of the public table",
        "rows that belong to nobody come and go with a person's",
        JOINS,
        '    if how == "FULL":\n        own, other',
        "    if left is right:\n        own, other",
        ("sql/test_ownership.py::test_attacks_are_refused",),
    ),
    Mutant(
        "private tables are joined on something else than their units",
        "people who share a value are joined, and one of them moves the other's row",
        JOINS,
        "    if not any(first.unit and second.unit for first, second in condition.equal):\n",
        "    if not condition.equal:\n",
        ("sql/test_ownership.py::test_attacks_are_refused",),
    ),
    Mutant(
        "a row that is a unit counts once however often a join repeats it",
        "a public table with the key twice doubles what a person adds",
        JOINS,
        '        both and left.single and right.single and how != "FULL",\n',
        "        left.single,\n",
        ("sql/test_ownership.py::test_rows_belong_to_their_unit_alone",),
    ),
    Mutant(
        "set operations put tables of different populations together",
        "what EXCEPT leaves changes with a person of the other table",
        "sql/ownership/set_operations.py",
        "    if not same:\n        message =",
        "    if same is None:\n        message =",
        ("sql/test_populations.py::test_what_may_stay_when_somebody_leaves_needs_one_population",),
    ),
    Mutant(
        "TABLESAMPLE is left to the engine",
        "which rows of others are in the sample depends on a person's rows",
        "sql/ownership/sources.py",
        "    if source.unit is None:\n",
        "    if source.unit is None or source.owner is not None:\n",
        ("sql/test_ownership.py::test_attacks_are_refused",),
    ),
    Mutant(
        "LIMIT below the aggregation keeps some rows",
        "which rows of others are kept depends on a person's rows",
        SELECTS,
        '    if source.owner is not None and (query.args.get("limit") or query.args.get("offset")):\n        raise',
        "    if source.owner is None and query is None:\n        raise",
        ("sql/test_ownership.py::test_attacks_are_refused",),
    ),
    Mutant(
        "an inner aggregation is over several units",
        "the largest row of all people is compared with everybody's",
        SELECTS,
        "    by_unit = aggregated and owned\n",
        "    by_unit = False\n",
        ("sql/test_ownership.py::test_rows_belong_to_their_unit_alone",),
    ),
    Mutant(
        "a subquery of an expression reads a private table",
        "everybody's row is compared with an exact aggregate of all",
        "sql/ownership/status.py",
        '    if status == "public":\n        return\n    names',
        "    if status:\n        return\n    names",
        ("sql/test_ownership.py::test_attacks_are_refused",),
    ),
    Mutant(
        "a query that WITH names is taken for public",
        "rows joined with an exact aggregate of everybody change with every person",
        "sql/ownership/status.py",
        "            return reader.status(common.node.this, common.environment)\n",
        '            return "public"\n',
        ("sql/test_ownership.py::test_attacks_are_refused",),
    ),
)
