"""After the charge: measure, add noise, record, reveal. Nothing here decides what is asked or what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.engine.scans import exact_answers
from dpnotebook.errors import EngineError, LedgerError
from dpnotebook.ledger import Charge, Ledger, Record
from dpnotebook.planner import explain
from dpnotebook.planner.adjusted import nonnegative_estimates
from dpnotebook.planner.answers import Estimates
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.plan_json import combined_from_json, plan_from_json, planned_from_json
from dpnotebook.privacy.accountant import Accountant, Noise
from dpnotebook.privacy.noise import draw_integers
from dpnotebook.privacy.noise_down import refined_laplace
from dpnotebook.privacy.randomness import Randomness, Source
from dpnotebook.progress import Progress, silent
from dpnotebook.query.question import Question
from dpnotebook.session.protected import ProtectedTable
from dpnotebook.session.query import Query
from dpnotebook.session.release import Release, answer_frame

if TYPE_CHECKING:
    import pandas as pd

Integers = NDArray[np.int64]
Draw = Callable[[Planned, Noise, Source], Integers]
Redraw = Callable[[Planned, Integers, Source], Integers]
Combine = Callable[[Sequence[Integers]], dict[str, Any]]


def draw_noise(item: Planned, noise: Noise, source: Source) -> Integers:
    """Return exact integer noise for every answer of a planned measurement, on its grid; shape (answers,)."""
    return draw_integers(noise, item.scale * 2**item.bits, item.measurement.answers, source)


def redraw_noise(item: Planned, first: Integers, source: Source) -> Integers:
    """Return the noise of a refinement, given that of the answers it refines, shape (answers,)."""
    assert item.before is not None
    return refined_laplace(first, item.before, item.scale, source)


def measure(
    ledger: Ledger,
    protected: ProtectedTable,
    charge: Charge,
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
    charge
        What was paid for.
    draw, redraw
        How noise is drawn: fresh, and given that of the answers that are refined.
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
        If it failed, whatever the reason.
    LedgerError
        If it cannot be measured any more.
    """

    def work(randomness: Randomness) -> Record:
        domain, noisy = protected.table.domain, []
        measurements = planned_from_json(charge.plan, domain)
        for i, item in enumerate(measurements):
            report(0.2 + 0.6 * i / len(measurements), f"asking {protected.table.name}")
            exact = exact_answers(item.measurement, domain, protected.engine.totals)
            source = randomness.source("noise", i)
            noisy.append(_noisy(ledger, item, exact << item.bits, draw, redraw, source))
        report(0.9, "recording")
        return ledger.record(charge.number, noisy, combine(noisy) if combine is not None else {})

    return after_charge(ledger, charge, work)


def after_charge(ledger: Ledger, charge: Charge, work: Callable[[Randomness], Record]) -> Record:
    """Measure for a charge, or fail in the one way that tells nothing.

    Whatever goes wrong between the charge and the record may depend on the rows and on the noise, so nothing of it is
    passed on: not its kind, not its words, not its context. The noise stays as it is, so that trying again tells no
    more. What the ledger says of its own file is about neither.

    Parameters
    ----------
    ledger, charge
        Where it is recorded, and what was paid for.
    work
        Measures and records, drawing all that is random from what it is given.

    Raises
    ------
    EngineError
        If it failed.
    LedgerError
        If what is random about it is gone, and nobody recorded it meanwhile.
    """
    randomness, said, stopped = ledger.randomness(charge), "", False
    if randomness is None:
        return ledger.get(charge.number)  # another kernel was faster
    try:
        return work(randomness)
    except LedgerError as failure:
        said = f" The ledger says: {failure}"
    except KeyboardInterrupt:
        stopped = True
    except Exception:
        said = ""
    if stopped:
        raise KeyboardInterrupt
    raise EngineError(  # out here neither has a context
        f"Release {charge.number} was charged, but answering it failed and nothing of it was shown. Run it again, or "
        f"session.retry({charge.number}), for the same charge.{said}"
    )


def _noisy(ledger: Ledger, item: Planned, exact: Integers, draw: Draw, redraw: Redraw, source: Source) -> Integers:
    if item.refines is None:
        return exact + draw(item, ledger.accountant.noise, source).reshape(exact.shape)
    release, place = item.refines
    first = ledger.get(release).answers[place] - exact
    return exact + redraw(item, first.ravel(), source).reshape(exact.shape)


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
    found = combined_from_json(record.details, record.plan, accountant.noise, confidence)
    combined = None if found is None else [found]
    sources = (record.number,) if found is None else tuple(record.details["estimates"]["sources"])
    if combined is not None and not record.plan["measures"]:
        return _release(record, query, domain, accountant, paid, combined, sources)
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
        unit=explain.unit(question.measures[0]),
        ordered=ordered,
        adjusted=adjusted,
        sources=sources,
    )
