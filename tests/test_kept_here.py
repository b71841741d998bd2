"""What leads to private rows is not pickled, whatever a pickler can write; releases are handed on by their numbers."""

import copy
import io
import pickle
import threading

import pytest

import dpnotebook as dpn
from dpnotebook.testing import example_patients

DOMAIN = {"age": dpn.Range(0, 99), "sex": ["F", "M"]}


class Generous(pickle.Pickler):
    """Writes locks and local functions too, as some picklers do: what stops it must stop on purpose."""

    def reducer_override(self, value):
        if isinstance(value, type(threading.RLock())):
            return threading.RLock, ()
        return NotImplemented


@pytest.fixture
def held(tmp_path):
    with dpn.Session(dpn.Budget(epsilon=2.0), tmp_path / "held.ledger") as session:
        patients = session.protect(example_patients(), "patients", domain=DOMAIN)
        query = patients.histogram("sex", epsilon=0.5)
        yield {"Session": session, "ProtectedTable": patients, "Query": query, "Release": query.run()}


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("Session", r"Open the ledger there, with dpn\.Session"),
        ("ProtectedTable", "Protect it there"),
        ("Query", "what was answered costs nothing"),
        ("Release", r"release\.to_csv\(path\), or read it there: session\.release\(1\)"),
    ],
)
def test_nothing_that_leads_to_rows_is_pickled(held, name, instead):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(dpn.ArgumentError, match=f"a {name} cannot be pickled.*private rows.*{instead}"):
            pickle.dumps(held[name], protocol)
    with pytest.raises(TypeError, match="cannot be pickled"):
        Generous(io.BytesIO()).dump({"nested": [held[name]]})


def test_a_copy_is_the_same(held):
    for name in ("Session", "ProtectedTable", "Query"):
        assert copy.copy(held[name]) is copy.deepcopy([held[name]])[0] is held[name]


def test_the_frame_of_a_copied_release_is_another(held):
    release = held["Release"]
    copied = copy.deepcopy(release)
    assert copied.frame.equals(release.frame)
    copied.frame.loc[0, "value"] = -1.0
    assert release.frame.loc[0, "value"] != -1.0
    assert copied.simultaneous().number == release.number


def test_the_numbers_of_a_release_are_pickled(held):
    numbers = held["Release"].to_frame()
    assert pickle.loads(pickle.dumps(numbers)).equals(numbers)
