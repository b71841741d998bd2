"""What has been said of a table so far, what is missing, and the Python that says it.

Of the data only the names of columns and their dtypes are known here; no value is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dpnotebook.domain import Bins, Boolean, Categories, Dates, Range, Times
from dpnotebook.domain.calendar import SPANS
from dpnotebook.errors import ArgumentError, DPError, shorten
from dpnotebook.privacy.budget import Budget

if TYPE_CHECKING:
    from dpnotebook.domain import Attribute

LEFT_OUT = "left out"
# Kinds of columns, and the fields of each: what is said of it beside whether values may be missing.
KINDS: dict[str, tuple[str, ...]] = {
    LEFT_OUT: (),
    "whole numbers": ("low", "high"),
    "amounts": ("low", "high", "width"),
    "levels": ("levels", "other"),
    "yes or no": (),
    "dates": ("low", "high", "by"),
    "times of the day": ("by",),
}
SPANS_OF: dict[str, tuple[str, ...]] = {"dates": SPANS, "times of the day": ("hour", "30 minutes", "15 minutes")}
LABELLED = ("whole numbers", "amounts")  # that have a unit
OTHER = "other"
INDENT = "    "

# Why nothing of it is looked up in the data: shown beside the field.
WHY: dict[str, str] = {
    "kind": "What a column holds follows from its dtype, which is public. A column that is left out cannot be asked "
    "about with df.dp; SQL reaches it, at a higher price.",
    "low": "The smallest value of the data is somebody's. Write what is possible, from a code book, a law or common "
    "sense; what is below counts as this.",
    "high": "The largest value of the data is somebody's: the oldest patient can be known by an age. Write what is "
    "possible; what is above counts as this. Too wide costs accuracy of sums, too narrow cuts off.",
    "width": "How wide a bin is decides what can be asked, and what the data looks like must not decide it. Write the "
    "step that a table in your report would have.",
    "levels": "A level that one person alone has tells that this person is in the data. List what can occur, one a "
    "line, from a code book.",
    "other": "Rows with a level that is not listed are counted as one more, or are no part of the table. Which levels "
    "the data has besides is not looked at.",
    "by": "How fine dates are told follows from the report that you have in mind, not from how many rows a day has.",
    "missing": "Whether a value is missing is a fact about somebody. Say that some may be; looking would tell whether "
    "any is.",
    "measured": "What its numbers are counted in, such as years or euros; errors are told in it.",
    "unit": "Nothing in the data says what is to be protected: a row, or all rows of a person. Where people have "
    "several rows, choose the column that says whose row it is; else the other rows give them away.",
    "max_rows": "The most rows that anybody has are those of one person. Write how many are to count: more need more "
    "noise, fewer leave data out.",
    "name": "What the table is called in SQL and in the ledger; everybody who uses the ledger sees it.",
    "epsilon": "How much all answers together may tell of one unit. Decide it before you see answers: a budget that "
    "was chosen for what came out promises nothing.",
    "delta": "Empty: Laplace noise. A small chance, such as 1e-6, far below one in the number of people: Gaussian "
    "noise, better for many answers, and SQL over groups that are not known beforehand.",
    "ledger": "The file that remembers what was spent; deleting it, or a second one for the same table, forgets it.",
}


@dataclass(frozen=True)
class ColumnDraft:
    """What has been said of a column.

    Parameters
    ----------
    name, dtype
        As the frame has them.
    kind
        One of `KINDS`.
    low, high, width, levels, by, unit
        As they were typed.
    missing, other
        Whether values may be missing, and whether levels that are not listed are one more.
    """

    name: str
    dtype: str
    kind: str = LEFT_OUT
    low: str = ""
    high: str = ""
    width: str = ""
    levels: str = ""
    by: str = ""
    unit: str = ""
    missing: bool = False
    other: bool = False

    @property
    def wanting(self) -> tuple[str, ...]:
        """The fields that have to be filled in and are not."""
        needed = (one for one in KINDS[self.kind] if one not in ("other", "by"))
        return tuple(one for one in needed if not getattr(self, one).strip())

    @property
    def problem(self) -> str:
        """What is still wrong; empty where nothing is."""
        if self.wanting:
            return f"still to say: {', '.join(self.wanting)}"
        try:
            self.attribute()
        except (DPError, ValueError) as error:
            return str(error)
        return ""

    def attribute(self) -> Attribute | None:
        """Return the declared attribute; None of a column that is left out.

        Raises
        ------
        DomainError
            If it cannot be.
        ArgumentError
            If what was typed is no number.
        """
        if self.wanting:
            raise ArgumentError(f"{shorten(self.name)} is not declared yet: {', '.join(self.wanting)}")
        missing = self.missing
        unit = self.unit.strip() or None if self.kind in LABELLED else None
        match self.kind:
            case "whole numbers":
                return Range(_whole(self.low, "low"), _whole(self.high, "high"), nullable=missing, unit=unit)
            case "amounts":
                low, high, width = (_number(getattr(self, one), one) for one in KINDS[self.kind])
                return Bins(low, high, width=width, nullable=missing, unit=unit)
            case "levels":
                return Categories(self._levels(), nullable=missing, other=OTHER if self.other else None)
            case "yes or no":
                return Boolean(nullable=missing)
            case "dates":
                span: Any = self.by.strip() or "day"
                return Dates(self.low.strip(), self.high.strip(), by=span, nullable=missing)
            case "times of the day":
                return Times(by=self.by.strip() or "hour", nullable=missing)
        return None

    @property
    def code(self) -> str:
        """The Python of the declaration; empty of a column that is left out."""
        attribute = self.attribute()
        if attribute is None:
            return ""
        if self.kind == "levels" and not self.missing and not self.other:
            return repr(self._levels())
        if self.kind == "yes or no" and not self.missing:
            return "bool"
        return f"dpn.{attribute!r}"

    def _levels(self) -> list[Any]:
        split = re.split("\n" if "\n" in self.levels.strip() else ",", self.levels)
        levels = [text.strip() for text in split if text.strip()]
        return [_number(text, "levels") for text in levels] if _is_number(self.dtype) else levels


@dataclass(frozen=True)
class TableDraft:
    """What has been said of a table and its session.

    Parameters
    ----------
    columns
        By name.
    variable
        What the frame is called in the notebook.
    name, unit, max_rows, epsilon, delta, ledger
        As they were typed; unit is empty where each row is a unit.
    """

    columns: Mapping[str, ColumnDraft]
    variable: str
    name: str
    unit: str = ""
    max_rows: str = ""
    epsilon: str = "1.0"
    delta: str = ""
    ledger: str = ""
    skipped: tuple[str, ...] = field(default=())

    @property
    def declared(self) -> dict[str, ColumnDraft]:
        """The columns that are not left out, but for the one that says whose row it is."""
        return {name: one for name, one in self.columns.items() if one.kind != LEFT_OUT and name != self.unit}

    def with_column(self, name: str, **changes: Any) -> TableDraft:
        """Return the draft with something else said of a column."""
        return replace(self, columns={**self.columns, name: replace(self.columns[name], **changes)})

    @property
    def problems(self) -> dict[str, str]:
        """What is still wrong, by column or by field."""
        found = {name: one.problem for name, one in self.declared.items() if one.problem}
        for part, check in (("epsilon", self.budget), ("max_rows", self.most_rows), ("name", self._named)):
            try:
                check()
            except (DPError, ValueError) as error:
                found[part] = str(error)
        return found

    def budget(self) -> Budget:
        """Return the budget; raises AccuracyError or ArgumentError if it cannot be."""
        delta = _number(self.delta, "delta") if self.delta.strip() else 0.0
        return Budget(_number(self.epsilon, "epsilon"), delta)

    def most_rows(self) -> int | None:
        """Return how many rows of a unit count; raises ArgumentError where that is no whole number."""
        if not self.unit or not self.max_rows.strip():
            return None
        most = _whole(self.max_rows, "max_rows")
        if most < 1:
            raise ArgumentError(f"max_rows is a whole number from 1, not {most}")
        return most

    def _named(self) -> None:
        if not self.name.strip():
            raise ArgumentError("the table needs a name")

    @property
    def code(self) -> str:
        """The Python that protects the table, with a comment for every column that is not said yet."""
        problems = self.problems
        budget = "dpn.Budget(epsilon=1.0)" if "epsilon" in problems else _budget_code(self.budget())
        ledger = f", ledger={self.ledger.strip()!r}" if self.ledger.strip() else ""
        lines = [
            "import dpnotebook as dpn",
            "",
            f"session = dpn.Session(budget={budget}{ledger})",
            "session.protect(",
            f"{INDENT}{self.variable},",
            f"{INDENT}{self.name.strip()!r},",
        ]
        if self.unit:
            lines.append(f"{INDENT}unit={self.unit!r},")
            if "max_rows" not in problems and (most := self.most_rows()) is not None:
                lines.append(f"{INDENT}max_rows={most},")
        lines.append(f"{INDENT}domain={{")
        for name, one in self.declared.items():
            said = f"# {name!r}: {problems[name]}" if name in problems else f"{name!r}: {one.code},"
            lines.append(f"{INDENT * 2}{' '.join(said.split())}" if name in problems else f"{INDENT * 2}{said}")
        return "\n".join([*lines, f"{INDENT}}},", ")"])


def drafted(frame: Any, name: str, variable: str) -> TableDraft:
    """Return the draft that follows from the names and dtypes of columns, and from no value.

    Parameters
    ----------
    frame
        A pandas or polars DataFrame.
    name
        Of the table.
    variable
        What the frame is called in the notebook.

    Raises
    ------
    ArgumentError
        If it is no frame.
    """
    if not hasattr(frame, "columns") or not hasattr(frame, "dtypes"):
        raise ArgumentError(f"protect_guide() takes a DataFrame, not {shorten(frame)}")
    names = list(frame.columns)
    dtypes = [str(one).partition("(")[0] for one in frame.dtypes]  # in brackets some have their levels
    usable = [one for one in names if isinstance(one, str) and names.count(one) == 1]
    columns = {
        one: ColumnDraft(one, dtype, kind_of(dtype)) for one, dtype in zip(names, dtypes, strict=True) if one in usable
    }
    skipped = tuple(dict.fromkeys(str(one) for one in names if one not in columns))
    return TableDraft(columns, variable, name, ledger=f"{name}.ledger", skipped=skipped)


def kind_of(dtype: str) -> str:
    """Return the kind of column that a dtype suggests."""
    low = dtype.lower()
    if "bool" in low:
        return "yes or no"
    if "date" in low or "timestamp" in low:
        return "dates"
    if re.match(r"u?int", low):
        return "whole numbers"
    if re.match(r"float|double|decimal", low):
        return "amounts"
    if low.startswith(("str", "object", "category", "utf8", "enum", "categorical", "large_string")):
        return "levels"
    return LEFT_OUT


def _is_number(dtype: str) -> bool:
    return re.match(r"u?int|float|double|decimal", dtype.lower()) is not None


def _number(text: str, name: str) -> Any:
    """Return a number as it was typed: whole where it is."""
    cleaned = text.strip().replace("_", "").replace(",", "")
    try:
        number = float(cleaned)
    except ValueError:
        raise ArgumentError(f"{name} is a number, not {shorten(text.strip())}") from None
    return int(number) if number.is_integer() and "e" not in cleaned.lower() else number


def _whole(text: str, name: str) -> int:
    number = _number(text, name)
    if not isinstance(number, int):
        raise ArgumentError(f"{name} is a whole number, not {shorten(text.strip())}")
    return number


def _budget_code(budget: Budget) -> str:
    delta = f", delta={budget.delta!r}" if budget.delta else ""
    return f"dpn.Budget(epsilon={budget.epsilon!r}{delta})"
