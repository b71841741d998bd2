"""The magics: `%%dpsql` and `%dpsql` ask protected tables in SQL, `%dp` looks after the budget."""

from __future__ import annotations

import weakref
from argparse import Namespace
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, cast

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, needs_local_scope, no_var_expand
from IPython.display import display
from traitlets import Bool, Enum, Float, TraitError, observe, validate

from dpnotebook.errors import brief, shorten
from dpnotebook.notebook.cards.dots import show_dots
from dpnotebook.notebook.interactive import display_bundle, shell
from dpnotebook.notebook.magics import ask, dp_magic, options, prefetch
from dpnotebook.notebook.preview import PreviewCard
from dpnotebook.session.query import Query
from dpnotebook.session.release import Release
from dpnotebook.session.session import Session, active_session

SAY_HOW_MUCH = "%dpsql: say what it may cost, -e 0.1, or how wrong it may be, --error 25"


@magics_class
class DPMagics(Magics):
    """`%%dpsql`, `%dpsql` and `%dp`, and what `%config DPMagics` sets."""

    epsilon = Float(None, allow_none=True, help="what a query may spend that says neither -e nor --error").tag(
        config=True
    )
    confirm = Enum(
        ask.WAYS, None, allow_none=True, help="when to ask before spending; as the session says when None"
    ).tag(config=True)

    dots = Bool(
        False, help="whether answers show twenty dots, each as likely to be the exact one, in place of intervals"
    ).tag(config=True)

    @validate("epsilon")
    def _positive(self, proposal: Any) -> Any:
        if proposal.value is not None and not 0 < proposal.value < float("inf"):
            raise TraitError(f"epsilon is a number above 0, not {shorten(proposal.value)}")
        return proposal.value

    @observe("dots")
    def _dotted(self, change: Any) -> None:
        show_dots(change.new)

    @no_var_expand  # {x} and $x are left as they are: values come in by :name only
    @needs_local_scope
    @line_cell_magic
    def dpsql(self, line: str = "", cell: str | None = None, local_ns: Mapping[str, Any] | None = None) -> Any:
        """Ask protected tables in SQL; `%dpsql --help` lists the options."""
        with briefly():
            return self._asked(line, cell, self._variables(local_ns))

    @no_var_expand
    @needs_local_scope
    @line_magic
    def dp(self, line: str = "", local_ns: Mapping[str, Any] | None = None) -> Any:
        """Look after the budget: `%dp budget`, `%dp history`, `%dp tables` and more; `%dp help` lists them."""
        with briefly():
            return self._managed(line, local_ns)

    def _managed(self, line: str, local_ns: Mapping[str, Any] | None) -> Any:
        name, command, rest = dp_magic.read(line)
        if command == "help":
            print(dp_magic.HELP)
            return None
        if command == "preview":
            session = f"-s {name} " if name else ""
            return self._asked(f"-n {session}{rest}", None, self._variables(local_ns))
        paying = find_session(name, self._variables(local_ns))
        if command == "prefetch":
            return prefetch.prefetch(paying, rest, self._variables(local_ns))
        return dp_magic.COMMANDS[command](paying, rest)

    def _variables(self, local_ns: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Return what names in a cell mean: a function's own variables first, then the notebook's."""
        assert self.shell is not None
        return ChainMap(dict(local_ns or {}), self.shell.user_ns)

    def query(self, line: str, cell: str | None, scope: Mapping[str, Any]) -> Query:
        """Return the query of `%dpsql line` or of a `%%dpsql` cell, without asking it.

        Parameters
        ----------
        line, cell
            As the magic has them; None for the cell in the line form.
        scope
            What names mean: sessions, and the values of `:name`.

        Raises
        ------
        UsageError, DPError
            If it asks nothing, or what cannot be answered.
        """
        given, sql = options.read(line, cell)
        return self._query(find_session(given.session, scope), sql, given, scope)

    def _asked(self, line: str, cell: str | None, scope: Mapping[str, Any]) -> Any:
        given, sql = options.read(line, cell)
        if given.help:
            print(options.parser().format_help())
            return None
        session = find_session(given.session, scope)
        query = self._query(session, sql, given, scope)
        if given.dry_run:
            _ = query.plan  # what cannot be planned is an error of this cell, not of its display
            return self._kept(given.output, query, shown=True)
        confirm = ask.way(given.yes, given.ask, self.confirm, session)
        release, card = ask.answer(query, confirm, cards=not given.quiet)
        if given.quiet:
            return self._kept(given.output, table_only(release))
        if given.output is not None:  # what is kept is not shown: its card says where it comes from
            card = card or PreviewCard(query)
            card.keep(release, given.output)
            return self._kept(given.output, release)
        if card is None or not card.in_place:
            return release
        card.answered(release)
        return displayed(release)

    def _query(self, session: Session, sql: str, given: Namespace, scope: Mapping[str, Any]) -> Query:
        if not sql:
            raise UsageError("%dpsql: there is no SQL; %dpsql --help shows what to write")
        own = options.says_epsilon(sql)
        default = self.epsilon if given.error is None and not own else None
        epsilon = default if given.epsilon is None else given.epsilon
        if epsilon is None and given.error is None and not own:
            raise UsageError(SAY_HOW_MUCH)
        return session.sql(
            sql,
            epsilon=epsilon,
            error=given.error,
            confidence=given.confidence,
            parameters=scope,
            fresh=given.fresh,
            contribution=given.contribution,
            bounds=given.bounds,
        )

    def _kept(self, name: str | None, found: Any, *, shown: bool = False) -> Any:
        """Return what was found, to be shown as the cell's output; or keep it under a name and return nothing."""
        if name is None:
            return found
        assert self.shell is not None
        self.shell.user_ns[name] = found
        if shown:
            display(found)
        return None


@contextmanager
def briefly() -> Iterator[None]:
    """Keep what IPython says of a wrong line short, however long the line is."""
    try:
        yield
    except UsageError as error:
        raise UsageError(brief(str(error))) from None


def find_session(name: str | None, scope: Mapping[str, Any]) -> Session:
    """Return the session of a variable, or the one that was made last.

    Raises
    ------
    UsageError
        If the variable is no session.
    NotProtected
        If there is no session at all.
    """
    if name is None:
        return active_session()
    found = scope.get(name)
    if not issubclass(type(found), Session):  # asked of its type: a variable may be anything
        known = ", ".join(sorted(key for key, value in scope.items() if type(value) is Session and key[0] != "_"))
        raise UsageError(f"{name} is no session; sessions here are: {known or 'none'}")
    return cast("Session", found)


class DisplayedRelease(Release):
    """A release that the cell which asked for it shows already: IPython does not show it there once more."""

    def _ipython_display_(self) -> None:
        cell, shown = _displayed
        if shown() is not self or cell != _cell():
            display_bundle(self._repr_mimebundle_())


# The cell that ran last, and the release that stands in the place of its card.
_displayed: tuple[object, Callable[[], Release | None]] = (None, lambda: None)


def displayed(release: Release) -> Release:
    """Return the same release, as one that the running cell shows already."""
    global _displayed
    made = DisplayedRelease(**{part.name: getattr(release, part.name) for part in fields(Release)})
    _displayed = (_cell(), weakref.ref(made))
    return made


def _cell() -> object:
    return getattr(shell(), "execution_count", None)


class TableOnly(Release):
    """A release that is shown as its plain table."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.frame.to_string(index=False), "text/html": self.frame.to_html(index=False)}


def table_only(release: Release) -> Release:
    """Return the same release, shown as its plain table."""
    return TableOnly(**{part.name: getattr(release, part.name) for part in fields(Release)})
