"""Whatever stands in `%%dpsql` and behind `%dp`: one short error of ours or of IPython's, and nothing is spent."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from IPython.core.error import UsageError

import dpnotebook as dpn
from dpnotebook.notebook.magics.magics import DPMagics

SECRETS = ("Zebulon", "98765")
OPTIONS = "-s session nothing -e 0.1 --error 5 5% -o x -n -y -q --ask --fresh -p ' ; -- : :x :nan :frame :column"
COMMANDS = "budget history tables help audit preview prefetch release backup ranges('age') marginals(2) ../.. {x} $x"
SQL = "SELECT COUNT(*) FROM people WHERE age > 3 GROUP BY name 1/0 -1 nan inf 1e999 99999999999999999999"
WORDS = f"{OPTIONS} {COMMANDS} {SQL}".split()
lines = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=6)), max_size=8).map(" ".join)


class Broken:
    """Whatever is done with it fails."""

    def __getattribute__(self, *_):
        raise RuntimeError("Zebulon")

    __repr__ = __str__ = __eq__ = __hash__ = __len__ = __iter__ = __getattribute__


class Room:
    """Magics in a notebook; hypothesis prints what a test is given, and not this."""

    def __init__(self, magics, session, names):
        self.magics, self.session, self.names = magics, session, names


@pytest.fixture
def room(ip, monkeypatch):
    frame = pd.DataFrame({"age": [1, 2, 98765] * 9, "name": ["Zebulon", "Ann", "Bo"] * 9})
    session = dpn.Session(dpn.Budget(1.0), confirm="always")
    session.protect(frame, "people", domain={"age": dpn.Range(0, 9)})
    names = {"session": session, "frame": frame, "column": frame["name"], "nan": np.nan, "x": Broken()}
    yield Room(DPMagics(ip), session, names)
    session.close()


def refused(call, session):
    head, failure = session.ledger.head, None
    try:
        call()
    except (dpn.DPError, UsageError) as error:
        failure = error
    assert session.ledger.head == head  # nobody said yes
    assert failure is None or 0 < len(str(failure)) <= 600
    assert not any(secret in str(failure) for secret in SECRETS)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(line=lines, cell=st.one_of(st.none(), lines))
@example(line="-e 0.1", cell="SELECT COUNT(*) FROM people WHERE age > :x")
@example(line="-e 0.1", cell="SELECT COUNT(*) FROM people WHERE age > :frame")
@example(line="-s x -e 0.1", cell="SELECT COUNT(*) FROM people")
@example(line="-s frame", cell="SELECT COUNT(*) FROM people")
@example(line="-e " + "9" * 5000, cell="SELECT COUNT(*) FROM people")
@example(line="-e 0.1 " + "x" * 5000, cell="SELECT " + "y" * 5000)
@example(line="-e 0.1 -o 5", cell="(" * 3000)
def test_whatever_is_asked_in_sql(room, line, cell):
    refused(lambda: room.magics.dpsql(line, cell, room.names), room.session)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(line=lines)
@example(line="-s x budget")
@example(line="x" * 5000)
@example(line="prefetch " + "ranges('age') + " * 200)
@example(line="prefetch x")
@example(line="release 99999999999999999999999")
def test_whatever_is_asked_about_the_budget(room, line):
    refused(lambda: room.magics.dp(line, room.names), room.session)
