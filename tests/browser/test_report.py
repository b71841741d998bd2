"""The report as a reader opens it: from a folder, with the network off, in a real browser."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn


def _load(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


axe, driver = _load("axe"), _load("labtest")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Return the folder of a report with every kind of picture, and how many answers it has."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 100, 3000),
            "sex": rng.choice(["F", "M"], 3000),
            "ward": rng.choice(["A", "<b>B</b> & co"], 3000),
            "secret": "CANARY",
        }
    )
    with dpn.Session(dpn.Budget(epsilon=4.0)) as session:
        domain = {"age": dpn.Range(0, 99, unit="years"), "sex": ["F", "M"], "ward": ["A", "<b>B</b> & co"]}
        table = session.protect(frame, "patients", domain=domain)
        releases = [
            table.count(epsilon=0.2).run(),
            table.histogram("age", epsilon=0.2).run(),
            table.crosstab("sex", "ward", epsilon=0.2).run(),
            table.groupby("ward").mean("age", epsilon=0.2).run(),
            session.sql("SELECT sex, 2 * COUNT(*) AS twice FROM patients GROUP BY sex", epsilon=0.2).run(),
        ]
        folder = session.publish(tmp_path_factory.mktemp("published") / "report", releases, title="Patients")
    return folder, releases


@pytest.fixture(scope="module")
def opened(playwright, published):
    folder, _ = published
    base = folder.as_uri()
    with driver.chromium(playwright, base) as context:
        page = context.new_page()
        page.goto(f"{base}/report.html")
        yield page, context


def test_it_opens_offline_and_asks_for_nothing(opened, published):
    page, context = opened
    folder, releases = published
    pictures = page.locator("img")
    assert pictures.count() == len(releases)
    page.wait_for_function("[...document.images].every(one => one.complete)")
    assert all(pictures.evaluate_all("all => all.map(one => one.naturalWidth > 20)"))
    assert all(len(alt) > 20 for alt in pictures.evaluate_all("all => all.map(one => one.alt)"))
    assert page.locator("article table").count() == len(releases)
    assert page.get_by_text("<b>B</b> & co").count()
    assert "CANARY" not in page.content()
    asked = page.evaluate("performance.getEntriesByType('resource').map(one => one.name)")
    assert [one for one in asked if not one.startswith("data:")] == []
    with page.expect_download() as started:
        page.locator("article a[download='release-2.csv']").click()
    assert started.value.path().read_bytes() == (folder / "release-2.csv").read_bytes()
    assert context.blocked == []


def test_the_numbers_are_those_of_the_release(opened, published):
    page, _ = opened
    release = published[1][2]
    rows = page.locator("#release-3 tbody tr")
    assert rows.count() == len(release)
    shown = [float(re.search(r"-?[\d,.]+", text)[0].replace(",", "")) for text in rows.locator("td").all_inner_texts()]
    half = (release.frame["upper"] - release.frame["lower"]) / 2
    assert (np.abs(release.frame["value"] - shown) < half / 10).all()  # rounded as its error supports


def test_it_is_read_by_everyone(opened, shot):
    page, _ = opened
    shot(page.locator("main"), "report")
    assert axe.violations(page, "main") == []
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("h1").inner_text() == "Patients"
    page.set_viewport_size({"width": 360, "height": 800})  # a telephone: nothing but tables scrolls sideways
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert axe.violations(page, "main") == []


def test_it_is_reached_by_keyboard(opened):
    page, _ = opened
    page.locator("body").press("Tab")
    seen = []
    for _ in range(60):
        seen.append(page.evaluate("document.activeElement.textContent.slice(0, 40)"))
        page.keyboard.press("Tab")
    assert any("CSV" in text for text in seen)
    assert any("url_slug" in text for text in seen)


@pytest.fixture(scope="module")
def clinic(playwright, tmp_path_factory):
    """Run notebooks/publishing.ipynb, with data that nobody may see planted in its CSV, and open its report."""
    import nbformat

    notebook = nbformat.read(Path(__file__).parents[2] / "notebooks/publishing.ipynb", 4)
    names = {}
    for cell in notebook.cells:
        if cell.cell_type != "code" or "raises-exception" in cell.metadata.get("tags", []):
            continue
        exec(cell.source, names)
        if "visits" in names and "guide" not in names:  # read from the CSV just now
            names["visits"].loc[names["visits"].index[:300], "ward"] = "CANARY"  # no declared level
    folder = names["report"]
    with names["session"], driver.chromium(playwright, folder.as_uri()) as context:
        page = context.new_page()
        page.goto(f"{folder.as_uri()}/report.html")
        yield page, context, folder


def test_from_a_csv_to_a_report_in_one_notebook(clinic, shot):
    page, context, folder = clinic
    page.wait_for_function("[...document.images].every(one => one.complete)")
    pictures = page.locator("article img")
    assert pictures.count() == page.locator("article").count() == 3
    for width, height in pictures.evaluate_all("all => all.map(one => [one.clientWidth, one.clientHeight])"):
        assert min(width, height) > 100
    assert page.get_by_text(re.compile("thinks 50 of 100 that .* could think at most")).count()  # odds
    for section in ("What is guaranteed", "Method", "How to cite", "Entry for the registry of deployments"):
        assert page.get_by_role("heading", name=section).is_visible()
    assert axe.violations(page, "main") == []
    assert page.evaluate("performance.getEntriesByType('resource').filter(one => !one.name.startsWith('data:'))") == []
    assert context.blocked == []
    shot(page.locator("main"), "clinic")
    for file in folder.iterdir():
        assert b"CANARY" not in file.read_bytes(), file.name
        assert b"Tropical" not in file.read_bytes(), file.name  # withheld: its noisy count is small
