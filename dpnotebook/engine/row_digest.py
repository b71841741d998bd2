"""A keyed digest of rows that outlives their form: their order, the database that they are in, and further columns.

Every row becomes the canonical texts of its values (see `dialect.canonical`), these the MD5 of a secret of the ledger
and themselves, and rows are added up modulo 2^128, beside their number: duplicates count, and no two columns can trade
values between rows unseen. Whoever does not know the secret, which never leaves the ledger, learns nothing from a
digest but whether two are equal, and cannot make two tables alike on purpose: the secret fills a block of its own in
front of the row, so that the collisions that are known of MD5 do not help. By chance two tables are alike once in some
2^128. It is no protection from somebody who has the secret and chooses the rows: sums can be made equal then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

from dpnotebook.dialect.attributes import FLOATING, identifier, secret
from dpnotebook.dialect.canonical import canonical, in_row, with_parts
from dpnotebook.dialect.types import OF_THE_DAY, keeps_type, plain_value
from dpnotebook.engine.base import Source
from dpnotebook.engine.executor import Executor
from dpnotebook.engine.keyed import keyed
from dpnotebook.engine.typed_digest import typed_sums
from dpnotebook.errors import DomainError

FORMLESS = "multiset "  # begins digests that any form of the rows has
TYPED = FORMLESS + "of values "  # those of typed values; earlier versions had those of texts only


class PlainRows:
    """Columns of a relation as plain values, numbered: names that differ only in case are one column to SQL.

    Parameters
    ----------
    executor, relation
        What can be read, and where.
    source
        What it is read from.
    names
        Of the columns.
    unit
        The one that identifies privacy units.
    of_the_day
        Those that are declared as times of day, which every engine then gives as texts.
    """

    def __init__(
        self,
        executor: Executor,
        relation: str,
        source: Source,
        names: Sequence[str],
        unit: str | None,
        of_the_day: Collection[str] = (),
    ) -> None:
        inner = ", ".join(f"{identifier(name)} AS r{i}" for i, name in enumerate(names)) or "1 AS one"
        self.executor = executor
        self.types = [kind for _, kind in executor.types(f"SELECT {inner} FROM {relation}")]  # as they are stored
        plain = [f"r{i}" for i in range(len(names))]
        if executor.dialect == "duckdb":
            plain = [plain_value(f"r{i}", self.types[i], name == unit) for i, name in enumerate(names)]
        for i, name in enumerate(names):
            if name in of_the_day and self.types[i] in OF_THE_DAY:
                plain[i] = f"CAST(r{i} AS VARCHAR)"
        every = ", ".join([*(f"{value} AS c{i}" for i, value in enumerate(plain)), "*"])
        self.sql = f"(SELECT {every} FROM (SELECT {inner} FROM {relation}) AS raw)"
        if executor.dialect == "duckdb" and all(map(keeps_type, self.types)) and not of_the_day:
            self.kinds = self.types[: len(names)]
        else:
            self.kinds = [kind for _, kind in executor.types(f"SELECT * FROM {self.sql} AS r")][: len(names)]
        self._decimals = {i for i, name in enumerate(names) if name in source.decimals and name != unit}
        texts = [canonical(f"c{i}", self.kinds[i], i in self._decimals) for i in range(len(names))]
        self.texts = [text for text in texts if text is not None]
        self.canonical = len(self.texts) == len(texts)

    def sums(self, key: bytes, what: str, relation: str | None = None) -> tuple[int, int]:
        """Return the number of rows and the sum of their digests.

        Parameters
        ----------
        key
            The ledger's secret.
        what
            What is digested: digests of different things have nothing in common.
        relation
            Where the columns c0, ... are; all rows, if None.
        """
        salt = secret(hashlib.blake2b(what.encode(), key=key, digest_size=32).hexdigest())
        parts, rows = self.parted(relation)
        return self.executor.md5_sums(f"concat({', '.join([salt, *parts])})" if parts else salt, rows)

    def parted(self, relation: str | None = None) -> tuple[list[str], str]:
        """Return the texts that tell a row from every other one when they are put together, and what they are read of.

        Parameters
        ----------
        relation
            Where the columns c0, ... are; all rows, if None.
        """
        rows, texts = relation or self.sql, list(self.texts)
        if self.executor.dialect == "duckdb":  # what is sent to servers stays as it is
            parted = [i for i, kind in enumerate(self.kinds) if kind in FLOATING and i not in self._decimals]
            rows = with_parts(rows, [f"c{i}" for i in parted])
            for i in parted:
                texts[i] = str(canonical(f"c{i}", self.kinds[i], parts=True))
        shown = ", ".join(f"{text} AS p{i}" for i, text in enumerate(texts)) or "1 AS p"
        return [
            in_row(f"p{i}", kind) for i, kind in enumerate(self.kinds)
        ], f"(SELECT {shown} FROM {rows} AS r) AS texts"

    def typed_sums(self, key: bytes) -> tuple[int, ...]:
        """Return the number of rows and the sums of their digests by typed values; see `typed_digest`."""
        decimals = self._decimals
        kinds = ["DECIMAL" if i in decimals else kind for i, kind in enumerate(self.kinds)]
        return typed_sums(self.executor, self.sql, [(f"c{i}", kind) for i, kind in enumerate(kinds)], key)


def typed_digest_of(source: Source, columns: Sequence[str], unit: str | None, key: bytes, like: str = "") -> str:
    """Return a digest as `digest_of`, by typed values where that is cheap.

    Parameters
    ----------
    source, columns, unit, key
        As for `digest_of`.
    like
        Another digest that it is to be compared with; empty if there is none.

    Raises
    ------
    EngineError, FrameChanged
        As for `digest_of`.
    """
    if like.startswith(FORMLESS) and not like.startswith(TYPED):
        return digest_of(source, columns, unit, key)
    try:
        with source.reading(columns, unit) as (executor, relation):
            rows = PlainRows(executor, relation, source, columns, unit)
            if rows.canonical and (executor.dialect == "duckdb" or like.startswith(TYPED)):
                found = rows.typed_sums(key)
                source.check_still()
                return TYPED + keyed(key, "typed rows", *columns, repr(found))
    except DomainError:  # a column of a frame that nothing can read
        pass
    return digest_of(source, columns, unit, key)


def digest_of(source: Source, columns: Sequence[str], unit: str | None, key: bytes) -> str:
    """Return a keyed digest of the rows of some columns together.

    Where one is not of single values, it is a digest of the form as well: of a frame in its order, of a file's bytes.

    Parameters
    ----------
    source
        Where the rows are.
    columns, unit
        Which columns, and the one that identifies privacy units.
    key
        The ledger's secret.

    Raises
    ------
    EngineError, FrameChanged
        If the rows cannot be read any more as they were protected.
    """
    try:
        with source.reading(columns, unit) as (executor, relation):
            rows = PlainRows(executor, relation, source, columns, unit)
            if rows.canonical:
                found = rows.sums(key, "rows")
                source.check_still()
                return FORMLESS + keyed(key, "rows", *columns, repr(found))
    except DomainError:  # a column of a frame that nothing can read
        pass
    return source.form_digest(columns, key)
