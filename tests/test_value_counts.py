"""`value_counts`: a histogram in the order of its noisy counts, or as shares of all rows, at the histogram's price."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

DOMAIN = {"ward": ["A", "B", "C", "D"], "sex": ["F", "M"], "age": dpn.Range(0, 99)}
ROWS = pd.DataFrame(
    {
        "ward": np.repeat(["A", "B", "C"], [200, 700, 100]),
        "sex": np.tile(["F", "M", "F", "F"], 250),
        "age": np.arange(1000) % 100,
    }
)


@pytest.fixture
def people(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    rows = ROWS.copy()
    session = exact_session(dpn.Budget(epsilon=100.0))
    session.protect(rows, "people", domain=DOMAIN)
    yield rows
    session.close()


def test_the_most_frequent_comes_first_and_levels_of_nobody_last(people):
    release = people.dp.value_counts("ward", epsilon=0.5).run()
    assert release.frame[["ward", "value"]].to_numpy().tolist() == [["B", 700], ["A", 200], ["C", 100], ["D", 0]]
    assert release.notes == ("in the order of noisy counts: rows whose intervals overlap may belong in another one",)
    declared = people.dp.value_counts("ward", sort=False, epsilon=0.5).run()
    assert declared.frame["ward"].tolist() == ["A", "B", "C", "D"]
    assert declared.notes == ()


@pytest.mark.parametrize("columns", ["ward", ["sex", "ward"], ("ward", "sex")])
def test_it_is_the_histogram(people, columns):
    """Every row keeps its key, its value, its interval, its redraws and its counts moved to those data could have."""
    sorted_, plain = (
        one.run()
        for one in (people.dp.value_counts(columns, epsilon=0.5), people.dp.groupby(columns).count(epsilon=0.5))
    )
    assert plain.paid == 0
    keys = list(plain.keys)
    for one, other in [
        (sorted_.frame, plain.frame),
        (sorted_.simultaneous().frame, plain.simultaneous().frame),
        (sorted_.nonnegative().frame, plain.nonnegative().frame),
    ]:
        assert one["value"].is_monotonic_decreasing
        merged = one.merge(other, on=keys, suffixes=("", "_of_plain"))
        assert len(merged) == len(other) == len(one)
        for part in ("value", "lower", "upper"):
            assert merged[part].tolist() == merged[f"{part}_of_plain"].tolist()
    drawn = [one.samples(20).sort_values(["draw", *keys])["value"].tolist() for one in (sorted_, plain)]
    assert drawn[0] == drawn[1]


def test_the_same_price_and_for_nothing_afterwards(people):
    query = people.dp.value_counts("ward", normalize=True, error=20)
    assert query.plan.cost == people.dp.histogram("ward", error=20).plan.cost
    query.run()
    assert people.dp.value_counts("ward", error=20).plan.free
    assert people.dp.histogram("ward", error=20).plan.free


def test_shares_are_of_all_rows(people):
    release = people.dp.value_counts("ward", normalize=True, where="sex == 'F'", epsilon=0.5).run()
    truth = ROWS[ROWS["sex"] == "F"]["ward"].value_counts(normalize=True)
    assert release.frame["ward"].tolist() == [*truth.index, "D"]
    assert release.frame["value"].tolist() == pytest.approx([*truth, 0])
    assert release.unit == ""
    assert (release.frame["lower"] < release.frame["value"]).all()
    assert (release.frame["value"] < release.frame["upper"]).all()
    assert "share of rows" in [measure.words for measure in release.measures]
    assert release.samples(50).groupby("draw")["value"].sum().to_numpy() == pytest.approx(np.ones(50))


def test_intervals_of_shares_hold_as_often_as_they_say():
    """Of the shares of 40 sessions 95% are within their intervals, give or take five standard errors of that."""
    truth, held, widths = ROWS["ward"].value_counts(normalize=True).reindex(DOMAIN["ward"], fill_value=0), 0, []
    for _ in range(40):
        with dpn.Session(budget=dpn.Budget(1.0)) as session:
            table = session.protect(ROWS, "people", domain=DOMAIN)
            frame = table.value_counts("ward", normalize=True, sort=False, epsilon=0.05).run().frame
        held += int(((frame["lower"] <= truth.to_numpy()) & (truth.to_numpy() <= frame["upper"])).sum())
        widths.append(frame["upper"] - frame["lower"])
    assert abs(held / 160 - 0.95) < 5 * (0.95 * 0.05 / 40) ** 0.5  # of one session all four miss together, at worst
    assert np.mean(widths) < 0.6


def test_where_there_may_be_nobody_shares_may_be_any():
    """Noise hides that there is anybody in some 95 of 100 sessions; of fewer than 4 in 12 once in 10^9."""
    unknown = 0
    for _ in range(12):
        with dpn.Session(budget=dpn.Budget(1.0)) as session:
            table = session.protect(ROWS.head(3), "people", domain=DOMAIN)
            release = table.value_counts("ward", normalize=True, epsilon=0.01).run()
            ends = release.frame[["lower", "upper"]].to_numpy()
            hidden = any("shares may be any, from 0 to 1" in note for note in release.notes)
            assert np.isfinite(ends).all()
            assert (ends == [0.0, 1.0]).all() or not hidden
            unknown += hidden
    assert unknown >= 4


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda f: f.value_counts("wrad", epsilon=1), "'wrad' is not declared in the domain of 'people'; did you mean"),
        (lambda f: f.value_counts("ward", normalize="yes", epsilon=1), "normalize= is True or False, not 'yes'"),
        (lambda f: f.value_counts("ward", sort=1, epsilon=1), "sort= is True or False, not 1"),
        (lambda f: f.value_counts(["ward", "ward"], epsilon=1), "an attribute comes twice: ward, ward"),
        (lambda f: f.value_counts("ward"), "exactly one of epsilon=, error=, variance="),
        (lambda f: f.value_counts(epsilon=1), "value_counts() cannot be called so"),
    ],
)  # fmt: skip
def test_what_is_refused(people, asked, said):
    with pytest.raises(dpn.DPError) as caught:
        asked(people.dp)
    assert said in str(caught.value)
