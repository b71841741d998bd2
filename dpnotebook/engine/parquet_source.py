"""Parquet files, read in place by DuckDB, and refused once they were changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpnotebook.dialect.attributes import identifier, literal
from dpnotebook.engine.base import DUCKDB, Source
from dpnotebook.engine.executor import DuckDBExecutor
from dpnotebook.engine.files import check_file, stamp_of
from dpnotebook.engine.keyed import keyed
from dpnotebook.engine.same import same_file
from dpnotebook.engine.sealed import sealed
from dpnotebook.errors import DomainError, EngineError, FrameChanged

CHUNK = 1 << 24  # bytes of a file that are digested at once
READ_BY_PANDAS = {  # files that people take for tables, and what reads them
    ".csv": "read_csv",
    ".tsv": "read_table",
    ".txt": "read_table",
    ".xlsx": "read_excel",
    ".json": "read_json",
    ".feather": "read_feather",
}


@dataclass(frozen=True)
class ParquetSource(Source):
    """A Parquet file, read in place."""

    path: Path
    stamp: tuple[int, int, int]

    @property
    def place(self) -> tuple[str, Any]:
        """Where it can be read."""
        return DUCKDB

    @classmethod
    def of(cls, path: Path) -> ParquetSource:
        """Return the file as it is now.

        Raises
        ------
        DomainError
            If it is not a Parquet file.
        """
        source = cls(path, stamp_of(path))
        try:
            executor, relation = source.connect()
            types = executor.types(f"SELECT * FROM {relation}")
        except EngineError:
            read = READ_BY_PANDAS.get(path.suffix.lower())
            said = f"; read it first: frame = pd.{read}({str(path)!r}), and protect the frame" if read else ""
            raise DomainError(f"{path} cannot be read as a Parquet file{said}") from None
        _check_texts(path, executor, relation, [identifier(name) for name, kind in types if "VARCHAR" in kind])
        return source

    def check_unchanged(self) -> None:
        """Raise FrameChanged if the file was replaced or written to."""
        if not self.path.is_file() or stamp_of(self.path) != self.stamp:
            raise FrameChanged(
                f"{self.path} was changed after it was protected; nothing was spent. "
                "To ask about what is in it now, protect it under a new name"
            )

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""
        executor, relation = self.connect()
        return [name for name, _ in executor.types(f"SELECT * FROM {relation}")]

    def connect(self, unit: str | None = None) -> tuple[DuckDBExecutor, str]:
        """Return a connection that can read this file and nothing else."""
        return DuckDBExecutor(sealed([self.path])), self.relation_in({})

    def shows(self, protected: Source) -> bool:
        """Return whether both are one file."""
        return isinstance(protected, ParquetSource) and same_file(self.path, protected.path)

    @property
    def integers_are_numbers(self) -> bool:
        """As in a frame: a file was one, or will be."""
        return True

    @property
    def files(self) -> Sequence[Path]:
        """The file."""
        return (self.path,)

    def relation_in(self, attached: Mapping[Path, str]) -> str:
        """Return the SQL that reads the file."""
        return f"read_parquet({literal(str(self.path.resolve()))})"

    @property
    def fingerprint_is_whole(self) -> bool:
        """It is one of all bytes."""
        return True

    def check_still(self) -> None:
        """Raise EngineError if the file was changed while it was read."""
        check_file(self)

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the file's bytes."""
        digest = hashlib.blake2b(key=key)
        with self.path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
        return keyed(key, "parquet", digest.digest())


def _check_texts(path: Path, executor: DuckDBExecutor, relation: str, texts: Sequence[str]) -> None:
    """Refuse a Parquet file with a text that is none: DuckDB would stop at it, in a query that was paid for."""

    def read(columns: Sequence[str]) -> bool:
        hashes = ", ".join(f"bit_xor(hash({column}))" for column in columns)
        try:
            executor.columns(f"SELECT {hashes} FROM {relation}")
        except EngineError:
            return False
        return True

    if texts and not read(texts):
        found = [text for text in texts if not read([text])]
        raise DomainError(f"{path} cannot be read: {', '.join(found) or 'it'} holds texts that are not UTF-8")
