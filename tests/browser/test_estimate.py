"""What a cell would cost, in the status bar of a real JupyterLab before anything runs; and Tab in calls of df.dp."""

import re

import pytest
from clocks import PATIENCE, wait_until

EVIL = '<b>it\'s</b> "far" 😀'
SETUP = f"""
import numpy as np, pandas as pd
import dpnotebook as dpn
EVIL = {EVIL!r}
n = 20_000
patients = pd.DataFrame({{"age": np.arange(n) % 100, "ward no 😀": np.where(np.arange(n) % 3, "North", EVIL)}})
session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="LEDGER")
session.protect(patients, "patients", rows=n, domain={{"age": dpn.Range(0, 99), "ward no 😀": ["North", EVIL]}});
"""
BUSY = """
import pathlib, time
i = 0
while not pathlib.Path("done").exists():
    print(i, end=" ")
    i += 1
    time.sleep(0.1)
"""


class Typist:
    """Types into cells of a notebook, and reads its status bar."""

    def __init__(self, notebook):
        self.notebook, self.page = notebook, notebook.page
        self.bar = notebook.page.locator(".dpnotebook-estimate")

    def type(self, index, text):
        """Type into an empty cell; brackets and marks are not closed by the editor."""
        self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".cm-content").click()
        self.page.keyboard.type(text)

    def waits_for(self, text, within=PATIENCE):
        """Wait until the status bar says a text."""
        self.bar.filter(has_text=text).wait_for(timeout=within * 1000)

    def never_run(self, index):
        return self.notebook.js(f"panel.content.widgets[{index}].model.executionCount") is None


@pytest.fixture
def typist(open_notebook, go_on, request):
    """Return who types into a notebook whose first cell made a session."""
    name, cells = re.sub(r"\W", "", request.node.name), ["", "", "%load_ext dpnotebook", BUSY]
    setup = SETUP.replace("LEDGER", f"{name}.ledger")
    notebook = open_notebook(f"{name}.ipynb", cells, setup) if "restart" in name else go_on(cells, setup)
    notebook.run_cell(0)
    return Typist(notebook)


def shown(text):
    return re.compile(re.escape(text).replace(r"\ ", r"[ \xa0]"))


def test_a_call_says_its_price_before_it_runs_and_the_card_says_the_same(typist, shot):
    typist.type(1, 'patients.dp.count(where="age >= 65", epsilon=0.1')
    typist.page.wait_for_timeout(600)
    assert typist.bar.inner_text() == ""  # not finished
    typist.page.keyboard.type(")")
    typist.waits_for("10% of the budget (ε 0.1) · ±30 rows · 100% left")
    assert typist.never_run(1)
    shot(typist.page, "estimate_light")
    typist.notebook.run_cell(1)
    card = typist.notebook.output(1).inner_text()
    assert "±30 rows" in card
    assert re.search(r"ε[ \xa0]0\.1\b", card)
    typist.notebook.theme("Dark")
    typist.waits_for("±30 rows")
    shot(typist.page, "estimate_dark")
    typist.page.set_viewport_size({"width": 800, "height": 700})
    box = typist.bar.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 800
    shot(typist.page, "estimate_narrow")
    typist.notebook.output(1).get_by_role("button", name="Run: spend").click()
    typist.waits_for("free · ±30 rows · 90% left")  # the budget has moved, and the answer is known now
    assert typist.notebook.errors == []


def test_a_statement_says_its_price_and_follows_the_keys(typist, shot):
    typist.notebook.run_cell(3)
    typist.type(1, "%%dpsql\nSELECT COUNT(*) AS n FROM patients WHERE age >= 65")
    typist.waits_for("say what it may cost, -e 0.1")
    typist.page.keyboard.press("Control+Home")
    typist.page.keyboard.press("End")
    typist.page.keyboard.type(" -ne 0.1")
    typist.waits_for("10% of the budget (ε 0.1) · ±30 rows · 100% left")
    assert typist.never_run(1)
    typist.page.keyboard.type("5")
    typist.waits_for("15% of the budget (ε 0.15) · ±20 rows")
    typist.notebook.run_cell(1)
    card = typist.notebook.output(1).inner_text()
    assert "±20 rows" in card
    assert re.search(r"ε[ \xa0]0\.15\b", card)
    assert typist.notebook.errors == []


def test_where_it_is_narrow_it_says_all_in_fewer_words(typist):
    typist.notebook.run_cell(3)
    aggregates = "COUNT(*) AS n, SUM(age) AS total, AVG(age) AS mean"
    typist.type(1, f"%%dpsql -n -e 0.1\nSELECT {aggregates} FROM patients WHERE age >= 65")
    typist.waits_for("· 100% left")  # alone it is what stands there before anything is known of the cell
    for width, words in (
        (1900, r"10% of the budget \(ε 0\.1\) .*mean.* · 100% left"),
        (800, r"10% · n ±\S+ rows and 2 more · 100% left"),
    ):
        typist.page.set_viewport_size({"width": width, "height": 900})
        # The page hears of its new size later.
        assert wait_until(lambda words=words: re.fullmatch(words, typist.bar.inner_text().replace("\xa0", " "))), width
        assert typist.bar.evaluate("bar => bar.scrollWidth <= bar.clientWidth")
    typist.page.set_viewport_size({"width": 1400, "height": 1000})


def test_the_kernel_may_be_busy_and_its_output_stays_its_own(typist, workdir):
    notebook = typist.notebook
    notebook.js("panel.content.activeCellIndex = 4")
    notebook.js("(void app.commands.execute('notebook:run-cell'))")
    notebook.output(4).get_by_text(re.compile("^0 1")).wait_for()
    typist.type(1, 'patients.dp.histogram("age", epsilon=0.2)')
    typist.waits_for("20% of the budget (ε 0.2) · ±15 rows")
    assert notebook.js("panel.content.widgets[4].model.executionState") == "running"
    (workdir / "done").touch()
    typist.page.wait_for_function(
        "window.jupyterapp.shell.currentWidget.content.widgets[4].model.executionState === 'idle'"
    )
    written = notebook.output(4).inner_text().split()
    assert written == [str(i) for i in range(len(written))]
    assert notebook.errors == []


def test_without_the_package_it_is_silent_and_after_a_restart_it_comes_back(typist):
    typist.type(1, "patients.dp.count(epsilon=0.1)")
    typist.waits_for("±30 rows")
    typist.notebook.js("panel.sessionContext.session.kernel.restart()")
    typist.notebook.wait_kernel()
    typist.page.keyboard.type(" ")
    typist.bar.wait_for(state="hidden")
    typist.notebook.run_cell(0)
    typist.page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content").click()
    typist.waits_for("±30 rows")
    # Another page of the same notebook finds the kernel, and each shows what stands in its own cell.
    typist.notebook.save()
    typist.page.reload()
    typist.page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.content?.widgets")
    typist.notebook.wait_kernel()
    typist.page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content").click()
    typist.waits_for("±30 rows")
    assert typist.notebook.errors == []


def test_tab_completes_arguments_columns_and_levels_with_quotes_and_emoji(typist, shot):
    page, box = typist.page, typist.page.locator(".jp-Completer")

    def tab(text, wanted):
        page.keyboard.type(text)
        page.wait_for_timeout(300)
        page.keyboard.press("Tab")
        box.get_by_text(wanted, exact=True).first.wait_for()

    typist.type(1, "")
    tab("patients.dp.count(whe", "where=")
    page.keyboard.press("Enter")
    tab('"`w', "ward no 😀`")
    shot(page, "tab_column")
    page.keyboard.press("Enter")
    tab(" == '<", EVIL.replace("'", "\\\\'").replace('"', '\\"'))
    shot(page, "tab_level")
    page.keyboard.press("Enter")
    page.keyboard.type("'\", error=25)")
    typist.waits_for("±25 rows")
    wanted = r"""patients.dp.count(where="`ward no 😀` == '<b>it\\'s</b> \"far\" 😀'", error=25)"""
    assert typist.notebook.js("panel.content.widgets[1].model.sharedModel.getSource()") == wanted
    typist.type(2, "")
    tab("patients.dp.count(epsilon=", "10%,\xa0±30\xa0rows")
    shot(page, "tab_epsilon")
    assert typist.notebook.errors == []


def test_a_shell_without_a_status_bar_is_told_nothing_and_knows_the_comm(context, base):
    """As Notebook 7: nothing is shown there, and no comm of the kernel is unknown, which its console would say."""
    page = context.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    script = base + "/lab/extensions/dpnotebook/static/remoteEntry.js"
    page.goto(script)  # a page of the server, with nothing of JupyterLab
    page.add_script_tag(url=script)
    found = page.evaluate(
        """async () => {
            const signal = () => ({ heard: [], connect(slot) { this.heard.push(slot); } });
            const given = module => ({ '1.0.0': { get: async () => () => module } });
            const notebook = { INotebookTracker: 'tracker', NotebookActions: { executed: signal() } };
            const names = [];
            const kernel = { registerCommTarget: name => names.push(name) };
            const tracker = { widgetAdded: signal(), activeCellChanged: signal() };
            const outcome = [];
            for (const shared of [{ '@jupyterlab/notebook': given(notebook) }, {}]) {
                window._JUPYTERLAB.dpnotebook.init(shared);
                const plugins = (await window._JUPYTERLAB.dpnotebook.get())().default;
                const plugin = plugins.find(({ id }) => id === 'dpnotebook:estimate');
                outcome.push(plugin.optional);
                plugin.activate({}, plugin.optional.length ? tracker : undefined, undefined);
            }
            const kernelChanged = signal();
            const panel = { sessionContext: { session: { kernel }, kernelChanged } };
            tracker.widgetAdded.heard.forEach(slot => slot(tracker, panel));
            kernelChanged.heard.forEach(slot => slot(null, { newValue: kernel }));
            kernelChanged.heard.forEach(slot => slot(null, { newValue: null }));
            return [outcome, names, notebook.NotebookActions.executed.heard.length];
        }"""
    )
    assert found == [[["tracker"], []], ["dpnotebook.here", "dpnotebook.here"], 0]
    assert said == []
    page.close()
