"""All that the golden files know of how the package is built inside. When code moves, this module alone may follow it.

What is random comes from the operating system through `os.urandom` and `secrets`, and what is asked of DuckDB goes
through `duckdb.connect`: both are taken over there, so no module of the package is named for them.
"""

import contextlib
import hashlib
import os
import re
import secrets

import duckdb

from dpnotebook.dialect.translate import translated as _translated
from dpnotebook.engine import sealed
from dpnotebook.errors import DPError


@contextlib.contextmanager
def fixed_randomness(name):
    """Let every key, identity and salt that is made be the same in every process, and others for another name."""
    counts = {}

    def drawn(kind, size):
        number = counts[kind, size] = counts.get((kind, size), 0) + 1
        return hashlib.shake_256(f"{name}|{kind}|{size}|{number}".encode()).digest(size)

    with contextlib.ExitStack() as kept:
        for module, called, fixed in (
            (os, "urandom", lambda size: drawn("urandom", size)),
            (secrets, "token_bytes", lambda size=32: drawn("bytes", size)),
            (secrets, "token_hex", lambda size=32: drawn("hex", size).hex()),
        ):
            kept.callback(setattr, module, called, getattr(module, called))
            setattr(module, called, fixed)
        yield


class Heard:
    """What DuckDB was asked, in order; `stop` makes whatever reads rows fail."""

    def __init__(self):
        self.texts, self.stop = [], False


class _Connection:
    def __init__(self, connection, heard):
        self._connection, self._heard = connection, heard

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, query, *arguments, **options):
        self._heard.texts.append(query)
        if self._heard.stop and query.startswith(("SELECT", "WITH")):
            raise duckdb.InvalidInputException("stopped")
        return self._connection.execute(query, *arguments, **options)

    def cursor(self):
        return _Connection(self._connection.cursor(), self._heard)


@contextlib.contextmanager
def listening():
    """Yield a `Heard` of all connections that are made to DuckDB meanwhile."""
    heard, connect = Heard(), duckdb.connect
    duckdb.connect = lambda *arguments, **options: _Connection(connect(*arguments, **options), heard)
    sealed.empty_database.cache_clear()  # one that is open already was not listened to, and is not to be afterwards
    try:
        yield heard
    finally:
        duckdb.connect = connect
        sealed.empty_database.cache_clear()


@contextlib.contextmanager
def listening_to_postgres():
    """Yield a `Heard` of what reads or keeps rows in PostgreSQL meanwhile."""
    import psycopg

    with _listening(psycopg.Connection, "execute") as heard:
        yield heard


@contextlib.contextmanager
def listening_to_spark():
    """Yield a `Heard` of what reads rows in Spark meanwhile."""
    from pyspark.sql import SparkSession

    with _listening(SparkSession, "sql") as heard:
        yield heard


@contextlib.contextmanager
def _listening(kind, name):
    heard, original = Heard(), getattr(kind, name)

    def execute(self, query, *arguments, **options):
        if query.startswith(("SELECT", "WITH", "CREATE TEMP TABLE")) and re.search(_OURS, query):
            heard.texts.append(query)
        return original(self, query, *arguments, **options)

    setattr(kind, name, execute)
    try:
        yield heard
    finally:
        setattr(kind, name, original)


_OURS = re.compile(r'__table\d|__rows|dpnotebook_\d|"?bounded\b|FROM "frame"')  # tables as queries of ours call them
_NUMBERED = re.compile(r"__frame_\d+|__rows_\d+|__table\d+|dpnotebook_\d+_\d+|\bsecret \d+|\bheld \d+")


def plain(text, folder=""):
    """Return SQL without what differs from run to run: salts, temporary folders, and numbers counted in a process.

    Parameters
    ----------
    text
        The SQL; names that are numbered in it are numbered anew, in the order in which it names them.
    folder
        The folder of the story's files.
    """
    numbers = {}
    text = re.sub(r"(dpnotebook secret )(?:[0-9a-f]{64}|[0-9a-f]{32})", r"\1SALT", text)
    if folder:
        text = text.replace(folder, "FOLDER")

    def name(found):
        kind = re.sub(r"[\d_ ]+", "", found[0])
        same = [one for one in numbers if one.startswith(kind)]
        return numbers.setdefault(f"{kind} {found[0]}", f"{kind}_{len(same)}")

    return _NUMBERED.sub(name, text)


def in_dialect(query, dialect):
    """Return a query of DuckDB's as it is sent to PostgreSQL or Spark, or why it cannot be."""
    try:
        return _translated(query, dialect)
    except DPError as error:
        return f"-- {type(error).__name__}: {error}"
