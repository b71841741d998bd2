"""Failure is part of the mechanism: after a charge one error that tells nothing, and never a second draw for it."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DPError, EngineError, FrameChanged, LedgerError, LedgerFull, QueryFailed

DOMAIN = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "income": dpn.Bins(0, 100_000, width=5_000)}


def people(rows=600):
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "who": rng.integers(0, 200, rows),
            "age": rng.integers(0, 100, rows),
            "sex": rng.choice(["F", "M"], rows),
            "income": rng.integers(0, 100_000, rows).astype(float),
            "town": rng.choice(["Bonn", "Ulm", "Jena"], rows, p=[0.6, 0.3, 0.1]),
            "paid": np.round(rng.gamma(2, 30, rows), 2),
        }
    )


FRAME = people()
BUDGETS = {"pure": dpn.Budget(epsilon=50.0), "gaussian": dpn.Budget(epsilon=50.0, delta=1e-4)}
VERBS = {
    "count": lambda table: table.count(where="age >= 30", epsilon=0.3),
    "histogram": lambda table: table.histogram("age", epsilon=0.3),
    "sum": lambda table: table.groupby("sex").sum("income", bounds=(0, 100_000), epsilon=0.3),
    "mean": lambda table: table.groupby("sex").mean("income", bounds=(0, 100_000), epsilon=0.3),
    "quantile": lambda table: table.quantile("income", 0.5, epsilon=0.3),
    "workload": lambda table: table.answer(dpn.marginals(2), epsilon=0.3),
}
STATEMENTS = {
    "unknown groups": "SELECT town, COUNT(*) AS n FROM people GROUP BY town",
    "several aggregates": "SELECT town, COUNT(*) AS n, AVG(paid) AS mean, COUNT(DISTINCT who) AS people FROM people "
    "GROUP BY town",
    "bounds to be found": "SELECT SUM(paid) AS total, VARIANCE(paid) AS spread FROM people",
    "a quantile": "SELECT MEDIAN(paid) AS middle FROM people",
    "two queries": "SELECT a.n / b.n AS share FROM (SELECT COUNT(paid) AS n FROM people WHERE town = 'Ulm') AS a "
    "CROSS JOIN (SELECT COUNT(paid) AS n FROM people) AS b",
}
CASES = [(noise, name) for noise in BUDGETS for name in VERBS] + [("gaussian", name) for name in STATEMENTS]


def opened(noise, ledger=":memory:", frame=FRAME):
    session = dpn.Session(budget=BUDGETS[noise], ledger=ledger)
    session.protect(frame, "people", unit="who", max_rows=10, domain=DOMAIN)
    return session


def asked(session, name):
    if name in VERBS:
        return VERBS[name](session.table("people"))
    return session.sql(STATEMENTS[name], epsilon=4.0)


def numbers(session, number):
    """Return all noisy numbers of a release."""
    return [array.tolist() for array in session.ledger.get(number).answers]


class Weird(Exception):
    """A failure whose text and type would tell a value."""

    def __str__(self):
        return "Ms Doe, 84"


FAILURES = [
    RuntimeError("could not convert 'Ms Doe, 84' to INT32"),
    QueryFailed("the value 84 of Ms Doe"),
    DPError("Ms Doe, 84"),
    KeyError("Ms Doe, 84"),
    MemoryError(),
    RecursionError("Ms Doe, 84"),
    OverflowError(84),
    Weird(),
]


def fails_with(error):
    def fail(*_, **__):
        raise error

    return fail


def places(session, name):
    """Where things may fail between charge and record: the engine, the draw, the record."""
    found = [(session.ledger, "record")]
    if name in VERBS:
        return [*found, (session.table("people").engine, "totals"), (session._questions, "draw")]
    return [*found, (session._statements.relations.workspace, "run"), (session._statements, "draw")]


@pytest.mark.parametrize(("noise", "name"), CASES)
def test_whatever_fails_after_a_charge_says_one_thing(noise, name, monkeypatch):
    with contextlib.closing(opened(noise)) as session:
        query, said = asked(session, name), set()
        for i, (place, attribute) in enumerate(places(session, name)):
            for error in FAILURES[i::3]:
                with monkeypatch.context() as patched:
                    patched.setattr(place, attribute, fails_with(error))
                    with pytest.raises(EngineError) as caught:
                        query.run()
                assert type(caught.value) is EngineError
                assert (caught.value.__cause__, caught.value.__context__) == (None, None)
                said.add(str(caught.value))
        (text,) = said
        assert "Release 1 was charged" in text
        assert not any(word in text for word in ("Doe", "84", "Weird"))
        assert len(session.history()) == 1  # charged once, however often it failed
        spent = session.spent
        assert query.run().paid == 0
        assert session.spent == spent
        assert session.audit().ok


def test_an_interrupt_is_an_interrupt_without_a_context(monkeypatch):
    with contextlib.closing(opened("pure")) as session:
        monkeypatch.setattr(session.table("people").engine, "totals", fails_with(KeyboardInterrupt("84")))
        with pytest.raises(KeyboardInterrupt) as caught:
            asked(session, "count").run()
        assert caught.value.args == ()
        assert caught.value.__context__ is None


def test_what_the_ledger_says_of_its_file_is_passed_on(monkeypatch):
    with contextlib.closing(opened("pure")) as session:
        monkeypatch.setattr(session.ledger, "record", fails_with(LedgerFull("no room on the disk")))
        with pytest.raises(EngineError, match="The ledger says: no room on the disk"):
            asked(session, "count").run()


@pytest.mark.parametrize(("noise", "name"), CASES)
def test_trying_again_draws_nothing_again(noise, name, monkeypatch):
    """What was about to be recorded when it failed is what is recorded in the end; a fresh charge draws anew."""
    with contextlib.closing(opened(noise)) as session:
        query, tries = asked(session, name), []
        record = session.ledger.record

        def lost(number, answers, details):
            tries.append(([np.asarray(answer).tolist() for answer in answers], details))
            raise OSError("the disk went away")

        with monkeypatch.context() as patched:
            patched.setattr(session.ledger, "record", lost)
            for _ in range(3):
                with pytest.raises(EngineError):
                    query.run()
        assert session.ledger.record == record
        release = query.run()
        assert tries[0] == tries[1] == tries[2]
        assert numbers(session, release.number) == tries[0][0]
        anew = []  # numbers of so little noise are the same now and then, and not five times
        for _ in range(5):
            anew.append(numbers(session, replace(query, fresh=True).run().number))
        assert any(one != tries[0][0] for one in anew)


def test_a_refinement_is_drawn_once(monkeypatch):
    with contextlib.closing(opened("pure")) as session:
        table = session.table("people")
        table.count(variance=32_000).run()
        query, tries = table.count(variance=8_000), []
        assert any(item.refines is not None for item in query.plan.measurements)

        def lost(number, answers, details):
            tries.append([np.asarray(answer).tolist() for answer in answers])
            raise OSError

        with monkeypatch.context() as patched:
            patched.setattr(session.ledger, "record", lost)
            for _ in range(2):
                with pytest.raises(EngineError):
                    query.run()
        assert tries[0] == tries[1] == numbers(session, query.run().number)


DYING = """
import json, os, signal, sys
sys.path.insert(0, sys.argv[1])
import test_after_charge as those
session = those.opened(sys.argv[3], ledger=sys.argv[2])
def die(number, answers, details):
    with open(sys.argv[5], "w") as file:
        json.dump([answer.tolist() for answer in map(those.np.asarray, answers)], file)
    os.kill(os.getpid(), signal.SIGKILL)
session.ledger.record = die
those.asked(session, sys.argv[4]).run()
"""


@pytest.mark.parametrize(
    ("noise", "name"), [("pure", "mean"), ("gaussian", "workload"), ("gaussian", "bounds to be found")]
)
def test_a_killed_kernel_is_finished_by_another_with_its_noise(noise, name, tmp_path):
    ledger, seen = tmp_path / "clinic.ledger", tmp_path / "seen.json"
    root = Path(dpn.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", DYING, str(Path(__file__).parent), str(ledger), noise, name, str(seen)],
        env=os.environ | {"PYTHONPATH": str(root)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob("*-random-*"))) == 1
    with contextlib.closing(opened(noise, ledger)) as session:
        query = asked(session, name)
        assert query.plan.free
        release = query.run()
        assert release.paid == 0
        assert pd.read_json(seen, typ="series").tolist() == numbers(session, release.number)
        assert list(tmp_path.glob("*-random-*")) == []
        assert session.audit().ok


@pytest.mark.parametrize("name", ["histogram", "unknown groups"])
def test_where_the_random_state_is_gone_it_is_paid_again(name, tmp_path, monkeypatch):
    with contextlib.closing(opened("gaussian", tmp_path / "clinic.ledger")) as session:
        query, tries = asked(session, name), []

        def lost(number, answers, details):
            tries.append([np.asarray(answer).tolist() for answer in answers])
            raise OSError

        with monkeypatch.context() as patched:
            patched.setattr(session.ledger, "record", lost)
            with pytest.raises(EngineError):
                query.run()
        for state in tmp_path.glob("*-random-*"):
            state.unlink()
        spent = session.spent.epsilon
        assert session.history()["state"].tolist() == ["lost"]
        assert not query.plan.free
        assert query.plan.cost.epsilon > 0
        release = query.run()
        assert (release.number, session.history()["state"].tolist()) == (2, ["lost", "recorded"])
        assert session.spent.epsilon > spent
        assert numbers(session, 2) != tries[0]
        with pytest.raises(LedgerError, match="can never be measured"):
            session.retry(1)


def test_a_retry_needs_the_very_same_columns(tmp_path, monkeypatch):
    """The noise of a charge on other rows would be known from both answers."""
    ledger = tmp_path / "clinic.ledger"
    with contextlib.closing(opened("gaussian", ledger)) as session:
        monkeypatch.setattr(session.ledger, "record", fails_with(OSError()))
        with pytest.raises(EngineError):
            asked(session, "unknown groups").run()
    moved = FRAME.assign(town=FRAME["town"].to_numpy()[::-1])  # what is declared stays as it is
    with contextlib.closing(opened("gaussian", ledger, moved)) as session:
        query = asked(session, "unknown groups")
        for again in (query.run, lambda: session.retry(1)):
            with pytest.raises(FrameChanged, match="fresh=True"):
                again()
        assert session.history()["state"].tolist() == ["charged"]
        fresh = replace(query, fresh=True).run()
        assert (fresh.number, fresh.paid > 0) == (2, True)
    with contextlib.closing(opened("gaussian", ledger)) as session:  # the first rows again
        assert session.retry(1).paid == 0


def test_a_public_table_must_be_the_same_too(tmp_path, monkeypatch):
    ledger, towns = tmp_path / "clinic.ledger", pd.DataFrame({"town": ["Ulm", "Bonn"], "east": [False, True]})
    statement = "SELECT east, COUNT(paid) AS n FROM people JOIN towns USING (town) GROUP BY east"
    for turn in range(3):
        with contextlib.closing(opened("gaussian", ledger)) as session:
            session.register(towns if turn != 1 else towns.assign(east=[True, False]), "towns", public=True)
            query = session.sql(statement, epsilon=0.5)
            if turn == 0:
                monkeypatch.setattr(session.ledger, "record", fails_with(OSError()))
                with pytest.raises(EngineError):
                    query.run()
            elif turn == 1:
                with pytest.raises(FrameChanged, match="public table towns"):
                    query.run()
            else:
                assert query.run().number == 1


class TestWhatCannotBeFinished:
    """It never stands in the way: it is listed, can be tried again, and a fresh question goes around it."""

    @pytest.fixture
    def ledger(self, tmp_path):
        path = tmp_path / "clinic.ledger"
        with contextlib.closing(opened("pure", path)) as session, pytest.MonkeyPatch.context() as patched:
            patched.setattr(session.ledger, "record", fails_with(ValueError("not JSON")))
            with pytest.raises(EngineError):
                asked(session, "quantile").run()
        return path

    def test_the_table_can_be_protected(self, ledger, monkeypatch):
        monkeypatch.setattr("dpnotebook.session.questions.all_exact_answers", fails_with(ValueError("never")))
        with contextlib.closing(opened("pure", ledger)) as session:
            assert session.history()["state"].tolist() == ["charged"]
            with pytest.raises(EngineError, match=r"session.retry\(1\)"):
                session.retry(1)
            with pytest.raises(EngineError):
                asked(session, "quantile").run()
            monkeypatch.undo()
            count = asked(session, "count").run()
            assert count.paid > 0
            fresh = replace(asked(session, "quantile"), fresh=True)
            assert fresh.run().number == 3
            assert session.history()["state"].tolist() == ["charged", "recorded", "recorded"]
            spent = session.spent
            assert session.retry(1).number == 1
            assert session.retry(1).number == 1  # what is recorded is shown
            assert session.spent == spent
            assert session.history()["state"].tolist() == ["recorded"] * 3
            assert session.audit().ok

    def test_protecting_the_table_finishes_what_can_be(self, ledger):
        with contextlib.closing(opened("pure", ledger)) as session:
            assert session.history()["state"].tolist() == ["recorded"]
            assert asked(session, "quantile").run().paid == 0

    @pytest.mark.parametrize("number", [0, 7, -1, "1", None, 1.0, True])
    def test_a_number_that_is_none(self, ledger, number):
        with contextlib.closing(opened("pure", ledger)) as session, pytest.raises(LedgerError):
            session.retry(number)


def test_bounds_that_may_be_found_are_checked_before_the_charge():
    """Bounds found from noise may be anything: none may ask for noise that cannot be drawn, after the charge."""
    huge = pd.DataFrame({"who": range(300), "size": [2**62] * 300})
    with contextlib.closing(dpn.Session(budget=dpn.Budget(epsilon=10.0))) as session:
        session.protect(huge, "people", unit="who", max_rows=1)
        options = "WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 10000000)"
        release = session.sql(f"SELECT {options} SUM(size) AS total FROM people", epsilon=2).run()
        assert len(release.frame) == 1
        assert session.history()["state"].tolist() == ["recorded"]


def test_nothing_of_a_failure_stays_reachable(monkeypatch):
    """The true counts of a failed query are in no frame of its error."""
    with contextlib.closing(opened("pure")) as session:
        engine = session.table("people").engine
        totals, kept = engine.totals, []

        class Marked(np.ndarray):
            pass

        def counted(measurement):
            found = totals(measurement).view(Marked)
            kept.append(found.copy())
            return found

        monkeypatch.setattr(engine, "totals", counted)
        monkeypatch.setattr(session._questions, "draw", fails_with(ValueError("no")))
        with pytest.raises(EngineError) as caught:
            asked(session, "histogram").run()
        error, kept[:] = caught.value, []
        frames, trace = [], error.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        own = [frame for frame in frames if "dpnotebook" in frame.f_code.co_filename.replace("tests", "")]
        assert own
        gc.collect()
        for frame in own:
            assert not any(isinstance(value, Marked) for value in frame.f_locals.values())


def test_what_no_level_can_be_made_is_refused_before_the_charge():
    with contextlib.closing(opened("gaussian")) as session:
        inner = "SELECT sex, COUNT(*) AS n FROM people WHERE town = 'Ulm' GROUP BY sex"
        for asked in (
            f"SELECT NOT sex AS other, n FROM ({inner}) AS a",
            f"SELECT CAST(sex AS DATE), n FROM ({inner}) AS a",
        ):
            with pytest.raises(dpn.SQLError, match="cannot be worked out"):
                session.sql(asked, epsilon=1)
        assert len(session.history()) == 0


@pytest.mark.parametrize("key", ["town", "sex"])
def test_what_cannot_be_worked_out_from_an_answer_is_one_error_and_the_answer_is_not_lost(key):
    with contextlib.closing(opened("gaussian")) as session:
        inner = f"SELECT {key}, COUNT(*) AS n FROM people GROUP BY {key}"
        small = session.sql(f"SELECT CAST(n AS TINYINT) AS n FROM ({inner}) AS a WHERE n > 130", epsilon=4)
        with pytest.raises(EngineError, match=r"session.release\(1\) shows them") as caught:
            small.run()
        assert not any(number in str(caught.value) for number in ("127", "128", "13", "INT8"))
        assert caught.value.__context__ is None
        plain = session.release(1)
        assert {key, "n", "n_lower"} <= set(plain.frame.columns)
        assert plain.frame["n"].max() > 130


@pytest.mark.parametrize(("noise", "name"), CASES)
def test_what_is_refused_reads_no_row(noise, name, monkeypatch):
    """Whether reading fails tells of the rows: nobody gets that for nothing."""
    session = opened(noise)
    read = []
    monkeypatch.setattr(session.table("people").engine, "totals", lambda *_: read.append("totals"))
    monkeypatch.setattr(session._statements.relations.workspace, "run", lambda *_: read.append("run"))
    session.ledger._limit = 0  # all is spent
    with pytest.raises(dpn.BudgetExceeded):
        asked(session, name).run()
    assert read == []
    assert len(session.history()) == 0
