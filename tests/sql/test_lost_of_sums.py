"""Intervals of counts and sums reach for what norms, bounds of values and rows that do not count take from them.

Of heavy-tailed columns, and of people with very different numbers of rows, they held the truth two to five times of ten
where they were of noise alone.
"""

import itertools
import math
from contextlib import closing

import numpy as np
import pytest
from messy_tables import GROUPS
from scipy.special import ndtr, ndtri
from skewed_people import KINDS, opened, table

from dpnotebook.sql.aggregates.lost_parts import LostParts, reach_of
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.moved import without_lost
from dpnotebook.sql.aggregates.norms import norm_edges, norm_to_clip_at
from dpnotebook.sql.aggregates.taken import REACH

COUNT, SUM = "COUNT(*)", "SUM(x)"


def held(frame, call, by, epsilon, delta):
    """Return how many of the intervals of a first statement hold the truth without any bound; None where hidden."""
    of_group = frame.groupby("g").x.agg("size" if call == COUNT else "sum")
    with closing(opened(frame, delta)) as session:
        shown = session.sql(f"SELECT {'g, ' * by}{call} AS a FROM t{' GROUP BY g' * by}", epsilon=epsilon).run().frame
    truth = of_group.reindex(shown["g"]).to_numpy(float) if by else np.array([float(of_group.sum())])
    if shown["a"].isna().any():
        return None
    return float(np.mean((shown["a_lower"] <= truth) & (truth <= shown["a_upper"])))


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("call", "delta"), itertools.product([COUNT, SUM], [0, 1e-6]))
def test_intervals_of_counts_and_sums_hold_what_is_lost(call, delta):
    """Of noise alone these twelve sessions held three of ten on average."""
    random, found = np.random.default_rng(), []
    for kind, people in itertools.product(["lognormal", "years", "negative"], [2_000, 5_000]):
        for by in (False, True):
            found.append(held(table(random, kind, people), call, by, 1.0, delta))
    assert np.mean([one for one in found if one is not None]) > 0.7


@pytest.mark.slow
@pytest.mark.parametrize(("call", "delta"), itertools.product([COUNT, SUM], [0, 1e-6]))
def test_intervals_over_columns_of_many_kinds(call, delta, capsys):
    random, by_kind = np.random.default_rng(), {}
    for kind, people, epsilon, by in itertools.product(KINDS, [2_000, 5_000, 40_000], [0.2, 1.0], [False, True]):
        by_kind.setdefault(kind, []).append(held(table(random, kind, people), call, by, epsilon, delta))
    told = {kind: np.mean([one for one in found if one is not None]) for kind, found in by_kind.items()}
    with capsys.disabled():
        print(f"\n{call} {delta}:", ", ".join(f"{kind} {share:.2f}" for kind, share in told.items()))
    assert np.mean(list(told.values())) > 0.85


@pytest.mark.parametrize("people", [2_000, 40_000])
def test_what_is_lost_by_few_with_many_rows_is_told(people):
    """Rows by a power law, in forty draws of the noise on their histogram."""
    random, kept = np.random.default_rng(people), []
    for _ in range(40):
        sizes = np.ceil(random.pareto(1.4, people) + 0.01).clip(1, 1_000)
        counts = np.histogram(sizes, norm_edges())[0] + np.rint(random.normal(0, 20, norm_edges().size - 1))
        norm, lost = norm_to_clip_at(tuple(counts), 20.0, 15.0, 1, whole=True)
        kept.append(math.hypot(REACH * 15.0 * float(norm), lost.below) >= np.maximum(sizes - float(norm), 0.0).sum())
        assert lost.about <= lost.most == lost.below
        assert lost.above == 0.0
        assert lost.answer > 0.0
    assert np.mean(kept) > 0.75


def test_where_each_has_one_row_hardly_anything_is_told():
    random, lengths = np.random.default_rng(5), []
    for _ in range(40):
        counts = np.histogram(np.ones(5_000), norm_edges())[0] + np.rint(random.normal(0, 13, norm_edges().size - 1))
        norm, lost = norm_to_clip_at(tuple(counts), 13.0, 4.5, 1, whole=True)
        noise = REACH * 4.5 * float(norm)
        lengths.append((noise + math.hypot(noise, lost.below)) / 2 / noise)
    assert np.median(lengths) < 2


def test_what_is_lost_is_in_proportion_and_makes_sums_smaller():
    lost = LostParts(more=0.1, less=0.02)
    down, up = lost.moves(np.array([100.0, -100.0]), 0.0)
    assert down.tolist() == pytest.approx([2.0, 10.0])
    assert up.tolist() == pytest.approx([10.0, 2.0])
    values = np.array([30.0, 50.0, 20.0])
    assert lost.moves(values, 0.0)[1].sum() == pytest.approx(lost.moves(values.sum(keepdims=True), 0.0)[1][0])


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize(
    ("down", "up"), [(0.0, 0.05), (0.0, 0.3), (0.0, 1.0), (0.7, 1.5), (2.0, 0.0), (3.0, 3.0), (0.0, 40.0)]
)
def test_as_much_of_what_answers_may_be_is_beyond_either_end(confidence, down, up):
    """Half of a normal number moves them one way and half of one the other way: added up over places."""
    noise = 7.0
    below, above = reach_of(
        np.array([ndtri((1 + confidence) / 2) * noise]),
        (np.array([down * noise]), np.array([up * noise])),
        confidence,
        "gaussian",
    )
    places = ndtri((np.arange(200_000) + 0.5) / 200_000)
    moved = np.where(places > 0.0, up, down) * places
    assert ndtr(-below[0] / noise - moved).mean() == pytest.approx((1 - confidence) / 2, rel=1e-3)
    assert ndtr(moved - above[0] / noise).mean() == pytest.approx((1 - confidence) / 2, rel=1e-3)


@pytest.mark.parametrize("taken", [0.0, 0.5, 1.0])
def test_intervals_hold_as_often_where_bounds_take_nothing_and_where_they_take_as_much_as_is_usual(taken):
    up = np.geomspace(0.01, 100.0, 200)
    below, above = reach_of(np.full(200, REACH), (np.zeros(200), up), 0.95, "gaussian")
    assert (ndtr(above - taken * up) - ndtr(-below - taken * up) > 0.9499).all()


def test_where_nothing_moves_answers_intervals_are_of_noise_and_without_noise_of_what_does():
    assert reach_of(np.array([3.0]), (np.zeros(1), np.zeros(1)), 0.95, "laplace") == (3.0, 3.0)
    assert reach_of(np.array([0.0]), (np.zeros(1), np.ones(1)), 0.95, "gaussian")[1] == pytest.approx(REACH)


def test_where_few_lose_most_is_chance_of_which_all_together_have_none():
    lost = LostParts(chance=4.0, whole=100.0)
    assert lost.by_chance(np.array([100.0])).tolist() == [0.0]
    assert lost.by_chance(np.array([50.0])).tolist() == pytest.approx([10.0])


def test_either_way_adds_up_as_it_is_the_same_for_all():
    assert LostParts(0.1, 0.0, 2.0, 50.0, 3.0).of_groups(4) == LostParts(0.1, 0.0, 2.0, 50.0, 12.0)


def measured(session, number):
    (told,) = session.ledger.get(number).details["selects"]
    return Measuring.from_json(told["measuring"])


def ends(frame, name):
    return frame[f"{name}_lower"].to_numpy(float), frame[f"{name}_upper"].to_numpy(float)


@pytest.fixture(scope="module")
def lognormal():
    return table(np.random.default_rng(9), "lognormal", 5_000)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("call", [COUNT, SUM])
def test_a_total_loses_what_its_groups_lose(lognormal, call):
    """Released groups, their total for nothing, and the total that an outer query works out: linear, not in squares."""
    inner = f"SELECT g, {call} AS n FROM t GROUP BY g"
    with closing(opened(lognormal)) as session:
        groups = session.sql(inner, epsilon=1.0).run()
        total = session.sql(f"SELECT {call} AS n FROM t WHERE g IN {tuple(GROUPS)}", epsilon=0.05).run()
        outer = session.sql(f"SELECT SUM(n) AS n FROM ({inner})", epsilon=1.0).run()
        noise = REACH * groups.frame["n_std_error"]
        assert outer.paid == total.paid == 0
    lost = np.sqrt(np.maximum((groups.frame["n_upper"] - groups.frame["n"]) ** 2 - noise**2, 0.0))
    for release in (total, outer):
        above = float(release.frame["n_upper"][0] - release.frame["n"][0])
        assert above > 0.6 * lost.sum()  # in squares it would be half of that
        assert above < math.hypot(1.5 * lost.sum(), 1.5 * noise.sum())
        assert release.frame["n"][0] == pytest.approx(groups.frame["n"].sum(), rel=1e-3)
    exact = float(len(lognormal) if call == COUNT else lognormal.x.sum())
    low, high = ends(total.frame, "n")
    assert low[0] <= exact <= high[0]


def test_multiples_and_ratios_have_the_ends_of_their_parts(lognormal):
    text = "SELECT g, SUM(x) AS s, SUM(x) / 4 AS quarter, COUNT(*) AS n, SUM(x) / COUNT(*) AS ratio FROM t GROUP BY g"
    with closing(opened(lognormal)) as session:
        release = session.sql(text, epsilon=1.0).run()
        longer = release.simultaneous().frame
        drawn = release.samples(4_000)
    frame = release.frame
    for quarter, whole in zip(ends(frame, "quarter"), ends(frame, "s"), strict=True):
        assert quarter == pytest.approx(whole / 4, rel=1e-3)
    spread = drawn["s"].to_numpy(float).reshape(4_000, -1)
    assert np.quantile(spread, 0.975, axis=0) == pytest.approx(frame["s_upper"].to_numpy(), rel=0.1)
    low, high = ends(frame, "ratio")
    assert ((low < frame["ratio"]) & (frame["ratio"] < high)).all()
    for name in ("s", "n"):
        assert (longer[f"{name}_upper"] >= frame[f"{name}_upper"]).all()
        assert (longer[f"{name}_lower"] <= frame[f"{name}_lower"]).all()


def test_it_is_recorded_and_said(lognormal):
    with closing(opened(lognormal)) as session:
        release = session.sql("SELECT g, COUNT(*) AS n FROM t GROUP BY g", epsilon=1.0).run()
        one = measured(session, release.number)
    assert one.parts[0].lost
    assert Measuring.from_json(one.to_json()) == one
    assert not without_lost(one).parts[0].lost
    assert any("intervals are longer for that" in note for note in release.notes)


def test_bounds_that_are_declared_or_written_are_the_question():
    """Where as many rows count as are declared, or bounds are written, intervals are of noise alone."""
    frame = table(np.random.default_rng(4), "lognormal", 3_000, one=True)
    with closing(opened(frame, max_rows=1)) as session:
        for text in ("SELECT COUNT(*) AS a FROM t", "SELECT ANON_SUM(x, 0, 50) AS a FROM t"):
            release = session.sql(text, epsilon=1.0).run()
            shown = release.frame.iloc[0]
            assert shown["a_upper"] - shown["a"] == pytest.approx(shown["a"] - shown["a_lower"], rel=1e-3)
            assert not release.notes or not any("longer for that" in note for note in release.notes)
