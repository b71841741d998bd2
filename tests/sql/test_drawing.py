"""Samples of units' rows and groups are uniform, and nobody else's change when a unit leaves."""

import itertools
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from added_up import component, connect, select
from scipy.stats import chi2

from dpnotebook.sql.rewrite.bounded_aggregation import placed_sql, sample_sql, take, totals
from dpnotebook.sql.rewrite.contribution_bounding import Parts
from dpnotebook.sql.rewrite.contribution_sampling import draw_rows
from dpnotebook.sql.select import Key

SECRETS = [f"{number:032x}" for number in range(8)]
UNITS = 500  # they have the same groups, and draw them independently


def drawn(run, chosen, key, components=None):
    """Return the numbers of groups by key."""
    found = totals(chosen, components or [component("units", column=None)], run, key)
    return {group: numbers.tolist() for group, numbers in zip(found.keys, found.numbers, strict=True)}


def many_units(groups, inputs=None):
    """Return a table in which every unit has rows in the same groups, and all of its numbers in groups of its own."""
    size = len(groups)
    return {
        "u": [f"unit {i}" for i in range(UNITS) for _ in range(size)],
        "k0": [i for i in range(UNITS) for _ in range(size)],
        "k1": list(groups) * UNITS,
        "x0": (inputs or [1.0] * size) * UNITS,
    }


def by_unit(found):
    """Return for each unit the numbers of its groups."""
    units = {}
    for (unit, group), numbers in found.items():
        units.setdefault(unit, {})[group] = numbers
    return units.values()


KEYS = (Key("unit", kind="integer"), Key("group"))


def assert_chances(outcomes, chances):
    """Outcomes have chances in these proportions, and no others happen: a chi-square test at 10^-6."""
    total, counts = sum(chances.values()), {outcome: outcomes.count(outcome) for outcome in chances}
    assert sum(counts.values()) == len(outcomes)
    expected = {outcome: len(outcomes) * weight / total for outcome, weight in chances.items()}
    statistic = sum((counts[outcome] - expected[outcome]) ** 2 / expected[outcome] for outcome in chances)
    assert statistic < chi2.isf(1e-6, len(chances) - 1)


@pytest.mark.parametrize("most", [1, 2])
def test_every_set_of_groups_is_equally_likely(most):
    groups = ["a", "", "1:b", "b|", None]
    run = connect(pd.DataFrame(many_units(groups)))
    sets = [frozenset(unit) for secret in SECRETS for unit in by_unit(drawn(run, select(keys=KEYS, most=most), secret))]
    assert_chances(sets, {frozenset(some): 1 for some in itertools.combinations(groups, most)})


def test_every_pair_of_rows_is_equally_likely_although_some_are_equal():
    """Three equal rows and two others: each row has its own chance."""
    run = connect(pd.DataFrame(many_units(["a", "a", "a", "b", "c"])))
    chosen, count = select(keys=KEYS, kind="rows", most=2), [component("count", column=None)]
    found = [
        tuple(sorted((group, n[0]) for group, n in unit.items()))
        for secret in SECRETS
        for unit in by_unit(drawn(run, chosen, secret, count))
    ]
    assert_chances(found, {(("a", 2),): 3, (("a", 1), ("b", 1)): 3, (("a", 1), ("c", 1)): 3, (("b", 1), ("c", 1)): 1})


def test_five_rows_of_a_group_are_drawn_alike():
    """Of seven values 1, 10, 100, ... five are drawn; NULL is not drawn instead of a value."""
    values = [10.0**i for i in range(7)]
    run = connect(pd.DataFrame(many_units(["g"] * 9, [*values, None, None])))
    bins = component("bins", 0, 10**7, 1, 5, edges=(0.0, *(10.0**i - 0.5 for i in range(1, 7)), 1e7))
    both = [bins, component("values", 0, 1, 1, 5), component("centred", 0, 2 * 10**7, 1)]
    sets = []
    for secret in SECRETS[:2]:
        for unit in by_unit(drawn(run, select(keys=KEYS, most=1), secret, both)):
            numbers = unit["g"]
            assert numbers[7] == sum(numbers[:7]) == 5
            # The same rows in the query of the sums as in that of the bins.
            assert numbers[8] == sum(value for value, n in zip(values, numbers, strict=False) if n) - 5 * 10**7
            sets.append(frozenset(i for i in range(7) if numbers[i]))
    assert_chances(sets, {frozenset(some): 1 for some in itertools.combinations(range(7), 5)})


def test_units_draw_without_regard_to_each_other():
    """Of many units in the same two groups, half draw each: the number is binomial over secrets."""
    units = 200
    names = [f"{i}" for i in range(units)]
    run = connect(pd.DataFrame({"u": names * 2, "k0": ["a"] * units + ["b"] * units, "x0": 1.0}))
    secrets = 60
    counts = np.array([drawn(run, select(most=1), f"{s:032x}").get(("a",), [0])[0] for s in range(secrets)])
    z = (counts - units / 2) / np.sqrt(units / 4)
    assert chi2.isf(1 - 1e-6, secrets) < (z**2).sum() < chi2.isf(1e-6, secrets)


@pytest.mark.parametrize(("kind", "most"), [("groups", 1), ("groups", 3), ("rows", 1), ("rows", 4), ("l2", 1)])
def test_nobody_elses_sample_changes_when_a_unit_leaves(kind, most):
    """Every unit's numbers are in groups of its own here, so that all that it adds is seen."""
    random = np.random.default_rng(0)
    size = 3000
    unit = random.integers(0, 60, size)
    frame = pd.DataFrame({
        "u": unit, "k0": [f"{u}/{g}" for u, g in zip(unit, random.integers(0, 8, size), strict=True)],
        "x0": random.integers(0, 40, size) / 8,
    })  # fmt: skip
    chosen = select(kind=kind, most=most)
    components = [component("sum", 0, 4, 1, 4)]
    if kind != "l2":
        components.append(component("centred", 0, 4, 1, 10))
    everybody = drawn(connect(frame), chosen, "ab" * 16, components)
    for leaves in (0, 17, 59):
        fewer = frame[frame.u != leaves].sample(frac=1, random_state=leaves).reset_index(drop=True)
        without = drawn(connect(fewer, threads=2), chosen, "ab" * 16, components)
        assert without == {key: n for key, n in everybody.items() if not key[0].startswith(f"{leaves}/")}


def test_another_secret_draws_other_groups():
    run = connect({"u": ["one"] * 40, "k0": [f"{i}" for i in range(40)], "x0": [1.0] * 40})
    found = {frozenset(drawn(run, select(most=20), f"{secret:032x}")) for secret in range(20)}
    assert len(found) == 20


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kinds", [("text", "text"), ("integer", "text"), ("text", "number"), ("boolean", "time")])
def test_groups_with_alike_texts_are_told_apart(kinds):
    """No two groups of a unit have the same digest: as many as count are kept, whatever separators they hold."""
    values = {
        "text": ["a", "a|", "|a", "1:a", "", None, "2:a|", "a|1:a"], "integer": [1, 11, None, 111],
        "boolean": [True, False],
        "number": [1.5, 11.5, None], "time": ["2020-01-01", None],
    }  # fmt: skip
    types = {"text": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "time": "DATE"}
    pairs = list(itertools.product(values[kinds[0]], values[kinds[1]]))
    table = {
        "u": ["one"] * len(pairs),
        "k0": [p[0] for p in pairs],
        "k1": [p[1] for p in pairs],
        "x0": [1.0] * len(pairs),
    }
    run = connect(table, {"k0": types[kinds[0]], "k1": types[kinds[1]]})
    chosen = select(keys=(Key("a", kind=kinds[0]), Key("b", kind=kinds[1])), most=3)
    every = list(drawn(run, select(keys=chosen.keys, most=len(pairs)), "00"))
    assert len(every) == len(pairs)
    secrets = max(40, 3 * len(pairs))
    found = [group for secret in range(secrets) for group in drawn(run, chosen, f"{secret:032x}")]
    assert len(found) == 3 * secrets
    assert_chances(found, dict.fromkeys(every, 1))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("most", [1, 2, 31, 33, 70])
@pytest.mark.parametrize("keys", [(), (Key("group"),)])
def test_rows_that_have_their_places_are_drawn_as_those_that_have_not(most, keys):
    """By numbers, in DuckDB, as by texts everywhere: the sample of a release is the same when it is drawn again."""
    random, size = np.random.default_rng(most), 6_000
    frame = pd.DataFrame({
        "u": random.choice([*(f"unit {i}" for i in range(90)), "", "|"], size),
        "k0": random.choice(["a", "b", None], size),
        "x0": random.choice([np.nan, *random.normal(0, 1, 500)], size),
    })  # fmt: skip
    chosen = replace(select(kind="rows", most=most, keys=keys), kept="frame")
    components = [component("sum", 0, -4, 4, 1)]
    with duckdb.connect() as connection:
        connection.register("frame", frame)
        connection.execute(f"CREATE TABLE places AS {placed_sql(chosen, components)}")
        for secret in SECRETS[:3]:
            parts = Parts(chosen, secret)
            draw_rows(parts, take(parts, components), most)
            drawn_by_texts = connection.execute(f"SELECT * FROM ({parts.as_it_is()}) ORDER BY ALL").fetchall()
            drawn_by_numbers, inputs = sample_sql(chosen, components, secret, "places")
            assert inputs == ("y0",)
            found = connection.execute(f"SELECT * FROM ({drawn_by_numbers}) ORDER BY ALL").fetchall()
            assert found == drawn_by_texts
            assert len({row[0] for row in found}) == 92
            assert len(found) == sum(min(most, n) for n in frame["u"].value_counts())
