"""axe-core finds nothing serious in our outputs: live in both themes, and as HTML in a bare page without scripts."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("axe", Path(__file__).parent / "axe.py")
axe = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(axe)

OURS = "#ours"
CELLS = [
    "patients.dp.crosstab('region', 'sex', error=100)",
    "patients.dp.mean('income', epsilon=0.8).run()",
    "session.dashboard()",
    "dpn.explore(dpn.workload.AllRange(32))",
    "patients.dp.histogram('age', epsilon=0.02).run().plot()",
    "session.prefetch(dpn.ranges('age'), errors=[1, 100])",  # one that nobody can afford
    'session.sql("SELECT sex, AVG(income) AS pay FROM patients GROUP BY sex", epsilon=0.05)',
    "bench = session.workbench('patients')\nbench.panel.add_filter('age').low.value = 18\n"
    "bench.panel.add_filter('region')\nbench.panel.add_filter('income')\nbench.panel.add_key('sex')\n"
    "bench.builder.add_part(columns=('age',))\nbench",
    "session.budget_planner(patients.dp.count(error=300), patients.dp.histogram('sex', error=500))",
    "dpn.protect_guide(pd.DataFrame({'age': [31], 'ward': ['A']}))",
]
TABS = ("Spend by column", "Releases", "Offers", "Burn-down")


@pytest.fixture
def notebook(open_notebook):
    opened = open_notebook("axe.ipynb", CELLS)
    opened.page.set_viewport_size({"width": 1400, "height": 4000})
    opened.run_all()
    opened.output(4).get_by_role("button", name="Compare strategies").click()
    opened.output(4).get_by_text("is the best so far").or_(opened.output(4).get_by_text("Best:")).first.wait_for()
    return opened


def check(notebook, cell, rules=()):
    notebook.js("panel.content.scrollToItem(arg, 'start')", cell)
    notebook.page.evaluate(
        """cell => { document.querySelector('#ours')?.removeAttribute('id');
            const shown = document.querySelectorAll('.jp-Notebook .jp-Cell')[cell];
            shown.querySelector('.jp-Cell-outputArea').id = 'ours'; }""",
        cell,
    )
    return axe.violations(notebook.page, OURS, rules)


def test_live_outputs_in_both_themes(notebook, shot):
    for theme, rules in (("Light", ()), ("Dark", axe.COLOURS)):
        notebook.theme(theme)
        for cell in range(1, len(CELLS) + 1):
            assert check(notebook, cell, rules) == [], (theme, CELLS[cell - 1])
        board = notebook.output(3)
        for name in TABS:
            board.locator(".lm-TabBar-tabLabel", has_text=name).click()
            board.locator(".jupyter-widgets.widget-tab .widget-tab-contents > :not(.lm-mod-hidden)").first.wait_for()
            if name == "Offers":
                board.get_by_role("button", name=re.compile("^(Buy:|Nothing to buy:|Not enough)")).wait_for()
            notebook.page.wait_for_timeout(400)
            assert check(notebook, 3, rules) == [], (theme, name)
            shot(board, f"axe_{theme}_{name.replace(' ', '_')}")
        bench = notebook.output(8)
        for name in ("A workload", "The budget plan", "A question"):
            bench.get_by_role("button", name=name, exact=True).click()
            notebook.page.wait_for_timeout(200)
            assert check(notebook, 8, rules) == [], (theme, name)
            shot(bench, f"axe_{theme}_bench_{name.replace(' ', '_')}")
        bench.get_by_role("button", name="Copy as pandas").click()
        bench.get_by_label("The question as text").wait_for()
        assert check(notebook, 8, rules) == [], (theme, "copied")
        for cell in (9, 10):
            shot(notebook.output(cell), f"axe_{theme}_{cell}")
        board.get_by_text("The same without controls").click()
        assert check(notebook, 3, rules) == [], theme
    notebook.theme("Light")


BUNDLES = """
import json
import numpy as np, pandas as pd
import dpnotebook as dpn

rng = np.random.default_rng(1)
patients = pd.DataFrame({"age": rng.integers(0, 100, 2000), "sex": rng.choice(["F", "M"], 2000)})
session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
table = session.protect(patients, "patients", rows=2000, domain={"age": dpn.Range(0, 99), "sex": ["F", "M"]})
query = table.crosstab("age", "sex", error=100)
shown = [query.plan, query.run(), table.histogram("sex", error=500).plan, query.run().plot()]
shown += [session.prefetch(dpn.ranges("age"), errors=[1, 100]), session, dpn.explore(dpn.workload.AllRange(32))]
shown += [session.dashboard(), dpn.strategy.identity(dpn.workload.AllRange(8))]
shown += [session.workbench(), session.budget_planner(table.count(error=40)), dpn.protect_guide(patients)]
print(json.dumps([one._repr_mimebundle_()["text/html"] for one in shown]))
"""


@pytest.fixture(scope="module")
def parts():
    """Return the HTML of one output of each kind."""
    run = subprocess.run([sys.executable, "-c", BUNDLES], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def test_html_alone_in_a_bare_page_without_scripts(playwright, labtest, parts):
    """As VS Code and Colab show it: our text/html, and nothing of ours that would have to run."""
    assert not re.search(r"<script|<style|<link|https?://(?!www\\.w3\\.org)", "".join(parts))
    assert "var(--" not in "".join(parts)  # JupyterLab's own variables, which nobody else has
    tags = "".join(re.findall(r"<[^>]*>", "".join(parts)))
    # Two outputs in a page share no ids and no classes; nothing runs, and nothing is expected of the page.
    assert not re.search(r'\s(id|class|name|for|on\w+)="', re.sub(r'(src|alt)="[^"]*"', "", tags))
    body = "".join(f"<section aria-label='output {n}'>{part}</section>" for n, part in enumerate(parts))
    browser = playwright.chromium.launch(executable_path=labtest.CHROMIUM, headless=True, args=labtest.FLAGS)
    for scheme, colours in (("light", "color:#000;background:#fff"), ("dark", "color:#ddd;background:#1e1e1e")):
        html = (
            f"<!doctype html><html lang=en><head><title>{scheme}</title></head>"
            f"<body style='{colours}'><main id=ours>{body}</main></body></html>"
        )
        plain = browser.new_context(java_script_enabled=False, color_scheme=scheme).new_page()
        plain.set_content(html)
        said = plain.locator("main").inner_text()
        for words in (
            "of the budget left",
            "Spend by column",
            "COUNT by age, sex",
            "Strategies for",
            "For sale",
            "Budget plan",
        ):
            assert words in said
        plain.locator("summary").first.click()  # opens without scripts
        assert plain.locator("details[open]").count() == 1
        # What is read is looked at by axe, which is a script itself, in the same page with scripts on.
        checked = browser.new_context(color_scheme=scheme).new_page()
        checked.set_content(html)
        checked.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert axe.violations(checked, OURS) == [], scheme
        # In a shadow root, as VS Code has outputs, and in a frame of another origin, as Colab has: nothing comes in.
        checked.evaluate("""() => { const ours = document.querySelector('#ours'), html = ours.innerHTML;
            ours.innerHTML = ''; ours.attachShadow({mode: 'open'}).innerHTML = html; }""")
        assert axe.violations(checked, OURS) == [], scheme
        checked.evaluate(
            """html => { const frame = document.createElement('iframe'); frame.id = 'frame'; frame.title = 'outputs';
            frame.setAttribute('sandbox', 'allow-scripts'); frame.srcdoc = html; document.body.append(frame); }""",
            html,
        )
        checked.query_selector("#frame").content_frame().wait_for_load_state("load")  # else half of it can be there
        frame = checked.frame_locator("#frame")
        assert frame.locator("main").inner_text().split() == said.split()
        pictures = frame.locator("img")
        assert pictures.count() > 10
        assert all(pictures.evaluate_all("all => all.map(one => one.complete && one.naturalWidth > 20)"))
    browser.close()


# What is around an output elsewhere: the colours of the editor, what its style sheet says of tables and pictures, and
# what its content security policy lets a page load. Of VS Code as its sources have it, of Colab as its pages have it.
TABLES = (
    "table{border-collapse:collapse;width:100%} table,thead,tr,th,td{border:none !important}"
    "table,th,tr{text-align:left !important} thead{background:rgba(130,130,130,.16)} th,td{padding:4px 8px}"
    "tr:nth-child(even){background:rgba(130,130,130,.08)} img{max-width:100%;max-height:100%}"
)
WEBVIEW = "default-src 'none';style-src 'unsafe-inline';img-src https: data:"
HOSTS = {
    "VS Code Dark Modern": ("#cccccc", "#1f1f1f", TABLES, WEBVIEW),
    "VS Code Light Modern": ("#3b3b3b", "#ffffff", TABLES, WEBVIEW),
    "Colab dark": ("#e3e3e3", "#383838", "", "default-src 'self' data: 'unsafe-inline'"),
}


def test_html_alone_under_the_rules_of_other_notebooks(playwright, labtest, parts, shot):
    """Same outputs, in frames without a network: all is loaded, can be read, and changes nothing beside it."""
    outputs = "".join(f"<section aria-label='output {n}'>{one}</section>" for n, one in enumerate(parts))
    browser = playwright.chromium.launch(executable_path=labtest.CHROMIUM, headless=True, args=labtest.FLAGS)
    looks = """() => { const own = getComputedStyle(document.querySelector('#host'));
        return [...own].map(name => own.getPropertyValue(name)).join(); }"""
    for name, (colour, behind, style, policy) in HOSTS.items():
        start = (
            f"<!doctype html><html lang=en><head><title>{name}</title><style>body{{color:{colour};background:{behind};"
            f"font:13px sans-serif}}{style}</style></head><body><p id=host>The host's own</p><main id=ours>"
        )
        page = browser.new_context(bypass_csp=True).new_page()  # so that axe may be put in
        page.set_content(f"{start}</main></body></html>")
        before = page.evaluate(looks)
        page.set_content(f"{start}{outputs}</main></body></html>")
        assert page.evaluate(looks) == before, name
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        shot(page.locator("#ours"), f"host_{name.replace(' ', '_')}")
        assert axe.violations(page, OURS) == [], name
        strict = browser.new_page()
        refused = []
        strict.on("console", lambda message, refused=refused: refused.append(message.text))
        strict.on("request", lambda request, refused=refused: refused.append(request.url[:80]))
        meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        strict.set_content(f"{start.replace('<title>', f'{meta}<title>')}{outputs}</main></body></html>")
        pictures = strict.locator("img")
        assert pictures.count() > 10
        strict.wait_for_function("[...document.images].every(one => one.complete)")
        assert all(pictures.evaluate_all("all => all.map(one => one.naturalWidth > 20)")), name
        assert [one for one in refused if not one.startswith("data:")] == [], name
    browser.close()
