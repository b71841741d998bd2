"""Verbs of a table of which nobody said how many rows of a unit count: they are statements, which find that."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DomainError, DPError
from dpnotebook.query.question import Question

SUBJECTS = ["art", "math", "sport"]
RNG = np.random.default_rng(8)
WHO = np.repeat(np.arange(6_000), RNG.integers(4, 30, 6_000))
EXAMS = pd.DataFrame(
    {
        "pupil": WHO,
        "subject": RNG.choice(SUBJECTS, WHO.size, p=[0.2, 0.5, 0.3]),
        "points": np.clip(np.round(RNG.normal(9, 3, WHO.size)), 0, 15).astype(int),
        "on": pd.Timestamp("2024-09-01") + pd.to_timedelta(RNG.integers(0, 300, WHO.size), unit="D"),
        "minutes": RNG.gamma(9, 7, WHO.size),
    }
)
DOMAIN = {
    "subject": SUBJECTS,
    "points": range(16),
    "on": dpn.Dates("2024-09-01", "2025-06-30"),
    "minutes": dpn.Bins(0, 300, width=10),
}


def opened(delta=0.0, **options):
    """Return a session of exams, of which nobody says how many a pupil has."""
    session = dpn.Session(dpn.Budget(30.0, delta=delta), ":memory:", confirm="never")
    session.protect(EXAMS, "exams", unit="pupil", domain=DOMAIN, **options)
    return session


AS_WRITTEN = {
    "count": (lambda table: table.count(epsilon=1.0), "SELECT COUNT(*) AS value FROM exams"),
    "count of some": (
        lambda table: table.count(where="points >= 5 and subject == 'art'", epsilon=1.0),
        "SELECT COUNT(*) AS value FROM exams WHERE subject = 'art' AND points >= 5",
    ),
    "size by subject": (
        lambda table: table.groupby("subject").size(epsilon=1.0),
        "SELECT subject, COUNT(*) AS value FROM exams GROUP BY subject",
    ),
    "value_counts": (
        lambda table: table.value_counts("subject", epsilon=1.0),
        "SELECT subject, COUNT(*) AS value FROM exams GROUP BY subject",
    ),
    "sum": (lambda table: table.sum("points", epsilon=1.0), "SELECT SUM(points) AS value FROM exams"),
    "mean by subject": (
        lambda table: table.groupby("subject").points.mean(epsilon=1.0),
        "SELECT subject, AVG(points) AS value FROM exams GROUP BY subject",
    ),
    "median": (
        lambda table: table.median("minutes", epsilon=1.0),
        "SELECT PERCENTILE_CONT(minutes, 0.5) AS value FROM exams",
    ),
    "quantile": (
        lambda table: table.quantile("points", 0.9, epsilon=1.0),
        "SELECT PERCENTILE_CONT(points, 0.9) AS value FROM exams",
    ),
    "several": (
        lambda table: table.agg({"points": ["mean", "count"]}, epsilon=1.0),
        "SELECT AVG(points) AS points_mean, COUNT(points) AS points_count FROM exams",
    ),
}


@pytest.mark.one_in(20)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("name", AS_WRITTEN)
def test_a_verb_is_the_statement_that_somebody_would_write(name, delta):
    ask, text = AS_WRITTEN[name]
    with closing(opened(delta)) as session:
        query = ask(session.table("exams"))
        written = session.sql(text, epsilon=1.0)
        assert query.question.key == written.question.key
        assert query.plan.cost.epsilon == written.plan.cost.epsilon > 0
        query.run()
        assert written.plan.free


@pytest.mark.one_in(3, first=1)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["laplace", "gaussian"])
def test_answers_are_near_the_exact_ones_of_all_rows(delta, same_noise):
    with closing(opened(delta)) as session:
        table = session.table("exams")
        assert table.count(epsilon=2.0).run().value == pytest.approx(len(EXAMS), rel=0.02)
        shares = table.value_counts("subject", normalize=True, epsilon=2.0).run().frame.set_index("subject")["value"]
        assert shares.to_dict() == pytest.approx(EXAMS["subject"].value_counts(normalize=True).to_dict(), abs=0.02)
        means = table.groupby("subject").mean("points", epsilon=2.0).run().frame["value"]
        assert means.tolist() == pytest.approx(EXAMS.groupby("subject")["points"].mean().tolist(), abs=0.5)
        months = table.groupby({"on": "month"}).count(epsilon=2.0).run().frame
        exact = EXAMS.groupby(EXAMS["on"].dt.to_period("M").dt.to_timestamp()).size()
        assert months["on"].tolist() == exact.index.tolist()
        assert months["value"].tolist() == pytest.approx(exact.tolist(), rel=0.1)


OTHERS = {
    "counts at or below": lambda table: table.cdf("points", epsilon=1.0),
    "several quantiles of dates": lambda table: table.quantile("on", [0.1, 0.9], epsilon=1.0),
    "a median of dates": lambda table: table.median("on", epsilon=1.0),
    "the worst answer": lambda table: table.groupby("subject").count(epsilon=1.0, objective="worst"),
    "values between bounds of one's own": lambda table: table.mean("points", bounds=(0, 10), epsilon=1.0),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OTHERS)
def test_what_only_the_planner_does_needs_to_be_told(name):
    with closing(opened()) as session:
        with pytest.raises(DomainError, match="how many rows of one pupil count in exams has not been said") as caught:
            OTHERS[name](session.table("exams")).plan  # noqa: B018 - the plan is made when it is looked at
        assert "max_rows=1) says so where everyone has one row" in str(caught.value)
        assert session.spent.epsilon == 0


def test_where_it_was_said_verbs_are_the_planners():
    with closing(opened(max_rows=8)) as session:
        assert isinstance(session.table("exams").count(epsilon=1.0).question, Question)


@pytest.mark.parametrize("wrong", [{}, {"epsilon": 1.0, "error": 5}, {"epsilon": -1.0}, {"epsilon": 1.0, "fresh": 3}])
def test_what_cannot_be_asked_is_refused_as_ever(wrong):
    with closing(opened()) as session, closing(opened(max_rows=8)) as told:
        said = []
        for one in (session, told):
            with pytest.raises(DPError) as caught:
                one.table("exams").count(**wrong).plan  # noqa: B018
            said.append((type(caught.value), str(caught.value)))
        assert said[0] == said[1]
