"""The SQL of private aggregations adds up what components mean: against a literal reading with exact arithmetic."""

import datetime
import itertools
import math
import re
from decimal import Decimal
from fractions import Fraction

import added_up
import numpy as np
import pandas as pd
import pytest
import sqlglot
from added_up import SECRET, component, connect, every, pairs, select

from dpnotebook.errors import EngineError
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.rewrite.bounded_aggregation import totals, totals_sql
from dpnotebook.sql.rewrite.groups import Found
from dpnotebook.sql.select import Contribution, Key

INF, NAN = math.inf, math.nan
WEIRD = ["a", "b'", 'c"', "d|5:e", "", "|", "5:d|5", "ü😀", "x" * 5000, None, "null", "\n"]
VALUES = [0.0, -0.0, 1.5, -3.25, 9.75, 10.0, 11.0, -250.0, 1e300, INF, -INF, NAN, None, 5e-324]


def table_of(rows, keys, inputs):
    """Return columns of rows."""
    columns = {"u": [row[0] for row in rows]}
    columns |= {f"k{i}": [row[1][i] for row in rows] for i in range(keys)}
    return columns | {f"x{i}": [row[2][i] for row in rows] for i in range(inputs)}


def made(seed, units=12, rows=120, keys=1, inputs=1, groups=WEIRD, values=VALUES):
    """Return rows of units with few and many rows."""
    random = np.random.default_rng(seed)
    names = ["u1", "it's", "|", "2:u", "", *(f"unit {i}" for i in range(units))]
    return [
        (
            names[min(int(random.exponential(units / 3)), len(names) - 1)],
            tuple(groups[i] for i in random.integers(len(groups), size=keys)),
            tuple(values[i] for i in random.integers(len(values), size=inputs)),
        )
        for _ in range(rows)
    ]


def by_group(found):
    """Return totals as a dictionary of lists."""
    assert len(set(found.keys)) == len(found.keys)
    return dict(zip(found.keys, found.numbers.tolist(), strict=True))


def ran(rows, chosen, components, key=SECRET, **more):
    run = connect(table_of(rows, len(chosen.keys), chosen.inputs), **more)
    return by_group(totals(chosen, components, run, key))


BOUNDED = [("groups", 1), ("groups", 3), ("groups", 100), ("rows", 1), ("rows", 4), ("rows", 1000)]


@pytest.mark.one_in(11)
@pytest.mark.parametrize(("kind", "most"), BOUNDED)
@pytest.mark.parametrize("keys", [0, 1, 2])
def test_every_statistic_is_what_it_says(kind, most, keys):
    chosen = select(keys=keys, kind=kind, most=most)
    components = every(chosen.contribution)
    for seed in range(2):
        rows = made(seed, keys=keys, groups=WEIRD[:5] if keys == 2 else WEIRD)
        assert ran(rows, chosen, components) == added_up.totals(rows, chosen, components)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "most"), BOUNDED)
def test_pairs_count_where_both_columns_have_a_value(kind, most):
    chosen = select(inputs=2, kind=kind, most=most)
    components = pairs(chosen.contribution)
    for seed in range(3):
        rows = made(seed, inputs=2, groups=WEIRD[:4])
        assert ran(rows, chosen, components) == added_up.totals(rows, chosen, components)
    single = [(f"{i}", keys, inputs) for i, (_, keys, inputs) in enumerate(made(3, inputs=2))]
    chosen = select(inputs=2, kind=kind, most=most, single=True)
    assert ran(single, chosen, components) == added_up.totals(single, chosen, components)


@pytest.mark.parametrize("keys", [0, 1])
def test_a_clipped_vector_is_scaled_down_to_its_norm(keys):
    chosen = select(keys=keys, kind="l2")
    components = every(chosen.contribution)
    values = [value for value in VALUES if value is None or abs(value) < 1000 or math.isnan(value)]
    for seed in range(4):
        rows = made(seed, keys=keys, values=values)
        found, expected = ran(rows, chosen, components), added_up.totals(rows, chosen, components)
        units = len({u for u, *_ in rows})
        assert found.keys() == expected.keys()
        for group, numbers in expected.items():
            # A unit's entry is cut off to a whole step, and the norm of a scaled vector is known to 2^-18.
            part = 3 * 2**20 * 2.0**-16
            sizes = np.array([1, *[part] * 2, 1, *[part] * 2, 1, *[part] * 6])
            assert (abs(np.array(found[group]) - numbers) <= units * sizes).all()


def test_a_vector_that_is_short_enough_stays_as_it_is():
    chosen = select(kind="l2", inputs=1)
    rows = [("a", ("x",), (3.0,)), ("a", ("y",), (-4.0,)), ("b", ("x",), (0.75,)), ("b", ("y",), (2.0,))]
    five = component("sum", 0, 5, Fraction(1, 4), 20)
    assert ran(rows, chosen, [five]) == {("x",): [12 + 3], ("y",): [-16 + 8]}
    half = component("sum", 0, Fraction(5, 2), Fraction(1, 4), 10)
    assert ran(rows[:2], chosen, [half]) == {("x",): [6], ("y",): [-8]}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("groups", [1, 2, 3, 4, 16, 63, 64, 4096, 4097])
def test_a_unit_counts_the_less_the_more_groups_it_is_in(groups):
    rows = [("a", (f"{i}",), ()) for i in range(groups)]
    chosen = select(kind="l2", inputs=0)
    found = ran(rows, chosen, [component("units", 0, 1, Fraction(1, 64), 64, None)])
    assert {tuple(n) for n in found.values()} == {(math.isqrt(64**2 * 10**12 // groups) // 10**6,)}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "most"), [("groups", 2), ("rows", 7), ("l2", 1)])
def test_a_unit_may_have_ten_thousand_rows(kind, most):
    random = np.random.default_rng(5)
    rows = [("big", (f"{g}",), (float(x) / 4,)) for g, x in random.integers((9, 90), size=(10_000, 2))]
    rows += [(f"{i}", ("0",), (1.0,)) for i in range(50)]
    chosen = select(kind=kind, most=most)
    components = every(chosen.contribution)
    frame = pd.DataFrame(table_of(rows, 1, 1))
    found, expected = (
        by_group(totals(chosen, components, connect(frame), SECRET)),
        added_up.totals(rows, chosen, components),
    )
    if kind != "l2":
        assert found == expected
    else:
        # Every entry of the big unit is scaled, and its norm is known to 2^-18.
        part = 3 * 2**20 * 2.0**-17
        bounds = np.array([1, *[part] * 2, 1, *[part] * 2, 1, *[part] * 6])
        assert all((abs(np.array(found[group]) - expected[group]) <= bounds).all() for group in expected)


@pytest.mark.parametrize("kind", ["groups", "rows", "l2"])
def test_an_empty_table_has_no_groups_or_zeros(kind):
    components = every(Contribution(kind, 2))
    width = sum(c.width for c in components)
    assert ran([], select(kind=kind), components) == {}
    assert ran([], select(keys=0, kind=kind), components) == {(): [0] * width}
    levels = (Key("a", (True, False), "boolean"), Key("b", ("x", "y", "z")))
    chosen = select(keys=levels, kind=kind, selection="all")
    run = connect({"u": [], "k0": [], "k1": [], "x0": []}, {"k0": "BIGINT", "k1": "BIGINT"})
    assert by_group(totals(chosen, components, run, SECRET)) == {
        pair: [0] * width for pair in itertools.product((True, False), ("x", "y", "z"))
    }


@pytest.mark.parametrize(("kind", "most"), [("groups", 1), ("groups", 2), ("groups", 6), ("rows", 3), ("rows", 50)])
def test_declared_levels_are_all_there_in_their_order(kind, most):
    levels = ("low", "middle", "high"), (0, 1)
    keys = (Key("a", levels[0]), Key("b", levels[1], "integer"))
    chosen = select(keys=keys, kind=kind, most=most, selection="all")
    components = every(chosen.contribution)
    rows = made(2, keys=2, groups=[0, 1, 2, 3, -1, None], rows=300)
    run = connect(table_of(rows, 2, 1), {"k0": "BIGINT", "k1": "BIGINT"})
    found = totals(chosen, components, run, SECRET)
    assert found.keys == tuple(itertools.product(*levels))
    inside = [row for row in rows if row[1][0] in (0, 1, 2) and row[1][1] in (0, 1)]  # others are left out first
    expected = added_up.totals(inside, chosen, components, plain=True)
    for (i, a), (j, b) in itertools.product(enumerate(levels[0]), enumerate(levels[1])):
        assert by_group(found)[a, b] == expected.get((i, j), [0] * found.numbers.shape[1])
    # Where every level may count nothing is drawn.
    assert ("row_number" in totals_sql(chosen, components[:4], SECRET)) == ((kind, most) != ("groups", 6))


@pytest.mark.parametrize(("kind", "most"), [("groups", 1), ("groups", 9), ("rows", 2), ("rows", 99), ("l2", 1)])
def test_public_groups_are_all_there_and_no_others(kind, most):
    listed = ["b", "only listed", None, "a"]
    groups = " UNION ALL ".join(f"SELECT {'NULL' if g is None else repr(g)} AS k0" for g in [*listed, "b"])
    chosen = select(kind=kind, most=most, selection="public", groups=groups)
    components = every(chosen.contribution)
    rows = made(3, groups=["a", "b", "c", "d", None], rows=200, values=[0.5, None, 2.0])
    found = ran(rows, chosen, components)
    width = sum(c.width for c in components)
    expected = added_up.totals([row for row in rows if row[1][0] in ("a", "b", None)], chosen, components)
    assert list(found) == [("a",), ("b",), ("only listed",), (None,)]
    assert found["only listed",] == [0] * width
    if kind != "l2":
        assert {group: found[group] for group in expected} == expected
    else:
        assert all(abs(found[group][0] - expected[group][0]) <= 20 for group in expected)


@pytest.mark.parametrize("kind", ["groups", "rows", "l2"])
def test_where_units_have_one_row_nothing_is_put_together_first(kind):
    rows = [(f"{i}", row[1], row[2]) for i, row in enumerate(made(4, rows=80))]
    chosen = select(kind=kind, most=1)
    components = every(chosen.contribution)
    single = select(kind=kind, most=1, single=True)
    assert ran(rows, single, components) == ran(rows, chosen, components)
    query = totals_sql(single, components, SECRET)
    assert "row_number" not in query
    assert "GROUP BY u" not in query


DECIMALS = ("DECIMAL(9, 2)", "DECIMAL(38, 20)")


def test_groups_stand_in_the_order_of_their_keys():
    kinds = {
        "VARCHAR": ["b", "a", "Z", None, "", "é", "a'"],
        "BIGINT": [5, -1, None, 2**63 - 1, -(2**63), 0],
        "HUGEINT": [5, -1, None, 10, 2**100, 2**100 + 1],
        "DOUBLE": [0.5, -INF, INF, NAN, None, -0.0, 1e-300],
        "DECIMAL(9, 2)": [1.25, -3.5, None],
        "DECIMAL(38, 20)": [Decimal("0.10000000000000000001"), Decimal("0.10000000000000000002"), 0.5, None],
        "BOOLEAN": [True, None, False],
        "DATE": [datetime.date(2020, 5, 1), None, datetime.date(1890, 1, 1)],
        "TIMESTAMP": [datetime.datetime(2020, 5, 1, 3, 4, 5, 6), None, datetime.datetime(1, 1, 1)],
    }
    named = {"VARCHAR": "text", "BOOLEAN": "boolean", "DOUBLE": "number"} | dict.fromkeys(DECIMALS, "number")
    for kind, values in kinds.items():
        key = Key("g", kind=named.get(kind, "integer" if "INT" in kind else "time"))
        orders = []
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(values))
            rows = [(f"{i}", (values[i],), ()) for i in order]
            run = connect(table_of(rows, 1, 0), {"k0": kind})
            chosen = select(keys=(key,), inputs=0, most=1)
            found = totals(chosen, [component("units", column=None)], run, SECRET)
            orders.append(found.keys)
            expected = [None if value != value else int(value) if value == 0 else value for value in values]
            if kind == "DATE":  # times have no kind of their own in arrays
                expected = [value and datetime.datetime.combine(value, datetime.time()) for value in expected]
            assert {key for (key,) in found.keys} == set(expected)
            assert all(type(key) in {type(value) for value in expected} for (key,) in found.keys)
            assert found.numbers.sum() == len(values)  # NaN and NULL are one group
        assert orders[0] == orders[1] == orders[2]
        present = [key for (key,) in orders[0] if key is not None]
        assert present == sorted(present)
        if None in values:
            assert orders[0][-1] == (None,)


def test_zero_has_no_sign_that_shows():
    for order in (1, -1):
        rows = [("a", (0.0,), ()), ("b", (-0.0,), ())][::order]
        run = connect(table_of(rows, 1, 0), {"k0": "DOUBLE"})
        found = totals(
            select(keys=(Key("g", kind="number"),), inputs=0), [component("units", column=None)], run, SECRET
        )
        assert found.keys == ((0.0,),)
        assert math.copysign(1, found.keys[0][0]) == 1


def test_groups_that_are_one_here_are_an_error():
    """What one of them adds would take the place of the other: a person in it moves all of that."""
    for keys in (np.array(["a", "a"], dtype=object), np.array([1.0, 1.0])):
        found = Found(select(keys=1, inputs=0), 1)
        with pytest.raises(EngineError, match="told apart"):
            found.add({"k0": keys}, [(0, np.array([200, 1]))])
    found.add({"k0": np.array(["b", "c"], dtype=object)}, [(0, np.array([200, 1]))])


@pytest.mark.parametrize("values", [("unit", "UUID"), (b"\x00\xff", "BLOB"), (1.5, "DOUBLE"), (2**64, "HUGEINT")])
def test_units_are_of_any_kind(values):
    import uuid

    value, kind = values
    value = uuid.UUID(int=7) if kind == "UUID" else value
    rows = [(value, (g,), (1.0,)) for g in "abcdef"]
    found = ran(rows, select(most=2), [component("units", column=None)], types={"u": kind})
    assert len(found) == 2


def test_texts_with_zero_characters_are_groups_of_their_own():
    rows = [("a\x00", ("x\x00y",), (1.0,)), ("a", ("x",), (1.0,)), ("a", ("x\x00z",), (1.0,))]
    found = ran(rows, select(most=2), [component("units", column=None)])
    assert found == {("x",): [1], ("x\x00y",): [1], ("x\x00z",): [1]}


KINDS = [
    "TINYINT",
    "INTEGER",
    "BIGINT",
    "UBIGINT",
    "HUGEINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(18, 3)",
    "DECIMAL(38, 10)",
    "BOOLEAN",
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_of_any_kind_of_number(kind):
    values = [True, False, None] if kind == "BOOLEAN" else [1, 7, 0, None]
    rows = made(6, values=values)
    for contribution in (Contribution("groups", 4), Contribution("rows", 5)):
        chosen = select(kind=contribution.kind, most=contribution.most)
        components = every(contribution)
        plain = [(u, keys, tuple(None if x is None else float(x) for x in inputs)) for u, keys, inputs in rows]
        found = by_group(totals(chosen, components, connect(table_of(rows, 1, 1), {"x0": kind}), SECRET))
        assert found == added_up.totals(plain, chosen, components)


def test_counts_of_texts_need_no_numbers():
    rows = [("a", ("g",), ("text",)), ("a", ("g",), (None,)), ("b", ("g",), ("other",))]
    for kind in ("groups", "rows", "l2"):
        run = connect(table_of(rows, 1, 1), {"x0": "VARCHAR"})
        largest = 10 if kind != "rows" else 1
        counted = Component("count", 0, Fraction(0), Fraction(10), Fraction(1), largest)
        assert by_group(totals(select(kind=kind, most=5), [counted], run, SECRET)) == {("g",): [2]}


def test_averages_far_from_zero_are_exact_to_a_step():
    """A middle of 10^9 and steps of 2^-20, beside a sum of the same input."""
    random = np.random.default_rng(1)
    values = (1e9 + random.integers(-400, 400, size=60) / 256).tolist()
    rows = [(f"{i % 9}", ("g",), (value,)) for i, value in enumerate(values)]
    step = Fraction(1, 2**20)
    components = [
        component("average", 10**9 - 1, 10**9 + 1, step),
        component("sum", 0, 2**40, 512),
        component("sum", 0, 1, Fraction(1, 2**26)),
    ]
    chosen = select(most=3)
    found, expected = ran(rows, chosen, components), added_up.totals(rows, chosen, components)
    assert abs(np.array(found["g",]) - expected["g",]).tolist()[1:] == [0, 0]
    assert abs(found["g",][0] - expected["g",][0]) <= 9  # one rounding for each unit


def test_numbers_do_not_depend_on_the_order_of_rows_or_on_threads():
    random = np.random.default_rng(8)
    size = 300_000
    frame = pd.DataFrame({
        "u": random.integers(0, 1000, size), "k0": random.integers(0, 20, size).astype(str),
        "x0": random.choice([1e15, -1e15, 0.1, 0.2, 0.3, 1e-9], size),
    })  # fmt: skip
    found = []
    for threads, seed in ((1, None), (2, 0), (2, 1)):
        table = frame if seed is None else frame.sample(frac=1, random_state=seed).reset_index(drop=True)
        for kind in ("groups", "l2", "rows"):
            chosen = select(kind=kind, most=3)
            components = [
                c for c in every(chosen.contribution, high=2**40, low=-(2**40)) if c.statistic not in ("bins", "square")
            ]
            found.append(totals(chosen, components, connect(table, threads=threads), SECRET).numbers.tolist())
    assert found[:3] == found[3:6] == found[6:]


def test_tables_may_have_the_names_of_parts():
    rows = (
        'SELECT u, k0, x0 FROM (SELECT * FROM "taken" UNION ALL SELECT * FROM "Added" UNION ALL SELECT * FROM listed)'
    )
    run = connect({"u": ["a", "b"], "k0": ["g", "h"], "x0": [1.0, 2.0]})
    for name in ("taken", "Added", "listed"):
        run(f'CREATE TEMP TABLE "{name}" AS SELECT * FROM "the table"')
    tables = ("taken", "Added", "listed")
    for more in ({}, {"selection": "public", "groups": "SELECT DISTINCT k0 FROM listed", "public": ("listed",)}):
        chosen = select(most=1, rows=rows, tables=tables, **more)
        assert by_group(totals(chosen, [component("count", 0, 9, column=None)], run, SECRET)) == {
            ("g",): [3],
            ("h",): [3],
        }


def test_values_beyond_all_bounds_saturate():
    """2^20 times the bounds and more count as that much: sums cannot fail, and stay sums."""
    rows = [("a", ("g",), (x,)) for x in (1e300, -1e300, 3.0)]
    rows += [("b", ("g",), (x,)) for x in (INF, -INF, 3.0)]
    rows += [("c", ("g",), (x,)) for x in (INF, INF, -INF)]
    rows += [("d", ("g",), (x,)) for x in (1.7976931348623157e308,) * 50]
    components = [component("sum", -10, 10, Fraction(1, 4)), component("average", -10, 10, Fraction(1, 4))]
    assert ran(rows, select(), components) == {("g",): [12 + 12 + 40 + 40, 4 + 4 + 40 + 40]}


@pytest.mark.parametrize(("kind", "most"), [("groups", 3), ("rows", 3), ("l2", 1)])
def test_what_a_unit_adds_is_worked_out_once(kind, most):
    """What is counted of a unit, and what is kept of it, are of the same rows, were the table to change in between."""
    components = [c for c in every(Contribution(kind, most)) if c.statistic != "bins"]
    query = totals_sql(select(kind=kind, most=most), components, SECRET)
    (table,) = re.findall(r'FROM "the table"', query)
    assert table
    tree = sqlglot.parse_one(query, read="duckdb")
    read = [found.name for found in tree.find_all(sqlglot.exp.Table)]
    held = {part.alias for part in tree.ctes if part.args.get("materialized")}
    names = {part.alias for part in tree.ctes}
    # The units with too many rows are found in a part that is held, so that they are the same each time.
    assert {name for name in names if read.count(name) > 1} == held | ({"many"} if kind != "l2" else set())


def test_components_without_a_meaning_are_refused():
    run = connect({"u": ["a"], "k0": ["g"], "x0": [1.0]})
    for kind, wrong in (("rows", "average"), ("l2", "average"), ("l2", "bins")):
        with pytest.raises(ValueError):
            totals(select(kind=kind), [component(wrong, 0, 1, 1, 5, edges=(0.0, 1.0))], run, SECRET)
    with pytest.raises(ValueError):
        totals(select(), [component("sum", 0, 2**60, 1)], run, SECRET)


def test_no_number_of_units_makes_a_sum_too_large():
    """Sums stop at 2^62: on the code before they were an error of the engine, after the charge."""
    rows = [(f"{i}", (i % 2,), (2.0**53,)) for i in range(3000)]
    run = connect(table_of(rows, 1, 1), {"k0": "BIGINT"})
    for kind in ("rows", "groups"):
        chosen = select(keys=(Key("g", kind="integer"),), inputs=1, most=1, kind=kind)
        found = totals(chosen, [component("sum", high=2**53, largest=2**53)], run, SECRET)
        assert found.numbers.tolist() == [[2**62], [2**62]]


@pytest.mark.parametrize(
    "met", [["a", "b", "a"], [None, float("nan"), 1.0], [1, True, 2], [0.0, -0.0, 1.0], [2**53, float(2**53), 1]]
)
def test_groups_that_meet_here_are_an_error(met):
    """Whichever engine made them: the second one would take the place of the first, and show more than was paid for."""
    keys = np.empty(3, dtype=object)
    keys[:] = met
    columns = {"k0": np.ma.masked_array(keys, [value is None or value != value for value in met]), "v0": np.arange(3)}
    with pytest.raises(EngineError, match="cannot be told apart here") as caught:
        totals(select(), [component("count", 0, 9, column=None)], lambda query: columns, SECRET)
    assert not any(repr(value) in str(caught.value) for value in met)
