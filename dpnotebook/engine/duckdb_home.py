"""Tables side by side in one DuckDB connection, each under its own name: frames, Parquet files, DuckDB files.

The connection is sealed before the first query, unless it is a cursor of the user's own connection, which is theirs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dpnotebook.engine.executor import DuckDBExecutor, failed
from dpnotebook.engine.frames import FrameColumns
from dpnotebook.engine.homes import Held, check_runs
from dpnotebook.engine.kinds import element_kind, kind_of, plain_value
from dpnotebook.engine.source import FrameSource, ParquetSource, Source, TableSource, seal
from dpnotebook.engine.sql import identifier, literal
from dpnotebook.errors import EngineError, shorten
from dpnotebook.forks import opened
from dpnotebook.sql.statement import ROW_UNIT

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

    from dpnotebook.sql.statement import Kind


class DuckDBHome:
    """One DuckDB connection with views of tables.

    Parameters
    ----------
    tables
        What the connection must be able to reach: files can be let in only before it is sealed.
    owner
        A connection of the user's to work in; None makes a sealed one.
    carry
        Fetches a table that this connection cannot reach.
    """

    def __init__(
        self,
        tables: Sequence[Held],
        owner: duckdb.DuckDBPyConnection | None,
        carry: Callable[[Held], pd.DataFrame],
    ) -> None:
        import duckdb

        self._owner, self._carry = owner, carry
        self._shown: dict[str, tuple[Held, int]] = {}  # by folded name: what the view shows, and of how many columns
        self._frames: dict[str, int] = {}
        self._files: dict[Path, str] = {}
        self._digests: dict[Held, str] = {}
        try:
            if owner is not None:
                connection = opened(owner.cursor())
                # Never committed: whatever is written from now on, this cursor sees the rows of this moment.
                connection.execute("BEGIN TRANSACTION")
            else:
                connection = opened(duckdb.connect())
                self._let_in(connection, tables)
                seal(connection)
        except duckdb.Error as failure:
            raise failed("DuckDB", failure) from None
        self._connection = connection
        self._executor = DuckDBExecutor(connection, lent=owner is not None)

    @property
    def broken(self) -> bool:
        """Whether the connection shows nothing any more after a failure."""
        return self._executor.broken

    def prepare(self, tables: Sequence[Held], words: set[str]) -> None:
        """Show tables under their names, with every column that `words` holds.

        Raises
        ------
        DomainError
            If a column that is named cannot be read, or two of one table or two tables differ only in case.
        """
        for table in tables:
            columns = self._columns(table)
            if columns is not None:
                columns.convert(name for name in columns.objects if name.casefold() in words)
            self._show(table)

    def check(self, query: str) -> None:
        """Raise SQLError if DuckDB cannot run a query."""
        check_runs(self._executor, query)

    def run(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL."""
        return self._executor.columns(query)

    def fetch(self, table: Held) -> pd.DataFrame:
        """Return a table, whole, to be carried to where this connection cannot be reached."""
        if isinstance(table.source, FrameSource):
            return table.source.frame
        relation = self._relation(table)
        shown = [f"{plain_value(identifier(name), kind)} AS {identifier(name)}" for name, kind in self._types(relation)]
        frame: pd.DataFrame = self._connection.execute(f"SELECT {', '.join(shown)} FROM {relation}").df()
        return frame

    def digest_once(self, table: Held) -> str:
        """Return what tells whether the rows of a table have changed; never shown, and worked out once."""
        if table not in self._digests:
            query = f"SELECT count(*), sum(hash(t)::HUGEINT) FROM {self._relation(table)} AS t"
            self._digests[table] = repr(self._connection.execute(query).fetchone())
        return self._digests[table]

    def kinds(self, table: Held) -> dict[str, Kind]:
        """Return what each column holds, in order."""
        columns = self._columns(table)
        types = self._types(self._relation(table))
        if columns is not None:
            types = [(name, kind) for name, (_, kind) in zip(columns.readable()[0], types, strict=False)]
        table.elements = {name: kind for name, held in types if (kind := element_kind(held)) is not None}
        read = {name: kind_of(kind, name == table.unit) for name, kind in types}
        if columns is None:
            return read
        return {name: read[name] if name in read else columns.objects[name] for name in columns.names}

    def close(self) -> None:
        """Close the connection."""
        self._executor.close()

    def _let_in(self, connection: duckdb.DuckDBPyConnection, tables: Sequence[Held]) -> None:
        import duckdb

        parquet = [table.source.path.resolve() for table in tables if isinstance(table.source, ParquetSource)]
        if parquet:
            connection.execute(f"SET allowed_paths = [{', '.join(literal(str(path)) for path in parquet)}]")
        for table in tables:
            if isinstance(table.source, TableSource) and isinstance(table.source.database, Path):
                path = table.source.database.resolve()
                if path not in self._files:
                    with contextlib.suppress(duckdb.Error):  # a file that is gone is an error of who asks for it only
                        name = f"file{len(self._files)}"
                        connection.execute(f"ATTACH {literal(str(path))} AS {name} (READ_ONLY)")
                        self._files[path] = name

    def _columns(self, table: Held) -> FrameColumns | None:
        """Return the frame that a table is read from here, or None where it is read where it lies."""
        if table.frame is None:
            if isinstance(table.source, FrameSource):
                table.frame = FrameColumns(table.source.frame)
            elif not self._reaches(table.source):
                table.frame = FrameColumns(self._carry(table))
        elif not isinstance(table.source, FrameSource) and self._reaches(table.source):
            return None
        return table.frame

    def _reaches(self, source: Source) -> bool:
        if not isinstance(source, TableSource):
            return isinstance(source, ParquetSource)
        if isinstance(source.database, Path):
            return self._owner is None
        return source.database is self._owner

    def _relation(self, table: Held) -> str:
        columns = self._columns(table)
        if columns is not None:
            return self._registered(columns, f"__frame_{table.number}")
        source = table.source
        if isinstance(source, ParquetSource):
            return f"read_parquet({literal(str(source.path.resolve()))})"
        assert isinstance(source, TableSource)
        if isinstance(source.database, Path):
            if source.database.resolve() not in self._files:
                raise EngineError(f"{source.database} can no longer be opened as a DuckDB database")
            return f"{self._files[source.database.resolve()]}.{identifier(source.table)}"
        return self._qualified(source.table)

    def _registered(self, columns: FrameColumns, name: str) -> str:
        names, frame = columns.readable()
        if self._frames.get(name) != len(names):
            if not self._registers(name, frame):
                columns.set_aside(lambda column: self._registers("__column", column))
                names, frame = columns.readable()
                self._connection.register(name, frame)
            self._frames[name] = len(names)
        return name

    def _registers(self, name: str, frame: pd.DataFrame) -> bool:
        import duckdb

        try:
            self._connection.register(name, frame)
        except (duckdb.Error, TypeError, ValueError, OverflowError):
            return False
        return True

    def _qualified(self, table: str) -> str:
        """Return where a table of the user's connection is: a view of ours may have the same name."""
        found = self._connection.execute(
            "SELECT database_name, schema_name FROM "
            "(SELECT database_name, schema_name, table_name AS name, temporary FROM duckdb_tables() UNION ALL "
            "SELECT database_name, schema_name, view_name, temporary FROM duckdb_views() WHERE NOT internal) "
            "WHERE lower(name) = lower(?) AND NOT temporary "
            "ORDER BY database_name = current_database() AND schema_name = current_schema() DESC",
            [table],
        ).fetchone()
        if found is None:
            raise EngineError(f"the table {shorten(table)} is no longer in its database")
        return ".".join(map(identifier, (found[0], found[1], table)))

    def _types(self, relation: str) -> list[tuple[str, str]]:
        return self._executor.types(f"SELECT * FROM {relation}")

    def _show(self, table: Held) -> None:
        import duckdb

        columns = self._columns(table)
        names = columns.readable()[0] if columns is not None else []
        folded = table.name.casefold()
        if self._shown.get(folded) == (table, len(names)):
            return
        try:
            relation = self._relation(table)
            types = self._types(relation)
            held = [(name, f"c{i}", types[i][1]) for i, name in enumerate(names)] if columns is not None else []
            if columns is None:
                held = [(name, identifier(name), kind) for name, kind in types]
            counts: dict[str, int] = {}
            for name, _, _ in held:
                counts[name.casefold()] = counts.get(name.casefold(), 0) + 1
            # Of names that differ only in case none is shown; `prepare` has said so where one is asked for.
            shown = [
                f"{plain_value(column, kind, name == table.unit)} AS {identifier(name)}"
                for name, column, kind in held
                if counts[name.casefold()] == 1
            ]
            if table.numbered:
                shown.append(f"row_number() OVER () AS {identifier(ROW_UNIT)}")
            body = f"SELECT {', '.join(shown) or '0 AS nothing'} FROM {relation}"
            self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {identifier(table.name)} AS {body}")
        except duckdb.Error as failure:
            raise failed("DuckDB", failure) from None
        self._shown[folded] = (table, len(names))
