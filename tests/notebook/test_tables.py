"""Tables of a release for texts of others: read back by somebody else's parser, they say what the release says."""

import re
from dataclasses import replace

import mistune
import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.notebook.tables import LATEX

NASTY = [
    "<script>alert('x')</script>", "a|b & c_d $e$ #1 100% {x} ~y^2 \\z", "`code` *bold* _it_ [link](http://x) ![i](y)",
    "😀 Zürich", "two\nlines", "~~gone~~", "&amp;", "--- | ---",
]  # fmt: skip


@pytest.fixture
def nasty(make_session, people):
    """Return a release by levels that every format has another meaning for."""
    with dpn.Session(budget=dpn.Budget(epsilon=1.0)) as session:
        frame = people.assign(odd=[NASTY[i % len(NASTY)] for i in range(len(people))])[["odd"]]
        yield session.protect(frame, "odd & ends", domain={"odd": NASTY}).histogram("odd", epsilon=0.5).run()


def test_values_have_the_digits_that_their_error_supports(session, page):
    release = session.table("people").histogram("sex", epsilon=0.1).run()
    frame = release.frame.assign(value=[1234.5678, -0.123456], lower=[1203.2, -0.137], upper=[1265.9356, -0.109912])
    rows = {frame.sex[row]: replace(release, frame=frame.iloc[row : row + 1]) for row in range(2)}
    assert rows["F"].to_markdown().splitlines()[:3] == [
        "| sex |        rows |",
        "| --- | ----------: |",
        "| F   | 1,235 ±31.4 |",
    ]
    assert r"F & 1,235 $\pm$31.4 \\" in rows["F"].to_latex().splitlines()
    assert r"M & $-$0.123 $\pm$0.0136 \\" in rows["M"].to_latex().splitlines()
    assert page(rows["F"].to_html()).rows[1] == ["F", "1,235 ±31.4"]


def test_markdown_shows_every_level_as_it_is(nasty):
    shown = mistune.create_markdown(plugins=["table", "strikethrough", "url"])(nasty.to_markdown())
    found = re.findall(r"<td[^>]*>(.*?)</td>", shown, re.DOTALL)
    assert len(found) == 2 * len(NASTY)
    for level, cell in zip(NASTY, found[::2], strict=True):
        assert "<" not in cell  # no element came of it
        said = cell.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")
        assert said == " ".join(level.split())
    for value, cell in zip(nasty.frame["value"], found[1::2], strict=True):
        assert cell.startswith(f"{value:,.0f} ±")


def test_latex_has_no_sign_left_that_means_something(nasty):
    lines = nasty.to_latex().splitlines()
    assert lines[0].startswith("% release #1")
    assert lines[1:4] == [r"\begin{tabular}{lr}", r"\toprule", r"odd & rows \\"]
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    body = lines[5:-2]
    assert len(body) == len(NASTY)
    back = {code: sign for sign, code in LATEX.items() if sign not in "\n\r"}
    pattern = re.compile("|".join(sorted(map(re.escape, back), key=len, reverse=True)))
    for level, line in zip(NASTY, body, strict=True):
        cell = line.removesuffix(r" \\").rpartition(" & ")[0]
        cell = cell.replace("-{}", "-")
        bare = pattern.sub("", cell)
        assert not set(bare) & set("\\{}$&#%_^~")
        assert pattern.sub(lambda found: back[found[0]], cell) == level.replace("\n", " ")


def test_html_shows_every_level_as_it_is(nasty, page):
    read = page(nasty.to_html())
    assert [row[0] for row in read.rows[1:]] == NASTY
    assert "script" not in read.tags


def test_all_rows_are_in_the_tables_and_twenty_beside_a_figure(session, page):
    release = session.table("people").histogram("age", epsilon=0.1).run()
    assert len(release.to_markdown().splitlines()) == 30 + 4
    assert len(page(release.to_html()).rows) == 31
    shown = page(release.plot()._repr_mimebundle_()["text/html"])
    assert len(shown.rows) == 21
    assert "The numbers: 20 rows of 30" in shown.text
    assert "… and 10 more rows" in shown.text


def test_several_measures_have_a_column_each(session):
    release = session.table("people").groupby("sex").agg({"age": ["count", "mean"]}, epsilon=0.5).run()
    head = release.to_markdown().splitlines()[0]
    assert len(head.split("|")) == 2 + 1 + len(release.names)
    first = release.to_markdown().splitlines()[2].split("|")
    assert float(first[3].split("±")[0]) == pytest.approx(release.frame[release.names[1]][0], abs=0.5)


def test_a_single_answer_is_a_table_of_one_row(session):
    release = session.table("people").count(epsilon=0.1).run()
    (line,) = release.to_markdown().splitlines()[2:3]
    assert re.fullmatch(r"\| +[\d,]+ ±[\d.]+ \|", line)
    assert np.isclose(float(line.strip("| ").split("±")[0].replace(",", "")), release.value)
