"""`protect_guide`: what has to be said of a table before it can be asked, field by field, and the code that says it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from dpnotebook.errors import ArgumentError, DPError, shorten
from dpnotebook.notebook.cards import as_bundle
from dpnotebook.notebook.cards.model import Block, Card, Code, Fold, Heading, Steps, Table, cell, line, quiet
from dpnotebook.notebook.guide.draft import KINDS, WHY, ColumnDraft, TableDraft, drafted
from dpnotebook.notebook.interactive import GONE, display_bundle, display_widget, interactive, shell
from dpnotebook.session.session import Session

if TYPE_CHECKING:
    from dpnotebook.notebook.guide.panel import GuidePanel
    from dpnotebook.session.protected import ProtectedTable

TITLE = "Protect a table"
SCOPE = "say what is publicly known of it; nothing is looked up in the data"
NEVER = (
    "Names and dtypes of columns are all that is read here. dpn.suggest_domain(...) drafts bounds and levels by "
    "looking at the data, which is not private: what it says has to be replaced by what is known without the data."
)
LISTED = 20  # columns that the page lists
SAID = {one.name for one in fields(ColumnDraft)} - {"name", "dtype", "kind"}
SETTINGS = ("name", "unit", "max_rows", "epsilon", "delta", "ledger")


def protect_guide(frame: Any, name: str | None = None) -> ProtectGuide:
    """Return a guide that helps to protect a table; at the end of a cell it shows itself.

    It asks what has to be declared (what each column holds, its bounds or levels, whose rows they are, the budget),
    says of every field why it must not be looked up in the data, and writes the code of `dpn.Session(...)` and
    `protect`, to copy or to run. Of the data it reads the names and dtypes of columns, and no value.

    Parameters
    ----------
    frame
        A pandas or polars DataFrame.
    name
        What to call the table; what the frame is called in the notebook, if None.

    Raises
    ------
    ArgumentError
        If it is no frame.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpnotebook as dpn
    >>> patients = pd.DataFrame({"age": [31, 47, 64], "sex": ["F", "M", "F"]})
    >>> guide = dpn.protect_guide(patients, "patients")
    >>> guide = guide.declare("age", low=0, high=115).declare("sex", levels=["F", "M"]).settings(ledger="")
    >>> print(guide.code)
    import dpnotebook as dpn
    <BLANKLINE>
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
    session.protect(
        frame,
        'patients',
        domain={
            'age': dpn.Range(0, 115),
            'sex': ['F', 'M'],
        },
    )
    >>> guide.protect()
    <protected table 'patients': age, sex; privacy unit: one row;
     rows with no age or sex, or with an undeclared sex, are left out; nullable=True counts missing values>
    """
    variable = _variable(frame)
    if name is not None and not isinstance(name, str):
        raise ArgumentError(f"name= is what the table is called, such as 'patients', not {shorten(name)}")
    return ProtectGuide(frame, drafted(frame, name or variable or "table", variable or "frame"))


def _variable(frame: Any) -> str:
    """Return what a frame is called in the notebook; empty where it has no name of its own."""
    known = getattr(shell(), "user_ns", {})
    return next((name for name, value in known.items() if value is frame and not name.startswith("_")), "")


class ProtectGuide:
    """What was said of a table so far, as static HTML and, where somebody can use it, as controls.

    Everything that the controls do can be done by code as well: `declare`, `settings` and `protect`.

    Parameters
    ----------
    frame
        What is to be protected.
    draft
        What is known of it.
    """

    def __init__(self, frame: Any, draft: TableDraft) -> None:
        self.draft = draft
        self.session: Session | None = None
        self.table: ProtectedTable | None = None
        self._frame = frame
        self._panel: GuidePanel | None = None

    @property
    def code(self) -> str:
        """The Python that protects the table; columns that are not said yet are comments in it."""
        return self.draft.code

    @property
    def problems(self) -> dict[str, str]:
        """What is still to be said, or wrong, by column or field; empty when the table can be protected."""
        return self.draft.problems

    @property
    def protected(self) -> bool:
        """Whether the table is protected already."""
        return self.table is not None

    @property
    def panel(self) -> GuidePanel:
        """The widgets by name; made when they are first asked for."""
        if self._panel is None:
            from dpnotebook.notebook.guide.panel import GuidePanel

            self._panel = GuidePanel(self)
        return self._panel

    @property
    def widget(self) -> Any:
        """The whole guide as one widget."""
        return self.panel.widget

    def declare(self, column: str, kind: str | None = None, **said: Any) -> ProtectGuide:
        """Say what is publicly known of a column, as its form does.

        Parameters
        ----------
        column
            Its name.
        kind
            "whole numbers", "amounts", "levels", "yes or no", "dates", "times of the day" or "left out"; what its dtype
            suggests, or what was said before, if None.
        said
            low, high, width, levels (a list, or a text with one a line), by, unit, missing, other.

        Raises
        ------
        ArgumentError
            If there is no such column, kind or field.
        """
        if column not in self.draft.columns:
            raise ArgumentError(f"there is no column {shorten(column)}; there are {', '.join(self.draft.columns)}")
        if kind is not None and kind not in KINDS:
            raise ArgumentError(f"kind is one of {', '.join(map(repr, KINDS))}; not {shorten(kind)}")
        if unknown := sorted(set(said) - SAID):
            raise ArgumentError(f"a column has no {shorten(unknown[0])[1:-1]}; it has {', '.join(sorted(SAID))}")
        changes = {name: _typed(value) for name, value in said.items()}
        self.draft = self.draft.with_column(column, **changes, **({} if kind is None else {"kind": kind}))
        return self._followed()

    def settings(self, **said: Any) -> ProtectGuide:
        """Say name, unit, max_rows, epsilon, delta or ledger, as their fields do.

        Raises
        ------
        ArgumentError
            If there is no such field, or no such column for the unit.
        """
        if unknown := sorted(set(said) - set(SETTINGS)):
            raise ArgumentError(f"there is no field {shorten(unknown[0])}; there are {', '.join(SETTINGS)}")
        if said.get("unit") and said["unit"] not in self.draft.columns:
            raise ArgumentError(f"unit= is the column that says whose row it is, not {shorten(said['unit'])}")
        self.draft = replace(self.draft, **{name: _typed(value) for name, value in said.items()})
        return self._followed()

    def protect(self) -> ProtectedTable:
        """Make the session and protect the table, as the code says; return the table. It is done once.

        Raises
        ------
        ArgumentError
            If something is still to be said.
        """
        if self.table is not None:
            return self.table
        if problems := self.problems:
            name, what = next(iter(problems.items()))
            raise ArgumentError(f"{name}: {what}")
        draft = self.draft
        session = Session(draft.budget(), draft.ledger.strip() or ":memory:")
        try:
            self.table = session.protect(
                self._frame,
                draft.name.strip(),
                unit=draft.unit or None,
                max_rows=draft.most_rows(),
                domain={name: one.attribute() for name, one in draft.declared.items()},
            )
        except BaseException:
            session.close()
            raise
        self.session = session
        self._followed()
        return self.table

    def try_to_protect(self) -> None:
        """Protect the table, and say below the button what became of it."""
        try:
            self.protect()
        except DPError as error:
            self.panel.say(f"⚠ {error}")
        except Exception as error:  # what it says may come from the data
            self.panel.say(f"⚠ {type(error).__name__}: the table was not protected")
        else:
            self.panel.say(f"Protected: {self.table!r}. guide.session asks it; so does {self.draft.variable}.dp.")

    def _followed(self) -> ProtectGuide:
        if self._panel is not None:
            self._panel.follow()
        return self

    def __repr__(self) -> str:
        return as_bundle(self._card())["text/plain"]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return as_bundle(self._card())

    def _ipython_display_(self) -> None:
        if not interactive():
            display_bundle(self._repr_mimebundle_())
            return
        lost = as_bundle(
            Card((line(quiet(f"{GONE} Below is what was said when it was opened.")), *self._card().blocks))
        )
        display_widget(self.widget, lost["text/html"], lost["text/plain"])

    def _card(self) -> Card:
        return Card(tuple(_blocks(self)))


def _typed(value: Any) -> Any:
    """Return a value as it would be typed into its field."""
    if isinstance(value, list | tuple):
        return "\n".join(map(str, value))
    return value if isinstance(value, bool | str) else "" if value is None else str(value)


def _blocks(guide: ProtectGuide) -> Iterator[Block]:
    draft = guide.draft
    problems = draft.problems
    yield Heading(TITLE, SCOPE)
    rows = []
    for name, one in list(draft.columns.items())[:LISTED]:
        said = "the privacy unit" if name == draft.unit else problems.get(name) or one.code or one.kind
        rows.append((cell(name), cell(one.dtype), cell(said if len(said) <= 80 else f"{said[:79]}…")))
    yield Table(("column", "dtype", "declared as"), "lll", tuple(rows))
    if len(draft.columns) > LISTED:
        yield line(quiet(f"… and {len(draft.columns) - LISTED:,} more columns, in the code"))
    for name in draft.skipped:
        yield line(f"{name} is no name that can be asked for, or several columns have it: rename it", mark="⚠")
    if guide.table is not None:
        yield line(f"Protected: {guide.table!r}")
    elif problems:
        yield line(f"Still to say: {', '.join(problems)}", mark="⚠")
    yield Code("The code", draft.code, "code")
    yield Fold(
        "Why nothing is looked up in the data", (Steps(NEVER, tuple(f"{name}: {why}" for name, why in WHY.items())),)
    )
