"""Runs a random session and holds everything that was paid for against what was promised.

What is checked of every question: every number shown is finite, in an interval, and as precise as the plan said before
it was paid for; what the session has spent is what the recorded costs add up to, cell by cell; asked again it is free
and the same; and so it is in a second session on the same file. How often the truth is missed is counted, not judged:
that is for all sessions together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

import dpnotebook as dpn

ROUNDING = 1 + 2e-6  # what planning screens and what is shown is computed in another order
FARTHEST = {"laplace": 17.0, "gaussian": 7.5}  # standard errors; fewer than one in 10^10 answers lies farther off
DENSE = 10**6  # cells up to which the spend of every cell is exact


class Broken(AssertionError):
    """A promise that was not kept: which session, which question, and what is wrong with its answer."""


@dataclass
class Tally:
    """How often intervals of 95% held, and the mean square of misses in standard errors, one entry a session."""

    held: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    questions: int = 0
    refused: int = 0
    free: int = 0
    actions: dict[str, int] = field(default_factory=dict)


def run(world, path, tally):
    """Run one session and check it; add to the tally what is judged over many."""
    session, table = world.open(path)
    done, held, squares = [], [], []
    try:
        for _ in range(world.count):
            asked = world.next()
            check = _Check(world, session, asked)
            answered = check.answered(table)
            if answered is None:
                tally.refused += 1
                continue
            release, plan = answered
            tally.questions += 1
            tally.free += plan.cost.epsilon == 0
            for action in plan.actions:
                tally.actions[action.kind] = tally.actions.get(action.kind, 0) + 1
            check.shown(release, plan)
            check.missed(release, plan, held, squares)
            check.spent()
            check.again(table, release)
            done.append((asked, release))
    finally:
        session.close()
    session, table = world.open(path)
    try:
        for asked, release in done:
            _Check(world, session, asked).again(table, release)
        audit = session.audit()
        if not audit.ok:
            raise Broken(f"{world!r}: the audit says {audit.problems}")
        if audit.pending:
            raise Broken(f"{world!r}: {audit.pending} charges have no answer")
    finally:
        session.close()
    if held:
        tally.held.append(float(np.mean(held)))
    if squares:
        tally.squares.append(float(np.mean(squares)))


def numbers_of(release, name):
    """Return the values of a measure, their standard errors, and the ends of their intervals."""
    columns = [name, *(part if name == "value" else f"{name}_{part}" for part in ("std_error", "lower", "upper"))]
    return [release.frame[column].to_numpy(dtype=float) for column in columns]


@dataclass
class _Check:
    world: object
    session: object
    asked: object

    def broken(self, what):
        return Broken(f"{self.world!r}\n  {self.asked.text}\n  {what}")

    def answered(self, table):
        """Return the release and its plan; None where it was refused, which must not cost anything."""
        before = self.session.ledger.spent
        try:
            query = self.asked.query(table)
            plan = query.plan
            release = query.run()
        except (dpn.BudgetExceeded, dpn.DomainError, dpn.AccuracyError, dpn.WorkloadError, dpn.PredicateError) as no:
            if self.session.ledger.spent != before or self.session.audit().pending:
                raise self.broken(f"was refused ({no}) and yet paid for") from None
            return None
        if not math.isfinite(plan.error) or not np.isfinite(plan.std_errors).all():
            raise self.broken(f"an error of {plan.error} was planned, standard errors {plan.std_errors}")
        if self.session.ledger.spent - before != plan.cost.units:
            raise self.broken(f"{plan.cost.units} units were announced, {self.session.ledger.spent - before} paid")
        accuracy = query.accuracy
        if accuracy.error is not None and plan.error > accuracy.error * ROUNDING:
            raise self.broken(f"an error of {plan.error} was planned for error={accuracy.error}")
        if accuracy.variance is not None and plan.std_error**2 > accuracy.variance * ROUNDING:
            raise self.broken(f"a variance of {plan.std_error**2} was planned for variance={accuracy.variance}")
        return release, plan

    def shown(self, release, plan):
        """Check that every number is finite, in its interval, and as precise as was planned."""
        for place, name in enumerate(release.names):
            value, error, lower, upper = numbers_of(release, name)
            for what, numbers in zip(
                ("value", "std_error", "lower", "upper"), (value, error, lower, upper), strict=True
            ):
                if not np.isfinite(numbers).all():
                    raise self.broken(f"{what} is not finite in {(~np.isfinite(numbers)).sum()} of {numbers.size} rows")
            if not ((lower <= value + 1e-9) & (value <= upper + 1e-9)).all():
                raise self.broken("a value lies outside of its interval")
            if place or self.asked.kind in ("mean", "quantile"):  # planned for an assumed mean, in rows of rank
                continue
            exact = error <= 0
            if exact.any() and self.asked.possible is not None:  # nobody can be there, so nothing had to be asked
                exact &= self.asked.possible(release.frame) | (value != 0) | (upper != lower)
            if exact.any():
                raise self.broken(f"{exact.sum()} of {error.size} answers claim no standard error")
            if error.max() > plan.std_error * ROUNDING:
                raise self.broken(f"a standard error of {error.max()} is shown, {plan.std_error} was planned")
            if ((upper - lower) / 2).max() > plan.error * ROUNDING + 1e-9:
                raise self.broken(f"an error of {((upper - lower) / 2).max()} is shown, {plan.error} was planned")

    def missed(self, release, plan, held, squares):
        """Count whether intervals hold the truth, and refuse what no noise explains."""
        truth = self.asked.truth(release.frame)
        for place, name in enumerate(release.names):
            value, error, lower, upper = numbers_of(release, name)
            if self.asked.kind == "quantile":
                low, high = truth.T
                known = ~np.isnan(low)
                inside = (lower <= high + 1e-9) & (low <= upper + 1e-9)
            else:
                exact = truth[:, place] if truth.ndim == 2 else truth
                known = ~np.isnan(exact)
                inside = (lower - 1e-6 <= exact) & (exact <= upper + 1e-6)
                if self.asked.kind != "mean":
                    far = np.abs(value - exact) / np.where(error > 0, error, 1e-9)
                    if far.max() > FARTHEST[self.world.noise]:
                        raise self.broken(f"an answer is {far.max():.1f} standard errors from the truth")
                    squares.append(float(np.mean(far**2)))
            if known.any() and release.confidence == 0.95:
                held.append(float(inside[known].mean()))

    def spent(self):
        """Check the spend against the recorded costs, added up cell by cell."""
        if self.world.cells > DENSE:
            return
        sizes = {column.name: column.size for column in self.world.columns}
        total = np.zeros(tuple(sizes.values()), dtype=np.int64)
        for record in self.session.ledger.records("t"):
            for term in record.cost.terms:
                norms = np.ones((1,) * len(sizes), dtype=np.int64)
                for axis, name in enumerate(sizes):
                    if name in term.norms:
                        norms = norms * term.norms[name].reshape([-1 if i == axis else 1 for i in range(len(sizes))])
                levels, where = np.unique(norms, return_inverse=True)
                costs = np.array([math.ceil(int(level) * term.rate) for level in levels], dtype=np.int64)
                total = total + costs[where].reshape(norms.shape)
        if int(total.max()) != self.session.ledger.spent:
            raise self.broken(f"{self.session.ledger.spent} units are spent, the dearest cell has cost {total.max()}")

    def again(self, table, release):
        """Check that the same question is free and the same, or a more accurate answer that was paid for since."""
        before = self.session.ledger.spent
        query = self.asked.query(table)
        plan = query.plan
        if plan.cost.units or not plan.free:
            raise self.broken(f"asked again it would cost {plan.cost.epsilon}")
        repeated = query.run()
        if self.session.ledger.spent != before or repeated.paid:
            raise self.broken("asked again it was paid for again")
        if repeated.number > release.number and repeated.frame[release.names[0]].size == len(release.frame):
            return
        for column in release.frame:
            if not release.frame[column].equals(repeated.frame[column]):
                differing = (release.frame[column] != repeated.frame[column]).sum()
                raise self.broken(f"asked again it has another {column} in {differing} of {len(release.frame)} rows")
