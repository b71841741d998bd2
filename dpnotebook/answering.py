"""After the charge: measure, add noise, record, reveal. Nothing here decides what is asked or what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.errors import DPError, EngineError, QueryFailed
from dpnotebook.inference.adjusted import nonnegative_estimates
from dpnotebook.inference.answers import Estimates
from dpnotebook.ledger import Ledger, Record
from dpnotebook.privacy.accountant import Accountant, Noise
from dpnotebook.privacy.noise import draw_integers
from dpnotebook.privacy.refine import refined_laplace
from dpnotebook.progress import Progress, silent
from dpnotebook.protected import ProtectedTable
from dpnotebook.query import Query
from dpnotebook.question import Question
from dpnotebook.release import Release, answer_frame
from dpnotebook.reuse import words
from dpnotebook.reuse.plan import Planned
from dpnotebook.reuse.recorded import estimates_from_json, plan_from_json
from dpnotebook.scans import exact_answers

if TYPE_CHECKING:
    import pandas as pd

Integers = NDArray[np.int64]
Draw = Callable[[Planned, Noise], Integers]
Redraw = Callable[[Planned, Integers], Integers]
Combine = Callable[[Sequence[Integers]], dict[str, Any]]


def draw_noise(item: Planned, noise: Noise) -> Integers:
    """Return exact integer noise for every answer of a planned measurement, on its grid; shape (answers,)."""
    return draw_integers(noise, item.scale * 2**item.bits, item.measurement.answers)


def redraw_noise(item: Planned, first: Integers) -> Integers:
    """Return the noise of a refinement, given that of the answers it refines, shape (answers,)."""
    assert item.before is not None
    return refined_laplace(first, item.before, item.scale)


def measure(
    ledger: Ledger,
    protected: ProtectedTable,
    number: int,
    measurements: Sequence[Planned],
    draw: Draw,
    report: Progress = silent,
    combine: Combine | None = None,
    redraw: Redraw = redraw_noise,
) -> Record:
    """Measure what was charged for and record it.

    Parameters
    ----------
    ledger, protected
        Where it is recorded, and what is measured.
    number
        Of the charge.
    measurements
        What was charged for.
    draw, redraw
        Where noise comes from: fresh, and given that of the answers that are refined.
    report
        Told how far it is.
    combine
        Works out from the noisy numbers what is recorded beside them.

    Returns
    -------
    Record
        The only answer that may be shown: the first that was recorded of this charge.

    Raises
    ------
    EngineError
        If the data could not be counted.
    """
    noisy = []
    with charged(number, f"{protected.table.name} could not be counted"):
        for i, item in enumerate(measurements):
            report(0.2 + 0.6 * i / len(measurements), f"asking {protected.table.name}")
            exact = exact_answers(item.measurement, protected.table.domain, protected.engine.totals)
            noisy.append(_noisy(ledger, item, exact << item.bits, draw, redraw))
    report(0.9, "recording")
    return ledger.record(number, noisy, combine(noisy) if combine is not None else {})


@contextmanager
def charged(number: int, failing: str) -> Iterator[None]:
    """Say of what fails after a charge how to go on; what an engine says may quote a value, so none of it is passed on.

    Parameters
    ----------
    number
        Of the charge.
    failing
        What to say of a failure that has no words of its own.

    Raises
    ------
    EngineError
        If the data could not be read.
    """
    advice = (
        f"Release {number} was charged and nothing of it was shown: run the query again to measure it for that charge"
    )
    try:
        yield
    except QueryFailed as failure:
        raise EngineError(f"{failure}. {advice}") from None
    except DPError:
        raise
    except Exception as error:
        raise EngineError(f"{failing} ({type(error).__name__}). {advice}") from None


def _noisy(ledger: Ledger, item: Planned, exact: Integers, draw: Draw, redraw: Redraw) -> Integers:
    if item.refines is None:
        return exact + draw(item, ledger.accountant.noise).reshape(exact.shape)
    release, place = item.refines
    first = ledger.get(release).answers[place] - exact
    return exact + redraw(item, first.ravel()).reshape(exact.shape)


def reveal(record: Record, query: Query, domain: Domain, accountant: Accountant, paid: int) -> Release:
    """Return what a record answers to a query.

    Parameters
    ----------
    record
        From the ledger.
    query
        Names of the measures, order of the keys, confidence.
    domain, accountant
        Of the table, of the session.
    paid
        What this run of it cost, in units.
    """
    confidence, question = query.accuracy.confidence, query.question
    assert isinstance(question, Question)  # statements have a way of their own
    told = record.details.get("estimates")
    combined = None if told is None else [estimates_from_json(told, accountant.noise, confidence)]
    if told is not None and combined is not None and not record.plan["measures"]:
        return _release(record, query, domain, accountant, paid, combined, tuple(told["sources"]))
    recorded = plan_from_json(record.plan, domain, question, query.assumption)
    measured = [
        np.ldexp(noisy.astype(np.float64), -item.bits)
        for item, noisy in zip(recorded.planned, record.answers, strict=False)  # what was bought beside comes after
    ]
    estimates = [
        answer.estimate(noisy, accountant.noise, item.scale, confidence)
        for answer, item, noisy in zip(recorded.answers, recorded.planned, measured, strict=True)
    ]

    def adjusted(total: float | None, report: Progress) -> pd.DataFrame:
        found = [
            nonnegative_estimates(answer, noisy, estimate, total, report)
            for answer, noisy, estimate in zip(recorded.answers, measured, estimates, strict=True)
        ]
        return answer_frame(question, domain, found)[0]

    sources = (record.number,) if told is None else tuple(told["sources"])
    return _release(record, query, domain, accountant, paid, combined or estimates, sources, adjusted)


def _release(
    record: Record,
    query: Query,
    domain: Domain,
    accountant: Accountant,
    paid: int,
    estimates: Sequence[Estimates],
    sources: tuple[int, ...],
    adjusted: Callable[[float | None, Progress], pd.DataFrame] | None = None,
) -> Release:
    question = query.question
    assert isinstance(question, Question)
    frame, ordered = answer_frame(question, domain, estimates)
    return Release(
        frame=frame,
        question=question,
        number=record.number,
        epsilon=accountant.epsilon(record.plan["units"]),
        delta=accountant.delta,
        paid=accountant.epsilon(paid),
        confidence=query.accuracy.confidence,
        unit=words.unit(question.measures[0]),
        ordered=ordered,
        adjusted=adjusted,
        sources=sources,
    )
