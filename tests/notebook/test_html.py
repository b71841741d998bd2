import re

import pytest

from dpnotebook.notebook import html


def test_a_table_has_real_headers_and_aligned_columns(page):
    parsed = page(html.table(("ward", "rows"), [("A", "12"), ("B", "7")], "lr", ["", "opacity:0.5"]))
    assert parsed.rows == [["ward", "rows"], ["A", "12"], ["B", "7"]]
    assert "th" in parsed.tags


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"shorter|longer"):
        html.table(("ward", "rows"), [("A",)], "lr")


def test_titles_and_summaries_are_escaped(page, evil):
    parsed = page(html.table((evil,), [], "l") + html.details(evil, "inside"))
    assert "script" not in parsed.tags
    assert parsed.rows == [[evil]]
    assert parsed.text.endswith("inside")


def test_parts_nest(page):
    assert page(html.box(html.line(html.quiet("a")), html.line("b", "margin:0"))).text == "a b"


@pytest.mark.parametrize("text", ["$5 to $10", r"\(x\) and \[y\]", "a & b $", "🏥 <ward> 'a' \"b\""])
def test_dollars_are_no_mathematics_and_every_sign_is_shown(page, text):
    shown = html.line(html.escape(text))
    assert page(shown).text == text
    assert all(element.count("$") <= 1 for element in re.split("<[^>]*>", shown))
    assert all("\\(" not in element for element in re.split("<[^>]*>", shown))
