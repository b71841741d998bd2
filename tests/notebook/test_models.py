"""Widget models do not pile up: cards let go of their controls, in this process and in a real kernel."""

import gc

import ipywidgets
import pytest
from ipywidgets.widgets.widget import _instances
from jupyter_client.manager import start_new_kernel

from dpnotebook.notebook import controls, interactive, models, preview
from dpnotebook.notebook.controls import MOST, Strip, show


@pytest.fixture(autouse=True)
def alone():
    """Put away what other tests have left."""
    for strip in list(controls._live):
        strip.put_away("")
    for card in list(preview._open):
        card.leave()
    before = set(_instances)
    yield
    for strip in list(controls._live):
        strip.put_away("")
    assert set(_instances) <= before


@pytest.fixture
def displayed(monkeypatch):
    """Return the last bundle of every output, by its number."""
    outputs = []

    class Handle:
        def __init__(self, number):
            self.number = number

        def update(self, bundle, raw=False):
            outputs[self.number] = bundle

    def display(bundle, updatable=False, metadata=None):
        outputs.append(bundle)
        return Handle(len(outputs) - 1)

    for module in (interactive, preview):
        monkeypatch.setattr(module, "display_bundle", display)
    monkeypatch.setattr(controls, "shell", lambda: object())
    return outputs


def opened(since):
    return len(set(_instances) - since)


def one_card(session):
    before = set(_instances)
    strip = show(session.table("people").count(where="age > 28", error=25), controls=True)
    made = opened(before)
    strip.put_away("")
    assert opened(before) == 0
    return made


def test_a_card_closes_every_model_that_it_is_made_of():
    before = set(_instances)
    inner = ipywidgets.HBox([ipywidgets.Button(), ipywidgets.IntSlider()], layout=ipywidgets.Layout(width="1px"))
    whole = ipywidgets.VBox([inner, ipywidgets.Tab([ipywidgets.HTML(), ipywidgets.Output()])])
    assert opened(before) > 10
    models.close(whole, inner)
    assert opened(before) == 0
    models.close(whole)


@pytest.mark.parametrize("use", ["run_button", "discard_button"])
def test_a_card_that_was_used_leaves_no_model(session, displayed, use):
    before = set(_instances)
    strip = show(session.table("people").count(where="age > 3", error=25), controls=True)
    assert opened(before) > 10
    getattr(strip, use).click()
    assert strip.state in ("done", "discarded")
    assert opened(before) == 0
    assert controls._live == []


def test_fifty_cards_have_the_models_of_ten(session, displayed):
    each, before = one_card(session), set(_instances)
    people = session.table("people")
    queries = [
        people.count(where=f"age >= {5 + n % 25} and income >= {10_000 * (1 + n // 25)}", error=25) for n in range(50)
    ]
    del displayed[:]
    strips = [show(query, controls=True) for query in queries]
    assert opened(before) == MOST * each
    assert len(session._callbacks) == len(session._endings) == MOST + preview.FOLLOWED
    assert [strip.state for strip in strips] == ["put away"] * (50 - MOST) + ["ready"] * MOST
    assert "run the cell again to bring them back" in displayed[1]["text/html"]
    strips[0].run_button.click()  # by a front end that did not hear of it
    assert session.history().empty
    strips[-1].run_button.click()
    assert len(session.history()) == 1
    session.close()
    assert opened(before) == 0
    assert displayed[-3]["text/plain"] == "The session was closed."


def test_a_cell_that_is_run_again_keeps_one_card(session, displayed):
    each, before = one_card(session), set(_instances)
    for _ in range(5):
        show(session.table("people").count(where="age > 3", error=25), controls=True)
    assert opened(before) == each
    assert [bundle["text/plain"] for bundle in displayed[-9::2]].count(
        "Shown again since: the controls are there."
    ) == 4


def test_a_card_in_use_is_not_put_away(session):
    strip = Strip(session.table("people").count(where="age > 3", error=25))
    strip.follow()
    strip._state = "running"
    session.close()
    assert strip.widget.comm is not None
    strip._close()


def test_a_card_goes_with_its_query(ip, session, displayed):
    ip.user_ns["session"], ip.user_ns["show"] = session, show
    controls.shell = lambda: ip
    before = set(_instances)
    ip.run_cell("people = session.table('people'); one = people.count(where='age > 3', error=25)", store_history=True)
    ip.run_cell(
        "show(one, controls=True); show(people.count(where='age > 4', error=25), controls=True); None",
        store_history=True,
    )
    both = opened(before)
    ip.run_cell("del one", store_history=True)
    gc.collect()
    assert opened(before) == both // 2  # the other was never kept, and can be used
    assert [strip.query.question.where for strip in controls._live] != []
    assert "Put away with its query" in displayed[1]["text/plain"]


def test_a_dashboard_that_stands_still_has_no_models(session):
    before = set(_instances)
    for _ in range(3):
        _ = session.dashboard().panel
    live = opened(before)
    session.dashboard()
    assert opened(before) == 0
    kept = session.dashboard().widget
    session.close()
    assert opened(before) == live  # for the layout that it may stand in
    models.close(kept)


SETUP = """
import gc, pandas as pd
import dpnotebook as dpn
%load_ext dpnotebook
from ipywidgets.widgets.widget import _instances
session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
people = session.protect(pd.DataFrame({"age": range(100)}), "people", domain={"age": dpn.Range(0, 99)})
"""


def test_comms_of_a_real_kernel(tmp_path):
    manager, client = start_new_kernel(cwd=str(tmp_path))
    comms, results = set(), []

    def hear(message):
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "comm_open":
            comms.add(content["comm_id"])
        elif kind == "comm_close":
            comms.discard(content["comm_id"])
        elif kind == "execute_result":
            results.append(content["data"]["text/plain"])
        assert kind != "error", content

    def run(code):
        reply = client.execute_interactive(code, allow_stdin=True, output_hook=hear, timeout=120)
        assert reply["content"]["status"] == "ok", reply["content"]

    try:
        run(SETUP)
        standing = set(comms)  # the status bar's
        assert len(standing) <= 1
        run("people.count(where='age >= 99', error=25)")
        each = len(comms - standing)
        assert each > 10
        for first in (0, 25):
            run(f"for age in range({first}, {first + 25}): display(people.count(where=f'age >= {{age}}', error=25))")
        assert len(comms - standing) == MOST * each
        run("len(_instances)")
        assert int(results[-1]) == len(comms - standing)
        run("session.close()")
        assert comms == standing
        run("len(_instances)")
        assert results[-1] == "0"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
