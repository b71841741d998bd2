"""Every public name has an example in its docstring, and every example runs and says what it says."""

import builtins
import contextlib
import doctest
import inspect
import io

import pytest

import dpnotebook as dpn
import dpnotebook.inference
import dpnotebook.testing
from dpnotebook.notebook.accessor import DPAccessor
from dpnotebook.session.offer import Offer
from dpnotebook.session.protected import ProtectedTable
from dpnotebook.session.verbs import Grouped

ROOMS = {"dpn": dpn, "strategy": dpn.strategy, "workload": dpn.workload, "inference": dpnotebook.inference}
# What their methods do is what a user does.
ASKED = (dpn.Session, dpn.Query, dpn.Release, Offer, Grouped, ProtectedTable, DPAccessor)
# Methods that a session calls of a table of its own.
INNER = {
    *("ProtectedTable.beside", "ProtectedTable.check_unchanged"),
    *("ProtectedTable.digest_beside", "ProtectedTable.hold", "ProtectedTable.undeclared_like"),
}
FLAGS = doctest.ELLIPSIS


def public():
    """Return every public name with what it stands for."""
    found = {}
    for room, module in ROOMS.items():
        for name in module.__all__:
            if not inspect.ismodule(getattr(module, name)):
                found[f"{room}.{name}"] = getattr(module, name)
    for name in ("exact_session", "example_patients", "example_session"):
        found[f"testing.{name}"] = getattr(dpnotebook.testing, name)
    for kind in ASKED:
        found[kind.__name__] = kind
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and f"{kind.__name__}.{name}" not in INNER:
                found[f"{kind.__name__}.{name}"] = member
    return found


PUBLIC = public()


def example(name):
    """Return the example of a public name."""
    return doctest.DocTestParser().get_doctest(inspect.getdoc(PUBLIC[name]) or "", {}, name, None, None)


def test_every_public_name_has_an_example():
    assert len(PUBLIC) > 150
    assert [name for name in PUBLIC if not example(name).examples] == []


def once():
    """Return the names, without a second one for what an accessor and a table have in common."""
    seen = {}
    for name, what in PUBLIC.items():
        seen.setdefault(inspect.getdoc(what), name)
    return list(seen.values())


@pytest.mark.parametrize("name", once())
def test_the_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write a ledger, or a file
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")  # answers without noise are the same every time
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO())  # nobody is there to be asked
    if name == "inference.graphical_model":
        pytest.importorskip("mbi")
    said = []
    found = doctest.DocTestRunner(optionflags=FLAGS).run(example(name), out=said.append)
    vars(builtins).pop("_", None)  # what was shown last: IPython would not keep that of its own beside it
    with contextlib.suppress(dpn.NotProtected):
        dpn.active_session().close()
    assert found.failed == 0, "".join(said)
    assert found.attempted > 0
