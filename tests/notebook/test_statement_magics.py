"""Statements of any form through `%%dpsql`, `%dp` and Tab: what they take, show, keep and refuse."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from card_texts import budget_text, plan_text, release_text
from IPython.core.completer import provisionalcompleter
from IPython.core.error import UsageError

import dpnotebook as dpn
from dpnotebook.engine.workspace import Workspace
from dpnotebook.errors import AccuracyError, BudgetExceeded, NotProtected, SQLError
from dpnotebook.notebook.controls import Strip
from dpnotebook.notebook.magics import completion, options
from dpnotebook.session.query import Query
from dpnotebook.session.release import Release
from dpnotebook.sql.statement import Statement

BY_DRUG = "SELECT drug, COUNT(*, contribution_bounds_per_group => (0, 4)) AS n FROM visits GROUP BY drug"
JOINED = (
    "SELECT drug, COUNT(DISTINCT id) AS people, SUM(cost, contribution_bounds_per_group => (0, 300)) AS total\n"
    "FROM visits JOIN patients USING (id) WHERE age >= :oldest GROUP BY drug"
)
BIGQUERY = """
-- as it was written for BigQuery
SELECT WITH DIFFERENTIAL_PRIVACY
  OPTIONS(epsilon = 0.5, delta = 1e-9, max_groups_contributed = 2, privacy_unit_column = id)
  drug, AVG(cost, contribution_bounds_per_group => (0, 100)) AS mean
FROM visits GROUP BY drug;
"""


@pytest.fixture
def session(ip):
    """Return a session over patients, their visits and a public list of drugs; it asks above 0.2."""
    rng = np.random.default_rng(5)
    people = 4000
    patients = pd.DataFrame({"id": np.arange(people), "age": rng.integers(0, 90, people)})
    visits = pd.DataFrame(
        {
            "id": np.repeat(np.arange(people), 4),
            "drug": rng.choice(["aspirin", "statin", None], 4 * people, p=[0.6, 0.3, 0.1]),
            "cost": rng.uniform(0, 100, 4 * people).round(2),
        }
    )
    visits.loc[17, "drug"] = "unheard of"
    made = dpn.Session(dpn.Budget(epsilon=4.0, delta=1e-6))
    made.protect(patients, "patients", unit="id", max_rows=1, domain={"age": dpn.Range(0, 99)})
    made.protect(visits, "visits", unit="id", max_rows=4)
    made.register(pd.DataFrame({"drug": ["aspirin", "statin"], "kind": ["pain", "lipids"]}), "drugs", public=True)
    ip.user_ns["session"] = made
    yield made
    made.close()


@pytest.fixture
def cell(ip, session):
    """Return a function that runs a cell magic in the session."""
    return lambda line, body=BY_DRUG: ip.run_cell_magic("dpsql", line, body)


@pytest.fixture
def no_data(session, monkeypatch):
    """Fail the test if any statement runs in an engine."""

    def touched(*arguments):
        raise AssertionError("planning read the data")

    monkeypatch.setattr(Workspace, "run", touched)


def completions(ip, text, at=None):
    with provisionalcompleter():
        return [(c.text, c.type) for c in ip.Completer.completions(text, len(text) if at is None else at)]


# --- asking


def test_a_join_with_groups_that_nobody_declared(cell, ip, session):
    ip.user_ns["oldest"] = 20
    release = cell("-ye 0.8", JOINED)
    assert isinstance(release, Release)
    assert list(release.frame["drug"].fillna("-")) in (["-", "aspirin", "statin"], ["aspirin", "statin", "-"])
    assert list(release.frame.columns[:2]) == ["drug", "people"]
    assert {"total", "total_std_error", "total_lower", "total_upper"} <= set(release.frame.columns)
    assert release.delta == pytest.approx(9e-7 + session.spent.threshold_delta, rel=1e-12)
    assert session.spent.threshold_delta > 0
    assert "unheard" not in release_text(release)


def test_the_text_of_bigquery_needs_no_epsilon_and_takes_no_other(cell, ip, session):
    release = cell("-y", BIGQUERY)
    assert release.epsilon == pytest.approx(0.5, rel=1e-6)
    assert session.spent.threshold_delta == pytest.approx(1e-9, rel=1e-9)
    ip.run_line_magic("config", "DPMagics.epsilon = 0.03")
    assert cell("-n", BIGQUERY).plan.epsilon == pytest.approx(0.5, rel=1e-6)  # the text is nearer than the default
    for line in ("-n -e 0.1", "-n --error 3"):
        with pytest.raises(AccuracyError, match=r"epsilon = 0\.5 in its OPTIONS"):
            cell(line, BIGQUERY)


def test_who_says_no_epsilon_is_asked_for_one(cell):
    with pytest.raises(UsageError, match="say what it may cost"):
        cell("")
    with pytest.raises(UsageError, match="say what it may cost"):
        cell("", BIGQUERY.replace("epsilon = 0.5, ", ""))


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*) FROM t", True),
        ("select with differential_privacy options ( delta = 1e-9,\n Epsilon = 1 ) count(*) from t", True),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(delta=1e-9) COUNT(*, epsilon => 1) FROM t", False),
        ("SELECT epsilon, COUNT(*) FROM options GROUP BY epsilon", False),
        (BIGQUERY, True),
        (BY_DRUG, False),
    ],
)
def test_whether_a_text_says_its_epsilon(sql, says):
    assert options.says_epsilon(sql) is says


def test_error_is_of_every_answer(cell):
    query = cell("--error 200 -n")
    assert query.plan.parts[0].half_width <= 200
    with pytest.raises(AccuracyError, match="at once"):
        cell("--error 200 -n", JOINED.replace("WHERE age >= :oldest", ""))
    assert cell("--error 5% -n").plan.rest.asked == "error='5%'"


def test_the_l2_clip_is_an_option(cell, ip):
    two = cell("-n -e 1")
    one = cell("-n -e 1 --contribution l2", BY_DRUG.replace("(0, 4)", "(0, 3)"))
    assert [query.question.selects[0].contribution.kind for query in (two, one)] == ["groups", "l2"]
    with pytest.raises(UsageError, match="invalid choice: 'l1'"):
        cell("-n -e 1 --contribution l1")


def test_a_cte_in_the_line_form_and_post_processing(ip, session):
    text = f"WITH d AS ({BY_DRUG}) SELECT drug, n / 1000 AS thousands FROM d WHERE drug IS NOT NULL ORDER BY n DESC"
    release = ip.run_line_magic("dpsql", f"-ye 1 {text}")
    interval = ["thousands_std_error", "thousands_lower", "thousands_upper"]
    assert list(release.frame.columns) == ["drug", "thousands", *interval]
    assert list(release.frame["drug"]) == ["aspirin", "statin"]
    spent = session.spent
    assert ip.run_line_magic("dpsql", f"-qe 1 {BY_DRUG}").paid == 0  # the same measurement
    assert session.spent == spent


def test_declared_columns_go_to_the_planner(cell, ip, session):
    query = cell("-n -e 0.1", "SELECT COUNT(*) AS n FROM patients WHERE age >= 30")
    assert not isinstance(query.question, Statement)
    assert isinstance(cell("-n -e 0.1").question, Statement)


def test_dry_run_spends_nothing_and_reads_nothing(cell, session, no_data, capsys):
    query = cell("-n -e 0.4")
    assert isinstance(query, Query)
    text = plan_text(query.plan)
    assert "nothing is spent by looking" in text
    assert "stay hidden" in text
    assert "clamped" in text
    assert (session.spent.epsilon, session.history().empty) == (0, True)


def test_the_question_before_spending_names_every_error(cell, ip, monkeypatch, session):
    prompts = []

    def read(prompt=""):
        prompts.append(prompt)
        return "y"

    monkeypatch.setattr("builtins.input", read)
    ip.user_ns["oldest"] = 20
    release = cell("-e 0.8", JOINED)
    (prompt,) = prompts
    assert re.match(r"Spend 5\.3% of the budget \(ε 0\.8\) for people ±[\d.,]+ units, total ±[\d.,]+ ", prompt)
    assert session.history()["number"].tolist() == [release.number]


def test_another_epsilon_is_shown_before_it_is_spent(cell, monkeypatch, session):
    replies = iter(["0.5", "y"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(replies))
    assert cell("-e 1").epsilon == pytest.approx(0.5, rel=1e-6)


def test_over_the_budget_says_what_would_fit(cell, session):
    with pytest.raises(BudgetExceeded, match=r"nothing was spent\. With epsilon="):
        cell("-ye 40")
    assert session.history().empty


def test_errors_point_at_the_token(cell):
    with pytest.raises(NotProtected, match=r"there are patients, visits, drugs[^^]*\n +\^{7}$"):
        cell("-n -e 1", "SELECT drug, COUNT(*) FROM nowhere GROUP BY drug")
    with pytest.raises(SQLError, match=":oldest has no value"):
        cell("-n -e 1", JOINED)


# --- controls


def test_the_slider_shows_every_error_and_run_releases_once(session):
    strip = Strip(session.sql(BY_DRUG.replace(" AS n", " AS n, AVG(cost) AS mean"), epsilon=1))
    assert re.search(r"n ±[\d,]+ rows, mean not known yet", strip.readout.value)
    before = strip.readout.value
    strip.slider.value = next(value for _, value in strip.slider.options if value > 2)
    assert strip.readout.value != before
    assert "nan" not in strip.readout.value.lower()
    strip.slider.value = strip._own
    strip.run_button.click()
    assert strip.state == "done"
    assert strip.release.epsilon == pytest.approx(1, rel=1e-6)
    assert len(session.history()) == 1


def test_an_error_without_a_number_has_no_picture(session):
    strip = Strip(session.sql("SELECT drug, AVG(cost) AS mean FROM visits GROUP BY drug", epsilon=1))
    assert "mean not known yet" in strip.readout.value
    assert "<img" not in strip.readout.value


def test_a_run_elsewhere_answers_the_controls(session):
    query = session.sql(BY_DRUG, epsilon=1)
    strip = Strip(query)
    strip.follow()
    query.run()
    assert strip.state == "done"


# --- looking after the budget


def test_history_and_budget_say_what_thresholds_took(cell, ip, session):
    cell("-y", BIGQUERY)
    row = ip.run_line_magic("dp", "history").iloc[0]
    assert row["delta"] == pytest.approx(1e-9)
    assert "hiding small groups took δ 1e-9, 9.9e-8 is left for that" in budget_text(session)
    assert "drug" in row["question"]


def test_releases_of_statements_are_exported_and_shown_again(cell, ip, session, tmp_path):
    release = cell("-y", BIGQUERY)
    pd.testing.assert_frame_equal(session.release(release.number).frame, release.frame)
    path = tmp_path / "out.json"
    ip.run_line_magic("dp", f"export {path}")
    (found,) = json.loads(path.read_text(encoding="utf-8"))
    assert found["delta"] == release.delta
    assert len(found["answers"]) == len(release.frame)


def test_columns_that_are_not_declared_are_listed_for_sql(ip, session, no_data):
    patients = ip.run_line_magic("dp", "columns patients").set_index("column")
    assert patients.loc["age", "levels"] == 100
    assert patients.loc["id", "declared"] == "no (number; SQL only)"
    assert list(ip.run_line_magic("dp", "columns visits")["column"]) == ["id", "drug", "cost"]
    assert ip.run_line_magic("dp", "columns drugs")["holds"].tolist() == ["text", "text"]


def test_the_dashboard_of_a_session_with_statements(cell, session):
    cell("-y", BIGQUERY)
    html = session.dashboard()._repr_mimebundle_()["text/html"]
    assert "AVG" in html
    assert "hiding small groups took" in html


# --- Tab


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("text", "has", "lacks"),
    [
        ("%%dpsql\nSELECT dr", "drug", "id"),
        ("%%dpsql\nSELECT COUNT(*) FROM dr", "drugs", "visits"),
        ("%%dpsql\nSELECT COUNT(*) FROM visits JOIN drugs USING (drug) WHERE ki", "kind", "id"),
        ("%%dpsql\nSELECT COUNT(*) FROM visits GROUP BY drug HA", "HAVING", "SELECT"),
        ("%%dpsql\nSELECT with", "WITH DIFFERENTIAL_PRIVACY", "SELECT"),
        ("%%dpsql\nSELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max", "max_groups_contributed = ", "epsilon = "),
        ("%%dpsql --con", "--contribution", "--fresh"),
        ("%dp columns d", "drugs", "visits"),
    ],
)
def test_completion(ip, session, no_data, text, has, lacks):
    found = [text for text, _ in completions(ip, text)]
    assert has in found
    assert lacks not in found


def test_tab_after_epsilon_lists_the_errors_of_every_aggregate(ip, session, no_data):
    ip.user_ns["oldest"] = 20
    line = "%%dpsql -e "
    found = dict(completions(ip, f"{line}\n{JOINED}", len(line)))
    assert re.fullmatch(r"8%, people ±[\d.,]+ units, total ±.*", found["1"].replace("\u00a0", " "))


def test_tab_knows_a_text_that_says_its_epsilon(session):
    query = completion._query("", BIGQUERY, {})
    assert query is not None
    assert query.accuracy.epsilon == 0.5
