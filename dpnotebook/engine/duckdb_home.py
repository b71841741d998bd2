"""Tables side by side in one sealed DuckDB connection, each under its own name: frames, Parquet files, DuckDB files."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dpnotebook.dialect.attributes import FLOATING, INTEGERS, identifier, literal
from dpnotebook.dialect.types import ENUM, ROW_UNIT, Kind, element_kind, exact_number, is_rounded, kind_of, plain_value
from dpnotebook.domain.parts import PART
from dpnotebook.engine.base import DUCKDB, Source
from dpnotebook.engine.executor import DuckDBExecutor, failed
from dpnotebook.engine.frames import FrameColumns, Registered
from dpnotebook.engine.homes import Held, check_runs
from dpnotebook.engine.sealed import sealed
from dpnotebook.errors import DomainError, EngineError, shorten

if TYPE_CHECKING:
    import pandas as pd

KEPT = "__kept_rows"
MOST_SPARE, SPARE_TABLES = 4_000_000, 12  # rows that stay for who asks for the same again: some 100 MB


class DuckDBHome:
    """One DuckDB connection with views of tables.

    Parameters
    ----------
    tables
        What the connection must be able to reach: files can be let in only before it is sealed.
    carry
        Fetches a public table from another database.
    """

    broken = False

    def __init__(self, tables: Sequence[Held], carry: Callable[[Held], pd.DataFrame]) -> None:
        import duckdb

        self._carry = carry
        self._shown: dict[str, tuple[Held, int, bool]] = {}  # by folded name: what the view shows, and how
        self._frames: dict[Held, tuple[Registered, list[tuple[str, str, str]]]] = {}  # copies, which stay as they are
        self._parts: dict[Held, tuple[Held, ...]] = {}
        self._kept: dict[str, str] = {}  # queries by the names of their rows
        self._spare: dict[str, tuple[str, int]] = {}  # by query: the name of its rows, and how many these are
        self._named = 0  # names are not used twice: queries that read what was kept name it
        sources = [source for table in tables for source in table.source.parts or (table.source,)]
        self._files = _databases(sources)
        files = [path for source in sources for path in source.files]
        try:
            attached = {name: path for path, name in self._files.items()}
            self._executor = DuckDBExecutor(sealed(files, attached, strict=False))
        except duckdb.Error as failure:
            raise failed("DuckDB", failure) from None
        assert self._executor.connection is not None
        self._connection = self._executor.connection

    def prepare(self, tables: Sequence[Held], words: set[str]) -> None:
        """Show tables under their names, with every column that `words` holds.

        Raises
        ------
        DomainError
            If a column that is named cannot be read, or two of one table or two tables differ only in case.
        """
        exact = self._mixes(tables)
        for table in tables:
            for part in self._parts_of(table) or (table,):
                columns = self._columns(part)
                if columns is not None:
                    columns.convert([name for name in columns.names if name.casefold() in words])
            self._show(table, exact)

    def check(self, query: str) -> None:
        """Raise SQLError if DuckDB cannot run a query."""
        check_runs(self._executor, query)

    def run(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL."""
        return self._executor.columns(query)

    def keep(self, query: str) -> str | None:
        """Keep the rows of a query in a temporary table; None where there is no room, or a table has its name."""
        if (kept := self.spared(query)) is not None:
            return kept
        name = f"{KEPT}_{self._named}" if self._named else KEPT
        try:
            self._executor.keep(name, query)
        except EngineError:
            return None
        self._named += 1
        self._kept[name] = query
        return name

    def drop(self, kept: str) -> None:
        """Drop a temporary table; a connection that is closed has none."""
        self._kept.pop(kept, None)
        with contextlib.suppress(EngineError):
            self._executor.columns(f"DROP TABLE IF EXISTS {kept}")

    def spare(self, kept: str) -> None:
        """Hold a temporary table for the same query, in the place of those that were not asked for longest."""
        try:
            rows = int(self._executor.columns(f"SELECT count(*) AS n FROM {kept}")["n"][0])
        except EngineError:  # the answer is there already
            self.drop(kept)
            return
        self._spare[self._kept.pop(kept)] = kept, rows
        while len(self._spare) > SPARE_TABLES or sum(size for _, size in self._spare.values()) > MOST_SPARE:
            self.drop(self._spare.pop(next(iter(self._spare)))[0])

    def spared(self, query: str) -> str | None:
        """Return the temporary table of the rows of a query, if it was spared."""
        if query not in self._spare:
            return None
        kept, _ = self._spare.pop(query)
        self._kept[kept] = query
        return kept

    def fetch(self, table: Held) -> pd.DataFrame:
        """Return a table, whole, to be carried to where this connection cannot be reached."""
        given = table.source.as_given()
        if given is not None:
            return given
        columns = self._columns(table)
        if columns is not None:
            columns.convert(columns.names)
        _, relation, types = self._described(table)
        shown = [f"{plain_value(column, kind)} AS {identifier(name)}" for name, column, kind in types]
        frame: pd.DataFrame = self._connection.execute(f"SELECT {', '.join(shown)} FROM {relation}").df()
        return frame

    def kinds(self, table: Held) -> dict[str, Kind]:
        """Return what each column holds, in order; the elements of lists, and what is rounded, are noted.

        Raises
        ------
        DomainError
            If a column does not hold the same in all parts of a table.
        """
        if parts := self._parts_of(table):
            return self._kinds_of_parts(table, parts)
        columns, _, types = self._described(table)
        held = {name: kind for name, _, kind in types}
        if columns is not None:
            held |= columns.types
        table.elements = {name: kind for name, is_of in held.items() if (kind := element_kind(is_of)) is not None}
        table.rounded = frozenset(name for name, kind in held.items() if name != table.unit and is_rounded(kind))
        table.dates = frozenset(name for name, kind in held.items() if kind == "DATE")
        table.forms = _forms(held) if columns is None else _forms(columns.types) | columns.forms
        table.untyped = frozenset() if columns is None else columns.untyped - {table.unit}
        if columns is not None:
            found = {name: columns.kind(name, held.get(name), name == table.unit) for name in columns.names}
        else:
            found = {name: kind_of(kind, name == table.unit) for name, kind in held.items()}
        both = table.source.integers_are_numbers  # units of all forms are compared exactly
        numbers = {name for name, kind in found.items() if kind == "integer" and (both or name == table.unit)}
        return found | dict.fromkeys(numbers, "number")

    def _kinds_of_parts(self, table: Held, parts: Sequence[Held]) -> dict[str, Kind]:
        found = [self.kinds(part) for part in parts]
        kinds: dict[str, Kind] = {}
        for name in [name for name in found[0] if all(name in kind for kind in found)]:
            here = {kind[name] for kind in found}
            if len(here) > 1 and here != {"integer", "number"}:
                raise DomainError(
                    f"{shorten(name)} does not hold the same kind of values in all parts of {shorten(table.name)}: "
                    f"{' and '.join(sorted(here))}; convert it, or leave it out"
                )
            kinds[name] = "number" if len(here) > 1 else here.pop()
        units = {kind for part in parts for name, _, kind in self._described(part)[2] if name == table.unit}
        if units & {*FLOATING} and units & {*INTEGERS}:
            raise DomainError(
                f"{shorten(table.unit)} is of whole numbers in one part of {shorten(table.name)} and of floating-point "
                "numbers in another, as where some are missing; convert it to one type in all parts"
            )
        table.elements = {name: kind for part in parts for name, kind in part.elements.items() if name in kinds}
        table.rounded = frozenset(name for part in parts for name in part.rounded if name in kinds)
        table.dates = frozenset.intersection(*(part.dates for part in parts)) & kinds.keys()
        table.forms = {name: form for part in parts for name, form in part.forms.items() if name in kinds}
        table.untyped = frozenset(name for part in parts for name in part.untyped if name in kinds)
        return kinds | {PART: "integer"}

    def digest_once(self, table: Held) -> str:
        """Return nothing: rows that could change unseen are a copy."""
        return ""

    def close(self) -> None:
        """Close the connection."""
        self._executor.close()

    def _columns(self, table: Held) -> FrameColumns | None:
        """Return the rows that a table was copied as, or None where it is read where it lies."""
        if table.source.place == DUCKDB:
            return table.source.rows
        if table.frame is None:
            table.frame = FrameColumns(self._carry(table))
        return table.frame

    def _described(self, table: Held) -> tuple[FrameColumns | None, str, list[tuple[str, str, str]]]:
        """Return the rows of a table that was copied, the SQL of the relation, and names, SQL and types of columns."""
        if parts := self._parts_of(table):
            return None, *self._together(table, parts)
        columns, source = self._columns(table), table.source
        if columns is not None:
            wanted = columns.readable()
            if table not in self._frames or self._frames[table][0].names != tuple(wanted):
                made = columns.register(self._connection, f"__frame_{table.number}", wanted)
                types = self._executor.types(f"SELECT * FROM {made.sql}")
                self._frames[table] = made, [(name, f"c{i}", types[i][1]) for i, name in enumerate(made.names)]
            known, held = self._frames[table]
            return columns, known.sql, held
        for path in source.databases:
            if not self._has(self._files[path.resolve()]):
                raise EngineError(f"{path} can no longer be opened as a DuckDB database")
        relation = source.relation_in(self._files)
        types = self._executor.types(f"SELECT * FROM {relation}")
        return None, relation, [(name, identifier(name), kind) for name, kind in types]

    def _together(self, table: Held, parts: Sequence[Held]) -> tuple[str, list[tuple[str, str, str]]]:
        """Return the SQL of all parts of a table, and names, SQL and types of its columns."""
        described = [self._described(part)[1:] for part in parts]
        held = [{name: (column, kind) for name, column, kind in types} for _, types in described]
        every = [name for name in held[0] if all(name in part for part in held)]
        counts = Counter(name.casefold() for name in every)
        names = [name for name in every if counts[name.casefold()] == 1]
        selects = []
        for place, ((relation, _), columns) in enumerate(zip(described, held, strict=True)):
            shown = [f"{plain_value(*columns[name], name == table.unit)} AS {identifier(name)}" for name in names]
            selects.append(f"SELECT {', '.join([*shown, f'{place + 1} AS {identifier(PART)}'])} FROM {relation}")
        relation = f"({' UNION ALL '.join(selects)})"
        types = self._executor.types(f"SELECT * FROM {relation}")
        return relation, [(name, identifier(name), kind) for name, kind in types]

    def _parts_of(self, table: Held) -> tuple[Held, ...]:
        """Return the parts of a table that grew, as tables of their own; none of another."""
        if table not in self._parts:
            named = enumerate(table.source.parts, start=1)
            self._parts[table] = tuple(Held(f"{table.name} {i}", part, table.unit, table.private) for i, part in named)
        return self._parts[table]

    def _has(self, database: str) -> bool:
        query = f"SELECT count(*) AS n FROM duckdb_databases() WHERE database_name = {literal(database)}"
        return bool(self._executor.columns(query)["n"][0])

    def _mixes(self, tables: Sequence[Held]) -> bool:
        """Whether units are whole numbers in one table and others in another: then none of their types has both."""
        owned = [table for table in tables if table.private and table.unit is not None]
        if len(owned) < 2:
            return False
        found = set()
        for table in owned:
            types = {name: kind for name, _, kind in self._described(table)[2]}
            found.add(types.get(table.unit or "", ""))
        return len(found) > 1 and bool(found & {*FLOATING}) and found <= {*FLOATING, *INTEGERS}

    def _show(self, table: Held, exact: bool) -> None:
        import duckdb

        try:
            _, relation, held = self._described(table)
            folded = table.name.casefold()
            if self._shown.get(folded) == (table, len(held), exact):
                return
            for query in list(self._spare):  # of what was shown before, or with a name that this table has
                self.drop(self._spare.pop(query)[0])
            counts = Counter(name.casefold() for name, _, _ in held)
            shown = []
            for name, column, kind in held:
                value, unit = plain_value(column, kind, name == table.unit), table.private and name == table.unit
                if counts[name.casefold()] == 1:  # `Workspace` has said so where another one is asked for
                    shown.append(f"{exact_number(value, kind) if exact and unit else value} AS {identifier(name)}")
            if table.numbered:
                shown.append(f"row_number() OVER () AS {identifier(ROW_UNIT)}")
            body = f"SELECT {', '.join(shown) or '0 AS nothing'} FROM {relation}"
            self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {identifier(table.name)} AS {body}")
        except duckdb.Error as failure:
            raise failed("DuckDB", failure) from None
        self._shown[folded] = (table, len(held), exact)


def _forms(held: Mapping[str, str]) -> dict[str, str]:
    """Return the columns, by name, whose values have an order that is not that of their texts."""
    return {name: ENUM for name, kind in held.items() if kind.startswith("ENUM(")}


def _databases(sources: Sequence[Source]) -> dict[Path, str]:
    """Return the DuckDB files that rows are in, and what they will be called."""
    files = dict.fromkeys(path.resolve() for source in sources for path in source.databases)
    return {path: f"file{i}" for i, path in enumerate(files)}
