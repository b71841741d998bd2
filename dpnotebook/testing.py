"""For tests and examples only: sessions that answer without noise, so that all around the noise can be checked exactly.

`exact_session` is that session, `example_patients` a made-up table, and `example_session` has the two together.
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Bins, Range
from dpnotebook.errors import DPError
from dpnotebook.planner.plan import Planned
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.laws import Noise
from dpnotebook.privacy.randomness import Source
from dpnotebook.session.session import Session

if TYPE_CHECKING:
    import pandas as pd

PEOPLE = 1000  # of the made-up table: enough that an error of ±25 is little
YEARS = 100  # of its ages: as many people of each


def exact_session(*args: Any, **kwargs: Any) -> Session:
    """Return a session whose answers are exact, and therefore NOT PRIVATE.

    Parameters
    ----------
    args, kwargs
        As for `Session`.

    Raises
    ------
    DPError
        Unless the environment says DPNOTEBOOK_UNSAFE=1.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_patients, exact_session
    >>> session = exact_session(dpn.Budget(epsilon=1.0))
    >>> patients = session.protect(example_patients(), "patients", domain={"age": dpn.Range(0, 99)})
    >>> patients.count(where="age < 10", error=25).run().value
    100.0
    """
    if os.environ.get("DPNOTEBOOK_UNSAFE") != "1":
        raise DPError(
            "exact_session() answers without noise, so it protects nobody. It is for tests on made-up data: "
            "set DPNOTEBOOK_UNSAFE=1 in the environment of the tests"
        )
    session = Session(*args, **kwargs)
    session._questions.draw = _no_noise
    session._questions.redraw = _none_again
    session._statements.draw = _nothing
    session._statements.hide = False
    return session


def example_patients() -> pd.DataFrame:
    """Return a made-up table of 1,000 people: ten of each age from 0 to 99, six of these F, 1,000 of income a year.

    Examples
    --------
    >>> from dpnotebook.testing import example_patients
    >>> example_patients().head(3)
       age sex  income
    0    0   F       0
    1    1   F    1000
    2    2   F    2000
    """
    import pandas as pd

    number = np.arange(PEOPLE)
    age = number % YEARS
    return pd.DataFrame({"age": age, "sex": np.where(number < 0.6 * PEOPLE, "F", "M"), "income": 1000 * age})


def example_session(budget: Budget | None = None, **options: Any) -> Session:
    """Return an `exact_session` that protects `example_patients` as "patients": for examples, and NOT PRIVATE.

    Parameters
    ----------
    budget
        Epsilon = 1 unless given.
    options
        As for `Session`.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> session = example_session()
    >>> session.table("patients")
    <protected table 'patients': age, sex, income; privacy unit: one row;
     rows with no age, sex or income, or with an undeclared sex, are left out; nullable=True counts missing values>
    >>> session.table("patients").count(where="age >= 65", error=25).run().value
    350.0
    """
    session = exact_session(budget or Budget(epsilon=1.0), **options)
    domain = {"age": Range(0, YEARS - 1), "sex": ["F", "M"], "income": Bins(0, 100_000, width=10_000)}
    session.protect(example_patients(), "patients", domain=domain)
    return session


def _no_noise(item: Planned, noise: Noise, source: Source) -> NDArray[np.int64]:
    return np.zeros(item.measurement.answers, dtype=np.int64)


def _none_again(item: Planned, first: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
    return np.zeros_like(first)


def _nothing(noise: Noise, scale: Fraction, size: int) -> NDArray[np.int64]:
    return np.zeros(size, dtype=np.int64)
