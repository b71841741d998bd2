"""Units and labels of attributes: they reach what people read, and are no part of what a domain is."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.domain import attribute_from_json
from dpnotebook.domain.extension import changes, extension
from dpnotebook.domain.schema import without_words
from dpnotebook.errors import DomainError
from dpnotebook.testing import exact_session

SAID = {"unit": "dollars", "label": "Yearly income"}
BARE = {
    "pay": dpn.Bins(0, 200, width=20, nullable=True),
    "age": dpn.Range(0, 99, outside="other"),
    "city": dpn.Categories(["a", "b"], other="else"),
    "insured": dpn.Boolean(),
    "seen": dpn.Dates("2023", "2023", by="month", timezone="Europe/Paris"),
}
CALLED = {
    "pay": dpn.Bins(0, 200, width=20, nullable=True, **SAID),
    "age": dpn.Range(0, 99, outside="other", unit="years", label="Age"),
    "city": dpn.Categories(["a", "b"], other="else", label="City"),
    "insured": dpn.Boolean(label="Has insurance"),
    "seen": dpn.Dates("2023", "2023", by="month", timezone="Europe/Paris", label="Month of the visit"),
}


def people(size=4_000, seed=1):
    """Return a table of incomes, ages and cities."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"pay": rng.gamma(4, 20, size), "age": rng.integers(0, 99, size), "city": rng.choice(["a", "b"], size)}
    )


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.mark.parametrize("name", BARE)
def test_what_a_column_is_called_is_no_part_of_what_it_is(name):
    bare, called = BARE[name], CALLED[name]
    assert bare == called
    assert hash(bare) == hash(called)
    assert bare.to_json() == {key: value for key, value in called.to_json().items() if key not in ("unit", "label")}
    assert not {"unit", "label"} & set(bare.to_json())  # what was recorded before there were labels
    assert "label=" not in repr(bare)
    again = attribute_from_json(json.loads(json.dumps(called.to_json())))
    for copy in (
        again,
        pickle.loads(pickle.dumps(called)),
        eval(f"dpn.{called!r}"),
        bare.named(called.unit, called.label),
    ):
        assert (copy, copy.unit, copy.label) == (called, called.unit, called.label)
    assert attribute_from_json(bare.to_json()).label is None
    assert called.named() == bare
    assert called.named().label is None


def test_dates_keep_their_label_in_a_zone_and_by_longer_spans():
    days = dpn.Dates("2023", "2023", label="Admitted")
    assert days.in_zone("UTC").label == days.by_span("month").label == "Admitted"


def test_a_domain_is_the_same_whatever_its_columns_are_called():
    bare, called = dpn.Domain(BARE), dpn.Domain(CALLED)
    assert bare == called
    assert without_words(called.to_json()) == bare.to_json()
    assert dpn.Domain.from_json(called.to_json()).label_of("seen") == "Month of the visit"
    assert not extension(bare, called).changed
    assert changes(bare, called) == ""
    assert (called.unit_of("pay"), bare.unit_of("pay"), called.unit_of("city")) == ("dollars", "pay", "City")


def test_labels_come_and_go_and_nothing_is_paid_twice(tmp_path):
    frame, ledger, budget = people(), tmp_path / "people.ledger", dpn.Budget(4.0)
    columns = ("pay", "age", "city")
    bare, called = ({name: domain[name] for name in columns} for domain in (BARE, CALLED))
    with dpn.Session(budget, ledger) as session:
        session.protect(frame, "people", domain=bare)
        first = frame.dp.groupby("city").mean("age", epsilon=1.0).run()
        told = session.ledger.tables()["people"]
        assert "unit" not in json.dumps(told["domain"])
    for domain in (called, bare, called):
        with dpn.Session(budget, ledger) as session:
            session.protect(frame, "people", domain=domain)
            query = frame.dp.groupby("city").mean("age", epsilon=1.0)
            assert query.plan.free
            again = query.run()
            pd.testing.assert_frame_equal(again.frame, first.frame)
            assert again.unit == ("years" if domain is called else "age")
            assert session.spent.epsilon == 1.0
            assert session.audit().ok
            assert session.ledger.tables()["people"] == told
            counted = session.sql("SELECT city, COUNT(*) FROM people GROUP BY city", epsilon=0.5)
            assert counted.plan.cost.epsilon <= 0.5


def test_what_was_declared_is_in_the_ledger_and_grows_with_the_table(tmp_path):
    frame, ledger = people(), tmp_path / "people.ledger"
    with dpn.Session(dpn.Budget(4.0), ledger) as session:
        session.protect(frame, "people", domain={"pay": CALLED["pay"]})
        frame.dp.count(epsilon=1.0).run()
        session.extend("people", people(seed=2))
        assert session.audit().ok
        said = session.ledger.tables()["people"]["domain"]["attributes"][0]
        assert (said["unit"], said["label"]) == ("dollars", "Yearly income")
    with dpn.Session(dpn.Budget(4.0), ledger) as session:  # other words for the same
        session.protect(frame, "people", domain={"pay": CALLED["pay"].named("euros")})
        assert session.audit().ok


def test_plans_answers_and_warnings_speak_of_dollars():
    frame = people()
    with exact_session(dpn.Budget(10.0)) as session:
        session.protect(frame, "people", domain={name: CALLED[name] for name in ("pay", "age", "city")}, rows=4_000)
        query = frame.dp.groupby("city").mean("pay", epsilon=0.5)
        assert (query.plan.unit, query.plan.title) == ("dollars", "MEAN of Yearly income by City")
        assert "Yearly income outside 0 to 200 dollars counts as the nearest bound" in query.plan.warnings[0]
        release = query.run()
        assert (release.unit, release.title) == ("dollars", query.plan.title)
        assert [release.unit_of(measure) for measure in release.measures] == ["dollars"]
        assert [release.words_of(measure) for measure in release.measures] == ["MEAN of Yearly income"]
        assert list(release.frame)[:2] == ["city", "value"]  # keys stay what the frame calls them
        both = frame.dp.agg({"pay": "mean", "age": "90%"}, epsilon=0.5)
        assert [(part.words, part.unit) for part in both.plan.parts] == [
            ("MEAN of Yearly income", "dollars"), ("0.9 quantile of Age", "rows of rank"),
        ]  # fmt: skip
        measures = both.run().measures
        assert [both.run().unit_of(measure) for measure in measures] == ["dollars", "years"]
        statement = "SELECT STDDEV(pay) AS s, VAR_SAMP(pay) AS v, COVAR_SAMP(pay, age) AS c, COUNT(*) AS n FROM people"
        asked = session.sql(statement, epsilon=0.5)
        assert [part.unit for part in asked.plan.parts] == ["dollars", "dollars squared", "dollars times years", "rows"]
        found = asked.run()
        assert [found.unit_of(measure) for measure in found.measures] == [part.unit for part in asked.plan.parts]
        again = session.release(found.number)
        assert [again.unit_of(measure) for measure in again.measures] == [part.unit for part in asked.plan.parts]
        assert frame.dp.mean("pay", error=0.5).plan.error <= 0.5
        less = frame.dp.mean("pay", where="city == 'a'", epsilon=0.1).run() - frame.dp.mean("pay", epsilon=0.1).run()
        assert less.unit_of(less.measures[0]) == "dollars"


def test_an_error_holds_for_columns_of_one_unit():
    frame = people().assign(rent=1.0)
    with exact_session(dpn.Budget(10.0)) as session:
        rent = dpn.Bins(0, 200, width=20, unit="dollars")
        session.protect(frame, "people", domain={"pay": CALLED["pay"], "rent": rent, "age": CALLED["age"]}, rows=4_000)
        plan = frame.dp.agg({"pay": "mean", "rent": "mean"}, error=2.0).plan
        assert max(part.half_width for part in plan.parts) <= 2.0
        with pytest.raises(dpn.AccuracyError, match="cannot hold for dollars and years at once"):
            _ = frame.dp.agg({"pay": "mean", "age": "mean"}, error=2.0).plan


def test_labels_are_escaped_where_they_are_shown():
    frame = people()
    label = "<script>alert('pay')</script> & 😀"
    with exact_session(dpn.Budget(10.0)) as session:
        session.protect(frame, "people", domain={"pay": BARE["pay"].named("<b>$</b>", label), "city": ["a", "b"]})
        query = frame.dp.groupby("city").mean("pay", epsilon=0.5)
        for shown in (query.plan, query.run()):
            html = shown._repr_mimebundle_()["text/html"]
            assert "<script>" not in html
            assert "<b>$</b>" not in html
            assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"unit": 3}, "unit= is a text, such as unit='dollars'"),
        ({"label": ""}, "label= is one line of at most 80 characters"),
        ({"label": "two\nlines"}, "label= is one line"),
        ({"unit": "x" * 81}, "unit= is one line"),
        ({"label": "half \ud800"}, "half a character"),
        ({"unit": pd.Series([31337.0])}, "unit= is a text"),
        ({"label": pd.DataFrame({"a": [31337.0]})}, "label= is a text"),
    ],
)
def test_what_is_no_unit_or_label_is_refused_and_never_printed(given, words):
    for made in (
        lambda: dpn.Range(0, 9, **given),
        lambda: dpn.Bins(0, 9, count=3, **given),
        lambda: dpn.Categories(["a"], **given),
        lambda: dpn.Boolean().named(**given),
        lambda: dpn.Dates("2023", "2023").named(**given),
    ):
        with pytest.raises(DomainError, match=words) as found:
            made()
        assert "31337" not in str(found.value)
