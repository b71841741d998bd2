"""The tables that SQL can name: protected ones and public ones, what is public about each, and whether they changed."""

from __future__ import annotations

from dpnotebook.engine.same import is_same
from dpnotebook.engine.source import Source, TableSource, fingerprint_like
from dpnotebook.engine.workspace import Workspace
from dpnotebook.errors import DomainError, FrameChanged, shorten
from dpnotebook.ledger import Charge, Record
from dpnotebook.session.protected import ProtectedTable
from dpnotebook.sql.statement import Relation, Statement


class Relations:
    """Every table that statements of a session may name, and the workspace that reads them.

    Parameters
    ----------
    key
        The ledger's secret, for fingerprints.
    """

    def __init__(self, key: bytes) -> None:
        self.workspace = Workspace()
        self.known: dict[str, Relation] = {}
        self.protected: dict[str, ProtectedTable] = {}
        self._public: dict[str, tuple[Source, str | None]] = {}
        self._key = key

    def check_secret(self, protected: ProtectedTable) -> None:
        """Make sure that the rows of a table are not shown as they are.

        Raises
        ------
        DomainError
            If they are registered as public under another name.
        """
        for name, (source, _) in self._public.items():
            if name != protected.table.name and is_same(source, protected.whole):
                raise DomainError(
                    f"these are the rows of {shorten(name)}, which is registered as public in this session and shown "
                    "as it is"
                )

    def protect(self, protected: ProtectedTable) -> None:
        """Let statements name a protected table."""
        table = protected.table
        self.workspace.add(table.name, protected.whole, table.unit, private=True)
        self._public.pop(table.name, None)
        self.protected[table.name] = protected
        self.known[table.name] = Relation(
            table.name,
            self.workspace.kinds(table.name),
            unit=table.unit,
            max_rows=table.max_rows,
            domain=table.domain,
            rows=table.rows,
            elements=self.workspace.elements(table.name),
            population=table.population,
            rounded=self.workspace.rounded(table.name),
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
            if is_same(source, protected.whole):
                raise DomainError(
                    f"these are the rows of {shorten(known)}, which is protected, and what is registered is shown "
                    "as it is; register a table in which nothing is about a person"
                )
        self.workspace.add(name, source, None, private=False)
        fleeting = isinstance(source, TableSource) and source.fleeting
        self._public[name] = source, source.fingerprint(source.columns, self._key) if fleeting else None
        self.known[name] = Relation(
            name,
            self.workspace.kinds(name),
            private=False,
            elements=self.workspace.elements(name),
            rounded=self.workspace.rounded(name),
        )

    def check_readable(self, statement: Statement) -> None:
        """Raise FrameChanged or EngineError if its tables cannot be read any more, or its queries cannot run."""
        from dpnotebook.sql.rewrite.contribution_bounding import inputs_sql

        self.workspace.check(
            [*statement.tables, *(name for select in statement.selects for name in select.public)],
            [text for select in statement.selects for text in (inputs_sql(select), select.rows)],
        )

    def fingerprints(self, statement: Statement) -> dict[str, str]:
        """Return what tells whether columns that the ledger does not know of, and public tables, are still the same."""
        found = {name: self.protected[name].undeclared for name in statement.tables}
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
            return fingerprint_like(digest, source, source.columns, self._key)
        return None

    def check_same(self, charge: Charge, statement: Statement) -> None:
        """Raise FrameChanged if a table is another than when it was charged for a statement."""
        now, told = self.fingerprints(statement), charge.details if isinstance(charge, Record) else charge.plan
        for name, digest in told["fingerprints"].items():
            if now.get(name) != digest and self._fingerprint_like(name, digest) != digest:
                what = "the public table" if name in self._public else "a column that is not declared of"
                raise FrameChanged(
                    f"{what} {name} was another when release {charge.number} was charged for this statement; nothing "
                    "was spent. fresh=True asks about what is there now, and costs what the plan says then"
                )

    def close(self) -> None:
        """Let go of all tables."""
        self.workspace.close()
        self.known.clear()
        self.protected.clear()
        self._public.clear()
