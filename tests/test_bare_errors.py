"""An error leaves with its text and nothing else: what led to it may hold rows, exact counts or noise.

Verbose tracebacks, debuggers, `sys.last_value` and reports of crashes show contexts, causes and variables of frames.
"""

import gc
import io
import re
import sys
import traceback
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from IPython.core.ultratb import VerboseTB

import dpnotebook as dpn
from dpnotebook.errors import bare

PACKAGE = Path(dpn.__file__).parent
SECRET = "Zebulon Quirk"
MARK = 7331
INNER = {
    "engine", "sql", "planner", "ledger", "strategy", "inference", "privacy", "domain", "predicate", "query", "dialect",
}  # fmt: skip
STEPS = {"pipeline", "questions", "histories", "statements", "statement_answers", "statement_releases", "relations"}


def frame():
    names = pd.Series([SECRET, "Ann"] * (MARK // 2) + ["Bo"], dtype=object)
    return pd.DataFrame({"age": [3] * MARK, "name": names})


@pytest.fixture
def session():
    session = dpn.Session(budget=dpn.Budget(10.0, 1e-5))
    session.protect(frame(), "people", domain={"age": dpn.Range(0, 9)})
    yield session
    session.close()


def breaks(*_, **__):
    raise RuntimeError(f"could not convert {SECRET!r}, count {MARK}")


def draw_breaks(session, monkeypatch):
    monkeypatch.setattr(session._questions, "draw", breaks)
    session.table("people").histogram("age", epsilon=0.1).run()


def engine_breaks(session, monkeypatch):
    monkeypatch.setattr(type(session.table("people").engine), "totals", breaks)
    session.table("people").histogram("age", epsilon=0.1).run()


def record_breaks(session, monkeypatch):
    monkeypatch.setattr(session.ledger, "record", breaks)
    session.table("people").histogram("age", epsilon=0.1).run()


def statement_breaks(session, monkeypatch):
    monkeypatch.setattr(session._statements.relations.workspace, "run", breaks)
    session.sql("SELECT name, COUNT(*) AS n FROM people GROUP BY name", epsilon=0.1).run()


def ledger_is_full(session, monkeypatch):
    def full(*_, **__):
        try:
            breaks()
        except RuntimeError as failure:
            raise dpn.LedgerFull("no room on the disk") from failure

    monkeypatch.setattr(session.ledger, "record", full)
    session.table("people").histogram("age", epsilon=0.1).run()


def column_cannot_be_read(session, monkeypatch):
    odd = frame().assign(name=pd.Series(pd.period_range("2020", periods=MARK)))
    session.protect(odd, "odd", domain={"name": [SECRET]})


def declared_otherwise(session, monkeypatch):
    session.protect(frame().astype({"name": "str"}), "odd", domain={"name": dpn.Range(0, 9)})


def table_is_gone(session, monkeypatch):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 'Zebulon Quirk' AS name")
    session.protect((connection, "u"), "gone", domain={"name": [SECRET]})


def budget_is_spent(session, monkeypatch):
    session.table("people").histogram("age", epsilon=100).run()


def statement_is_wrong(session, monkeypatch):
    session.sql("SELECT nme, COUNT(*) FROM people GROUP BY nme", epsilon=0.1)


CASES = [
    draw_breaks, engine_breaks, record_breaks, statement_breaks, ledger_is_full, column_cannot_be_read,
    declared_otherwise, table_is_gone, budget_is_spent, statement_is_wrong,
]  # fmt: skip


def frames_of(error):
    trace, found = error.__traceback__, []
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_nothing_but_its_text_leaves(case, session, monkeypatch):
    with pytest.raises(dpn.DPError) as caught:
        case(session, monkeypatch)
    error = caught.value
    assert error.__context__ is None
    assert error.__cause__ is None
    assert SECRET not in str(error)
    own = [
        Path(f.f_code.co_filename).relative_to(PACKAGE)
        for f in frames_of(error)
        if str(PACKAGE) in f.f_code.co_filename
    ]
    assert own
    assert not [path for path in own if path.parts[0] in INNER or path.stem in STEPS]
    for one in frames_of(error):
        for value in one.f_locals.values():
            assert not isinstance(value, (np.ndarray, BaseException)) or value is error


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_what_tools_show_of_it_holds_no_value(case, session, monkeypatch):
    """A verbose traceback of IPython and one with the variables of all frames, as reports of crashes have it."""
    try:
        case(session, monkeypatch)
    except dpn.DPError:
        kind, error, trace = sys.exc_info()
    # The frame of the case itself holds what the owner passed.
    while trace is not None and str(PACKAGE) not in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    shown = io.StringIO()
    VerboseTB(theme_name="nocolor", ostream=shown)(kind, error.with_traceback(trace), trace)
    shown.write("".join(traceback.TracebackException(kind, error, trace, capture_locals=True).format()))
    text = re.sub("0x[0-9a-f]+", "", shown.getvalue())  # where objects lie is drawn, and may hold any four digits
    assert str(error) in text
    assert SECRET not in text
    assert str(MARK) not in text


def test_inside_of_another_error_it_keeps_that_one_only(session):
    """What the user was doing is the user's to see."""

    def ask():
        try:
            _ = {}["mine"]
        except KeyError:
            session.table("nowhere")

    with pytest.raises(dpn.DPError) as caught:
        ask()
    assert isinstance(caught.value.__context__, KeyError)
    assert caught.value.__context__.args == ("mine",)


def test_other_errors_keep_what_led_to_them():
    @bare
    def wrong():
        breaks()

    with pytest.raises(RuntimeError) as caught:
        wrong()
    assert caught.value.__traceback__.tb_next.tb_next is not None


def test_nothing_is_kept_alive(session):
    """An error that somebody keeps does not keep the session's inner objects."""
    with pytest.raises(dpn.DPError) as caught:
        session.table("people").histogram("age", epsilon=100).run()
    gc.collect()
    holders = [type(one).__name__ for one in gc.get_referrers(caught.value) if type(one).__name__ == "frame"]
    assert len(holders) <= 1
