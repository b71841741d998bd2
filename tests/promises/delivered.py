"""Runs a random session and holds everything that was paid for against what was promised.

What is checked of every question: every number shown is finite, in an interval, and as precise as the plan said before
it was paid for; what the session has spent is what the recorded costs add up to, cell by cell; asked again it is free
and the same; and so it is in a second session on the same file. How often the truth is missed is counted, not judged:
that is for all sessions together.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from functools import partial

import numpy as np

import dpnotebook as dpn
from dpnotebook.engine.scans import all_exact_answers
from dpnotebook.errors import LedgerConflict
from dpnotebook.planner.explain import ROWS_OF_RANK
from dpnotebook.planner.plan import KEPT
from dpnotebook.planner.plan_json import planned_from_json

ROUNDING = 1 + 2e-6  # what planning screens and what is shown is computed in another order
FARTHEST = {"laplace": 17.0, "gaussian": 7.5}  # standard errors; fewer than one in 10^10 answers lies farther off
REFUSALS = (dpn.BudgetExceeded, dpn.DomainError, dpn.AccuracyError, dpn.WorkloadError, dpn.PredicateError)
SQUARES = {"laplace": 5.0, "gaussian": 2.0}  # variance of the square of a draw over its variance
NARROWEST = 1.95  # standard errors that 95% of a sum of draws of either law lie within, at least: normal ones in 1.96
SHARP = 4.0  # standard errors in steps of the noise, from which on an interval of 95% holds in hardly more
DENSE = 10**6  # cells up to which the spend of every cell is exact


class Broken(AssertionError):
    """A promise that was not kept: which session, which question, and what is wrong with its answer."""


@dataclass
class Tally:
    """How often intervals of 95% held, and the mean square of misses in standard errors.

    `held` and `squares` have one entry a session; `noise` one a measurement; `sharp` one a question whose intervals are
    of the exact law of their noise, and not of a bound that is never narrower.
    """

    held: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    sharp: list[float] = field(default_factory=list)
    noise: list[tuple[str, np.ndarray]] = field(default_factory=list)
    at_once: int = 0
    questions: int = 0
    refused: int = 0
    free: int = 0
    actions: dict[str, int] = field(default_factory=dict)

    def count(self, plan):
        """Count a question that was answered."""
        self.questions += 1
        self.free += plan.cost.epsilon == 0
        for action in plan.actions:
            self.actions[action.kind] = self.actions.get(action.kind, 0) + 1

    def end_session(self, held, squares):
        """Add what a session said of its answers, on average."""
        for found, told in ((self.held, held), (self.squares, squares)):
            if told:
                found.append(float(np.mean(told)))

    def noise_off(self):
        """Return how large the square of all noise is over what its scales say, and the standard error of that."""
        draws = sum(size.size for _, size in self.noise)
        spread = sum(SQUARES[law] * size.size for law, size in self.noise)
        return sum(size.sum() for _, size in self.noise) / draws, math.sqrt(spread) / draws

    def summary(self):
        """Return in a few lines what was asked, and how often intervals of 95% held."""
        held, sharp = np.array(self.held), np.array(self.sharp)
        return (
            f"{held.size} sessions, {self.questions} questions, {self.free} of them free, {self.refused} refused, "
            f"{self.at_once} at the same time as another; {self.actions}\n"
            f"intervals of 95% held {held.mean():.3%} of the time; {sharp.mean():.3%} +- "
            f"{sharp.std() / math.sqrt(sharp.size):.3%} in {sharp.size} questions whose noise has an exact law; "
            f"mean square of a miss {np.mean(self.squares):.4f} variances"
        )


def run(world, path, tally):
    """Run one session and check it; add to the tally what is judged over many.

    The questions go to one of its kernels each; now and then one is started anew, and two are asked at once.
    """
    kernels = [world.open(path) for _ in range(world.kernels)]
    done, held, squares = [], [], []
    try:
        for _ in range(world.count):
            place = int(world.moods.integers(world.kernels))
            if world.happens(0.06):
                kernels[place][0].close()
                kernels[place] = world.open(path)
            session, table = kernels[place]
            asked = world.next()
            check = _Check(world, session, asked)
            if world.kernels > 1 and world.happens(0.12):
                there, elsewhere = kernels[1 - place]
                pair = [(check, table), (_Check(world, there, world.next()), elsewhere)]
                for each, release in at_once(pair):
                    tally.at_once += 1
                    done.append((each.asked, release))
                check.spent()
                continue
            answered = check.answered(table)
            if answered is None:
                tally.refused += 1
                continue
            release, plan = answered
            tally.count(plan)
            check.shown(release, plan)
            check.missed(release, plan, held, squares, tally)
            check.spent()
            # Any kernel knows it, and gives it for nothing.
            session, table = kernels[int(world.moods.integers(world.kernels))]
            _Check(world, session, asked).again(table, release)
            done.append((asked, release))
    finally:
        for session, _ in kernels:
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
    tally.end_session(held, squares)


def at_once(checks):
    """Ask one question of each of two kernels at the same time; return those that were answered with their releases."""
    queries = [(check.asked.first or check.asked.query)(table) for check, table in checks]
    found = [None, None]

    def ask(place):
        for _ in range(5):
            try:
                found[place] = queries[place].run()
            except LedgerConflict:  # the other was first to refine: asked again it is planned anew
                continue
            except REFUSALS:
                pass
            except Exception as failure:
                found[place] = failure
            return

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (check, _), query, release in zip(checks, queries, found, strict=True):
        if isinstance(release, Exception):
            raise check.broken(f"asked at once with another: {release!r}") from release
        if release is None:
            continue
        check.finite(release)
        _, error, lower, upper = numbers_of(release, release.names[0])
        reach, accuracy = ((upper - lower) / 2).max(), query.accuracy
        if check.asked.kind == "linear" and accuracy.error is not None and reach > accuracy.error * ROUNDING + 1e-9:
            raise check.broken(f"at once with another an error of {reach} is shown")
        if check.asked.kind == "linear" and accuracy.variance is not None:
            variance = error.max() ** 2
            if variance > accuracy.variance * ROUNDING:
                raise check.broken(f"at once with another a variance of {variance} is shown")
        yield check, release


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
            query = (self.asked.first or self.asked.query)(table)
            plan = query.plan
            release = query.run()
        except REFUSALS as no:
            if self.session.ledger.spent != before or self.session.audit().pending:
                raise self.broken(f"was refused ({no}) and yet paid for") from None
            return None
        if not math.isfinite(plan.error) or not np.isfinite(plan.std_errors).all():
            raise self.broken(f"an error of {plan.error} was planned, standard errors {plan.std_errors}")
        if self.session.ledger.spent - before != plan.cost.units:
            raise self.broken(f"{plan.cost.units} units were announced, {self.session.ledger.spent - before} paid")
        accuracy = query.accuracy
        if accuracy.error is not None and plan.unit == ROWS_OF_RANK:  # asked for in what the column is counted in
            self.kept(release, accuracy.error)
        elif accuracy.error is not None and plan.error > accuracy.error * ROUNDING:
            raise self.broken(f"an error of {plan.error} was planned for error={accuracy.error}")
        if accuracy.variance is not None and plan.std_error**2 > accuracy.variance * ROUNDING:
            raise self.broken(f"a variance of {plan.std_error**2} was planned for variance={accuracy.variance}")
        return release, plan

    def kept(self, release, error):
        """Check that intervals of quantiles are as short as was asked for, or that it is said that they are not."""
        widths = [
            float(((upper - lower) / 2).max())
            for _, _, lower, upper in map(partial(numbers_of, release), release.names)
        ]
        if max(widths) > KEPT * error and not any("is not kept" in note for note in release.notes):
            raise self.broken(f"intervals reach {max(widths)} for error={error}, and nothing is said of that")

    def finite(self, release):
        """Check that every number is finite and in its interval."""
        for name in release.names:
            value, error, lower, upper = numbers_of(release, name)
            if self.asked.kind == "quantile":  # of those that noise hides there is the interval alone
                shown = ~np.isnan(value)
                if not np.isfinite([lower, upper]).all() or (np.isnan(error) == shown).any():
                    raise self.broken("a quantile that noise hides has no interval, or has an error")
                value, error, lower, upper = value[shown], error[shown], lower[shown], upper[shown]
            for what, numbers in zip(
                ("value", "std_error", "lower", "upper"), (value, error, lower, upper), strict=True
            ):
                if not np.isfinite(numbers).all():
                    raise self.broken(f"{what} is not finite in {(~np.isfinite(numbers)).sum()} of {numbers.size} rows")
            if not ((lower <= value + 1e-9) & (value <= upper + 1e-9)).all():
                raise self.broken("a value lies outside of its interval")

    def shown(self, release, plan):
        """Check that every number is finite, in its interval, and as precise as was planned."""
        self.finite(release)
        for place, name in enumerate(release.names):
            value, error, lower, upper = numbers_of(release, name)
            if place or self.asked.kind in ("mean", "quantile"):  # planned for an assumed mean, in rows of rank
                continue
            exact = error <= 0
            if exact.any() and self.asked.possible is not None:  # nobody can be there, so nothing had to be asked
                exact &= self.asked.possible(release.frame) | (value != 0) | (upper != lower)
            if exact.any():
                raise self.broken(f"{exact.sum()} of {error.size} answers claim no standard error")
            if error.max() > plan.std_error * ROUNDING:
                raise self.broken(f"a standard error of {error.max()} is shown, {plan.std_error} was planned")
            narrow = (upper - lower) / 2 < NARROWEST * error
            if self.asked.kind == "linear" and release.confidence == 0.95 and (narrow & (error > SHARP)).any():
                raise self.broken(f"{narrow.sum()} of {error.size} intervals are narrower than noise is spread")
            if ((upper - lower) / 2).max() > plan.error * ROUNDING + 1e-9:
                raise self.broken(f"an error of {((upper - lower) / 2).max()} is shown, {plan.error} was planned")

    def drawn(self, release, tally):
        """Note the noise of what was just measured, over the size that its scale says: 1 on average, whatever the law.

        What refines an earlier answer has noise in common with it, and is left out; so are statements.
        """
        record = self.session.ledger.get(release.number)
        protected, law = self.session.table("t"), self.session.ledger.accountant.law
        items = planned_from_json(record.plan, protected.table.domain)
        exact = all_exact_answers([item.measurement for item in items], protected.table.domain, protected.engine)
        for item, counted, noisy in zip(items, exact, record.answers, strict=True):
            if item.refines is None:
                noise = (noisy - (counted << item.bits)).ravel().astype(float)
                tally.noise.append((self.world.noise, noise**2 / law.variance(item.scale * 2**item.bits)))

    def missed(self, release, plan, held, squares, tally):
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
                if self.asked.kind != "mean" and known.any():  # a group of nobody has no mean
                    far = np.abs(value - exact)[known] / np.where(error > 0, error, 1e-9)[known]
                    if far.max() > FARTHEST[self.world.noise]:
                        raise self.broken(f"an answer is {far.max():.1f} standard errors from the truth")
                    squares.append(float(np.mean(far**2)))
            if known.any() and release.confidence == 0.95:
                held.append(float(inside[known].mean()))
                exact = self.world.noise == "gaussian" or not plan.combined
                if self.asked.kind == "linear" and exact and not plan.free and error.min() > SHARP:
                    tally.sharp.append(held[-1])

    def spent(self):
        """Check the spend against the recorded costs, added up cell by cell."""
        world = self.world
        if world.cells * max(world.grown, 1) > DENSE:
            return
        sizes = {column.name: column.size for column in world.columns}
        sizes |= {"part": world.grown} if world.grown else {}
        total, once = np.zeros(tuple(sizes.values()), dtype=np.int64), 0
        for record in self.session.ledger.records("t"):
            for term in record.cost.terms:
                if world.adds and "part" not in term.norms:  # of a statement that bounds units by itself
                    once += math.ceil(term.rate)
                    continue
                norms = np.ones((1,) * len(sizes), dtype=np.int64)
                for axis, name in enumerate(sizes):
                    if name in term.norms:
                        norms = norms * term.norms[name].reshape([-1 if i == axis else 1 for i in range(len(sizes))])
                levels, where = np.unique(norms, return_inverse=True)
                costs = np.array([math.ceil(int(level) * term.rate) for level in levels], dtype=np.int64)
                total = total + costs[where].reshape(norms.shape)
        of_parts = total.reshape(-1, max(world.grown, 1)).max(axis=0)
        dearest = once + int(of_parts.sum() if world.adds else of_parts.max())
        if dearest != self.session.ledger.spent:
            raise self.broken(f"{self.session.ledger.spent} units are spent, the dearest cell has cost {dearest}")

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
        if repeated.number != release.number:  # a better answer, of another question or another kernel's
            errors = [numbers_of(one, one.names[0])[1].max() for one in (release, repeated)]
            worse = errors[1] > errors[0] * ROUNDING and self.asked.kind not in (
                "mean",
                "quantile",
            )  # not in their units
            if len(repeated.frame) != len(release.frame) or worse:
                raise self.broken(f"asked again it has errors of {errors[1]}, {errors[0]} before")
            return
        for column in release.frame:
            if not release.frame[column].equals(repeated.frame[column]):
                differing = (release.frame[column] != repeated.frame[column]).sum()
                raise self.broken(f"asked again it has another {column} in {differing} of {len(release.frame)} rows")
