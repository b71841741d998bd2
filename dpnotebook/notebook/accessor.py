"""The pandas accessor `df.dp`. It holds no state: pandas makes a new one at every access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pandas as pd

from dpnotebook.domain import Domain
from dpnotebook.domain.named_workloads import WorkloadRequest
from dpnotebook.errors import NotProtected, UnknownVerb
from dpnotebook.notebook.cards.budget import budget_state
from dpnotebook.notebook.explorer.explorer import Explorer, explore
from dpnotebook.planner.table import TableSchema
from dpnotebook.privacy.unit import Unit
from dpnotebook.session.instead import refuse
from dpnotebook.session.picked_columns import PickedColumns
from dpnotebook.session.protected import ProtectedTable, frames
from dpnotebook.session.query import SessionProtocol
from dpnotebook.session.session import Session, active_session
from dpnotebook.session.verbs import Verbs

COUNTED = ("answer", "cdf", "count", "crosstab", "groupby", "histogram", "value_counts")
MOMENTS = ("corr", "cov", "max", "min", "nunique", "sem", "std", "var")
NAMES = (*COUNTED, *MOMENTS, "agg", "describe", "mean", "median", "quantile", "sum")


@pd.api.extensions.register_dataframe_accessor("dp")
class DPAccessor:
    """Private questions about a protected frame; the verbs are those of `dpnotebook.session.verbs.Verbs`.

    Parameters
    ----------
    frame
        The frame it is an accessor of.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_patients, exact_session
    >>> patients = example_patients()
    >>> session = exact_session(dpn.Budget(epsilon=1.0))
    >>> table = session.protect(patients, "patients", domain={"age": dpn.Range(0, 99), "sex": ["F", "M"]})
    >>> patients.dp
    <protected table 'patients': age, sex; privacy unit: one row;
     rows with no age or sex, or with an undeclared sex, are left out; nullable=True counts missing values>
    >>> patients.dp.count(where="age >= 65", error=25).run().value
    350.0
    """

    # Runs at every access, Tab and dir() included: it must be cheap and must not raise.
    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @property
    def table(self) -> ProtectedTable:
        """The protected table that this frame is; raises NotProtected if it is none."""
        return frames.find(self._frame)

    @property
    def session(self) -> SessionProtocol:
        """The session that pays for this frame's questions."""
        return self.table.session

    @property
    def domain(self) -> Domain:
        """The domain that this frame was protected with."""
        return self.table.table.columns

    def explore(self, workload: WorkloadRequest, *, epsilon: float = 1.0, delta: float | None = None) -> Explorer:
        """Compare what could be measured to answer a workload over this frame's domain; see `dpnotebook.explore`.

        No data is read and nothing is charged.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_patients, exact_session
        >>> patients = example_patients()
        >>> session = exact_session(dpn.Budget(epsilon=1.0))
        >>> table = session.protect(patients, "patients", domain={"age": dpn.Range(0, 99), "sex": ["F", "M"]})
        >>> explorer = patients.dp.explore(dpn.ranges("age"), epsilon=0.5)
        >>> explorer.question.workload
        AllRange(100)
        """
        explorer = explore(workload, self.domain, epsilon=epsilon, delta=delta)
        explorer.budget = partial(budget_state, self.session)
        return explorer

    def protect(
        self,
        name: str,
        *,
        domain: Mapping[str, Any] | None = None,
        unit: str | Unit | None = None,
        max_rows: int | None = None,
        rows: float | None = None,
        nullable: bool | Iterable[str] = False,
        lose_answers: bool = False,
        session: Session | None = None,
    ) -> ProtectedTable:
        """Protect this frame in a session, the active one unless given; see `Session.protect`.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_patients, exact_session
        >>> patients = example_patients()
        >>> session = exact_session(dpn.Budget(epsilon=1.0))
        >>> patients.dp.protect("patients", domain={"age": dpn.Range(0, 99)})
        <protected table 'patients': age; privacy unit: one row;
         rows with no age are left out; nullable=True counts missing values>
        """
        paying = session if session is not None else active_session()
        return paying.protect(
            self._frame,
            name,
            domain=domain,
            unit=unit,
            max_rows=max_rows,
            rows=rows,
            nullable=nullable,
            lose_answers=lose_answers,
        )

    def __getitem__(self, key: str | list[str]) -> PickedColumns:
        """Return columns to ask of, as `df.dp["age"].mean(epsilon=0.1)`; see `Grouped.__getitem__`."""
        return frames.verbs(self._frame)[key]

    def _ipython_key_completions_(self) -> list[str]:
        """Return what Tab offers inside the bracket: the declared columns."""
        known = _known(self._frame)
        return [] if known is None else list(known.domain)

    if not TYPE_CHECKING:  # a type checker knows what is here

        def __getattr__(self, name: str) -> PickedColumns:
            known = _known(vars(self).get("_frame"))
            if known is not None and name in known.domain:  # as in pandas; a column called as a verb is in brackets
                return self[name]
            refuse("df.dp", name, dir(type(self)), known)

        def __len__(self) -> NoReturn:
            refuse("df.dp", "len", (), _known(self._frame))

        def __bool__(self) -> bool:
            return True

    def __repr__(self) -> str:
        try:
            return repr(self.table)
        except LookupError as error:
            return f"<df.dp: {error}>"

    def __dir__(self) -> list[str]:
        known = _known(self._frame)
        return [*super().__dir__(), *NAMES, *([] if known is None else filter(str.isidentifier, known.domain))]


@pd.api.extensions.register_series_accessor("dp")
class SeriesHint:
    """There is no `df["age"].dp`: it says how to ask of a column."""

    def __init__(self, column: pd.Series) -> None:
        raise UnknownVerb("a column has no dp: ask its frame, and name it: df.dp.mean('age', epsilon=0.1), for example")


def _known(frame: pd.DataFrame | None) -> TableSchema | None:
    """Return what is public of a frame; None where it is not protected, so that a missing name is told all the same."""
    try:
        return None if frame is None else frames.find(frame).table
    except NotProtected:
        return None


def _verb(name: str) -> Any:
    def verb(self: DPAccessor, *args: Any, **kwargs: Any) -> Any:
        return getattr(frames.verbs(self._frame), name)(*args, **kwargs)

    original = getattr(Verbs, name)
    verb.__name__, verb.__doc__ = name, original.__doc__
    # help() and Tab show the verb's own signature
    verb.__wrapped__ = original  # type: ignore[attr-defined]
    return verb


for _name in NAMES:
    setattr(DPAccessor, _name, _verb(_name))
