"""Tables and views in DuckDB: in database files, and in connections of the user's."""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.dialect.attributes import identifier, literal
from dpnotebook.dialect.types import ZONED
from dpnotebook.engine.base import DUCKDB, Source
from dpnotebook.engine.digests import digest_column, row_sums
from dpnotebook.engine.executor import DuckDBExecutor, Executor
from dpnotebook.engine.files import check_file, stamp_of
from dpnotebook.engine.frame_source import of_frame
from dpnotebook.engine.frame_transfer import carried
from dpnotebook.engine.frames import FrameColumns
from dpnotebook.engine.keyed import keyed
from dpnotebook.engine.same import equal, same_file, words
from dpnotebook.engine.sealed import sealed
from dpnotebook.errors import DomainError, EngineError, FrameChanged, shorten
from dpnotebook.ledger.forks import in_child, opened

if TYPE_CHECKING:
    import duckdb

SUMS = "sums "  # begins the digests of tables that are made as this version makes them


@dataclass(frozen=True, eq=False)
class DuckDBSource(Source):
    """A table or view in DuckDB: in a database file, opened read-only, or in a connection of the user's.

    Tables of files are read in place. Those of a connection can change, follow its settings, and go with it, and views
    can give other rows every time: their rows are taken once, at the first look, and these are asked.
    """

    database: Path | duckdb.DuckDBPyConnection
    table: str
    _process: int = field(default_factory=os.getpid, init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.database, Path):
            in_child(self._forget_parent)
        else:
            opened(self.database)

    def _forget_parent(self) -> None:
        """Forget the parent's connection to a file: this process opens its own."""
        self.__dict__.pop("_raw", None)

    @property
    def place(self) -> tuple[str, Any]:
        """Where it can be read."""
        return DUCKDB

    @cached_property
    def rows(self) -> FrameColumns | None:
        """The rows as they were at the first look; None where they are read in place."""
        executor, relation = self._raw
        if isinstance(self.database, Path) and not self._is_worked_out(executor):
            return None
        return FrameColumns(*carried(executor, relation))

    @property
    def at_hand(self) -> bool:
        """Whether its rows were taken."""
        return self.rows is not None

    @property
    def zoned(self) -> frozenset[str]:
        """Columns of moments among the rows that were taken, whose types there are others."""
        types = {} if self.rows is None else self.rows.types
        return frozenset(name for name, kind in types.items() if kind in ZONED)

    @cached_property
    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """What tells whether the file was changed, when it was first looked at; empty for connections."""
        return self._stamps()

    @property
    def fleeting(self) -> bool:
        """Whether fingerprints must be made now: the connection may be closed later."""
        return not isinstance(self.database, Path)

    def check_unchanged(self) -> None:
        """Raise FrameChanged if the file was replaced or written to."""
        if isinstance(self.database, Path) and self.database.exists() and self._stamps() != self.stamp:
            raise FrameChanged(
                f"{self.database} was changed after {self.table} was protected; nothing was spent. To ask about "
                "what is in it now, protect it under a new name"
            )

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""
        if self.rows is not None:
            return self.rows.names
        executor, relation = self._raw
        return [name for name, _ in executor.types(f"SELECT * FROM {relation}")]

    def connect(self, unit: str | None = None) -> tuple[DuckDBExecutor, str]:
        """Return a connection that sees the table."""
        if self.rows is not None:
            return of_frame(self.rows, self.rows.names)
        assert isinstance(self.database, Path)
        return DuckDBExecutor(sealed(attached={"source": self.database})), f"source.{self._named}"

    @contextmanager
    def reading(self, columns: Sequence[str], unit: str | None) -> Iterator[tuple[Executor, str]]:
        """Yield a connection that sees the rows that were taken, or those in the file."""
        executor, relation = self.connect(unit) if self.rows is None else of_frame(self.rows, columns)
        try:
            yield executor, relation
        finally:
            executor.close()

    @property
    def databases(self) -> Sequence[Path]:
        """The database file."""
        return (self.database,) if isinstance(self.database, Path) else ()

    def relation_in(self, attached: Mapping[Path, str]) -> str:
        """Return the SQL of the table in its file."""
        assert isinstance(self.database, Path)
        return f"{attached[self.database.resolve()]}.{self._named}"

    def shows(self, protected: Source) -> bool:
        """Return whether it is a protected table in DuckDB, or a view of one or of a protected file."""
        if protected.files:
            return any(file.name in text for file in protected.files for text in self.definitions())
        if not isinstance(protected, DuckDBSource):
            return False
        import duckdb

        with contextlib.suppress(duckdb.Error, EngineError):  # a connection was closed: then only the rows can tell
            if self._same_database(protected):
                name = protected._last.casefold()
                if self._is(protected) or any(name in words(text) for text in self.definitions()):
                    return True
        return self.rows is not None and protected.rows is not None and equal(self.rows, protected.rows)

    def _is(self, other: DuckDBSource) -> bool:
        """Return whether it is the table of that name; where it is not told in which schema one is, any may be."""
        mine, others = self._placed[::-1], other._placed[::-1]
        return all(one.casefold() == two.casefold() for one, two in zip(mine, others, strict=False))

    def _same_database(self, other: DuckDBSource) -> bool:
        if self.database is other.database:
            return True
        mine, others = self.file, other.file
        if mine is not None and others is not None:
            return same_file(mine, others)
        return mine is others is None and self.shares_memory(other)

    @cached_property
    def _raw(self) -> tuple[DuckDBExecutor, str]:
        """A connection that sees the table as it is stored, at one moment."""
        if isinstance(self.database, Path):
            _ = self.stamp
            executor = DuckDBExecutor(sealed(attached={"source": self.database}))
            return executor, f"source.{self._named_in(executor)}"
        cursor = opened(self.database.cursor())
        # Never committed: whatever is written to the table from now on, this cursor sees the rows of this moment.
        cursor.execute("BEGIN TRANSACTION")
        executor = DuckDBExecutor(cursor)
        return executor, self._named_in(executor)

    def _named_in(self, executor: DuckDBExecutor) -> str:
        """Return the SQL of the table's name: one that has dots in it, or else one in a schema."""
        named = literal(self.table)  # looked up: what fails would end the transaction
        found = executor.columns(
            f"SELECT count(*) AS n FROM (SELECT table_name AS name FROM duckdb_tables() UNION ALL "
            f"SELECT view_name FROM duckdb_views()) WHERE lower(name) = lower({named})"
        )
        parts = (self.table,) if found["n"][0] else parts_of(self.table)
        return ".".join(map(identifier, parts))

    @cached_property
    def _named(self) -> str:
        """The SQL of its name in the database."""
        relation = self._raw[1]
        return relation.removeprefix("source.") if isinstance(self.database, Path) else relation

    @property
    def _parts(self) -> tuple[str, ...]:
        """Its name, after that of its schema where that is said."""
        return parts_of(self._named)

    @cached_property
    def _placed(self) -> tuple[str, ...]:
        """Its name after that of its schema, also where only the database tells which that is."""
        if len(self._parts) > 1:
            return self._parts
        executor, named = self._raw[0], f"= lower({literal(self._last)})"
        found = executor.columns(
            f"SELECT database_name AS base, schema_name AS place FROM duckdb_tables() WHERE lower(table_name) {named} "
            f"UNION ALL SELECT database_name, schema_name FROM duckdb_views() WHERE lower(view_name) {named}"
        )
        here = executor.columns("SELECT current_database() AS base, current_schema() AS place")
        first = ("source", "main") if isinstance(self.database, Path) else (here["base"][0], here["place"][0])
        places = set(zip(found["base"].tolist(), found["place"].tolist(), strict=True))
        return (str(first[1]), *self._parts) if first in places else self._parts

    @property
    def _last(self) -> str:
        """Its name without that of its schema."""
        return self._parts[-1]

    @cached_property
    def file(self) -> Path | None:
        """The file that the table is in; None where it is in memory."""
        if isinstance(self.database, Path):
            return self.database
        query = "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
        found = self._stored()[0].columns(query)
        path = np.ma.filled(np.ma.asarray(found["path"]), "")[0]
        return Path(path) if path else None

    def shares_memory(self, other: DuckDBSource) -> bool:
        """Whether another table in memory is in the same database: what one connection attaches, the others see."""
        if isinstance(self.database, Path) or isinstance(other.database, Path):
            return False
        self._stored(), other._stored()
        name = f"dpnotebook_{secrets.token_hex(8)}"
        query = f"SELECT count(*) AS n FROM duckdb_databases() WHERE database_name = '{name}'"
        cursors = self.database.cursor(), other.database.cursor()
        cursors[0].execute(f"ATTACH ':memory:' AS {name}")
        try:
            return bool(DuckDBExecutor(cursors[1]).columns(query)["n"][0])
        finally:
            cursors[0].execute(f"DETACH {name}")

    def definitions(self) -> list[str]:
        """Return what the table is as a view, and the views that it is made of; nothing for a table."""
        executor, _ = self._stored()
        found = executor.columns("SELECT lower(view_name) AS name, sql FROM duckdb_views() WHERE NOT internal")
        views: dict[str, list[str]] = {}  # schemas may have views of the same name: all of them
        for name, text in zip(found["name"].tolist(), found["sql"].tolist(), strict=True):
            views.setdefault(name, []).append(text)
        waiting, texts = [self._last.lower()], []
        while waiting:
            here = views.pop(waiting.pop(), [])
            texts += here
            waiting += [name for name in views if any(name in text.lower() for text in here)]
        return texts

    def _is_worked_out(self, executor: DuckDBExecutor) -> bool:
        """Whether the table is a view, or has columns that are worked out when it is read."""
        here, name = "database_name = 'source' AND", f"lower({literal(self._last)})"
        views = f"SELECT 1 AS one FROM duckdb_views() WHERE {here} lower(view_name) = {name}"
        made = f"SELECT 1 AS one FROM duckdb_tables() WHERE {here} lower(table_name) = {name}"
        generated = f"{made} AND contains(sql, 'GENERATED ALWAYS')"
        return len(executor.columns(f"{views} UNION ALL {generated}")["one"]) > 0

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        if not isinstance(self.database, Path):
            return ()
        log = self.database.with_name(self.database.name + ".wal")
        return tuple(stamp_of(path) for path in (self.database, log) if path.is_file())

    def _stored(self) -> tuple[DuckDBExecutor, str]:
        if not isinstance(self.database, Path) and os.getpid() != self._process:
            raise EngineError(
                f"{shorten(self.table)} is read through a connection of the process that this one was forked from; "
                "make a "
                "session of its own here, with a connection that is opened here"
            )
        return self._raw

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the multiset of rows: a sum of keyed hashes, whatever the order of the rows."""
        executor, relation = self._stored()
        kinds = dict(executor.types(f"SELECT * FROM {relation}"))
        found = row_sums(executor, relation, [(name, kinds[name]) for name in columns], key)
        return SUMS + keyed(key, "table", *columns, repr(found).encode())

    def fingerprint_like(self, known: str | None, columns: Sequence[str], key: bytes) -> str:
        """Return a fingerprint made as the version made one that is known."""
        old = known and not known.startswith(SUMS)
        return self.fingerprint_by_text(columns, key) if old else self.fingerprint(columns, key)

    def form_digest(self, columns: Sequence[str], key: bytes) -> str:
        """Return one of the values of rows that were taken, in their order."""
        if self.rows is None:
            return super().form_digest(columns, key)
        digests = [digest_column(name, self.rows.read(name), key) for name in columns]
        return keyed(key, "copied", str(self.rows.rows), *columns, *digests)

    def check_still(self) -> None:
        """Raise EngineError if the file was changed while it was read."""
        check_file(self)

    def fingerprint_by_text(self, columns: Sequence[str], key: bytes) -> str:
        """Return the digest of earlier versions, from the MD5 of every row's text: exact, and 30 times slower."""
        executor, relation = self._stored()
        parts = [f"coalesce(length({text}) || ':' || {text}, 'null')" for text in map(_as_text, columns)]
        salt = literal(hmac.new(key, b"rows", "sha256").hexdigest())
        row = f"concat({salt}, {', '.join(parts)})"
        sums = ", ".join(f"sum(md5_number_{half}({row})::HUGEINT)" for half in ("lower", "upper"))
        assert executor.connection is not None
        found = executor.connection.execute(f"SELECT count(*), {sums} FROM {relation}").fetchone()
        return keyed(key, "table", *columns, repr(found).encode())


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a name of a table, as it is written in SQL: those in quotes without them.

    >>> parts_of('clinic."the ""new"" visits"')
    ('clinic', 'the "new" visits')
    """
    if not re.fullmatch(r'(?:"(?:[^"]|"")+"|[^".]+)(?:\.(?:"(?:[^"]|"")+"|[^".]+))*', name):
        return (name,)
    found = re.findall(r'"((?:[^"]|"")+)"|([^".]+)', name)
    return tuple(quoted.replace('""', '"') if quoted else plain for quoted, plain in found)


def duckdb_source(database: Any, table: str) -> DuckDBSource:
    """Return a table in a DuckDB file or connection.

    Raises
    ------
    DomainError
        If it is no database, or there is no such table, or its rows cannot be read.
    """
    import duckdb

    source = DuckDBSource(database, table)
    try:
        executor, relation = source._raw
    except duckdb.Error:
        raise DomainError(
            f"{source.database if isinstance(source.database, Path) else 'that connection'} cannot be opened as a "
            "DuckDB database; if a connection of yours has it open, give the connection itself"
        ) from None
    try:
        executor.types(f"SELECT * FROM {relation}")
    except EngineError:
        raise DomainError(f"there is no table or view {shorten(source.table)} in that database") from None
    try:
        _ = source.rows
    except EngineError:
        raise DomainError(
            f"the rows of {shorten(source.table)} cannot be read; does a query of all of them work?"
        ) from None
    return source


def _as_text(column: str) -> str:
    return f"CAST({identifier(column)} AS VARCHAR)"
