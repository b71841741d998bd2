"""Groups in which units have little are multiplied before vectors are clipped: exact totals, and whole sessions."""

import json
import math
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest
from added_up import SECRET, connect, select
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.privacy.accountant import accountant_for
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.session import statement_answers
from dpnotebook.sql import measured_profile
from dpnotebook.sql.aggregates.added_up import added_up, sums
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.layers import Combination, numbers_of
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring, NoisyNumbers
from dpnotebook.sql.aggregates.norms import norm_edges
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.group_weights import GroupWeights, weights_by_size
from dpnotebook.sql.measured_profile import SIZES, measured_weights
from dpnotebook.sql.rewrite.bounded_aggregation import totals
from dpnotebook.sql.rewrite.lengthened import LONG, STEPS, lengthened
from dpnotebook.sql.select import Aggregate, Contribution

GAUSSIAN = accountant_for(dpn.Budget(1.0, 1e-6))
LEVELS = (("large", "small", "tiny"),)
GROUPS = [(level,) for level in LEVELS[0]]
NASTY = ["large", "small", "it's", "", "NULL", None, "ä", "Large"]


def frame(rows):
    found = pd.DataFrame({"u": [r[0] for r in rows], "k0": [r[1] for r in rows], "x0": [r[2] for r in rows]})
    return found.astype({"u": object, "k0": object, "x0": float})


def weighed(weights, keys=1):
    return select(keys=keys, kind="l2").weighed(weights)


def test_weights_are_near_the_root_of_how_much_smaller_groups_are():
    sizes = np.array([0.81, 0.09, 0.0324])
    weights = weights_by_size(LEVELS, GROUPS, 1e6 * sizes, 1.0)
    assert weights.of(LEVELS, GROUPS) == (1, 2, 4)
    squares = [sum((np.array(w) * sizes) ** 2) * sum(1 / np.array(w) ** 2) for w in ((1, 2, 4), (1, 1, 1))]
    assert squares[0] < 0.5 * squares[1]  # of all groups together, as norms and noise have it


@pytest.mark.parametrize("seed", range(20))
def test_sizes_that_noise_hides_are_alike(seed):
    noisy = np.array([1e5] + [50.0] * 40) + np.random.default_rng(seed).normal(0, 4e4, 41)
    levels = ((*range(41),),)
    assert weights_by_size(levels, [(i,) for i in range(41)], noisy, 4e4).others <= 2


def test_groups_that_a_query_does_not_list_have_the_largest_weight():
    levels, groups = ((*range(1000),),), [(i,) for i in range(1000)]
    weights = weights_by_size(levels, groups, 1e9 / np.arange(1, 1001), 1e-9)
    assert len(weights.listed) <= 200
    assert set(weights.of(levels, groups[len(weights.listed) :])) == {weights.others}
    assert list(weights.of(levels, groups)) == sorted(weights.of(levels, groups))


UNLISTED = [2.5, Decimal("2.5"), "a\\b", "two\nlines"]


@pytest.mark.parametrize("small", [2, -7, None, "b c", "it's", *UNLISTED], ids=repr)
def test_only_keys_that_every_database_writes_alike_are_listed(small):
    weights = weights_by_size((None,), [(1,), (small,)], [1e6, 1e4], 1.0)
    assert weights.unlike == (small not in UNLISTED)


rows = st.lists(
    st.tuples(st.sampled_from(["out", "out", "a", "b"]), st.sampled_from(NASTY), st.sampled_from([1.0, -3.0, 7.25])),
    max_size=60,
)


@given(rows)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_one_unit_changes_what_tells_how_large_groups_are_by_no_more_than_its_noise_is_for(rows):
    without = [row for row in rows if row[0] != "out"]
    both = [totals(select(kind="l2"), [SIZES], connect(frame(some)), SECRET) for some in (rows, without)]
    assert (changes(*both) ** 2).sum() <= SIZES.largest**2


weights_of = st.builds(
    lambda listed, others: GroupWeights(tuple(((key,), weight) for key, weight in listed.items()), others),
    st.dictionaries(st.sampled_from(NASTY), st.integers(1, 6), max_size=5),
    st.integers(2, 64),
)


@given(rows, weights_of)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_one_unit_changes_how_much_vectors_grow_by_no_more_than_its_noise_is_for(rows, weights):
    without = [row for row in rows if row[0] != "out"]
    changed = np.subtract(*(lengthened(weighed(weights), connect(frame(some))) for some in (rows, without)))
    assert changed.min() >= 0
    assert changed.max() <= STEPS


def test_how_much_vectors_grow_is_as_it_is_defined():
    weights = GroupWeights(((("large",), 1), (("small",), 2)), 4)
    rows = (
        [("a", "large", 1.0)] * LONG + [("b", "small", 1.0)] * 3 + [("b", "large", 1.0)] + [("out", "tiny", 1.0)] * LONG
    )
    parts = [(1.0, 0.0), (10 / LONG**2, 10 / LONG**2 * (37 / 10 - 1) / 15), (1.0, 1.0)]
    assert lengthened(weighed(weights), connect(frame(rows))) == pytest.approx(STEPS * np.sum(parts, axis=0), abs=3)


@given(rows, weights_of, st.fractions(1, 50, max_denominator=8))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_one_unit_changes_weighed_totals_by_no_more_than_the_norm(rows, weights, norm):
    step = Fraction(1, 16)
    components = [
        Component(name, column, Fraction(0), norm, step, math.floor(norm / step))
        for name, column in (("count", None), ("groups", None), ("sum", 0))
    ]
    both = [
        totals(weighed(weights), components, connect(frame(some)), SECRET)
        for some in (rows, [row for row in rows if row[0] != "out"])
    ]
    squares = (changes(*both) ** 2).sum(axis=0)
    assert all(square <= c.largest**2 for square, c in zip(squares, components, strict=True))


@given(rows, weights_of)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_weighed_totals_are_those_of_each_group_times_its_weight(rows, weights):
    large = Fraction(10**6)
    component = Component("count", None, Fraction(0), large, Fraction(1), int(large))
    plain, multiplied = (
        totals(chosen, [component], connect(frame(rows)), SECRET) for chosen in (select(kind="l2"), weighed(weights))
    )
    assert plain.keys == multiplied.keys
    times = np.array(weights.of((None,), plain.keys), dtype=np.int64)
    assert (multiplied.numbers[:, 0] == times * plain.numbers[:, 0]).all()


def changes(with_all, without):
    before, after = (dict(zip(one.keys, one.numbers.astype(object), strict=True)) for one in (with_all, without))
    nothing = np.zeros(with_all.numbers.shape[1], dtype=object)
    return np.array([before.get(key, nothing) - after.get(key, nothing) for key in {*before, *after}] or [nothing])


def spread(seed, units=3000, parts=(0.85, 0.1, 0.05), most=60):
    """Return a table whose units have 1 to many rows, in groups as all rows are."""
    random = np.random.default_rng(seed)
    counts = np.minimum(random.negative_binomial(0.7, 0.08, units) + 1, most)
    unit = np.repeat(np.arange(units), counts)
    group = random.choice(LEVELS[0], unit.size, p=parts)
    value = np.round(random.normal(40.0, 12.0, unit.size), 1)
    return pd.DataFrame({"unit": unit, "g": group, "h": random.choice(["x", "y"], unit.size), "v": value})


def session(table, declared=True, epsilon=20.0, ledger=":memory:"):
    found = dpn.Session(dpn.Budget(epsilon, 1e-6), ledger, confirm="never")
    domain = {"h": ["x", "y"]} | ({"g": list(LEVELS[0])} if declared else {})
    found.protect(table, "t", unit="unit", domain=domain)
    return found


def test_small_groups_have_less_noise_in_the_first_statement_that_anybody_asks():
    with closing(session(spread(1, units=20_000))) as asked:
        for what in ("COUNT(*)", "SUM(v)", "COUNT(v)"):
            found = asked.sql(f"SELECT g, {what} AS a FROM t GROUP BY g", epsilon=1.0).run().to_frame().set_index("g")
            assert found.a_std_error["tiny"] < 0.6 * found.a_std_error["large"], what


@pytest.mark.one_in(2)
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "hidden"])
def test_answers_are_as_wrong_as_they_say_in_groups_of_every_size(declared):
    away, held = [], []
    for seed in range(6):
        table = spread(10 + seed, most=12)
        true = table.groupby("g").v.agg(n="size", s="sum", a="mean", d="std")
        with closing(session(table, declared)) as asked:
            columns = {"n": "COUNT(*)", "s": "SUM(v)", "a": "AVG(v)", "d": "STDDEV(v)"}
            for name, what in columns.items():
                text = f"SELECT g, {what} AS a FROM t GROUP BY g"
                found = asked.sql(text, epsilon=2.0).run().to_frame().set_index("g")
                wanted = true[name].reindex(found.index)
                held += list((found.a_lower <= wanted) & (wanted <= found.a_upper))
                away += list((found.a - wanted) / (found.a_upper - found.a_lower) * 2 * 1.96)
    assert np.mean(held) >= 0.9
    assert 0.5 < np.sqrt(np.mean(np.square(away))) < 1.25


GROUPS_OF_NOISE = 300


def one_large_group(seed):
    """Return a table of one large group and many small ones, in which every unit with rows in these has few."""
    random, units = np.random.default_rng(seed), 20_000
    large, small = np.repeat(np.arange(units), 20), random.integers(0, units, 90_000)
    groups = np.concatenate([np.zeros(large.size, int), random.integers(1, GROUPS_OF_NOISE, small.size)])
    return pd.DataFrame({"unit": np.concatenate([large, small]), "g": groups})


def test_all_that_is_drawn_costs_what_was_charged_and_noise_is_what_the_release_says(monkeypatch):
    """One number in each of 300 groups, whose totals are known: 10% too little noise is seen."""
    drawn, z = [], []

    def recorded(law, scale, size, source):
        drawn.append((scale, size))
        return draw_integers(law, scale, size, source)

    monkeypatch.setattr(statement_answers, "draw_integers", recorded)
    for seed in range(4):
        table = one_large_group(seed)
        drawn.clear()
        with closing(dpn.Session(dpn.Budget(20.0, 1e-6), ":memory:", confirm="never")) as asked:
            asked.protect(table, "t", unit="unit", domain={"g": dpn.Range(0, GROUPS_OF_NOISE - 1)})
            number = asked.sql("SELECT g, COUNT(*) AS n FROM t GROUP BY g", epsilon=2.0, contribution="l2").run().number
            record, accountant = asked.ledger.get(number), asked.ledger.accountant
            measured = Measuring.from_json(record.details["selects"][0]["measuring"])
            assert measured.weighing[0] == 1 < min(measured.weighing[1:])
            # In the order in which it is drawn: sizes of groups, how much vectors grow, norms, and what is asked.
            norms = [SIZES.largest**2, 2 * STEPS**2, 1, *(component.largest**2 for component in measured.components)]
            bins = norm_edges().size - 1
            assert [size for _, size in drawn] == [GROUPS_OF_NOISE, 2, bins, *[GROUPS_OF_NOISE] * (len(norms) - 3)]
            spent = [accountant.rate(scale) * norm for (scale, _), norm in zip(drawn, norms, strict=True)]
            assert 0.9995 * record.plan["units"] <= sum(spent) <= record.plan["units"]
            read = replace(select(kind="l2"), rows="SELECT unit AS u, g AS k0 FROM t", inputs=0)
            with duckdb.connect() as engine:
                engine.register("t", table)
                run = lambda text: engine.execute(text).fetchnumpy()  # noqa: E731
                found = totals(read.weighed(measured.weights), measured.components, run, SECRET)
            exact = np.zeros((GROUPS_OF_NOISE, len(measured.components)), dtype=np.int64)
            exact[[int(key[0]) for key in found.keys]] = found.numbers
            numbers = np.asarray(record.answers[0]).reshape(exact.shape)
            z += list(((numbers - exact) / np.sqrt([measured.law.variance(one) for one in measured.scales])).ravel())
    assert 1 - 3.5 / math.sqrt(2 * len(z)) < np.std(z) < 1 + 3.5 / math.sqrt(2 * len(z))
    assert 3.5 / math.sqrt(2 * len(z)) < 0.08


def test_sizes_of_groups_are_read_off_noisy_numbers(monkeypatch):
    table = connect(frame([(str(unit), group, 1.0) for unit in range(4) for group in ["large"] * 3 + ["small"]]))
    chosen, told = select(kind="l2", aggregates=(Aggregate("count", "n"),)), []
    monkeypatch.setattr(
        measured_profile, "weights_by_size", lambda levels, groups, sizes, noise: told.append(sizes) or GroupWeights()
    )
    there = totals(chosen, [SIZES], table, SECRET)
    for noise in (0, 12_345, -7):
        measured_weights(chosen, there, 10**6, GAUSSIAN, table, lambda _, scale, size, at=noise: np.full(size, at))
        assert list(told.pop()) == list(there.numbers[:, 0] + noise)


def test_groups_that_units_have_to_themselves_are_not_multiplied():
    random, units = np.random.default_rng(6), 5000
    own = random.choice(LEVELS[0], units, p=(0.85, 0.1, 0.05))
    unit = np.repeat(np.arange(units), np.minimum(random.negative_binomial(0.7, 0.08, units) + 1, 60))
    table = pd.DataFrame({"unit": unit, "g": own[unit], "h": "x", "v": 1.0})
    with closing(session(table)) as asked:
        found = asked.sql("SELECT g, COUNT(*) AS a FROM t GROUP BY g", epsilon=1.0).run()
        (told,) = asked.ledger.get(found.number).details["selects"]
        assert "weighing" not in told["measuring"]
        (found_out,) = [GroupWeights.from_json(one) for one in told["profile"].values() if "listed" in one]
        assert found_out == GroupWeights()  # that there is nothing to gain


def test_an_answer_is_its_number_over_its_weight():
    with closing(session(spread(2, units=20_000))) as asked:
        release = asked.sql("SELECT g, SUM(v) AS s FROM t GROUP BY g", epsilon=1.0).run()
        told = asked.ledger.get(release.number)
        measured, found = Measuring.from_json(told.details["selects"][0]["measuring"]), release.to_frame()
        if measured.parts[0].layers:
            how = Combination(*measured.parts[0].layers)
            first, second = numbers_of(measured, measured.parts[0], np.asarray(told.answers[0]).reshape(3, -1))
            wanted = how.first * first + how.second * second
        else:
            wanted = np.asarray(told.answers[0]).reshape(3) * float(measured.parts[0].step)
        assert found.s.to_numpy() == pytest.approx(wanted / np.array(measured.weighing))
        assert len(set(measured.weighing)) > 1


def test_groups_of_unlike_weights_are_added_up_with_the_noise_of_each():
    law = Fraction(100)
    block = NoisyNumbers((0,), ((1,),), law)
    part = AggregateInput("sum", (0,), (Fraction(0), Fraction(10)), Fraction(1, 4))
    component = Component("sum", 0, Fraction(0), Fraction(10), Fraction(1, 4), 40)
    measured = Measuring("gaussian", Contribution("l2"), (component,), (block,), (part,), weighing=(1, 4, 6, 3))
    numbers, groups = np.array([[1000], [420], [66], [30]]), ((0, 1), (2,), (1, 2, 3))
    found = estimate(added_up(measured, groups), sums(measured, numbers, groups), 0.95)[0]
    each = estimate(measured, numbers, 0.95)[0]
    assert found.value == pytest.approx([sum(each.value[list(of)]) for of in groups])
    assert found.std_error == pytest.approx(
        [math.sqrt(sum(each.std_error[list(of)] ** 2)) for of in groups],
        rel=1e-4,  # rounding, whose variance is a twelfth
    )


def test_what_is_asked_again_is_free_or_refined(tmp_path):
    by_both = "SELECT g, h, {} AS a FROM t GROUP BY g, h"
    path = tmp_path / "ledger.db"
    table = spread(4, units=20_000)
    with closing(session(table, ledger=path)) as asked:
        first = asked.sql(by_both.format("COUNT(*)"), epsilon=1.0).run().to_frame()
    with closing(session(table, ledger=path)) as asked:
        again = asked.sql(by_both.format("COUNT(*)"), epsilon=1.0).run()
        assert again.paid == 0
        assert again.to_frame().equals(first)
        some = by_both.format("COUNT(*)").replace(" GROUP", " WHERE g IN ('tiny', 'large') GROUP")
        part = asked.sql(some, epsilon=1.0).run()
        assert part.paid == 0
        assert part.to_frame().equals(first[first.g != "small"].reset_index(drop=True))
        sharper = asked.sql(by_both.format("COUNT(*)"), epsilon=2.0)
        assert sharper.plan.cost.units < sharper.plan.units
        assert sharper.run().to_frame().a_std_error.max() < 0.62 * first.a_std_error.max()


def test_a_later_statement_is_told_how_wrong_its_small_groups_will_be():
    with closing(session(spread(5, units=20_000))) as asked:
        asked.sql("SELECT g, AVG(v) AS a FROM t GROUP BY g", epsilon=1.0).run()
        later = asked.sql("SELECT g, AVG(v) AS a FROM t GROUP BY g", epsilon=0.7, fresh=True)
        assert later.plan.weights[0].unlike
        foretold = later.plan.parts[0].std_error
        assert later.run().to_frame().a_std_error.max() == pytest.approx(foretold, rel=0.3)


def test_weights_are_kept_in_records():
    weights = GroupWeights((((0, None), 1), ((2, "it's"), 3)), 8, 1.25, 0.6)
    assert GroupWeights.from_json(json.loads(json.dumps(weights.to_json()))) == weights
