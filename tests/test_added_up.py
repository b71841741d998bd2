"""Counts and sums of a release added up over its rows: the numbers, their intervals, and what does not add up."""

from contextlib import closing
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import WorkloadError
from dpnotebook.planner import redraws
from dpnotebook.privacy.tails import half_widths, kappa

WARDS = ["Cardio", "Onco", "Paeds", "ICU"]


def visits():
    """Return visits of which each is a person's own."""
    random = np.random.default_rng(2)
    frame = pd.DataFrame({"ward": random.choice(WARDS, 4_000, p=[0.5, 0.3, 0.15, 0.05])})
    return frame.assign(sex=random.choice(["F", "M"], 4_000), age=random.integers(0, 100, 4_000))


@pytest.fixture(params=[0.0, 1e-6], ids=["Laplace", "Gaussian"])
def opened(request):
    """Return a session, and its table."""
    frame = visits()
    with closing(dpn.Session(dpn.Budget(30.0, request.param), ":memory:", confirm="never")) as session:
        session.protect(
            frame, "visits", domain={"ward": WARDS, "sex": ["F", "M"], "age": dpn.Range(0, 99)}, rows=len(frame)
        )
        yield session, frame


def error(release, name="value"):
    """Return the standard error of the answers, as a list."""
    column = "std_error" if name == "value" else f"{name}_std_error"
    return release.frame[column].to_list()


def test_a_total_is_the_sum_of_the_answers_and_errs_as_independent_noise_does(opened, same_noise):
    """Of four counts with noise of their own: twice the standard error of one."""
    session, frame = opened
    release = frame.dp.groupby("ward").count(epsilon=0.5).run()
    spent = session.spent.epsilon
    total = release.sum()
    assert total.value == release.frame["value"].sum()
    assert error(total) == pytest.approx([2 * error(release)[0]], rel=0.06)
    if session.budget.delta:
        half = (total.frame["upper"] - total.frame["lower"])[0] / 2
        assert half == pytest.approx(kappa(0.95, "gaussian") * 2 * error(release)[0], rel=0.08)
    assert session.spent.epsilon == spent
    assert (total.keys, total.sources, total.unit) == ((), (release.number,), release.unit)
    assert total.sum().value == total.value


def test_totals_by_some_keys_are_those_of_their_rows(opened, same_noise):
    _, frame = opened
    release = frame.dp.groupby(["ward", "sex"]).count(epsilon=0.5).run()
    by_ward = release.sum("ward")
    assert by_ward.frame["ward"].to_list() == WARDS
    assert by_ward.frame["value"].to_list() == release.frame.groupby("ward", sort=False)["value"].sum().to_list()
    assert error(by_ward) == pytest.approx([np.sqrt(2) * error(release)[0]] * 4, rel=0.08)
    assert release.sum(["ward", "sex"]).frame["value"].to_list() == release.frame["value"].to_list()


def test_what_is_shared_cancels(opened, same_noise):
    """Shares of the total add up to one, whatever the noise."""
    _, frame = opened
    release = frame.dp.groupby("ward").count(epsilon=0.5).run()
    shares = release / release.sum()
    assert shares.frame["value"].sum() == pytest.approx(1.0)
    assert shares.samples(50).groupby("draw")["value"].sum().to_list() == pytest.approx([1.0] * 50)
    nothing = release.sum() - release.sum()
    assert nothing.frame.iloc[0].to_list() == [0.0, 0.0, 0.0, 0.0]


def test_shares_err_as_the_law_of_small_changes_says(opened, same_noise):
    """Against the first derivatives of count over total, of counts with noise of one variance."""
    _, frame = opened
    release = frame.dp.groupby("ward").count(epsilon=0.5).run()
    shares = release / release.sum()
    total, noise = release.sum().value, error(release)[0]
    share = shares.frame["value"].to_numpy()
    expected = noise / total * np.sqrt((1 - share) ** 2 + 3 * share**2)
    assert error(shares) == pytest.approx(expected.tolist(), rel=0.08)


def test_statements_add_up_their_counts_and_sums_alone(opened, same_noise):
    session, _ = opened
    text = "SELECT ward, COUNT(*) AS n, SUM(age) AS s, AVG(age) AS a FROM visits GROUP BY ward"
    release = session.sql(text, epsilon=2.0).run()
    total = release.sum()
    assert total.names == ("n", "s")
    for name in total.names:
        assert total.frame[name][0] == pytest.approx(release.frame[name].sum())
        squares = np.square(error(release, name)).sum()
        assert error(total, name) == pytest.approx([np.sqrt(squares)], rel=0.1)


def test_intervals_without_delta_are_those_of_the_law_of_a_sum(same_noise):
    """Of three counts with Laplace noise, whose sum has a law of its own, neither that nor Gaussian."""
    frame = visits()
    with closing(dpn.Session(dpn.Budget(10.0), ":memory:", confirm="never")) as session:
        session.protect(frame, "visits", domain={"ward": WARDS[:3], "sex": ["F", "M"]})
        for confidence in (0.9, 0.95, 0.99):
            query = frame.dp.groupby("ward").count(epsilon=0.2, confidence=confidence)
            row = query.run().sum().frame.iloc[0]
            (width,) = half_widths(np.ones((1, 3)), [Fraction(5)] * 3, "laplace", confidence)
            assert (row["upper"] - row["lower"]) / 2 == pytest.approx(width, rel=0.12)


def test_what_does_not_add_up_is_refused(opened):
    session, frame = opened
    release = frame.dp.groupby("ward").count(epsilon=0.5).run()
    with pytest.raises(WorkloadError, match="has no key 'colour' to add up by; its keys are 'ward'"):
        release.sum("colour")
    rolled = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP(ward)"
    others = [
        frame.dp.groupby("ward").mean("age", epsilon=0.5),  # means
        frame.dp.cdf("age", epsilon=0.5),  # each row is in many of these
        session.sql(rolled, epsilon=0.5),
    ]
    for query in others:
        with pytest.raises(WorkloadError, match="do not add up: ask for the total"):
            query.run().sum()
    with pytest.raises(WorkloadError, match="add up the release as it was measured"):
        release.nonnegative().sum()


def test_a_total_says_which_groups_it_is_of_and_that_each_lacks_what_is_cut_off(same_noise):
    """Of units with many rows, by a key whose groups are shown where enough people are in them."""
    random = np.random.default_rng(4)
    rows = np.clip(np.round(random.lognormal(1.5, 1.2, 4_000)), 1, 200).astype(int)
    unit = np.repeat(np.arange(4_000), rows)
    frame = pd.DataFrame({"who": unit, "ward": random.choice(WARDS, unit.size, p=[0.5, 0.3, 0.15, 0.05])})
    with closing(dpn.Session(dpn.Budget(3.0, 1e-6), ":memory:", confirm="never")) as session:
        session.protect(frame, "visits", unit="who")
        release = session.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=1.0).run()
        assert any("from a group" in note for note in release.notes)
        total = release.sum()
        assert any("groups that are shown" in note for note in total.notes)
        assert any("4 times what a group does" in note for note in total.notes)
        assert not any("times what a group" in note for note in release.sum("ward").notes)
        session.protect(frame, "stays", unit="who", domain={"ward": WARDS})
        declared = session.sql("SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward", epsilon=1.0).run()
        assert not any("groups that are shown" in note for note in declared.sum().notes)


def test_few_answers_that_rest_on_many_numbers_are_redrawn_by_what_these_count_for(monkeypatch):
    """Of 300 numbers and more: the same draws as one by one, that are worked out together."""
    each, one_by_one = redraws._of_draws, []
    monkeypatch.setattr(redraws, "_of_draws", lambda *given: one_by_one.append(1) or each(*given))
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"a": random.integers(0, 20, 1_000), "b": random.integers(0, 15, 1_000)})
    with closing(dpn.Session(dpn.Budget(30.0), ":memory:", confirm="never")) as session:
        table = session.protect(frame, "t", domain={"a": dpn.Range(0, 19), "b": dpn.Range(0, 14)})
        table.crosstab("a", "b", epsilon=0.5).run()
        table.histogram("a", epsilon=0.5).run()
        release = table.histogram("a", error=30).run()
        together = release.samples(500)["value"].to_numpy()
        assert not one_by_one
        monkeypatch.setattr(redraws, "MOST_WEIGHTS", 0)
        assert np.allclose(together, release.samples(500)["value"], rtol=0, atol=1e-9)
        assert one_by_one


def test_of_groups_that_are_all_hidden_there_is_no_total():
    frame = pd.DataFrame({"code": [f"c{number}" for number in range(2_000)]})  # nobody shares one
    with closing(dpn.Session(dpn.Budget(2.0, 1e-6), ":memory:")) as session:
        session.protect(frame, "codes")
        release = session.sql("SELECT code, COUNT(*) AS n FROM codes GROUP BY code", epsilon=0.5).run()
        assert release.frame.empty
        with pytest.raises(WorkloadError, match="no group is shown, so there is nothing to add up"):
            release.sum()
        with pytest.raises(WorkloadError, match="there is nothing to compare: no group has enough units"):
            dpn.compare(release, release)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("SELECT SUM(n) AS total FROM (SELECT ward, COUNT(*) AS n FROM wards GROUP BY ward)", True),
        ("SELECT ward, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM wards GROUP BY ward", True),
        ("SELECT ward, COUNT(*) AS n FROM wards GROUP BY ROLLUP (ward)", True),
        ("SELECT ward, COUNT(*) AS n, SUM(1) + 1 AS more FROM wards GROUP BY ward ORDER BY n", False),
        ("SELECT COUNT(*) AS n FROM wards", False),
    ],
)
def test_totals_in_sql_say_that_hidden_groups_are_not_in_them(asked, told):
    frame = pd.DataFrame({"ward": ["A"] * 500 + ["B"] * 500 + [f"rare {number}" for number in range(300)]})
    with closing(dpn.Session(dpn.Budget(4.0, 1e-6), ":memory:")) as session:
        session.protect(frame, "wards")
        notes = " ".join(session.sql(asked, epsilon=1.0).run().notes)
        assert ("those hidden for having too few people are not in them" in notes) == told
