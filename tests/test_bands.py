"""Groups by bands of numbers: ages by ten years, or from 18 and from 65 on."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.domain.bands import band_text, bands_between, given_bands
from dpnotebook.errors import DomainError
from dpnotebook.testing import exact_session

EDGES = [0, 18, 65]


def people(size=2_000):
    random = np.random.default_rng(2)
    age = random.integers(-2, 119, size).astype(float)
    age[random.random(size) < 0.05] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "sex": random.choice(["F", "M"], size),
            "income": random.uniform(0, 100_000, size),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 366, size), unit="D"),
        }
    )


FRAME = people()
DOMAIN = {
    "age": dpn.Range(0, 115),
    "sex": ["F", "M"],
    "income": dpn.Bins(0, 100_000, width=5_000),
    "seen": dpn.Dates("2024-01-01", "2024-12-31"),
}


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    made = exact_session(dpn.Budget(900.0, 1e-6))
    made.protect(FRAME, "people", domain=DOMAIN, nullable=["age"])
    yield made
    made.close()


def banded(begins, high=115):
    """Return the bands of pandas: ages are clamped to what is declared first."""
    cuts = pd.cut(FRAME.age.clip(0, high), [*begins, high + 1], right=False)
    return FRAME.groupby(cuts, observed=False)


@pytest.mark.parametrize(
    ("by", "begins", "labels"),
    [
        (EDGES, EDGES, ["[0, 18)", "[18, 65)", "[65, 115]"]),
        ([18, 65], EDGES, ["[0, 18)", "[18, 65)", "[65, 115]"]),
        ([-5, 18, 65, 200], EDGES, ["[0, 18)", "[18, 65)", "[65, 115]"]),
        (50, [0, 50, 100], ["[0, 50)", "[50, 100)", "[100, 115]"]),
        (np.int64(50), [0, 50, 100], ["[0, 50)", "[50, 100)", "[100, 115]"]),
        (np.array([0, 40]), [0, 40], ["[0, 40)", "[40, 115]"]),
        (range(0, 120, 60), [0, 60], ["[0, 60)", "[60, 115]"]),
        (1_000, [0], ["[0, 115]"]),
    ],
)
def test_counts_are_those_of_pandas(session, by, begins, labels):
    found = session.table("people").groupby({"age": by}).count(epsilon=5).run().frame
    assert found["age"].tolist() == [*labels, None]
    assert found["value"].tolist() == pytest.approx([*banded(begins).size(), FRAME.age.isna().sum()])


def test_sums_means_and_other_keys(session):
    verbs = session.table("people").groupby({"age": EDGES, "sex": None})
    both = FRAME.groupby([pd.cut(FRAME.age.clip(0, 115), [*EDGES, 116], right=False), "sex"], observed=False)
    counts = verbs.count(epsilon=20).run().frame.dropna()
    assert counts["value"].tolist() == pytest.approx(both.size().tolist())
    means = verbs.mean("income", epsilon=20).run().frame.dropna()
    assert means["value"].tolist() == pytest.approx(both.income.mean().tolist(), abs=3_000)  # of bins of 5,000
    month = session.table("people").groupby({"age": 60, "seen": "quarter"}).count(epsilon=20).run().frame
    assert len(month) == 3 * 4
    assert month["value"].sum() == pytest.approx(len(FRAME))


def test_what_sql_has_a_function_for_is_grouped_so_too(session):
    found = session.table("people").groupby({"age": EDGES}).std("income", epsilon=50).run().frame
    assert found["age"].tolist()[:3] == ["[0, 18)", "[18, 65)", "[65, 115]"]
    assert found["value"].tolist()[:3] == pytest.approx(banded(EDGES).income.std().tolist(), rel=0.05)


def test_bins_are_put_together(session):
    found = session.table("people").groupby({"income": [0, 20_000, 60_000]}).count(epsilon=5).run().frame
    assert found["income"].tolist() == ["[0, 20000)", "[20000, 60000)", "[60000, 100000]"]
    exact = pd.cut(FRAME.income, [0, 20_000, 60_000, 100_001], right=False).value_counts(sort=False)
    assert found["value"].tolist() == pytest.approx(exact.tolist())


def test_they_are_free_after_the_levels(session):
    session.table("people").histogram("age", error=20).run()
    free = session.table("people").groupby({"age": 10}).count(error=70)
    assert free.plan.free
    again = session.table("people").groupby({"age": EDGES}).count(error=200)
    assert again.plan.free


@pytest.mark.parametrize("by", [10, EDGES, 2.5, [0.5, 20.25]])
def test_their_code_asks_the_same(session, by):
    query = session.table("people").groupby({"age": by, "sex": None}).count(where="income < 50_000", epsilon=0.5)
    code = next(line for line in str(query.plan).splitlines() if "afresh" in line) if query.plan.free else None
    assert code is None
    query.run()
    written = session.code(1)
    assert repr(given_bands(band_text(by))) in written
    asked = eval(written, {"people": FRAME, "session": session})
    assert asked.question.key == query.question.key
    assert asked.plan.free


def test_they_are_drawn_in_their_places(session):
    release = session.table("people").groupby({"age": 20}).count(epsilon=1).run()
    places = {float(place) for place in release.plot().data[0].x if isinstance(place, int | float)}
    assert sorted(places) == [10, 30, 50, 70, 90, 107.5]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"age": "month"}, "age is grouped by bands, such as 10 or [0, 18, 65], and not by 'month'"),
        ({"age": 0}, "bands are wider than 0"),
        ({"age": -3}, "bands are wider than 0"),
        ({"age": [65, 18]}, "bands begin at numbers that increase"),
        ({"age": [18, 18]}, "bands begin at numbers that increase"),
        ({"age": []}, "bands are a width, such as 10"),
        ({"age": True}, "bands are a width, such as 10"),
        ({"age": ["0", "18"]}, "bands are a width, such as 10"),
        ({"age": float("nan")}, "bands are a width, such as 10"),
        ({"income": [0, 12_000]}, "a band of income begins at 12000, inside [10,000, 15,000)"),
        ({"income": 7_500}, "bands are of whole bins"),
        ({"income": 1e-3}, "there would be 100,000,001 bands"),
        ({"sex": 10}, "Range or Bins by bands, such as 10 or [0, 18, 65]"),
        ({"seen": 10}, "'seen' holds dates, which are grouped by 'day'"),
    ],
)
def test_what_is_refused(session, keys, said):
    with pytest.raises(DomainError) as caught:
        session.table("people").groupby(keys).count(epsilon=1)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("by", [10, 2.5, [0, 18, 65], [-1.5, 0.25]])
def test_a_text_says_what_was_given(by):
    assert given_bands(band_text(by)) == by
    assert given_bands("month") == "month"
    assert given_bands(None) is None


def test_tenths_are_exact():
    """0.1 + 0.2 is no edge of a band, and 0.3 is."""
    labels, begins = bands_between(band_text(0.1), 0.0, 1.0)
    assert begins.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert labels[2] == "[0.2, 0.3)"
