"""A policy file: what it says, what contradicts it, and that no route to an answer passes it by."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.session.policy import read_policy
from dpnotebook.testing import example_patients

GOOD = """\
# of the clinic
ledger = "clinic.ledger"

[budget]
epsilon = 2.0
delta = 1e-6

[limits]
question = 0.25
all = 1.0

[groups]
minimum = 40
"""
PURE = "[budget]\nepsilon = 2.0\n[limits]\nquestion = 0.25\n"
DOMAIN = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "income": dpn.Bins(0, 100_000, width=10_000)}


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text, name="clinic.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.fixture
def opened(written):
    """Return a function that opens a session under a policy, with a protected table; all are closed after the test."""
    sessions = []

    def open_it(text=PURE, **options):
        session = dpn.Session.from_policy(written(text), **options)
        sessions.append(session)
        session.protect(example_patients(), "patients", domain=DOMAIN)
        return session

    yield open_it
    for session in sessions:
        session.close()


def test_what_it_says(written):
    policy = read_policy(written(GOOD))
    assert policy.budget == dpn.Budget(epsilon=2.0, delta=1e-6)
    assert (policy.question, policy.together, policy.minimum, policy.ledger) == (0.25, 1.0, 40, "clinic.ledger")
    assert policy.place("limits.all") == "limits.all, line 10 of clinic.toml"


def test_how_it_is_laid_out_does_not_change_its_digest(written):
    other = "[groups]\nminimum = 40\n[limits]\nall = 1\nquestion = 0.25\n[budget]\nepsilon = 2\ndelta = 0.000001\n"
    assert read_policy(written(GOOD)).digest == read_policy(written(other, "other.toml")).digest
    assert read_policy(written(GOOD)).digest != read_policy(written(GOOD.replace("40", "41"), "other.toml")).digest


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[limits]\nquestion = 1.0", None, "no budget"),
        ("[budget]\ndelta = 1e-6", 1, "budget has no epsilon"),
        ("[budget]\nepsilon = 1.0\n[limits]\nquestion = 2.0", 4, "limits.question allows ε = 2, more than the budget"),
        ("[budget]\nepsilon = 1.0\n[limits]\n\nall = 1.5", 5, "limits.all allows ε = 1.5"),
        ("[budget]\nepsilon = 1.0\n[limits]\nall = 0.1\nquestion = 0.2", 5, "more than limits.all does"),
        ("[budget]\nepsilon = true", 2, "budget.epsilon is a number above 0, not True"),
        ("[budget]\nepsilon = '1'", 2, "budget.epsilon is a number above 0, not '1'"),
        ("[budget]\nepsilon = nan", 2, "budget.epsilon is a number"),
        ("[budget]\nepsilon = -1", 2, "budget.epsilon is a number"),
        ("[budget]\nepsilon = 1\ndelta = 1.5", 3, "budget.delta is a probability below 1"),
        ("[budget]\nepsilon = 1\nnoise = 'gaussian'", 3, "budget.noise is gaussian, which needs a delta"),
        ("[budget]\nepsilon = 1\nnoise = 'laplace'\ndelta = 1e-6", 4, "Laplace noise needs none"),
        ("[budget]\nepsilon = 1\nnoise = 'normal'", 3, 'budget.noise is "laplace" or "gaussian"'),
        ("[budget]\nepsilon = 1\nthreshold_delta = 1e-7", 3, "is a part of delta, and there is none"),
        ("[budget]\nepsilon = 1\ndelta = 1e-6\nthreshold_delta = 1e-5", 4, "budget.threshold_delta cannot be"),
        ("[budget]\nepsilon = 1\n[limits]\nqestion = 1", 4, "did you mean limits.question?"),
        ("[budget]\nepsilon = 1\n[users]\nanna = 1", 3, "users is no key of a policy"),
        ("budget = 3", 1, "budget is a table"),
        ("[budget]\nepsilon = 1\n[groups]\nminimum = 2.5", 4, "groups.minimum is a whole number from 1"),
        ("ledger = 3\n[budget]\nepsilon = 1", 1, "ledger is the path of a file"),
        ("budget.epsilon = 1\nlimits.question = 3", 2, "limits.question allows"),
        ("[budget]\nepsilon = 1\nepsilon = 2", None, "not written in TOML"),
        ("[budget\nepsilon = 1", None, "line 1"),
    ],
)
def test_what_contradicts_itself_is_told_by_its_key_and_its_line(written, text, line, said):
    with pytest.raises(dpn.PolicyError) as raised:
        dpn.Session.from_policy(written(text))
    assert said in str(raised.value)
    assert str(raised.value).startswith(f"clinic.toml, line {line}: " if line else "clinic.toml ")


def test_what_is_no_file(tmp_path):
    for wrong in (tmp_path, tmp_path / "none.toml", 3, None):
        with pytest.raises(dpn.PolicyError):
            dpn.Session.from_policy(wrong)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(dpn.PolicyError, match="UTF-8"):
        dpn.Session.from_policy(tmp_path / "binary.toml")
    (tmp_path / "large.toml").write_text("#" * 200_000)
    with pytest.raises(dpn.PolicyError, match="too large"):
        dpn.Session.from_policy(tmp_path / "large.toml")


def test_a_ledger_of_another_budget(written):
    dpn.Session(dpn.Budget(epsilon=1.0), "clinic.ledger").close()
    with pytest.raises(
        dpn.LedgerMismatch, match=r"budget.epsilon, line 2 of clinic.toml: .* made for a budget of ε = 1"
    ):
        dpn.Session.from_policy(written(PURE), "clinic.ledger")


def test_a_ledger_is_opened_with_its_policy_alone(written):
    dpn.Session.from_policy(written(PURE), "clinic.ledger").close()
    dpn.Session.from_policy("clinic.toml", "clinic.ledger").close()
    with pytest.raises(dpn.LedgerMismatch, match="is under a policy"):
        dpn.Session(dpn.Budget(epsilon=2.0), "clinic.ledger")
    written(PURE.replace("0.25", "0.5"))
    with pytest.raises(dpn.LedgerMismatch, match=r"limits.question, line 4 of .*: it says 0.5, .* says 0.25"):
        dpn.Session.from_policy("clinic.toml", "clinic.ledger")
    with dpn.Session.from_policy("clinic.toml", "clinic.ledger", reason="the board agreed") as session:
        assert [one.reason for one in session.ledger.policies()] == ["", "the board agreed"]
        assert session.audit().ok


def test_a_raised_budget_is_to_be_written_into_the_file(written):
    with dpn.Session.from_policy(written(PURE), "clinic.ledger") as session:
        session.raise_budget(dpn.Budget(epsilon=3.0), reason="a follow-up")
    with pytest.raises(dpn.LedgerMismatch, match=r"budget.epsilon, line 2 .*raised"):
        dpn.Session.from_policy("clinic.toml", "clinic.ledger")
    written(PURE.replace("2.0", "3.0"))
    with dpn.Session.from_policy("clinic.toml", "clinic.ledger", reason="a follow-up") as session:
        assert session.budget.epsilon == 3.0


def test_two_ledgers_are_named(written):
    with pytest.raises(dpn.PolicyError, match="ledger, line 2"):
        dpn.Session.from_policy(written(GOOD), "other.ledger")
    with dpn.Session.from_policy(written(GOOD), "clinic.ledger") as session:
        assert session.ledger.path.endswith("clinic.ledger")


def routes(session):
    """Return every way to spend more than a limit of 0.25 on one question."""
    table = session.table("patients")
    above = {"epsilon": 0.6}
    return {
        "count": lambda: table.count(**above).run(),
        "an error": lambda: table.count(error=4).run(),
        "a variance": lambda: table.count(variance=3.0).run(),
        "agg": lambda: table.groupby("sex").agg({"age": ["count", "mean", "median"]}, **above).run(),
        "a workload": lambda: table.answer(dpn.marginals(1), "income", **above).run(),
        "a strategy of one's own": lambda: table.answer(
            dpn.ranges("age"), strategy=dpn.strategy.wavelet, **above
        ).run(),
        "fresh": lambda: table.count(fresh=True, **above).run(),
        "SQL": lambda: session.sql("SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex", **above).run(),
        "SQL beside the planner": lambda: session.sql(
            "SELECT COUNT(*) AS n, STDDEV(age) AS s FROM patients", **above
        ).run(),
        "an offer": lambda: session.prefetch(dpn.ranges("age"), errors=[100]).buy(epsilon=0.6),
        "a session's own run": lambda: session.run(table.count(**above)),
        "running counts": lambda: session.running_count("patients", horizon=12, **above).run(),
    }


ROUTES = (
    *("count", "an error", "a variance", "agg", "a workload", "a strategy of one's own", "fresh", "SQL"),
    *("SQL beside the planner", "an offer", "a session's own run", "running counts"),
)


@pytest.mark.parametrize("name", ROUTES)
def test_no_route_passes_the_limit_of_a_question(opened, name):
    session = opened()
    with pytest.raises(
        dpn.PolicyError, match=r"one may take ε = 0.25 at most \(limits.question, line 4 of clinic.toml\)"
    ):
        routes(session)[name]()
    assert session.spent.epsilon == 0.0
    assert len(session.history()) == 0


def test_a_profile_is_paid_for_within_the_limit(opened):
    session = opened(PURE.replace("2.0", "2.0\ndelta = 1e-6"))
    stays = pd.DataFrame({"patient": [i // 4 for i in range(4000)], "ward": [i % 2 for i in range(4000)]})
    session.protect(stays, "stays", unit="patient", max_rows=10)
    asked = "SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward"
    with pytest.raises(dpn.PolicyError, match=r"limits\.question"):
        session.sql(asked, epsilon=0.6).run()
    assert len(session.profile()) == 0
    session.sql(asked, epsilon=0.25).run()
    assert len(session.profile()) == 1
    assert session.spent.epsilon <= 0.25


def test_magics_refuse_too(opened):
    from IPython.core.interactiveshell import InteractiveShell

    session = opened()
    shell = InteractiveShell()
    dpn.load_ipython_extension(shell)
    with pytest.raises(dpn.PolicyError, match=r"limits\.question"):
        shell.run_cell_magic("dpsql", "-y -e 0.6", "SELECT COUNT(*) AS n FROM patients")
    assert session.spent.epsilon == 0.0


def test_the_error_that_would_be_allowed_is_told_and_asked_for(opened):
    table = opened().table("patients")
    with pytest.raises(dpn.PolicyError, match=r"With epsilon=0.25 the error would be ±12 rows"):
        table.count(error=5).run()
    assert table.count(error=12).run().epsilon <= 0.25


def test_the_limit_itself_is_allowed(opened):
    session = opened(PURE.replace("2.0", "2.0\ndelta = 1e-6"))
    assert session.table("patients").histogram("age", epsilon=0.25).run().paid > 0


def test_the_card_says_why(opened):
    session = opened()
    query = session.table("patients").count(epsilon=0.6)
    assert not query.plan.affordable
    cheaper = session.table("patients").count(epsilon=0.4).plan.alternatives
    assert {one.epsilon <= 0.25 for one in cheaper if one.affordable} == {True}
    assert "limits.question, line 4 of clinic.toml" in repr(query)
    assert "one question: at most ε = 0.25" in repr(session)


def test_all_answers_together(opened):
    session = opened(PURE + "all = 0.5\n")
    table = session.table("patients")
    table.count(epsilon=0.25).run()
    table.histogram("age", epsilon=0.2).run()
    assert session.remaining.epsilon == pytest.approx(0.05, abs=2e-3)
    with pytest.raises(dpn.PolicyError, match=r"limits.all, line 5"):
        table.histogram("income", epsilon=0.25, fresh=True).run()
    table.histogram("age", epsilon=0.2).run()  # what was answered is free
    assert session.spent.epsilon == pytest.approx(0.45, abs=2e-3)


def test_all_kernels_together(written):
    written(PURE + "all = 0.5\n")
    first, second = (dpn.Session.from_policy("clinic.toml", "clinic.ledger") for _ in range(2))
    for session in (first, second):
        session.protect(example_patients(), "patients", domain=DOMAIN)
        session.table("patients").count(epsilon=0.2, fresh=True).run()
    with pytest.raises(dpn.PolicyError, match=r"limits\.all"):
        first.table("patients").count(epsilon=0.2, fresh=True).run()
    written(PURE)
    dpn.Session.from_policy("clinic.toml", "clinic.ledger", reason="no limit").close()
    with pytest.raises(dpn.LedgerConflict, match="another policy"):
        second.table("patients").histogram("age", epsilon=0.1).run()
    for session in (first, second):
        session.close()


def test_who_asks_is_said_beside_a_policy(written):
    for analyst in ("anna", "bert"):
        with dpn.Session.from_policy(written(PURE), "clinic.ledger", analyst=analyst) as session:
            patients = session.protect(example_patients(), "patients", domain=DOMAIN)
            patients.count(epsilon=0.1, fresh=True).run()
    assert dpn.audit_ledger("clinic.ledger").history()["analyst"].tolist() == ["anna", "bert"]


def test_a_purchase_above_the_limit_is_left_out(opened):
    limited = "[budget]\nepsilon = 8.0\n[limits]\nquestion = 0.5\n"
    session, other = opened(limited), dpn.Session(dpn.Budget(epsilon=8.0))
    other.protect(example_patients(), "patients", domain=DOMAIN)

    def dearest(one):
        asked = (f"{low} <= age <= {low + 30}" for low in range(0, 30, 2))
        return max(one.table("patients").count(where=where, error=20).run().epsilon for where in asked)

    assert dearest(session) <= 0.5
    assert dearest(other) > 0.5  # without a policy a strategy for all of them is bought
    other.close()


def test_the_history_has_the_digest(opened):
    session = opened()
    session.table("patients").count(epsilon=0.2).run()
    session.table("patients").count(error=100).run()
    assert session.history()["policy"].tolist() == [session.policy.digest[:12]] * len(session.history())


SMALL = PURE + "[groups]\nminimum = 15\n"


@pytest.fixture
def sizes(opened, written):
    """Return a session over groups of 1 to 40 rows under a smallest noisy count of 15, and the frame."""
    session = opened("[budget]\nepsilon = 200.0\n[groups]\nminimum = 15\n")
    frame = pd.DataFrame({"ward": np.repeat(np.arange(40), np.arange(1, 41)), "cost": 5})
    session.protect(frame, "wards", domain={"ward": dpn.Range(0, 39), "cost": dpn.Range(0, 10)})
    return session


def small(release, column="value"):
    assert 0 < len(release) < 40
    assert (release.frame[column] >= 15).all()
    assert any("withheld" in note for note in release.notes)
    return release


def test_small_groups_are_withheld_however_they_are_looked_at(sizes):
    table = sizes.table("wards")
    release = small(table.histogram("ward", epsilon=1).run())
    for other in (
        sizes.release(release.number),
        release.simultaneous(),
        release._at(0.8),
        table.histogram("ward", epsilon=1).run(),
    ):
        assert other.frame["ward"].tolist() == release.frame["ward"].tolist()
    assert set(release.nonnegative().frame["ward"]) == set(release.frame["ward"])
    assert set(release.samples(5)["ward"]) == set(release.frame["ward"])
    assert release.plot() is not None
    for shown in (repr(release), release.to_markdown(), release.to_html(), str(release._repr_mimebundle_())):
        assert "withheld" in shown
    small(table.value_counts("ward", epsilon=1).run())
    small(table.groupby("ward").agg({"cost": ["count", "sum"]}, epsilon=4).run(), "cost_count")
    cumulative = table.cdf("ward", epsilon=4).run()
    assert (cumulative.frame["value"] >= 15).all()
    assert (table.answer(dpn.marginals(1), epsilon=4).run().frame["value"] >= 15).all()


def test_one_small_group_asked_alone_is_withheld(sizes):
    release = sizes.table("wards").count(where="ward == 0", epsilon=20).run()
    assert len(release) == 0
    with pytest.raises(dpn.WorkloadError, match="withheld"):
        _ = release.value
    with pytest.raises(dpn.WorkloadError, match="nothing to add up: one group is withheld"):
        release.sum()


def test_small_groups_of_statements_are_withheld(sizes):
    planned = "SELECT ward, COUNT(*) AS n FROM wards GROUP BY ward"
    other = "SELECT ward, COUNT(*) AS n, VARIANCE(cost) AS v FROM wards GROUP BY ward"
    derived = "SELECT ward, 2 * n AS twice FROM (SELECT ward, COUNT(*) AS n FROM wards GROUP BY ward)"
    first = small(sizes.sql(planned, epsilon=4).run(), "n")
    second = sizes.sql(other, epsilon=20).run()
    small(second, "n")
    assert sizes.release(second.number).frame["n"].tolist() == second.frame["n"].tolist()
    third = sizes.sql(derived, epsilon=4).run()
    assert 0 < len(third) < 40
    assert (third.frame["twice"] >= 30).all()
    assert set(first.samples(3)["ward"]) == set(first.frame["ward"])
    assert set(second.samples(3)["ward"]) == set(second.frame["ward"])


def test_what_tells_no_size_is_refused_before_it_is_paid_for(sizes):
    table, spent = sizes.table("wards"), sizes.spent.epsilon
    asked = (
        table.groupby("ward").sum("cost", epsilon=1),
        table.mean("cost", epsilon=1),
        table.median("cost", epsilon=1),
        table.std("cost", epsilon=1),
        sizes.sql("SELECT ward, AVG(cost) AS a FROM wards GROUP BY ward", epsilon=1),
    )
    for query in asked:
        with pytest.raises(dpn.PolicyError, match=r"groups.minimum, line 4 of clinic.toml.*COUNT"):
            query.run()
    with pytest.raises(dpn.PolicyError, match=r'agg\(\{\'cost\': \["count", "mean"\]\}\) or SELECT COUNT'):
        asked[1].run()
    with pytest.raises(dpn.PolicyError, match="in the same question, as SELECT COUNT"):
        asked[2].run()
    with pytest.raises(dpn.PolicyError, match="synthetic rows"):
        sizes.synthesize(10, table="wards")
    assert sizes.spent.epsilon == spent


def test_an_adaptive_answer_withholds_small_groups_too(opened):
    session = opened(GOOD)
    asked = session.table("patients").answer(dpn.marginals(2), epsilon=0.2, adaptive=True)
    release = asked.run()
    cells = 100 * 2 + 100 * 10 + 2 * 10
    assert 0 < len(release) < cells
    for shown in (release, session.release(release.number), asked.run()):
        assert shown.frame["value"].min() >= 40
        assert len(shown) == len(release)
