"""The tables that SQL can name: protected ones and public ones, what is public about each, and whether they changed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from dpnotebook.dialect.attributes import identifier
from dpnotebook.dialect.safe.typed import cast, on_clock
from dpnotebook.dialect.text import DIALECT
from dpnotebook.domain import Dates, Domain, Times
from dpnotebook.engine.base import Source
from dpnotebook.engine.executor import named
from dpnotebook.engine.time_zones import UTC
from dpnotebook.engine.workspace import Workspace
from dpnotebook.errors import DomainError, EngineError, FrameChanged, shorten
from dpnotebook.ledger import Charge, Record
from dpnotebook.predicate import Predicate
from dpnotebook.session.protected import ProtectedTable
from dpnotebook.sql.level_values import EXACT
from dpnotebook.sql.select import PrivateSelect
from dpnotebook.sql.statement import Relation, Statement

if TYPE_CHECKING:
    from dpnotebook.planner.table import TableSchema
    from dpnotebook.sql.linear.public_joins import PublicRows

MOST_LEVELS = 10_000  # values of a public column that groups are known by
MOST_ROWS_COMPARED = 100_000  # of a public table whose columns are looked through for values that come twice


class Relations:
    """Every table that statements of a session may name, and the workspace that reads them.

    Parameters
    ----------
    key
        The ledger's secret, for fingerprints.
    """

    def __init__(self, key: bytes) -> None:
        self.workspace = Workspace()
        self._known: dict[str, Relation] = {}
        self._later: list[ProtectedTable] = []  # described when a statement asks
        self._zones: dict[str, dict[str, str]] = {}
        self.protected: dict[str, ProtectedTable] = {}
        self._public: dict[str, tuple[Source, str | None]] = {}
        self._few_rows: dict[str, tuple[Source, PublicRows]] = {}
        self._key = key

    def not_here(self, statement: Statement) -> list[str]:
        """Return the public tables that a statement works with and that nobody registered here."""
        return [name for name in statement.public if name not in self._public]

    def check_secret(self, protected: ProtectedTable) -> None:
        """Make sure that the rows of a table are not shown as they are.

        Raises
        ------
        DomainError
            If they are registered as public under another name.
        """
        for name, (source, _) in self._public.items():
            if name != protected.table.name and _shows(source, protected):
                raise DomainError(
                    f"these are the rows of {shorten(name)}, which is registered as public in this session and shown "
                    "as it is"
                )

    def protect(self, protected: ProtectedTable) -> None:
        """Let statements name a protected table."""
        table = protected.table
        later = protected.whole.at_hand and table.unit is None
        self.workspace.add(table.name, protected.whole, table.unit, private=True, later=later)
        self._public.pop(table.name, None)
        self.protected[table.name] = protected
        self._zones[table.name] = dict(protected.whole.clocks)  # what is planned later does not look at the rows
        self._later = [one for one in self._later if one.table.name != table.name]
        if later and table.name not in self._known:
            self._later.append(protected)
        else:
            self._known[table.name] = self._relation(protected)

    def declare(self, table: TableSchema) -> None:
        """Say what is declared of a table whose rows are not here: what was released of it can be worked with."""
        self._known[table.name] = Relation(
            table.name,
            {},
            unit=table.unit,
            max_rows=table.max_rows,
            domain=table.domain,
            population=table.population,
        )

    @property
    def known(self) -> dict[str, Relation]:
        """What is public about every table, by name."""
        while self._later:
            protected = self._later[0]
            self._known[protected.table.name] = self._relation(protected)
            self._later = [one for one in self._later if one is not protected]
        return self._known

    def _relation(self, protected: ProtectedTable) -> Relation:
        table = protected.table
        return Relation(
            table.name,
            self.workspace.kinds(table.name),
            unit=table.unit,
            max_rows=table.max_rows,
            domain=table.domain,
            rows=table.rows_of(Predicate.everything(table.domain)),
            elements=self.workspace.elements(table.name),
            population=table.population,
            rounded=self.workspace.rounded(table.name),
            untyped=self.workspace.untyped(table.name),
            forms=self.workspace.forms(table.name),
            dates=self.workspace.dates(table.name),
            clocks=self._clocks(table.name, self._zones[table.name], table.domain),
        )

    def register(self, name: str, source: Source) -> None:
        """Let statements name a public table.

        Raises
        ------
        DomainError
            If a protected table has this name.
        """
        if name in self.protected:
            raise DomainError(f"{shorten(name)} is a protected table; register the public one under another name")
        for known, protected in self.protected.items():
            if _shows(source, protected):
                raise DomainError(
                    f"these are the rows of {shorten(known)}, which is protected, and what is registered is shown "
                    "as it is; register a table in which nothing is about a person"
                )
        self.workspace.add(name, source, None, private=False)
        self._public[name] = source, source.fingerprint(source.columns, self._key) if source.fleeting else None
        self.known[name] = Relation(
            name,
            self.workspace.kinds(name),
            private=False,
            elements=self.workspace.elements(name),
            rounded=self.workspace.rounded(name),
            untyped=self.workspace.untyped(name),
            forms=self.workspace.forms(name),
            clocks=self._clocks(name, source.clocks),
            **self._told(name, source),
        )

    def _clocks(self, name: str, zones: Mapping[str, str], domain: Domain | None = None) -> dict[str, str]:
        """Return the time zones by whose clocks columns of a table are told: as declared, or as their types say.

        Raises
        ------
        DomainError
            If the database of the table does not know one of them.
        """
        found, kinds = dict(zones), self.workspace.kinds(name)
        for column, attribute in (domain or {}).items():
            if isinstance(attribute, Dates | Times) and attribute.timezone is not None:
                found[column] = attribute.timezone
        found = {column: zone for column, zone in found.items() if zone not in UTC and kinds.get(column) == "time"}
        for zone in set(found.values()):
            shown = on_clock(cast(exp.Literal.string("2024-01-01 00:00:00"), "TIMESTAMP"), zone).sql(DIALECT)
            try:
                self.workspace.run(f"SELECT {shown} AS shown", [name])
            except EngineError:
                raise DomainError(f"the database of {shorten(name)} knows no time zone {shorten(zone)}") from None
        return found

    def _told(self, name: str, source: Source) -> dict[str, Any]:
        """Return what a `Relation` says of the values of a public table that is at hand."""
        kinds = self.workspace.kinds(name)
        if not kinds or not source.at_hand:
            return {}
        levels, groups = cache(partial(self._levels, name, source)), cache(partial(self._groups, name))
        told: dict[str, Any] = {"levels": levels, "groups": groups, "repeats": cache(partial(self._repeats, name))}
        numbers = [column for column, kind in kinds.items() if kind in ("integer", "number")]
        sought = ["COUNT(*) AS n"]
        for place, column in enumerate(numbers):
            sought += [f"CAST({end}({identifier(column)}) AS DOUBLE) AS {end}_{place}" for end in ("MIN", "MAX")]
        found = self._of_all_rows(name, sought)
        pairs = {column: (found[f"MIN_{place}"], found[f"MAX_{place}"]) for place, column in enumerate(numbers)}
        ends = {column: pair for column, pair in pairs.items() if all(map(math.isfinite, pair))}
        if found["n"] > MOST_ROWS_COMPARED:
            return {"ends": ends, **told}
        listed = [column for column, kind in kinds.items() if kind != "other"]
        different = [f"COUNT(DISTINCT {identifier(column)}) AS n_{place}" for place, column in enumerate(listed)]
        counted = self._of_all_rows(name, ["COUNT(*) AS n", *different])
        unique = frozenset(column for place, column in enumerate(listed) if counted[f"n_{place}"] == counted["n"])
        return {"ends": ends, "unique": unique, **told}

    def _levels(self, name: str, source: Source, column: str, condition: str) -> tuple[Any, ...] | None:
        """Return the different values of a column of a public table, in order; None where they are too many.

        None, too, of numbers that are not all whole, and of moments whose clocks are elsewhere: groups by these are
        what rows have.
        """
        kind, of = self.workspace.kinds(name).get(column), identifier(column)
        if kind not in ("integer", "number", "text", "boolean", "time") or column in source.clocks:
            return None
        where = f" WHERE {condition}" if condition else ""
        query = (
            f"SELECT DISTINCT {of} AS v FROM {identifier(name)}{where} ORDER BY v NULLS LAST LIMIT {MOST_LEVELS + 1}"
        )
        try:
            found = self.workspace.run(query, [name])["v"]
        except EngineError:
            return None
        if len(found) > MOST_LEVELS:
            return None
        values = (found.astype("datetime64[us]") if kind == "time" else found).tolist()
        if kind == "number":
            if not all(value is None or (float(value).is_integer() and abs(value) < EXACT) for value in values):
                return None
            values = [None if value is None else int(value) for value in values]
        return tuple(values)

    def _groups(self, name: str, query: str, keys: int) -> tuple[tuple[int, ...], ...] | None:
        """Return the different groups of a query over a public table, in order; None where they are too many, or none.

        Those with something that is no level of its key are none.
        """
        names = [f"k{place}" for place in range(keys)]
        listed, known = ", ".join(names), " AND ".join(f"{one} IS NOT NULL" for one in names)
        wanted = f"SELECT DISTINCT {listed} FROM ({query}) AS g WHERE {known} ORDER BY {listed} LIMIT {MOST_LEVELS + 1}"
        try:
            found = self.workspace.run(wanted, [name])
        except EngineError:
            return None
        groups = tuple(zip(*(map(int, found[one].tolist()) for one in names), strict=True))
        return groups if 0 < len(groups) <= MOST_LEVELS else None

    def _repeats(self, name: str, columns: tuple[str, ...]) -> int:
        """Return how many rows of a public table have the same values in some columns, at most."""
        by = f" GROUP BY {', '.join(map(identifier, columns))}" if columns else ""
        query = f"SELECT MAX(n) AS n FROM (SELECT COUNT(*) AS n FROM {identifier(name)}{by}) AS t"
        return int(np.ma.filled(np.ma.asarray(self.workspace.run(query, [name])["n"]), 0)[0])

    def _of_all_rows(self, name: str, sought: list[str]) -> dict[str, float]:
        """Return numbers that are worked out of all rows of a public table; NaN where there are none."""
        found = self.workspace.run(f"SELECT {', '.join(sought)} FROM {identifier(name)}", [name])
        return {each: float(np.ma.filled(np.ma.asarray(of, dtype=float), math.nan)[0]) for each, of in found.items()}

    def few_rows(self, name: str) -> PublicRows:
        """Return a public table of few rows, for planning; of more, which are not read, none.

        What was copied when it was registered is kept, with what was worked out of it; other tables may have changed.
        """
        from dpnotebook.sql.linear.public_joins import MOST_ROWS, PublicRows

        source, _ = self._public[name]
        kept = self._few_rows.get(name)
        if kept is not None and kept[0] is source and source.at_hand:
            return kept[1]
        counted = self.workspace.run(f"SELECT COUNT(*) AS n FROM {identifier(name)}", [name])
        few = int(counted["n"][0]) <= MOST_ROWS
        self._few_rows[name] = source, PublicRows(self.workspace.frame(name) if few else None)
        return self._few_rows[name][1]

    def check_readable(self, statement: Statement) -> None:
        """Raise FrameChanged or EngineError if its tables cannot be read any more, or its queries cannot run."""
        self.workspace.check(
            [*statement.tables, *(name for select in statement.selects for name in select.public)],
            _queries(statement),
        )

    def digests(
        self, statement: Statement, known: Mapping[str, Mapping[str, Any]] | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return what tells whether all that the ledger does not know of, and a statement reads, is still the same.

        Of public tables a fingerprint; of protected ones the columns that are not declared and whose names stand in the
        statement, which are all that it can read, and a digest of them.

        Parameters
        ----------
        statement
            What reads them.
        known
            What was recorded of the columns, by table, which they are to be compared with.
        """
        words, columns = named(_queries(statement)), {}
        for name in statement.tables:
            found = self.protected[name].beside(words)
            like = (known or {}).get(name, {}).get("digest", "")
            columns[name] = {"names": found, "digest": self.protected[name].digest_beside(found, like)}
        return {"fingerprints": self._fingerprints(statement), "columns": columns}

    def _fingerprints(self, statement: Statement) -> dict[str, str]:
        """Return what tells whether public tables are still the same."""
        found: dict[str, str] = {}
        public = {name for select in statement.selects for name in select.public}
        for name in sorted(public):
            source, digest = self._public[name]
            if digest is None:
                digest = source.fingerprint(source.columns, self._key)
                self._public[name] = source, digest
            found[name] = digest
        return found

    def _fingerprint_like(self, name: str, digest: str) -> str | None:
        """Return the fingerprint as the version that made a recorded one would have made it."""
        if name in self.protected:
            return self.protected[name].undeclared_like(digest)
        if name in self._public:
            source, _ = self._public[name]
            return source.fingerprint_like(digest, source.columns, self._key)
        return None

    def sample_secret(self, select: PrivateSelect) -> str:
        """Return the secret by which rows of units are sampled, the same whenever a private aggregation is asked."""
        told = json.dumps([list(select.tables), select.canonical], sort_keys=True)
        return hashlib.blake2b(told.encode(), key=self._key, person=b"dpn sample", digest_size=16).hexdigest()

    def check_same(self, charge: Charge, statement: Statement) -> None:
        """Raise FrameChanged if a table is another than when it was charged for a statement."""
        told = charge.details if isinstance(charge, Record) else charge.plan
        public, changed = self._fingerprints(statement), []
        for name, digest in told["fingerprints"].items():
            if public.get(name) != digest and self._fingerprint_like(name, digest) != digest:
                changed.append(name)
        known = told.get("columns", {})  # earlier versions kept a fingerprint of all that was not declared
        if known:
            now = self.digests(statement, known)["columns"]
            changed += [name for name, digest in known.items() if not _alike(now.get(name), digest)]
        if changed:
            name = changed[0]
            what = "the public table" if name in self._public else "a column that is not declared of"
            raise FrameChanged(
                f"{what} {name} was another when release {charge.number} was charged for this statement; nothing "
                "was spent. fresh=True asks about what is there now, and costs what the plan says then"
            )

    def check_profile(self, record: Record) -> None:
        """Raise FrameChanged if what was found of how much units add was found in other rows than those of today."""
        for name, known in record.details.get("columns", {}).items():
            here = self.protected.get(name)
            if here is None:
                continue
            now = {"names": known["names"], "digest": here.digest_beside(known["names"], known["digest"])}
            if not _alike(now, known):
                raise FrameChanged(
                    f"a column that is not declared of {name} was another when release {record.number} found how much "
                    "one unit adds, which this statement goes by; nothing was spent. To ask about what is in it now, "
                    "protect it under a new name"
                )

    def close(self) -> None:
        """Let go of all tables."""
        self.workspace.close()
        self._known.clear()
        self._later.clear()
        self._zones.clear()
        self.protected.clear()
        self._public.clear()


def _alike(now: Mapping[str, Any] | None, known: Mapping[str, Any]) -> bool:
    """Whether columns are as they were; of a table that grew, in the parts that were there and are here."""
    if now is None or now["names"] != known["names"]:
        return False
    here, before = ([one["digest"]] if isinstance(one["digest"], str) else one["digest"] for one in (now, known))
    return all(digest == other for digest, other in zip(here, before, strict=False))


def _shows(public: Source, protected: ProtectedTable) -> bool:
    """Whether a public table shows rows of a protected one, those that a part left out included."""
    return any(public.shows(rows.whole) or public.shows(rows.given) for rows in protected.parts)


def _queries(statement: Statement) -> list[str]:
    """Return SQL in which the names of all columns stand that a statement can read."""
    from dpnotebook.sql.rewrite.contribution_bounding import inputs_sql

    return [text for select in statement.selects for text in (inputs_sql(select), select.rows)]
