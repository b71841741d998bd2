"""All tables that a session's statements may name, and the one place where a statement's tables are together."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from dpnotebook.dialect.types import Kind, check_unit
from dpnotebook.engine.base import DUCKDB, Source
from dpnotebook.engine.executor import named
from dpnotebook.engine.homes import Held, Home, unclear
from dpnotebook.engine.source import engine_of
from dpnotebook.errors import EngineError, FrameChanged, shorten
from dpnotebook.ledger.forks import in_child, lock

if TYPE_CHECKING:
    import pandas as pd


Keeping = Literal["meanwhile", "spare", "spared"]

_open: weakref.WeakSet[Workspace] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Let go of every connection in time: DuckDB reports those that outlive the interpreter as leaks."""
    for workspace in list(_open):
        workspace.close()


class Workspace:
    """The tables of a session, reachable by SQL under the names they were given."""

    def __init__(self) -> None:
        self._tables: dict[str, Held] = {}
        self._lent: dict[Held | None, Home] = {}  # by the table whose moment it shows; None: the sealed one
        self._lock = lock()
        _open.add(self)
        in_child(self._forget_parent)

    def _forget_parent(self) -> None:
        """Forget the parent's connections: this process opens its own when it needs them."""
        self._lent.clear()

    def add(self, name: str, source: Source, unit: str | None, private: bool, later: bool = False) -> None:
        """Let statements name a table; one of the same name is replaced.

        Parameters
        ----------
        name
            As statements write it.
        source
            Where its rows are.
        unit
            Of a private table: the column that identifies a privacy unit; None: each row is one, and a statement can
            name it as the column `ROW_UNIT`.
        private
            Whether the table belongs to privacy units.
        later
            Whether what its columns hold may be found out when somebody asks: of a frame of which there is a copy, in
            one part and without a unit, of which nothing is to be checked.

        Raises
        ------
        DomainError
            If the unit column cannot be read, or its values have no canonical form.
        """
        with self._lock:
            table = Held(name, source, unit, private)
            before, self._tables[name] = self._tables.get(name), table
            try:
                if _owner(table) is None:
                    self._forget(None)  # what is sealed lets no other file in
                else:
                    home = self._lent[table] = self._opened(table)
                    table.digest = home.digest_once(table)
                if not later:
                    self._described(table)
                if private and unit is not None:
                    check_unit(unit, table.kinds[unit])
            except BaseException:
                self._forget(table)
                del self._tables[name]
                if before is not None:
                    self._tables[name] = before
                raise
            if before is not None:
                self._forget(before)

    def kinds(self, name: str) -> Mapping[str, Kind]:
        """Return what each column of a table holds, in the order of the table."""
        return self._described(self._tables[name]).kinds

    def elements(self, name: str) -> Mapping[str, Kind]:
        """Return what the elements of the lists in a table hold, where that is known."""
        return self._described(self._tables[name]).elements

    def rounded(self, name: str) -> frozenset[str]:
        """Return which columns of a table hold numbers that are not read exactly."""
        return self._described(self._tables[name]).rounded

    def dates(self, name: str) -> frozenset[str]:
        """Return which columns of a table hold dates, which have no hours."""
        return self._described(self._tables[name]).dates

    def untyped(self, name: str) -> frozenset[str]:
        """Return which columns of a table are of objects of which nothing is declared: texts of whatever there is."""
        return self._described(self._tables[name]).untyped

    def forms(self, name: str) -> Mapping[str, str]:
        """Return which columns of a table the database compares or writes otherwise than what they are read as."""
        return self._described(self._tables[name]).forms

    def check(self, tables: Sequence[str], queries: Sequence[str] = ()) -> None:
        """Make sure that queries over tables can run, before anything is charged; nothing is counted.

        Parameters
        ----------
        tables
            Names of the tables that they read.
        queries
            SQL whose words say which columns are needed.

        Raises
        ------
        DomainError
            If a column that a query names cannot be read, or its name is another's but for case.
        FrameChanged
            If a table is no longer as it was.
        EngineError
            If the tables are in databases that cannot see one another.
        """
        with self._lock:
            for name in tables:
                self._tables[name].source.check_unchanged()
            try:
                self._check(tables, queries)
            except EngineError:  # a connection that was lost is made again, if the tables are still the same
                self._check(tables, queries)

    def run(self, query: str, tables: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL.

        Parameters
        ----------
        query
            DuckDB's SQL; its FROM names tables as quoted identifiers.
        tables
            Names of the tables that it reads.

        Raises
        ------
        EngineError
            If it fails; what the database says is not repeated, because it may quote values.
        """
        with self._lock:
            found = self._ready(tables, [query]).run(query)
            for name in tables:
                self._tables[name].source.check_still()
            return found

    @contextmanager
    def keeping(self, query: str, tables: Sequence[str], how: Keeping = "meanwhile") -> Iterator[str | None]:
        """Keep the rows of a query while several others read them; nothing else is done meanwhile.

        Parameters
        ----------
        query, tables
            As for `run`.
        how
            "meanwhile": they are let go of then. "spare": they stay in the sealed connection, where there is room, and
            are read again by who keeps the rows of the same query. "spared": only what was spared before is kept.

        Yields
        ------
        What to select them from; None where the query has to be asked again.
        """
        with self._lock:
            home = self._ready(tables, [query])
            kept = home.spared(query) if how == "spared" else home.keep(query)
            let_go = home.drop
            try:
                for name in tables:
                    self._tables[name].source.check_still()
                yield kept
                let_go = home.drop if how == "meanwhile" else home.spare
            finally:
                if kept is not None:
                    let_go(kept)

    def frame(self, name: str) -> pd.DataFrame:
        """Return a public table, whole.

        Raises
        ------
        EngineError
            If it is not public, or cannot be read.
        """
        table = self._tables[name]
        if table.private:
            raise EngineError(f"{shorten(name)} is protected: no statement can show its rows")
        with self._lock:
            return self._home([table]).fetch(table)

    def close(self) -> None:
        """Let go of all connections; closing again does nothing."""
        with self._lock:
            for table in list(self._lent):
                self._forget(table)

    def _check(self, tables: Sequence[str], queries: Sequence[str]) -> None:
        home = self._ready(tables, queries)
        for query in queries:
            home.check(query)

    def _ready(self, names: Sequence[str], queries: Sequence[str]) -> Home:
        words = named(queries)
        tables = [self._tables[name] for name in names]
        seen: dict[str, str] = {}
        for table in tables:
            if seen.setdefault(table.name.casefold(), table.name) != table.name:
                raise EngineError(
                    f"the tables {shorten(seen[table.name.casefold()])} and {shorten(table.name)} differ only in "
                    "case, which SQL "
                    "cannot tell apart: protect one of them under another name"
                )
            unclear(self._described(table), words)
        home = self._home(tables)
        home.prepare(tables, words)
        return home

    def _described(self, table: Held) -> Held:
        """Return a table with what its columns hold, which is found out once."""
        with self._lock:
            if not table.kinds:
                table.kinds = self._home([table]).kinds(table)
            return table

    def _home(self, tables: Sequence[Held]) -> Home:
        """Return the connection for a statement's tables, which is that of the protected ones.

        Raises
        ------
        EngineError
            If they are in databases that cannot see one another.
        FrameChanged
            If a table can no longer be read as it was.
        """
        private = [table for table in tables if table.private] or tables[:1]
        first = private[0].source.place if private else DUCKDB
        for table in private:
            if table.source.place != first:
                other = table.source.place[0]
                raise EngineError(
                    f"{shorten(private[0].name)} is in {engine_of(first).title} and {shorten(table.name)} in "
                    f"{'another database' if other == first[0] else engine_of(table.source.place).title}: "
                    "protected tables of one statement must be in one database"
                )
        lent = [table for table in tables if _owner(table) is not None and table.source.place == first]
        newest = max(lent, key=lambda table: table.number, default=None)
        home = self._lent.get(newest)
        if home is not None and home.broken:
            home.close()
            home = None
        if home is None:
            home = self._lent[newest] = self._opened(newest)
        for table in lent:
            # Each was protected at a moment of its own, and is seen here as it was at another.
            if _owner(table) == _owner(lent[0]) and home.digest_once(table) != table.digest:
                raise FrameChanged(
                    f"{shorten(table.name)} was changed in its database after it was protected; nothing was spent. "
                    "To ask "
                    "about what is in it now, protect it under a new name"
                )
        return home

    def _opened(self, newest: Held | None) -> Home:
        place: tuple[str, Any] = DUCKDB if newest is None else newest.source.place
        return engine_of(place).home(place[1], list(self._tables.values()), self._fetch)

    def _fetch(self, table: Held) -> pd.DataFrame:
        return self._home([table]).fetch(table)

    def _forget(self, table: Held | None) -> None:
        home = self._lent.pop(table, None)
        if home is not None:
            home.close()


def _owner(table: Held) -> Any:
    """Return the database elsewhere that a table is in, or None."""
    return table.source.place[1]
