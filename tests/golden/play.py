"""Plays a story: each question is planned, run and shown; what it left in the ledger and asked of DuckDB is kept."""

import contextlib
import re
import tempfile
from pathlib import Path

from golden import shown
from golden.seam import fixed_randomness, in_dialect, listening, plain

import dpnotebook as dpn

OPENED = "(opened)"
DIALECTS = ("postgres", "spark")


def played(story):
    """Return what a story shows, as JSON values by the names of its steps."""
    found = {}
    with fixed_randomness(story.name):
        for number, steps in enumerate(_sessions(story)):
            found |= _session(story, steps, first=number == 0)
    return found


def _sessions(story):
    return [{name: step} for name, step in story.steps.items()] if story.alone else [story.steps]


def _session(story, steps, first):
    found = {}
    with tempfile.TemporaryDirectory(prefix="golden") as folder, listening() as heard, contextlib.ExitStack() as open_:
        path = Path(folder) / "a.ledger"
        session = dpn.Session(story.budget, ledger=path, planner=story.planner)
        open_.callback(session.close)
        listener = Listener(heard, path, story.dialects, folder)
        table = story.protect(session)
        opened = listener.news()
        if first:
            found[OPENED] = opened
        for name, step in steps.items():
            found[name] = _step(step, session, table, story.html, folder) | listener.news()
    return found


class Listener:
    """What came into the ledger and went to DuckDB since it was last asked; each SQL text is kept once."""

    def __init__(self, heard, path, dialects, folder):
        self._heard, self._path, self._dialects, self._folder = heard, path, dialects, str(folder)
        self._entries, self._known = 0, set()

    def news(self):
        """Return the ledger's new entries, and the new SQL."""
        found = {}
        entries = shown.entries(self._path, self._entries)
        self._entries += len(entries)
        if entries:
            found["ledger"] = entries
        texts = [plain(text, self._folder) for text in self._heard.texts]
        raw = dict(zip(texts, self._heard.texts, strict=True))
        self._heard.texts.clear()
        asked = [text for text in dict.fromkeys(texts) if _is_asked(text) and text not in self._known]
        self._known |= {*asked}
        if asked:
            found["sql"] = [self._in_words(text, raw[text]) for text in asked]
        return found

    def _in_words(self, text, raw):
        said = {"duckdb": shown.sql(text)}
        if self._dialects and len(text) <= shown.LONG_SQL and _is_of_rows(text):
            for dialect in DIALECTS:
                said[dialect] = shown.sql(plain(in_dialect(raw, dialect), self._folder), dialect)
        return said


def _is_asked(text):
    # What is worked out from a release is in the ledger; a connection that tries it out is kept from story to story.
    return text.startswith(("SELECT", "WITH", "CREATE OR REPLACE TEMP")) and "release_0" not in text


def _is_of_rows(text):
    """Return whether a query reads a table by its own name, as on a server."""
    return text.startswith(("SELECT", "WITH")) and not re.search('"frame"|__frame_|strlen|FROM bounded', text)


def _step(step, session, table, html, folder):
    try:
        made = step(session, table)
    except dpn.DPError as error:
        return shown.error(error, folder)
    if isinstance(made, dpn.Query):
        return _query(made, html, folder)
    if isinstance(made, dpn.strategy.Strategy):
        return {"strategy": shown.strategy(made), "card": shown.card(made, html)}
    if isinstance(made, dpn.Release):
        return {"release": shown.release(made), "shown": shown.card(made, html)}
    if hasattr(made, "_repr_mimebundle_"):
        return {"card": shown.card(made, html)}
    return {"value": shown.values(made)}


def _query(query, html, folder):
    try:
        found = {"plan": shown.plan(query.plan), "card": shown.card(query, html)}
        release = query.run()
    except dpn.DPError as error:
        return shown.error(error, folder)
    return found | {"release": shown.release(release), "shown": shown.card(release, html)}
