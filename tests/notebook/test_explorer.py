"""The strategy explorer without a browser: comparing, cancelling, looking, pricing, and what a saved notebook keeps."""

import base64
import re
import threading

import numpy as np
import pandas as pd
import pytest
from clocks import PATIENCE

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, WorkloadError
from dpnotebook.notebook import interactive
from dpnotebook.notebook.explorer import explorer as module
from dpnotebook.notebook.explorer.choices import KINDS, question
from dpnotebook.notebook.explorer.comparison import Comparison
from dpnotebook.notebook.plots.strategy_pictures import picture, png
from dpnotebook.notebook.plots.strategy_views import Bars, Curve, Grid, Words, measured, query_errors
from dpnotebook.strategy.catalogue import Candidate
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.workload import AllRange, Identity, Kron, Marginals, Permuted, Prefix, Total

PLOTLY = "application/vnd.plotly.v1+json"
VIEW = "application/vnd.jupyter.widget-view+json"


def quick(name, make=dpn.strategy.identity):
    return Candidate(name, name, "made at once", lambda workload, noise, report: make(workload, noise), lambda *_: "")


class Work(threading.Event):
    """Set as soon as work has begun; knows whether it went on to its end."""

    to_its_end = False

    def was_stopped(self):
        return self.is_set() and not self.to_its_end


def slow(started):
    """Return a candidate that works until it is stopped, and in the end anyway."""

    def make(workload, noise, report):
        for _ in range(50_000):  # some tens of seconds
            started.set()
            report(0.5, "working")
            np.linalg.eigvalsh(np.eye(40))
        started.to_its_end = True
        return dpn.strategy.identity(workload, noise)

    return Candidate("slow", "slow", "takes its time", make, lambda *_: "", optimized=True)


@pytest.fixture
def offered(monkeypatch):
    """Return a function that says which candidates every comparison has."""

    def offer(*among):
        monkeypatch.setattr("dpnotebook.notebook.explorer.comparison.candidates", lambda workload, noise: among)

    return offer


def compared(explorer):
    """Press the button, and wait for the end."""
    explorer.panel.start_button.click()
    assert explorer.comparison.wait(PATIENCE)
    return explorer.panel


def figures(box):
    return [output.outputs[0]["data"][PLOTLY] for part in box.children for output in getattr(part, "children", ())[:1]]


class Handle:
    def __init__(self):
        self.bundles = []

    def update(self, bundle, raw=False):
        self.bundles.append(bundle)


def test_a_comparison_finds_what_the_strategies_say():
    made = Comparison(AllRange(32), "laplace")
    made.run()
    assert made.state == "done"
    assert made.waiting == []
    objectives = [strategy.objective for _, strategy in made.ranked]
    assert objectives == sorted(objectives)
    assert made.found["h2"].objective == dpn.strategy.h2(AllRange(32)).objective
    assert 0 < made.bound <= objectives[0]


def test_strategies_are_told_of_one_by_one():
    found = []
    comparison = Comparison(AllRange(16), "laplace", lambda each: found.append((len(each.found), each.state)))
    comparison.start()
    assert comparison.wait(PATIENCE)
    count = len(comparison.among)
    assert found == [*((number, "running") for number in range(1, count + 1)), (count, "done")]


def test_cancel_stops_one_that_works_and_keeps_what_was_found():
    started, ended = Work(), []
    among = [quick("first"), slow(started), quick("last")]
    comparison = Comparison(AllRange(16), "laplace", lambda each: ended.append(each.state), among=among)
    comparison.start()
    assert started.wait(PATIENCE)
    comparison.cancel()
    assert comparison.wait(PATIENCE)
    assert started.was_stopped()
    assert comparison.state == "cancelled"
    assert list(comparison.found) == ["first"]
    assert [each.name for each in comparison.waiting] == ["slow", "last"]
    assert ended == ["running", "cancelled"]


def test_a_new_comparison_stops_the_one_that_works():
    started = Work()
    older = Comparison(AllRange(16), "laplace", among=[slow(started)])
    older.start()
    assert started.wait(PATIENCE)
    newer = Comparison(AllRange(16), "laplace", among=[quick("one")])
    newer.start()
    assert older.wait(PATIENCE)
    assert newer.wait(PATIENCE)
    assert started.was_stopped()
    assert (older.state, newer.state) == ("cancelled", "done")


def test_a_candidate_that_fails_does_not_stop_the_others(page, evil):
    def fail(workload, noise):
        raise ZeroDivisionError(evil)

    def refuse(workload, noise):
        raise WorkloadError(evil)

    explorer = dpn.explore(AllRange(8))
    among = [quick("fails", fail), quick("refuses", refuse), quick("works")]
    explorer.comparison = Comparison(AllRange(8), "laplace", among=among)
    explorer.comparison.run()
    assert list(explorer.strategies) == ["works"]
    text = page(explorer._repr_mimebundle_()["text/html"]).text
    assert "2 candidates left out" in text
    assert f"refuses: {evil}" in text
    assert f"fails: failed with ZeroDivisionError: {evil}" in text


def test_the_progress_is_that_of_all_the_work():
    told = []
    among = [quick("one"), quick("two")]
    Comparison(AllRange(8), "laplace", report=lambda _, *said: told.append(said), among=among).run()
    assert told == [(0.0, "one: made at once"), (0.5, "two: made at once")]


def test_the_card_ranks_by_error_against_the_bound(page):
    explorer = dpn.explore(AllRange(64), epsilon=0.5).run()
    parsed = page(explorer._repr_mimebundle_()["text/html"])
    head, first, *_ = parsed.rows
    best = next(iter(explorer.strategies.values()))
    assert head == ["strategy", "", "RMSE", ""]
    assert first[0].startswith("▶ ")
    assert float(first[2]) == pytest.approx(best.rmse(0.5), rel=0.01)
    errors = [float(row[2].replace(",", "")) for row in parsed.rows[1 : 1 + len(explorer.strategies)]]
    assert errors == sorted(errors)
    bound = explorer.comparison.bound
    assert f"No choice of queries to measure can be below {np.sqrt(bound * 8 / 2080):.3g}" in parsed.text
    assert "Nothing is charged and no data is read" in parsed.text
    assert "times smaller than from the counts of every cell" in parsed.text
    assert sum("× the bound" in alt or "the best possible" in alt for alt in parsed.alts) == len(explorer.strategies)


def test_where_no_bound_is_near_the_bars_stand_alone(offered, page):
    """Counts of 4,096 cells answer running counts 21 times worse than the bound, a hierarchy 3 times."""
    offered(quick("cells"))
    explorer = dpn.explore(Prefix(4096), epsilon=1.0).run()
    assert explorer.comparison.bound is None
    html, text = explorer._repr_mimebundle_()["text/html"], repr(explorer)
    parsed = page(html)
    assert "How small an error could be is not known." in parsed.text
    assert "How small an error could be is not known." in text
    assert "× the bound" not in html + text
    assert "dashed" not in html + text
    assert "dasharray" not in parsed.pictures if hasattr(parsed, "pictures") else True
    drawn = [base64.b64decode(data).decode() for data in re.findall(r"svg\+xml;base64,([A-Za-z0-9+/=]+)", html)]
    assert len(drawn) >= 1
    assert not any("dasharray" in picture for picture in drawn)
    offered(quick("cells"), quick("tree", dpn.strategy.hierarchical))
    explorer = dpn.explore(Prefix(4096), epsilon=1.0).run()
    strategies = explorer.strategies
    assert explorer.comparison.bound == max(found.bound for found in strategies.values())
    assert "No choice of queries to measure can be below" in repr(explorer)
    assert repr(explorer).count("× the bound") == 2  # near the best, it is the bound of the worst as well


def test_the_optimum_is_said_to_be_one(page):
    explorer = dpn.explore(Identity(8)).run()
    assert "the best possible" in page(explorer._repr_mimebundle_()["text/html"]).rows[1][3]


def test_the_text_has_the_same_numbers():
    lines = repr(dpn.explore(AllRange(64)).run()).splitlines()
    assert lines[0] == "Strategies for AllRange(64), Laplace noise, ε 1"
    assert lines[2].startswith("> ")
    assert any("workload itself" in line and "262" in line for line in lines)


def test_the_button_compares_and_the_figures_follow():
    explorer = dpn.explore()
    assert explorer.comparison is None
    panel = compared(explorer)
    assert panel.cancel_button.disabled
    assert panel.progress.value == ""
    assert [name for _, name in panel.choice.options] == list(explorer.strategies)
    assert panel.choice.value == next(iter(explorer.strategies))
    (heat,) = figures(panel.errors)
    assert heat["data"][0]["type"] == "heatmap"
    assert explorer.question.title in panel.card.value


def test_another_choice_shows_another_strategy(page):
    explorer = dpn.explore(AllRange(32))
    panel = compared(explorer)
    panel.choice.value = "identity"
    assert explorer.chosen is explorer.strategies["identity"]
    assert "<b>identity</b>" in panel.facts.value
    (row,) = [row for row in page(panel.card.value).rows if row and row[0].startswith("▶")]
    assert row[0] == "▶ identity"
    (matrix,) = figures(panel.measured)
    assert "what is measured" in matrix["layout"]["title"]["text"]
    assert "strategy = dpn.strategy.identity(workload," in page(panel.card.value).text


def test_a_choice_stays_while_others_are_found(offered):
    started = Work()
    offered(quick("plain"), quick("other", dpn.strategy.h2), slow(started))
    explorer = dpn.explore(AllRange(16))
    panel = explorer.panel
    panel.start_button.click()
    assert started.wait(PATIENCE)
    panel.choice.value = "other"
    panel.cancel_button.click()
    assert explorer.comparison.wait(PATIENCE)
    assert started.was_stopped()
    assert panel.choice.value == "other"
    assert explorer.chosen is explorer.strategies["other"]


def test_cancel_in_the_panel(offered, page):
    started = Work()
    offered(quick("plain"), slow(started))
    explorer = dpn.explore(AllRange(16))
    panel = explorer.panel
    panel.start_button.click()
    assert started.wait(PATIENCE)
    assert not panel.cancel_button.disabled
    assert "1 of 2 strategies compared" in page(panel.card.value).text
    panel.cancel_button.click()
    assert panel.cancel_button.description == "Cancelling"
    assert explorer.comparison.wait(PATIENCE)
    assert started.was_stopped()
    assert panel.cancel_button.disabled
    assert panel.cancel_button.description == "Cancel"
    assert "Cancelled; not tried: slow" in page(panel.card.value).text
    panel.start_button.click()  # and it can be started again
    assert explorer.comparison.state == "running"
    explorer.cancel()
    assert explorer.comparison.wait(PATIENCE)
    assert not started.to_its_end


def test_epsilon_changes_the_errors_without_a_new_search():
    explorer = dpn.explore(AllRange(32))
    panel = compared(explorer)
    before = explorer.comparison
    panel.epsilon.value = "2"
    assert explorer.comparison is before
    assert "ε 2" in panel.card.value
    half = dpn.strategy.identity(AllRange(32)).rmse(2)
    assert f"{half:.3g}"[:3] in panel.card.value


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "nan", "inf"])
def test_a_bad_epsilon_is_one_line_in_the_widget(text, page):
    panel = dpn.explore(AllRange(8)).panel
    panel.epsilon.value = text
    panel.start_button.click()
    said = page(panel.message.value).text
    assert said.startswith("⚠ epsilon must be")
    assert len(said) < 100
    panel.epsilon.value = "1"
    assert panel.message.value == ""


@pytest.mark.parametrize(
    ("kind", "cells", "words"),
    [
        ("ranges", "100000", "up to 4,096 cells"),
        ("ranges", "0", "whole numbers above 0"),
        ("ranges", "<b>", "whole numbers above 0"),
        ("ranges", "", "whole numbers above 0"),
        ("ranges", "3, 4", "give one number"),
        ("marginals", "2, 5, 9999", "up to 4,096 cells"),
        ("marginals", "10 " * 101, "100 attributes"),
        ("marginals", "1.5, 2", "whole numbers above 0"),
    ],
)
def test_bad_cells_are_one_line_in_the_widget(kind, cells, words, page):
    explorer = dpn.explore()
    panel = explorer.panel
    panel.kind.value = kind
    panel.cells.value = cells
    panel.start_button.click()
    assert words in page(panel.message.value).text
    assert explorer.comparison is None


def test_too_many_marginals_are_refused(page):
    panel = dpn.explore().panel
    panel.kind.value, panel.cells.value, panel.ways.value = "marginals", "2 " * 100, 5
    panel.start_button.click()
    assert "marginals" in page(panel.message.value).text


def test_delta_is_asked_for_gaussian_noise_only(page):
    explorer = dpn.explore(AllRange(8))
    panel = explorer.panel
    assert panel.delta.layout.display == "none"
    panel.noise.value = "gaussian"
    assert panel.delta.layout.display == ""
    panel.delta.value = "2"
    panel.start_button.click()
    assert "delta" in page(panel.message.value).text
    panel.delta.value = "1e-6"
    compared(explorer)
    assert explorer.comparison.noise == "gaussian"
    assert "Gaussian noise, ε 1, δ 1e-6" in page(panel.card.value).text


def test_every_kind_on_offer_can_be_compared():
    for kind in KINDS:
        asked = question(kind.name, "2, 3, 4" if kind.several else "16", 2)
        Comparison(asked.workload, "laplace", among=[quick("one")]).run()
        assert eval(asked.code, {"dpn": dpn}) == asked.workload  # what the card says is how to write it


def test_the_cells_follow_the_kind():
    panel = dpn.explore().panel
    panel.kind.value = "marginals"
    assert panel.cells.value == "2, 5, 50, 100"
    assert panel.ways.layout.display == ""
    panel.cells.value = "3 3"
    panel.kind.value = "prefix_marginals"
    assert panel.cells.value == "3 3"
    panel.kind.value = "prefix"
    assert panel.cells.value == "128"
    assert panel.ways.layout.display == "none"


def test_a_workload_by_attribute_names(page):
    domain = {"age": dpn.Range(0, 19), "sex": ["F", "M"]}
    explorer = dpn.explore(dpn.marginals(2) + dpn.ranges("age"), domain).run()
    parsed = page(explorer._repr_mimebundle_()["text/html"])
    assert "Strategies for marginals(2) + ranges('age')" in parsed.text
    assert any("age" in row[0] for row in parsed.rows if row)
    with pytest.raises(WorkloadError, match="domain="):
        dpn.explore(dpn.marginals(2))


@pytest.mark.parametrize("bad", [3, "ranges", [1, 2]])
def test_what_is_no_workload_is_refused(bad):
    with pytest.raises(WorkloadError, match="takes a workload"):
        dpn.explore(bad)


def test_bad_privacy_is_refused_at_once():
    with pytest.raises(AccuracyError):
        dpn.explore(AllRange(8), epsilon=0)
    with pytest.raises(AccuracyError):
        dpn.explore(AllRange(8), delta=0)
    with pytest.raises(WorkloadError, match="4,096 cells"):
        dpn.explore(AllRange(10_000))


def test_where_nobody_is_everything_is_compared_and_static(monkeypatch, page):
    shown = []
    monkeypatch.setattr(module, "interactive", lambda: False)
    monkeypatch.setattr(module, "display_bundle", lambda bundle, updatable=False: shown.append(bundle))
    explorer = dpn.explore(AllRange(32))
    explorer._ipython_display_()
    assert explorer._panel is None
    (bundle,) = shown
    assert set(bundle) == {"text/plain", "text/html"}
    parsed = page(bundle["text/html"])
    assert any(alt.startswith("heat map of 32 by 32, first cell down") for alt in parsed.alts)
    assert len(bundle["text/html"].encode()) < 25_000


def test_where_somebody_is_the_numbers_are_an_output_of_their_own(monkeypatch, page):
    shown, handle = [], Handle()

    def show(bundle, updatable=False, metadata=None):
        shown.append(bundle)
        return handle if updatable and metadata is None else None

    monkeypatch.setattr(module, "interactive", lambda: True)
    monkeypatch.setattr(module, "display_bundle", show)
    monkeypatch.setattr(interactive, "display_bundle", show)
    explorer = dpn.explore(AllRange(32))
    explorer._ipython_display_()
    assert [sorted(bundle) for bundle in shown] == [
        [VIEW, "text/html", "text/plain"],
        ["text/html", "text/plain"],
        [VIEW, "text/html", "text/plain"],
    ]
    assert "Nothing is compared yet" in shown[1]["text/html"]
    compared(explorer)
    assert page(handle.bundles[-1]["text/html"]).rows[1][0].startswith("▶ ")
    assert handle.bundles[-1]["text/plain"] == repr(explorer)


def test_a_picture_that_fails_ends_no_work(monkeypatch):
    explorer = dpn.explore(AllRange(16))
    panel = explorer.panel

    def broken(*args):
        raise ZeroDivisionError("drawing")

    monkeypatch.setattr(module, "query_errors", broken)
    panel.start_button.click()
    assert explorer.comparison.wait(PATIENCE)
    assert explorer.comparison.state == "done"
    assert "not up to date: ZeroDivisionError" in panel.message.value
    assert panel.cancel_button.disabled


def test_the_error_of_every_range():
    one = dpn.strategy.wavelet(AllRange(9))
    (grid,) = query_errors(one, 2.0, ("#1",))
    total = np.nansum(grid.values**2)
    assert total == pytest.approx(one.total_squared_error(1.0))
    assert np.isnan(grid.values[5, 2])
    assert grid.values[2, 5] ** 2 == pytest.approx(2 * one.norm**2 * one.error_factors()[2 * 9 - 1 + 5 - 2])


def test_many_ranges_are_drawn_as_means_of_blocks():
    one = dpn.strategy.identity(AllRange(300))
    (grid,) = query_errors(one, 1.0, ("#1",))
    assert grid.values.shape == (150, 150)
    assert grid.step == (2, 2)
    assert grid.values[0, 5] == pytest.approx(np.sqrt([11, 12, 10, 11]).mean())
    (permuted,) = query_errors(dpn.strategy.identity(Permuted(AllRange(16), 1)), 1.0, ("#1",))
    assert permuted.values.shape == (16, 16)


def test_the_errors_of_other_queries():
    (curve,) = query_errors(dpn.strategy.identity(Prefix(5)), 1.0, ("#1",))
    assert curve.values == pytest.approx(np.sqrt([1, 2, 3, 4, 5]))
    (grid,) = query_errors(dpn.strategy.identity(Kron(Prefix(2), Prefix(3))), 1.0, ("a", "b"))
    assert grid.values == pytest.approx(np.sqrt(np.outer([1, 2], [1, 2, 3])))
    bars, curve = query_errors(dpn.strategy.identity(dpn.workload.marginals((2, 3), upto=2)), 1.0, ("a", "b"))
    assert bars.names == ("total", "a", "b", "a × b")
    assert bars.values == pytest.approx(np.sqrt([6, 3, 2, 1]))
    assert curve.values == pytest.approx(np.sqrt([1] * 6 + [2] * 3 + [3] * 2 + [6]))


def test_what_is_measured_is_drawn_in_shares_of_the_sensitivity():
    (grid,) = measured(dpn.strategy.h2(AllRange(8)), ("#1",))
    assert np.abs(grid.values).sum(axis=0) == pytest.approx(np.ones(8))
    (grid,) = measured(dpn.strategy.wavelet(AllRange(8), "gaussian"), ("#1",))
    assert (grid.values**2).sum(axis=0).max() == pytest.approx(1)
    shares, words = measured(opt_residual(dpn.workload.marginals((2, 3), 2)), "ab")
    assert shares.values.sum() == pytest.approx(100)
    assert set(shares.names) == {"total", "a", "b", "a × b"}
    assert words.title == "a, b: each cell against the mean of all"
    two = measured(dpn.strategy.h2(Kron(Prefix(4), Prefix(8))), ("a", "b"))
    assert [view.values.shape for view in two] == [(7, 4), (15, 8)]


def test_what_is_too_large_to_draw_is_said():
    (said,) = measured(dpn.strategy.identity(Prefix(1000)), ("#1",))
    assert isinstance(said, Words)
    assert "1,000" in said.title
    large = Marginals([Identity(200)] * 3, [((0, 1, 2), 1)])
    (said,) = query_errors(dpn.strategy.identity(large), 1.0, "abc")
    assert "8,000,000 answers" in said.title


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (Grid("<t>", np.array([[0.0, np.nan], [-1.0, 2.0]]), "x", "y", "weight"), "heat map of 2 by 2"),
        (Grid("t", np.zeros((1, 3)), "x", "y", "error"), "from 0 to 0"),
        (Curve("<t>", np.array([0.0]), np.array([3.0]), "x", "error"), "line over x: from 3 to 3"),
        (Bars("<t>", ("<a>", "b"), np.array([25.0, 75.0]), "percent"), "25%"),
        (Words("<t>"), None),
    ],
)
def test_pictures_survive_untrusted_notebooks(view, words, page):
    parsed = page(picture(view))
    assert view.title in parsed.text
    assert words is None or any(words in alt for alt in parsed.alts)


def test_a_png_holds_its_pixels():
    import struct
    import zlib

    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    data = png(pixels)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (4, 2)
    start = data.index(b"IDAT") + 4
    raw = zlib.decompress(data[start : start + struct.unpack(">I", data[start - 8 : start - 4])[0]])
    rows = np.frombuffer(raw, np.uint8).reshape(2, 13)
    assert (rows[:, 0] == 0).all()
    assert np.array_equal(rows[:, 1:].reshape(2, 4, 3), pixels)


def test_total_of_one_cell_can_be_explored(page):
    page(dpn.explore(Total(1)).run()._repr_mimebundle_()["text/html"])


def test_errors_are_those_of_the_answers_not_of_their_weights(page):
    weighted = 3 * Prefix(4) + Identity(4)
    plain = dpn.strategy.identity(weighted)
    bars, curve = query_errors(plain, 1.0, ("#1",))
    assert bars.names == ("#1 (Prefix)", "#1 (Identity)")
    assert bars.values == pytest.approx(np.sqrt([2.5, 1]))
    assert curve.values == pytest.approx(np.sqrt([1, 1, 1, 1, 1, 2, 3, 4]))
    assert "each error times the weight of its query" in page(dpn.explore(weighted).run()._html()).text


def test_a_protected_frame_is_explored_for_nothing(session, people):
    wanted = dpn.marginals(2) + dpn.ranges("age")
    explorer = people.dp.explore(wanted)
    assert explorer.question.workload == wanted.over(people.dp.domain)
    assert explorer.question.names == ("age", "sex", "region", "income")
    Comparison(explorer.question.workload, "laplace", among=[quick("one")]).run()
    assert session.spent.epsilon == 0
    assert len(session.history()) == 0


@pytest.mark.parametrize(
    ("budget", "delta", "words"),
    [
        (dpn.Budget(epsilon=2.0), None, "Laplace noise, 25% of the budget (ε 0.5) · 95% left"),
        (dpn.Budget(epsilon=2.0), 1e-6, "Gaussian noise, ε 0.5, δ 1e-6"),  # which this session does not use
        (dpn.Budget(epsilon=2.0, delta=1e-6), None, "Laplace noise, ε 0.5"),
    ],
)
def test_of_a_protected_frame_percent_of_its_budget_leads(budget, delta, words, offered):
    offered(quick("identity"))
    rows = pd.DataFrame({"age": [1, 2, 3]})
    with dpn.Session(budget) as session:
        session.protect(rows, "people", domain={"age": dpn.Range(0, 7)})
        rows.dp.count(epsilon=0.1).run()
        found = rows.dp.explore(dpn.ranges("age"), epsilon=0.5, delta=delta)
        assert repr(found.run()).splitlines()[0] == f"Strategies for ranges('age'), {words}"


def test_with_delta_the_percent_is_that_of_a_question_of_the_session(offered):
    offered(quick("identity"))
    rows = pd.DataFrame({"age": [1, 2, 3]})
    with dpn.Session(dpn.Budget(epsilon=2.0, delta=1e-6)) as session:
        session.protect(rows, "people", domain={"age": dpn.Range(0, 7)})
        stated = session.ledger.accountant.delta
        found = rows.dp.explore(dpn.ranges("age"), epsilon=0.5, delta=stated).run()
        share = rows.dp.count(epsilon=0.5).plan.budget.cost_fraction
        said = repr(found).splitlines()[0].split("noise, ")[1].split("%")[0]
        assert float(said) == pytest.approx(100 * share, rel=0.02)
