"""Reads the HTML of cards: texts, cells of tables, alternative texts, and nothing that untrusted notebooks lose."""

from html.parser import HTMLParser

BLOCKS = {"div", "td", "th", "tr", "li", "summary", "pre", "details"}
# What JupyterLab's sanitizer keeps of an untrusted notebook, as far as we use it.
KEPT_TAGS = BLOCKS | {"span", "b", "img", "table", "thead", "tbody", "ol"}
KEPT_ATTRIBUTES = {"style", "alt", "src", "cellpadding"}


class Page(HTMLParser):
    """What a reader of some HTML gets: texts, cells of tables, alternative texts of pictures."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.alts, self.rows, self._words, self._cell = set(), [], [], [], [], None
        self.open = []
        self.feed(html)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag == "img":
            self.alts.append(dict(attrs)["alt"])
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
        if tag in BLOCKS:
            self._words.append(" ")
        if tag in ("td", "th"):
            self.rows[-1].append("".join(self._cell))
            self._cell = None

    def handle_data(self, data):
        self._words.append(data)
        if self._cell is not None:
            self._cell.append(data)

    @property
    def text(self):
        return " ".join("".join(self._words).split())


def read(html):
    """Return the page that `html` makes, held to what untrusted notebooks keep."""
    page = Page(html)
    assert page.tags <= KEPT_TAGS, page.tags - KEPT_TAGS
    assert {name for name, _ in page.attributes} <= KEPT_ATTRIBUTES
    for name, value in page.attributes:
        if name == "src":
            assert value.startswith("data:image/svg+xml;base64,")
        if name == "style":
            assert "var(" not in value
            assert "url(" not in value
    return page
