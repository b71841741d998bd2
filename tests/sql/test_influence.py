"""Removing one unit, with the same secret, changes all numbers together by no more than the noise is meant for."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from added_up import SECRET, centred_elsewhere, component, connect, every, pairs, select, together
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpnotebook.sql.aggregates.bounds import PARTS_OF_UNIT, STEPS_OF_MEANS, magnitude_edges
from dpnotebook.sql.aggregates.norms import norm_edges
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.rewrite.bounded_aggregation import all_magnitudes, magnitudes, totals
from dpnotebook.sql.rewrite.profiles import norms
from dpnotebook.sql.rewrite.profiles import values as units_by_value
from dpnotebook.sql.select import Aggregate, Contribution, Key
from dpnotebook.sql.statement import Relation

HUGE = [0.0, 1.0, -1.0, 2.5, 1e308, -1e308, math.inf, -math.inf, math.nan, None, 5e-324, 1e15 + 0.3, -7.25]
CONTRIBUTIONS = [Contribution(kind, most) for kind in ("groups", "rows") for most in (1, 2, 5)] + [Contribution("l2")]

rows = st.lists(
    st.tuples(
        st.sampled_from(["out", "a", "b", "c"]), st.sampled_from(["x", "y", "z", "", None]),
        st.sampled_from(HUGE) | st.floats(-20, 20),
    ),
    max_size=40,
)  # fmt: skip
bounds = st.tuples(
    st.fractions(-1000, 1000, max_denominator=16), st.fractions(Fraction(1, 64), 1000, max_denominator=64),
    st.integers(0, 26),
)  # fmt: skip


def table(rows):
    frame = pd.DataFrame({"u": [r[0] for r in rows], "k0": [r[1] for r in rows], "x0": [r[2] for r in rows]})
    return frame.astype({"u": object, "k0": object, "x0": float})


def difference(with_all, without):
    """Return what changed in every group, shape (groups, integers)."""
    before = dict(zip(with_all.keys, with_all.numbers, strict=True))
    after = dict(zip(without.keys, without.numbers, strict=True))
    nothing = np.zeros(with_all.numbers.shape[1], dtype=np.int64)
    return np.array([before.get(key, nothing) - after.get(key, nothing) for key in {*before, *after}] or [nothing])


def check(rows, chosen, components):
    both = [
        totals(chosen, components, connect(table(some)), SECRET)
        for some in (rows, [row for row in rows if row[0] != "out"])
    ]
    changed, start = difference(*both), 0
    for number in {c.together for c in components} - {None}:  # of components with one integer each
        vectors = [i for i, c in enumerate(components) if c.together == number]
        assert (np.abs(changed[:, vectors]).astype(object) ** 2).sum() <= components[vectors[0]].largest ** 2
    for c in components:
        mine = np.abs(changed[:, start : start + c.width]).astype(object)
        for power in (1, 2) if chosen.contribution.kind != "l2" else (2,):
            assert (mine**power).sum() <= c.norm(chosen.contribution, power), (c, power)
        if chosen.contribution.kind != "rows":
            assert mine.sum(axis=1).max() <= c.largest
        start += c.width


@given(rows, bounds, st.sampled_from(CONTRIBUTIONS), st.booleans())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_one_unit_changes_no_more_than_the_norm(rows, bounds, contribution, keyed):
    low, width, bits = bounds
    step = width / 2**bits if contribution.kind != "rows" else Fraction(1, 4)
    chosen = select(keys=1 if keyed else 0, kind=contribution.kind, most=contribution.most)
    edges = tuple(float(low + width * i / 4) for i in range(5))
    high = max(low + width, step) if contribution.kind == "l2" else low + width
    components = every(contribution, low, high, step, edges=edges)
    check(rows, chosen, [c for c in components if c.largest < 2**53])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("contribution", CONTRIBUTIONS[:-1], ids=str)
def test_one_unit_changes_no_more_of_pairs_than_the_norm(contribution):
    random = np.random.default_rng(7)
    chosen = select(inputs=2, kind=contribution.kind, most=contribution.most)
    for _ in range(6):
        size = 60
        units, groups = random.choice(["out", "a", "b"], size), random.choice(["x", "y", "z"], size)
        values = [[HUGE[i] for i in random.integers(len(HUGE), size=size)] for _ in range(2)]
        frame = pd.DataFrame({"u": units, "k0": groups, "x0": values[0], "x1": values[1]})
        frame = frame.astype({"u": object, "k0": object, "x0": float, "x1": float})
        both = [
            totals(chosen, pairs(contribution), connect(some.reset_index(drop=True)), SECRET)
            for some in (frame, frame[frame.u != "out"])
        ]
        changed = np.abs(difference(*both)).astype(object)
        for place, each in enumerate(pairs(contribution)):
            for power in (1, 2):
                assert (changed[:, place] ** power).sum() <= each.norm(contribution, power)


@pytest.mark.parametrize("contribution", CONTRIBUTIONS, ids=str)
def test_a_unit_with_far_too_much_changes_as_much_as_is_paid_for(contribution):
    """Many rows in many groups, each far past its bounds: no more than the norm, and no less."""
    rows = [("out", group, 1e9) for group in "pqrstv" for _ in range(20)] + [("a", "p", 1.0), ("b", "q", 2.0)]
    chosen = select(kind=contribution.kind, most=contribution.most)
    if contribution.kind == "rows":
        components = [component("count", column=None), component("sum", -3, 3)]
    else:
        components = [component("count", 0, 3, column=None), component("count", 0, 3), component("sum", 0, 3)]
        if contribution.kind == "l2":
            components = [component("sum", 0, 300, 1, 300), component("units", 0, 1, Fraction(1, 64), 64, None)]
            components.append(component("groups", 0, 2, Fraction(1, 500), 1000, None))
            components.append(replace(component("sum", 0, 900, 1, 600), beyond=300))
    both = [totals(chosen, components, connect(table(some)), SECRET) for some in (rows, rows[120:])]
    changed = np.abs(difference(*both)).astype(object)
    for place, each in enumerate(components):
        if contribution.kind == "l2":
            found, most = (changed[:, place] ** 2).sum(), each.norm(contribution, 2)
            assert 0.98 * most < found <= most
        else:
            assert changed[:, place].sum() == each.norm(contribution, 1)
            assert (changed[:, place] ** 2).sum() <= each.norm(contribution, 2)
            if contribution.kind == "groups":
                assert (changed[:, place] ** 2).sum() == each.norm(contribution, 2)


@pytest.mark.parametrize("of", [together, centred_elsewhere])
def test_a_vector_of_several_sums_is_as_long_as_is_paid_for(of):
    """All of its parts together: whatever one unit has, in however many groups, and no less where it has much."""
    random = np.random.default_rng(5)
    parts = of(Fraction(-7, 3), Fraction(11))
    for size, groups in ((1, 1), (3, 2), (40, 6), (900, 300), (5000, 2)):
        for values in (random.normal(4, 6, size), np.full(size, 11.0), random.standard_cauchy(size) ** 3):
            rows = [("out", f"{random.integers(groups)}", float(x)) for x in values] + [
                ("a", "0", 1.0),
                ("b", "1", None),
            ]
            both = [totals(select(kind="l2"), parts, connect(table(some)), SECRET) for some in (rows, rows[size:])]
            found = (difference(*both).astype(object) ** 2).sum()
            assert found <= parts[0].largest ** 2
            if size > 100:
                assert found > 0.999 * parts[0].largest ** 2


@pytest.mark.parametrize("largest", [1, 2, 3, 7, 64, 1000, 2**20 + 1, 2**24, 2**24 + 1, 2**28 - 3, 2**31])
def test_a_clipped_vector_is_never_longer_than_its_norm(largest):
    """Random vectors of all sizes, short and long, in one to a thousand groups, checked with exact integers."""
    random = np.random.default_rng(largest)
    units = []
    for i in range(40):
        groups = int(random.choice([1, 2, 3, 10, 300, 1000]))
        spread = 2.0 ** random.uniform(-8, 8) / math.sqrt(groups)
        shape = random.choice(["normal", "equal", "heavy"])
        values = {
            "normal": random.normal(size=groups), "equal": np.ones(groups),
            "heavy": random.standard_cauchy(groups) ** 3,
        }[shape]  # fmt: skip
        units += [(f"{i}", f"{i}-{g}", x) for g, x in enumerate(values * spread * largest)]
    sums = component("sum", 0, largest, 1, largest)
    found = totals(select(kind="l2"), [sums], connect(table(units)), SECRET)
    squared, before = {}, {}
    for (key,), (number,) in zip(found.keys, found.numbers.tolist(), strict=True):
        unit = key.split("-")[0]
        squared[unit] = squared.get(unit, 0) + number**2
    for unit, _, x in units:
        before[unit] = before.get(unit, 0) + x**2
    assert max(squared.values()) <= largest**2
    if largest >= 1000:  # and hardly shorter, where it was longer
        for unit, norm in before.items():
            groups = sum(u == unit for u, *_ in units)
            if norm > largest**2:
                assert math.sqrt(squared[unit]) >= largest * (1 - 1e-4) - math.sqrt(groups)


def test_small_and_large_values_in_one_vector_stay_within_the_norm():
    extremes = [5e-324, 1e-300, 1e-20, 1.0, 1e20, 1e300, math.inf, -math.inf, -1e18, -1.0]
    for largest in (1, 5, 2**31):
        rows = [("out", f"{i}", x) for i, x in enumerate(extremes)] + [("a", "1", 1.0)]
        check(rows, select(kind="l2"), [component("sum", 0, largest, 1, largest)])
        check(rows, select(kind="l2"), [component("sum", 0, Fraction(largest, 2**40), Fraction(1, 2**40), largest)])


@pytest.mark.parametrize("contribution", CONTRIBUTIONS, ids=str)
@pytest.mark.parametrize("kind", ["count", "sum", "average", "variance", "quantiles"])
def test_one_unit_is_counted_once_in_the_histogram_of_magnitudes(contribution, kind):
    random = np.random.default_rng(3)
    rows = [
        (unit, random.choice(["x", "y", "z"]), HUGE[i])
        for unit in ("out", "a", "b", "c")
        for i in random.integers(len(HUGE), size=12)
    ]
    chosen = select(kind=contribution.kind, most=contribution.most)
    asked = Aggregate(kind, kind, 0)
    both = [
        magnitudes(chosen, asked, connect(table(some))) for some in (rows, [row for row in rows if row[0] != "out"])
    ]
    changed = both[0] - both[1]
    assert changed.min() >= 0
    assert PARTS_OF_UNIT - 12 <= changed.sum() <= PARTS_OF_UNIT  # each of its rows loses less than a part
    assert 4 * (PARTS_OF_UNIT - 12) <= both[0].sum() <= 4 * PARTS_OF_UNIT


def test_a_unit_in_many_levels_changes_only_as_many_as_count():
    levels = tuple(range(30))
    rows = [("out", i, 1.0) for i in range(30)] + [("a", i, 1.0) for i in range(0, 30, 3)]
    for contribution in CONTRIBUTIONS:
        chosen = select(
            keys=(Key("k", levels, "integer"),), kind=contribution.kind, most=contribution.most, selection="all"
        )
        run = [
            connect(
                {"u": [r[0] for r in some], "k0": [r[1] for r in some], "x0": [r[2] for r in some]}, {"k0": "INTEGER"}
            )
            for some in (rows, rows[30:])
        ]
        units = component("units", 0, 1, Fraction(1, 64) if contribution.kind == "l2" else 1, column=None)
        changed = difference(*(totals(chosen, [units], each, SECRET) for each in run))
        assert (changed**2).sum() <= units.norm(contribution, 2)
        assert (changed != 0).sum() == (30 if contribution.kind == "l2" else contribution.most)


def reference_bin(value, edges=magnitude_edges()):  # noqa: B008
    """Return the number of a value's bin; of magnitudes, unless others are given."""
    return int(np.clip(np.searchsorted(edges, value, side="right") - 1, 0, edges.size - 2))


@pytest.mark.parametrize("single", [False, True])
def test_magnitudes_are_those_of_what_units_would_add(single):
    """Each unit is in one group: sums, averages and counts are what they are, and their sizes are the norms."""
    random = np.random.default_rng(0)
    values = [
        *(2.0**k for k in range(-45, 66, 3)),
        *(-(2.0**k) for k in range(-45, 66, 4)),
        0.0,
        3e-300,
        1e300,
        -math.inf,
    ]
    rows = [(f"{i}", f"g{i % 3}", x) for i, x in enumerate(values)]
    if not single:
        rows += [(u, g, x / 2) for u, g, x in rows] + [(u, g, None) for u, g, _ in rows[::2]]
        random.shuffle(rows)
    units = {}
    for u, _, x in rows:
        units.setdefault(u, []).append(x)
    present = [[x for x in mine if x is not None] for mine in units.values()]
    expected = {
        "count": [len(mine) for mine in units.values()],
        "sum": [math.fsum(mine) for mine in present],
        "average": [math.fsum(mine) / len(mine) for mine in present],
    }
    asked = [Aggregate("count", "n"), *(Aggregate(kind, kind, 0) for kind in ("sum", "average"))]
    found = all_magnitudes(select(kind="groups", most=2, single=single), asked, connect(table(rows)))
    for aggregate in asked:
        counts = np.bincount([reference_bin(x) for x in expected[aggregate.kind]], minlength=magnitude_edges().size - 1)
        assert found[aggregate].tolist() == (counts * (1 if single else PARTS_OF_UNIT)).tolist()
    exact = norms(select(kind="l2", single=single), [(one, None) for one in asked[:2]], connect(table(rows)))
    for found, numbers in zip((one.counts for one in exact), (expected["count"], expected["sum"]), strict=True):
        sizes = [reference_bin(abs(x), norm_edges()) for x in numbers if abs(x) > 2.0**-46]  # smaller ones are zero
        assert found.tolist() == np.bincount(sizes, minlength=norm_edges().size - 1).tolist()


def test_norms_are_those_of_whole_vectors():
    rows = [("a", "x", 3.0), ("a", "y", -4.0), ("b", "x", 1e150), ("b", "y", 1e-20), ("c", "x", None), ("d", "x", 0.0)]
    exact = norms(
        select(kind="l2"),
        [
            (Aggregate("sum", "s", 0), None),
            (Aggregate("average", "a", 0), (Fraction(1), Fraction(5))),
            (Aggregate("units", "u"), None),
            (Aggregate("average", "b", 0), (Fraction(1), Fraction(5), Fraction(2), Fraction(1, 2))),
        ],
        connect(table(rows)),
    )
    of_sums, of_averages, of_groups, of_centred = (one.counts for one in exact)
    assert of_sums.sum() == 2  # who adds nothing is nowhere
    assert all(of_sums[reference_bin(norm, norm_edges())] for norm in (5.0, 2.0**63))
    # Clamped to [1, 5], from the middle in half-widths: (1, 0) and (1, -1); (1, 1) and (1, -1); (1, -1).
    wanted = [reference_bin(norm**0.5, norm_edges()) for norm in (3.0, 4.0, 2.0)]
    assert of_averages.tolist() == np.bincount(wanted, minlength=of_averages.size).tolist()
    wanted = [reference_bin(norm**0.5, norm_edges()) for norm in (2.0, 2.0, 1.0, 1.0)]
    assert of_groups.tolist() == np.bincount(wanted, minlength=of_groups.size).tolist()
    # From 2 in halves: (1, 2) and (1, -2); (1, 6) and (1, -2); (1, -2).
    wanted = [reference_bin(norm**0.5, norm_edges()) for norm in (10.0, 42.0, 5.0)]
    assert of_centred.tolist() == np.bincount(wanted, minlength=of_centred.size).tolist()


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 2**20), Fraction(1, 2**26)])
def test_what_is_beyond_a_norm_is_no_longer_than_is_paid_for(step):
    """Whatever a unit has, whose norm is just below, between or far above both: and between, all of it but rounding."""
    random = np.random.default_rng(6)
    inner, outer = math.ceil(40 / step), math.floor(100 / step)
    second = replace(component("sum", 0, 100, step, outer - inner), beyond=inner)
    for size, groups, each in (
        (1, 1, 40),
        (1, 1, 41),
        (9, 4, 17),
        (25, 25, 20),
        (16, 16, 25),
        (400, 90, 7),
        (3, 3, 1e9),
    ):
        entries = random.normal(each, 0.01 * each, size) * random.choice([-1, 1], size)
        rows = [("out", f"{i % groups}", float(x)) for i, x in enumerate(entries)] + [
            ("a", "0", 55.0),
            ("b", "1", 70.0),
        ]
        both = [totals(select(kind="l2"), [second], connect(table(some)), SECRET) for some in (rows, rows[size:])]
        found = (difference(*both).astype(object) ** 2).sum()
        norm = math.sqrt(sum(float(np.sum(entries[np.arange(size) % groups == g])) ** 2 for g in range(groups)))
        between = max(min(norm / float(step), outer) - inner, 0.0)
        assert found <= second.norm(Contribution("l2"), 2)
        assert math.sqrt(found) == pytest.approx(between, abs=math.sqrt(groups) + 2.0**-17 * outer)


def with_and_without(size):
    """Yield tables with a unit that has anything in so many rows, and without it, as what runs SQL over them."""
    random = np.random.default_rng(size)
    others = [(unit, random.choice(["x", "y"]), float(x)) for unit in "abc" for x in random.normal(3, 9, 12)]
    for _ in range(6):
        mine = [("out", random.choice(["x", "y", "z"]), HUGE[i]) for i in random.integers(len(HUGE), size=size)]
        yield [connect(table(some)) for some in (others + mine, others)]


@pytest.mark.parametrize("size", [1, 3, 80])
def test_one_unit_is_counted_once_in_the_norms_of_a_profile(size):
    """Whatever it has, in however many rows and groups: in one bin of norms."""
    asked = [
        (Aggregate(kind, kind, 0), (Fraction(-1), Fraction(4))) for kind in ("count", "sum", "average", "variance")
    ]
    asked.append((Aggregate("units", "u"), None))
    centred = Fraction(-1), Fraction(4), Fraction(0), Fraction(1, 8)
    asked += [(Aggregate("average", "b", 0), centred), (Aggregate("deviation", "c", 0), (*centred, Fraction(3, 2)))]
    for both in with_and_without(size):
        for with_it, without in zip(*(norms(select(kind="l2"), asked, run) for run in both), strict=True):
            more = with_it.counts - without.counts
            assert 0 <= more.min() <= more.sum() <= 1
            for one, other in zip(with_it.sums or (), without.sums or (), strict=True):  # in the same bin, or nowhere
                assert np.abs(one - other).max() <= STEPS_OF_MEANS
                assert not (one - other)[more == 0].any()


@pytest.mark.parametrize("kind", ["l2", "rows"])
@pytest.mark.parametrize("size", [1, 3, 80])
def test_one_unit_is_counted_once_in_the_values_of_a_profile(size, kind):
    """Whatever it has, in however many rows and groups: in the bins of its values together."""
    for both in with_and_without(size):
        for between in (None, (-5.0, 5.0)):
            with_it, without = (units_by_value(select(kind=kind, most=2), 0, 207, between, run) for run in both)
            assert 0 <= (with_it - without).min() <= (with_it - without).sum() <= PARTS_OF_UNIT


def test_rows_and_groups_share_their_unit_evenly():
    """Exact: of units with one to seven rows in as many groups, however these are ordered; equal rows are several."""
    random = np.random.default_rng(6)
    rows = [
        (f"{unit}", f"{group}", float(x))
        for unit in range(60)
        for group, x in enumerate(random.choice([1.5, 100.0, -3.0], 1 + unit % 7))
    ]
    expected = np.zeros(magnitude_edges().size - 1, dtype=np.int64)
    for unit in range(60):
        mine = [x for u, _, x in rows if u == f"{unit}"]
        for x in mine:
            expected[reference_bin(x)] += PARTS_OF_UNIT // len(mine)
    for kind, asked in (("groups", "sum"), ("rows", "sum"), ("groups", "quantiles")):
        random.shuffle(rows)
        found = magnitudes(select(kind=kind, most=2), Aggregate(asked, "s", 0), connect(table(rows)))
        assert found.tolist() == expected.tolist()
    found = units_by_value(select(kind="l2"), 0, magnitude_edges().size - 1, None, connect(table(rows)))
    assert found.tolist() == expected.tolist()


def test_a_unit_with_more_rows_than_parts_is_still_one():
    """Its rows have no part then: it is not seen, and nobody is where its rows are not."""
    frame = pd.DataFrame({"u": "out", "k0": "a", "x0": np.full(PARTS_OF_UNIT + 1, 3.0)})
    found = units_by_value(select(kind="l2"), 0, 207, None, connect(frame))
    assert found.sum() == 0
    found = units_by_value(select(kind="l2"), 0, 207, None, connect(frame[:PARTS_OF_UNIT]))
    assert found.sum() == PARTS_OF_UNIT


@pytest.mark.one_in(3)
@pytest.mark.parametrize("inner", ["SUM(x)", "AVG(x)", "VAR_POP(x)", "STDDEV(x)", "SUM(x) / COUNT(*)"])
def test_inner_aggregates_of_others_are_the_same_to_the_last_bit(inner):
    """Floating-point sums differ by the order of rows, which changes with the rows of any unit."""
    random = np.random.default_rng(2)
    size = 400_000
    frame = pd.DataFrame({"u": random.integers(0, 200, size), "k0": "g", "x": random.normal(size=size)})
    statement = f"SELECT AVG(s) AS a, COUNT(*) AS n FROM (SELECT u, {inner} AS s FROM t GROUP BY u) AS i WHERE s > 0"
    relation = Relation("t", {"u": "integer", "k0": "text", "x": "number"}, unit="u", max_rows=9)
    (chosen,) = analyse(statement, {"t": relation}).selects
    plain, found = f"SELECT u, {inner} AS x0 FROM t GROUP BY u", []
    for query in (chosen.rows, plain):
        both = []
        for rows in (frame, frame[frame.u != 7].sample(frac=1, random_state=0).reset_index(drop=True)):
            run = connect(rows, threads=2)
            run('CREATE TEMP VIEW t AS SELECT * FROM "the table"')
            columns = run(query)
            both.append({u: x for u, x in zip(columns["u"].tolist(), columns["x0"].tolist(), strict=True) if u != 7})
        found.append(sum(both[0].get(u) != both[1].get(u) for u in {*both[0], *both[1]}))
    assert found[0] == 0
    assert found[1] > 0  # as they would be otherwise
