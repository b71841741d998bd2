"""Columns picked as pandas users do: `df.dp["age"].mean(...)`, `df.dp.age.mean(...)`, `groupby("sex")["age"].sum(...)`.

They are another way to write the verbs, which ask as ever: a verb of one column is given that column, and what is asked
of several is `agg` or `describe`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from dpnotebook.errors import UnknownVerb
from dpnotebook.planner.table import TableSchema
from dpnotebook.session.aggregation import FUNCTIONS
from dpnotebook.session.instead import refuse, refuse_item

# Verbs whose first argument is a column.
OF_ONE = (
    *("cdf", "corr", "cov", "histogram", "max", "mean", "median", "min"),
    *("nunique", "quantile", "sem", "std", "sum", "value_counts", "var"),
)


OF_PAIRS = ("corr", "cov")


class PickedColumns:
    """Declared columns of a protected table, or of its groups, of which the verbs ask.

    Parameters
    ----------
    verbs
        The table, or its groups, with the verbs as methods.
    table
        What is public of it.
    keys
        By what it was grouped.
    names
        The columns; one, or a list of several.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> patients = example_session().table("patients")
    >>> patients["age"].mean(epsilon=0.5).run().value
    49.5
    >>> patients.groupby("sex")["age"].quantile(0.25, epsilon=0.5).run().frame[["sex", "value"]]
      sex  value
    0   F   24.0
    1   M   24.0
    >>> patients[["age", "income"]].mean(epsilon=0.5).run().frame[["age_mean", "income_mean"]]
       age_mean  income_mean
    0      49.5      50000.0
    """

    def __init__(self, verbs: Any, table: TableSchema, keys: Sequence[str], names: str | list[str]) -> None:
        self._verbs, self._table, self._keys, self._names = verbs, table, tuple(keys), names

    def agg(self, functions: str | Sequence[str], **options: Any) -> Any:
        """Return a query for functions of each column, at one price; see `Grouped.agg`.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> by_sex = example_session().table("patients").groupby("sex")
        >>> by_sex["age"].agg(["mean", "median"], epsilon=0.5).run().frame[["sex", "age_mean", "age_median"]]
          sex  age_mean  age_median
        0   F      49.5        49.0
        1   M      49.5        49.0
        """
        return self._verbs.agg(dict.fromkeys(self._listed, functions), **options)

    @property
    def _listed(self) -> list[str]:
        return [self._names] if isinstance(self._names, str) else self._names

    def _verb(self, name: str) -> Callable[..., Any] | None:
        """Return a verb with the columns already given; None where it is not asked of columns."""
        if name == "describe" or (name == "value_counts" and not self._keys):  # their first argument may be several
            return partial(getattr(self._verbs, name), self._listed)
        if name in OF_PAIRS and len(self._listed) == 2 and not self._keys:
            return partial(getattr(self._verbs, name), *self._listed)
        if name == "count" or not isinstance(self._names, str):  # the count of a column is that of its values
            return partial(self.agg, name) if name in FUNCTIONS else None
        found = getattr(type(self._verbs), name, None) if name in OF_ONE else None
        return None if found is None else partial(found, self._verbs, self._names)

    def __getattr__(self, name: str) -> Any:
        own = vars(self)  # empty while it is being copied
        found = self._verb(name) if own and not name.startswith("_") else None
        if found is not None:
            return found
        picked = self._listed if own else ()
        return refuse("a column", name, dir(self) if own else (), own.get("_table"), own.get("_keys", ()), picked)

    def __getitem__(self, key: object) -> NoReturn:
        refuse_item(key, self._table)

    def __iter__(self) -> NoReturn:
        refuse("a column", "iterrows", (), self._table, self._keys, self._listed)

    def __len__(self) -> NoReturn:
        refuse("a column", "len", (), self._table)

    def __bool__(self) -> bool:
        return True

    def __dir__(self) -> list[str]:
        return ["agg", *(name for name in ("count", "describe", *OF_ONE) if self._verb(name) is not None)]

    def __repr__(self) -> str:
        by = f", by {', '.join(self._keys)}" if self._keys else ""
        return f"<{', '.join(self._listed)} of protected table {self._table.name!r}{by}: ask .describe(epsilon=0.1)>"

    def _compared(self, other: object) -> NoReturn:
        one = self._listed[0]
        raise UnknownVerb(f'a condition is a text, in where=: count(where="{one} >= 10", epsilon=0.1), for example')

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _compared
    __hash__ = object.__hash__

    __and__ = __rand__ = __or__ = __ror__ = _compared

    def __invert__(self) -> NoReturn:
        self._compared(None)

    def _worked_out(self, other: object) -> NoReturn:
        refuse("a column", "arithmetic", (), self._table, self._keys, self._listed)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _worked_out
