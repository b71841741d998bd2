"""A table in PostgreSQL as something to protect: one set of rows for all connections, and what tells it from others."""

from __future__ import annotations

import hmac
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from dpnotebook.dialect.attributes import identifier, literal
from dpnotebook.dialect.types import ROW_UNIT, Kind
from dpnotebook.engine.base import Source
from dpnotebook.engine.keyed import keyed
from dpnotebook.engine.postgres import ONCE_A_ROW, PostgresExecutor
from dpnotebook.engine.postgres_relation import FORMS, PostgresRelation, State, relation_of
from dpnotebook.errors import DomainError, FrameChanged, QueryFailed
from dpnotebook.ledger.forks import in_child

ROWS = "__rows"

# What a table in PostgreSQL is made of: the tables of views, and those that rows are shared with by inheritance.
_MADE_OF = """
WITH RECURSIVE edges(made, of) AS (
    SELECT r.ev_class, d.refobjid FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid
    WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
    UNION SELECT inhrelid, inhparent FROM pg_inherits UNION SELECT inhparent, inhrelid FROM pg_inherits
), found(place) AS (
    VALUES ({public}::oid) UNION SELECT edges.of FROM found JOIN edges ON edges.made = found.place
)
SELECT EXISTS (SELECT FROM found WHERE place = {protected}::oid)
"""


@dataclass
class _Seen:
    """What one connection sees of the table: where it reads the rows, and the state that they are in as long as so."""

    relation: PostgresRelation
    state: State
    place: str = ""

    def same(self, executor: PostgresExecutor) -> bool:
        """Whether the table still lies where it did."""
        return self.relation.state(executor) == self.state


class PostgresSource(Source):
    """A table or view in PostgreSQL.

    Parameters
    ----------
    dsn
        Where the database is; it may hold a password, so it is never shown.
    table
        "schema.table", or "table" where the search path finds it.

    Raises
    ------
    DomainError
        If the database cannot be reached, or there is no such table.
    """

    def __init__(self, dsn: str, table: str) -> None:
        self.dsn, self.table = dsn, table
        self._given: weakref.WeakSet[PostgresExecutor] = weakref.WeakSet()
        self._seen: weakref.WeakKeyDictionary[PostgresExecutor, _Seen] = weakref.WeakKeyDictionary()
        self._known: tuple[tuple[str, ...], bytes, str] | None = None
        self._whole: str | None = None
        self._columns: tuple[Any, ...] | None = None
        self._forked = False
        # The connections of a session take over the moment that this one sees, until all of them are there.
        first = PostgresExecutor(dsn)
        self._first: PostgresExecutor | None = first
        self._let_go = weakref.finalize(self, first.close)
        self._let_go.atexit = False
        number = self.number(first)
        first.own_names()
        self.look(first, number)
        self.relation = self._seen[first].relation
        first.begin()
        self._moment = first.moment()
        in_child(self._forget_parent)

    def _forget_parent(self) -> None:
        """Forget the parent's connections, and look at the rows again before they are asked about."""
        self._let_go.detach()
        self._given.clear()
        self._seen.clear()
        self._first = self._moment = None
        self._forked = True

    def __repr__(self) -> str:
        return f"<{self.table} in PostgreSQL>"

    @property
    def place(self) -> tuple[str, Any]:
        """Which database it is in."""
        return "postgres", self.dsn

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""
        return [column.name for column in self.relation.columns]

    @property
    def moment(self) -> str | None:
        """What another connection can see the rows by that the first one sees; None once that is gone."""
        return None if self._first is None or self._first.broken else self._moment

    def kinds(self, unit: str | None) -> dict[str, Kind]:
        """Return what each column holds, in order."""
        return {column.name: column.kind(column.name == unit) for column in self.relation.columns}

    @property
    def decimals(self) -> frozenset[str]:
        """Columns of decimals that are read as such: no floating-point number need hold them."""
        return frozenset(column.name for column in self.relation.columns if column.decimal)

    @property
    def zoned(self) -> frozenset[str]:
        """Columns of moments, whose day depends on the place."""
        return frozenset(column.name for column in self.relation.columns if column.zoned)

    @property
    def forms(self) -> dict[str, str]:
        """Columns that PostgreSQL compares otherwise than their texts."""
        return {column.name: FORMS[column.type] for column in self.relation.columns if column.type in FORMS}

    def connect(self, unit: str | None = None) -> tuple[PostgresExecutor, str]:
        """Return a connection and the name of the table in it.

        Parameters
        ----------
        unit
            The column that identifies units.
        """
        executor = PostgresExecutor(self.dsn)
        try:
            number = self.number(executor)
            executor.own_names()
            self.look(executor, number)
            executor.begin(self.moment)
            self.settle(executor)
            self.define(executor, ROWS, ROWS, self.body(executor, unit, raw=True))
        except BaseException:
            executor.close()
            raise
        return executor, ROWS

    def number(self, executor: PostgresExecutor) -> int | None:
        """Return the system's number of the table, as a connection with the user's own search path finds it."""
        quoted = ".".join(identifier(part) for part in self.table.split("."))
        return executor.number_of([quoted, identifier(self.table), self.table])

    def look(self, executor: PostgresExecutor, number: int | None) -> None:
        """Note what the table is, for a connection whose search path is the system's own, before its moment begins.

        Raises
        ------
        DomainError, FrameChanged
            If it is not there, or is not what it was.
        """
        relation = relation_of(executor, number, self.table)
        columns = tuple(replace(column, place=0) for column in relation.columns)
        if self._columns is None:
            self._columns = columns
        elif columns != self._columns:
            raise self._changed("its columns are not those any more that it had")
        self._seen[executor] = _Seen(relation, relation.state(executor))

    def settle(self, executor: PostgresExecutor) -> None:
        """Make sure that a connection, at its moment, sees the same rows whenever it reads them; others see them too.

        Raises
        ------
        DomainError, FrameChanged
            If these are not the rows that the other connections see.
        """
        seen = self._seen[executor]
        if seen.place:
            return
        self._given.add(executor)
        if seen.relation.fixed:
            seen.place = seen.relation.place
            if self._first is not None and executor.sees(self._moment):
                seen.state = self._seen[self._first].state  # as it was before that moment
            elif self._first is not None and executor is not self._first and self._known and not self._same(executor):
                raise self._changed("while it was being protected")
            return
        name = f"dp_copy_{seen.relation.number}"
        executor.copy_rows(name, seen.relation.place)
        seen.place = f"pg_temp.{identifier(name)}"
        if self.whole(executor) == self._whole:
            return
        if self._first is None:
            raise self._changed("it gives other rows than it did")
        raise DomainError(
            f"{self.table} gives other rows whenever it is read, as views with TABLESAMPLE or random() do; write its "
            "rows into a table (CREATE TABLE ... AS SELECT ...), and protect that"
        )

    def define(self, executor: PostgresExecutor, name: str, hidden: str, body: str) -> None:
        """Let a connection that has settled know the table by a name."""
        seen = self._seen[executor]
        same = seen.same if seen.relation.fixed else None
        executor.define(name, hidden, body, same)

    def release(self) -> None:
        """Let go of the first connection: all that a session needs are there."""
        self._let_go()
        self._first = self._moment = None

    def body(self, executor: PostgresExecutor, unit: str | None, *, raw: bool = False, numbered: bool = False) -> str:
        """Return the query that is the table, as it stands in front of other queries: canonical scalars.

        Parameters
        ----------
        executor
            A connection that has settled.
        unit
            The column that identifies units; a number stays exact there.
        raw
            Whether what is no scalar is shown as it is, and not as a text.
        numbered
            Whether to number the rows.
        """
        shown = []
        for column in self.relation.columns:
            value = column.raw() if raw and column.name != unit else column.plain(column.name == unit)
            shown.append(f"{value} AS {identifier(column.name)}")
        if numbered:
            shown.append(f"row_number() OVER () AS {identifier(ROW_UNIT)}")
        # Rows are numbered once, however often the table is read.
        place = self._seen[executor].place
        return f"{'' if numbered else 'NOT MATERIALIZED '}(SELECT {', '.join(shown)} FROM {place})"

    def whole(self, executor: PostgresExecutor) -> str:
        """Return what tells whether any row has changed, for this process: a sum of hashes, whatever their order."""
        halves = ", ".join(f"sum(('x' || substr(h, {start}, 15))::bit(60)::bigint)" for start in (1, 17))
        row = "__whole_row"
        hashed = f"SELECT md5(concat({literal(self.table)}, {row}.*)) AS h FROM {self._seen[executor].place} AS {row}"
        _, rows = executor.read(f"SELECT count(*), {halves} FROM ({hashed}{ONCE_A_ROW}) AS hashed")
        found = repr([str(value) for value in rows[0]])
        self._whole = self._whole or found
        return found

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the multiset of rows: a sum of keyed hashes, whatever the order of the rows."""
        with self._settled() as executor:
            found = self._digest(executor, columns, key)
        if self._known is None:
            self._known = tuple(columns), key, found
        return found

    @contextmanager
    def reading(self, columns: Sequence[str], unit: str | None) -> Iterator[tuple[PostgresExecutor, str]]:
        """Yield a connection that sees the rows as they were protected, and the name of the table in it."""
        with self._settled() as executor:
            name = f"{ROWS}_{self.relation.number}"
            self.define(executor, name, name, self.body(executor, unit, raw=True))
            yield executor, name

    @contextmanager
    def _settled(self) -> Iterator[PostgresExecutor]:
        """Yield a connection that sees the rows as they were protected: one that is there, or one of its own."""
        executor = self._ready()
        if executor is not None and executor.answers():
            self.settle(executor)
            yield executor
            return
        executor, _ = self.connect()
        try:
            if (self._whole or self._known) is not None and not self._same(executor):
                raise self._changed("the connection to it was lost")
            yield executor
        finally:
            self._given.discard(executor)
            executor.close()

    def _ready(self) -> PostgresExecutor | None:
        """Return a connection that sees the rows as they were protected, where there is one."""
        copied = not self.relation.fixed
        others = [one for one in self._given if not one.broken and one in self._seen and (copied or not one.kept)]
        first = [] if self._first is None or self._first.broken else [self._first]
        return next(iter(others + first if copied else first + others), None)

    def _digest(self, executor: PostgresExecutor, columns: Sequence[str], key: bytes) -> str:
        known = {column.name: column for column in self.relation.columns}
        texts = [f"CAST({known[name].digested()} AS TEXT)" for name in columns]
        parts = [f"coalesce(length({text}) || ':' || {text}, 'null')" for text in texts]
        (salt,) = executor.hide([hmac.new(key, b"rows", "sha256").hexdigest()])
        halves = ", ".join(f"sum(('x' || substr(h, {start}, 15))::bit(60)::bigint)" for start in (1, 17))
        hashed = f"SELECT md5(concat({', '.join([salt, *parts])})) AS h FROM {self._seen[executor].place}"
        _, rows = executor.read(f"SELECT count(*), {halves} FROM ({hashed}{ONCE_A_ROW}) AS hashed")
        return keyed(key, "postgres", *columns, repr([str(value) for value in rows[0]]).encode())

    def shows(self, protected: Source) -> bool:
        """Return whether it is a protected table, is made of it, or is a part of it, whatever it is called."""
        from psycopg.conninfo import conninfo_to_dict

        if not isinstance(protected, PostgresSource):
            return False
        places = [conninfo_to_dict(source.dsn) for source in (self, protected)]
        if any(
            places[0].get(part) != places[1].get(part) for part in ("host", "hostaddr", "port", "dbname", "service")
        ):
            return False
        executor = PostgresExecutor(self.dsn)
        try:
            query = _MADE_OF.format(public=self.relation.number, protected=protected.relation.number)
            return bool(executor.once(query)[0][0])
        finally:
            executor.close()

    def note(self, columns: Sequence[str], key: bytes) -> None:
        """Note the fingerprint, to tell when a connection was lost whether the rows are these."""
        self.fingerprint(columns, key)

    def check_unchanged(self) -> None:
        """Raise FrameChanged if the table is not as it was, and its rows cannot be read any more as they were."""
        lost = False
        for executor in list(self._given):
            if executor.ended:
                self._given.discard(executor)
            elif not executor.answers():
                lost = True
            else:
                self._check_state(executor)
        if (lost or self._forked) and (self._whole or self._known) is not None:
            executor, _ = self.connect()
            try:
                same = self._same(executor)
            finally:
                self._given.discard(executor)
                executor.close()
            if not same:
                raise FrameChanged(
                    f"the connection to {self.table} was lost, and the table has changed since it was protected; "
                    "nothing was spent. To ask about what is in it now, protect it under a new name"
                )
        self._forked = False

    def _check_state(self, executor: PostgresExecutor) -> None:
        """Accept a table that was written anew with the same rows, as VACUUM FULL does, and no other."""
        seen = self._seen.get(executor)
        if seen is None or not seen.relation.fixed or executor.kept:
            return
        state = seen.relation.state(executor)
        if state != seen.state:
            if state.names != seen.state.names or not self._same(executor):
                raise self._changed("it was emptied, rewritten or replaced")
            seen.state = state

    def _same(self, executor: PostgresExecutor) -> bool:
        try:
            if self._whole is not None:
                return self.whole(executor) == self._whole
            if self._known is not None:
                columns, key, digest = self._known
                return self._digest(executor, columns, key) == digest
        except QueryFailed:  # the table is not there
            if executor.broken:
                raise
        return False

    def _changed(self, why: str) -> FrameChanged:
        return FrameChanged(
            f"{self.table} has changed in its database since it was protected ({why}); nothing was spent. To ask about "
            "what is in it now, protect it under a new name"
        )
