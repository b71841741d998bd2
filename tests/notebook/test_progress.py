import threading
import time

import pytest

from dpnotebook.notebook import progress as module
from dpnotebook.notebook.progress import Progress, picture, watched


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "EVERY", 0.01)


def test_what_is_quick_shows_nothing():
    shown = []
    with Progress(lambda *args: shown.append(args), after=5.0) as progress:
        progress(0.5, "measuring")
    assert shown == []


def test_what_takes_long_shows_how_far_it_is_and_then_goes_away():
    shown, seen = [], threading.Event()

    def show(html, text):
        shown.append((html, text))
        seen.set()

    with Progress(show, after=0.01) as progress:
        progress(0.25, "asking <people>")
        assert seen.wait(5)
    assert shown[0][1].startswith("25% asking <people>, ")
    assert "25% asking &lt;people&gt;" in shown[0][0]
    assert shown[-1] == ("", "")
    assert shown.count(("", "")) == 1


def test_it_goes_away_after_an_error_too():
    shown, seen = [], threading.Event()

    def work():
        with Progress(lambda *args: (shown.append(args), seen.set()), after=0.0):
            assert seen.wait(5)
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        work()
    assert shown[-1] == ("", "")


def test_pictures_never_come_from_two_threads_at_once():
    names, seen = set(), threading.Event()

    def show(html, text):
        names.add(threading.get_ident())
        if not html:
            seen.set()

    with Progress(show, after=0.0) as progress:
        for i in range(20):
            progress(i / 20, "working")
            time.sleep(0.002)
    assert seen.is_set()
    assert len(names) == 1
    assert threading.get_ident() not in names


def test_a_fraction_out_of_range_is_cut():
    assert picture(1.7, "x", 1.0, 0)[1] == "100% x, 1 s"
    assert picture(-1.0, "x", 1.0, 0)[1] == "0% x, 1 s"
    assert picture(None, "x", 2.4, 0)[1] == "x, 2 s"


def test_nobody_looks_outside_a_notebook(capsys):
    with watched() as progress:
        progress(0.5, "measuring")
    assert capsys.readouterr().out == ""
