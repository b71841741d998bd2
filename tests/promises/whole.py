"""Whole sessions of mixed questions over few cells, held against dense least squares over everything recorded.

What a plan says beforehand, what is shown, and what no one could better are three numbers; here they are compared for
every answer. The reference knows only what was measured: as a matrix over all cells, with the variance of its noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from scipy import stats

import dpnotebook as dpn

DETERMINED = 1e-6  # of a query's length that may be left over by rounding
CLOSE = 1e-4  # relative, of variances: shown ones have some ten digits
OVERSTATED = 0.02  # of a variance, that a card may say more than is shown
SAME = 1e-7  # up to which a variance is that of the best estimate, which is then the only one
ROUNDED = 0.02  # standard errors by which a value that is shown is rounded
REFUSALS = (dpn.BudgetExceeded, dpn.DomainError, dpn.AccuracyError, dpn.WorkloadError)
ROWS = 3_000


class Broken(AssertionError):
    """What a session did not keep: which one, which question, and how."""


@dataclass
class Asked:
    """A question: its name, the query, and for a frame of answers the queries that were asked of the cells."""

    text: str
    query: Callable
    queries: Callable | None = field(default=None, repr=False)  # for each measure, shape (answers, cells)
    truth: Callable | None = field(default=None, repr=False)  # of what is no linear query, shape (answers,)
    several: bool = False


@dataclass
class Found:
    """What came of a session: misses in the standard errors that the plan said, and whether intervals held."""

    noise: str
    squares: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    draws: list[np.ndarray] = field(default_factory=list)  # of noise, in multiples of its standard error
    questions: int = 0
    free: int = 0
    charged: list[str] = field(default_factory=list)
    overstated: list[str] = field(default_factory=list)
    spent: int = 0
    actions: dict[str, int] = field(default_factory=dict)


class Dense:
    """Least squares over some measurements: their information about every cell, and what it adds up to."""

    def __init__(self, cells):
        self.information, self.told, self._inverse = np.zeros((cells, cells)), np.zeros(cells), None

    def add(self, matrix, noisy, variance):
        self.information += matrix.T @ matrix / variance
        self.told += matrix.T @ noisy / variance
        self._inverse = None

    @property
    def inverse(self):
        if self._inverse is None:
            values, vectors = np.linalg.eigh(self.information)
            kept = values > 1e-11 * values.max(initial=0.0)
            self._inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        return self._inverse

    def variances(self, queries):
        """Return the variance of each query, infinite where it is not determined."""
        along = queries @ self.inverse
        left = np.linalg.norm(queries - along @ self.information, axis=1)
        determined = left <= DETERMINED * np.linalg.norm(queries, axis=1)
        return np.where(determined, (along * queries).sum(axis=1), np.inf)

    def values(self, queries):
        return queries @ (self.inverse @ self.told)


class Session:
    """A session of a seed: some ordered columns, their rows, and a stream of questions.

    Parameters
    ----------
    seed
        Names it.
    cells
        The least and the most cells of its table.
    questions
        The least and the most that it asks.
    noise
        "laplace" or "gaussian"; of the seed's own choice when None.
    dense
        Whether least squares over all cells is worked out beside.
    """

    def __init__(self, seed, cells=(10, 1_000), questions=(30, 60), noise=None, dense=True):
        self.dense = dense
        self.seed, self.rng = seed, (rng := np.random.default_rng([seed, 14]))
        self.noise = noise or str(rng.choice(["laplace", "gaussian"]))
        wanted = math.exp(rng.uniform(*np.log(cells)))
        shares = rng.dirichlet(np.ones(int(rng.integers(1, 4))))
        self.sizes = {"abc"[i]: max(2, round(wanted**share)) for i, share in enumerate(shares)}
        self.lows = {name: int(rng.integers(-3, 20)) for name in self.sizes}
        self.cells = math.prod(self.sizes.values())
        self.count = int(rng.integers(questions[0], questions[1] + 1))
        self.codes = dict(
            zip(self.sizes, np.unravel_index(np.arange(self.cells), tuple(self.sizes.values())), strict=True)
        )
        self.rows = rng.multinomial(ROWS, rng.dirichlet(np.full(self.cells, 0.5)))
        self.asked: list[Asked] = []

    def __repr__(self):
        return f"seed {self.seed}: {self.sizes}, {self.noise}"

    @property
    def domain(self):
        return {name: dpn.Range(self.lows[name], self.lows[name] + size - 1) for name, size in self.sizes.items()}

    def frame(self):
        return pd.DataFrame({name: np.repeat(codes + self.lows[name], self.rows) for name, codes in self.codes.items()})

    # Predicates, groups, accuracies.

    def where(self, most=2, but=None):
        """Return a text, None for all rows, and which cells it keeps; nothing is said of the column `but`."""
        rng, text, kept = self.rng, None, np.ones(self.cells, dtype=bool)
        names = [name for name in rng.permutation(list(self.sizes)) if name != but]
        for name in names[: int(rng.integers(0, most + 1))]:
            size, low, codes = self.sizes[name], self.lows[name], self.codes[name]
            first, last = np.sort(rng.integers(0, size, 2))
            how = rng.choice(["range", "from", "one", "some", "not"])
            if how == "range":
                piece, here = (
                    f"({name} >= {low + first} and {name} <= {low + last})",
                    (codes >= first) & (codes <= last),
                )
            elif how == "from":
                piece, here = f"({name} >= {low + first})", codes >= first
            elif how == "one":
                piece, here = f"({name} == {low + first})", codes == first
            elif how == "some":
                piece, here = f"({name} in [{low + first}, {low + last}])", (codes == first) | (codes == last)
            else:
                piece, here = f"(not ({name} == {low + first}))", codes != first
            if text is not None and rng.random() < 0.2:
                text, kept = f"({text} or {piece})", kept | here
            else:
                text, kept = piece if text is None else f"({text} and {piece})", kept & here
        return text, kept

    def accuracy(self, worth=1.0):
        """Return an error or an epsilon; `worth` is what one row adds at most."""
        if self.rng.random() < 0.4:
            return {"epsilon": float(f"{math.exp(self.rng.uniform(math.log(0.01), 0)):.3g}")}
        return {"error": float(f"{worth * math.exp(self.rng.uniform(math.log(8), math.log(600))):.3g}")}

    def keys(self):
        return [str(name) for name in self.rng.permutation(list(self.sizes))[: int(self.rng.integers(1, 3))]]

    def groups(self, frame, names):
        """Return which cells are in the group of each row of a frame, shape (rows, cells)."""
        inside = np.ones((len(frame), self.cells))
        for name in names:
            inside *= self.codes[name][None] == (frame[name].to_numpy(dtype=int) - self.lows[name])[:, None]
        return inside

    def value(self, name):
        return self.codes[name] + float(self.lows[name])

    # Questions.

    def next(self):
        """Return a new question, or an earlier one at another accuracy."""
        if self.asked and self.rng.random() < 0.15:
            earlier = self.asked[self.rng.integers(len(self.asked))]
            if earlier.queries is not None and "sum" not in earlier.text and not earlier.several:
                at = self.accuracy()
                return Asked(f"{earlier.text}, again {at}", lambda t: earlier.query(t).at(**at), earlier.queries)
        kinds = (self.a_count, self.a_histogram, self.a_crosstab, self.a_sum, self.a_mean, self.a_cdf, self.a_quantile)
        kinds += (self.some_ranges, self.marginals, self.a_statement, self.a_count)
        found = kinds[self.rng.integers(len(kinds))]()
        self.asked.append(found)
        return found

    def a_count(self):
        text, kept = self.where(3)
        at = self.accuracy()
        return Asked(f"count({text!r}, {at})", lambda t: t.count(where=text, **at), lambda frame: [kept[None] * 1.0])

    def a_histogram(self):
        (name, *_), (text, kept), at = self.keys(), self.where(), self.accuracy()
        return Asked(
            f"histogram({name}, {text!r}, {at})",
            lambda t: t.histogram(name, where=text, **at),
            lambda frame: [self.groups(frame, [name]) * kept],
        )

    def a_crosstab(self):
        names, (text, kept), at = self.keys(), self.where(), self.accuracy()
        return Asked(
            f"groupby({names}).count({text!r}, {at})",
            lambda t: t.groupby(names).count(where=text, **at),
            lambda frame: [self.groups(frame, names) * kept],
        )

    def a_sum(self):
        column, (text, kept) = str(self.rng.choice(list(self.sizes))), self.where()
        names = [name for name in self.keys() if name != column] if self.rng.random() < 0.6 else []
        at = self.accuracy(float(np.abs(self.value(column)).max()))
        return Asked(
            f"groupby({names}).sum({column}, {text!r}, {at})",
            lambda t: (t.groupby(names) if names else t).sum(column, granularity=1, where=text, **at),
            lambda frame: [self.groups(frame, names) * kept * self.value(column)],
        )

    def a_mean(self):
        column = str(self.rng.choice(list(self.sizes)))
        text, kept = self.where(1, column)  # that of one value is known, whatever its noise says
        names = [name for name in self.keys() if name != column] if self.rng.random() < 0.6 else []
        at = {"epsilon": float(f"{math.exp(self.rng.uniform(math.log(0.05), 0)):.3g}")}

        def truth(frame):
            groups = self.groups(frame, names) * kept * self.rows
            with np.errstate(invalid="ignore"):
                return (groups @ self.value(column)) / groups.sum(axis=1)

        return Asked(
            f"groupby({names}).mean({column}, {text!r}, {at})",
            lambda t: (t.groupby(names) if names else t).mean(column, granularity=1, where=text, **at),
            truth=truth,
        )

    def a_cdf(self):
        (name, *_), (text, kept), at = self.keys(), self.where(), self.accuracy()
        return Asked(
            f"cdf({name}, {text!r}, {at})",
            lambda t: t.cdf(name, where=text, **at),
            lambda frame: [kept * (self.value(name)[None] <= frame[name].to_numpy(dtype=float)[:, None])],
        )

    def a_quantile(self):
        (name, *_), (text, kept), at = self.keys(), self.where(1), self.accuracy()
        share = float(self.rng.choice([0.25, 0.5, 0.9]))

        def truth(frame):
            counts = np.bincount(self.codes[name], self.rows * kept, self.sizes[name]).cumsum()
            level = int(np.argmax(counts >= share * counts[-1]))
            return np.array([self.lows[name] + level if counts[-1] else np.nan], dtype=float)

        return Asked(
            f"quantile({name}, {share}, {text!r}, {at})",
            lambda t: t.quantile(name, share, where=text, **at),
            truth=truth,
        )

    def of_request(self, words, request, names):
        at, domain = self.accuracy(), dpn.Domain(self.domain)
        sizes = tuple(self.sizes[name] for name in names)
        cells = np.ravel_multi_index([self.codes[name] for name in names], sizes)

        def queries(frame):
            matrix = request.over(dpn.Domain({name: domain[name] for name in names}), names).dense()
            return [matrix[:, cells]]

        return Asked(f"answer({words}, {at})", lambda t: t.answer(request, names, **at), queries)

    def some_ranges(self):
        small = [name for name, size in self.sizes.items() if size <= 24]
        if not small:
            return self.a_count()
        name = str(self.rng.choice(small))
        return self.of_request(f"ranges({name})", dpn.ranges(name), [name])

    def marginals(self):
        names, k = list(self.sizes), int(self.rng.integers(1, min(2, len(self.sizes)) + 1))
        return self.of_request(f"marginals({k})", dpn.marginals(k), names)

    def a_statement(self):
        (name, *_), column = self.keys(), str(self.rng.choice(list(self.sizes)))
        cut = self.lows[column] + int(self.rng.integers(0, self.sizes[column]))
        kept = self.value(column) >= cut
        several = column != name and self.rng.random() < 0.4
        at = {"epsilon": float(f"{math.exp(self.rng.uniform(math.log(0.05), 0)):.3g}")} if several else self.accuracy()
        also = f", SUM({column}) AS s" if several else ""
        text = f"SELECT {name}, COUNT(*) AS n{also} FROM t WHERE {column} >= {cut} GROUP BY {name}"

        def queries(frame):
            groups = self.groups(frame, [name]) * kept
            return [groups, groups * self.value(column)] if several else [groups]

        return Asked(f"sql({text!r}, {at})", lambda t: t._session.sql(text, **at), queries, several=several)


def matrix_of(measurement, session):
    """Return what a measurement asks of every cell, shape (components, answers, cells)."""
    domain = dpn.Domain(session.domain)
    kept = np.ones(session.cells)
    if not measurement.where.is_everything:
        names = list(session.sizes)
        kept = measurement.where.dense(names).ravel()[: session.cells] * 1.0
    place, size = np.zeros(session.cells, dtype=int), 1
    for axis in measurement.axes:
        of_level = np.full(session.sizes[axis.attribute], -1)
        of_level[list(axis.levels)] = np.arange(axis.size)
        here = of_level[session.codes[axis.attribute]]
        kept = kept * (here >= 0)
        place, size = place * axis.size + np.maximum(here, 0), size * axis.size
    histogram = measurement.operator.dense()[:, place] * kept
    column = measurement.summand.column
    if column is None:
        return histogram[None]
    values = measurement.summand.of_levels(domain[column])[:, session.codes[column]]
    return values[:, None] * histogram[None]


class Check:
    """Holds the answers of a session, one after another, against everything that had been recorded."""

    def __init__(self, world, session):
        self.world, self.session, self.found = world, session, Found(world.noise)
        self.matrices: dict[object, np.ndarray] = {}
        self.alone: dict[int, Dense] = {}  # by release
        self.everything = self.counts = None

    def broken(self, asked, what):
        return Broken(f"{self.world!r}\n  {asked.text}\n  {what}")

    def take(self):
        """Take what was recorded since, and note the noise that was drawn."""
        cells, rows = self.world.cells, self.world.rows
        (history,) = self.session._questions.histories._known.values()
        new = [item for key, item in history.items.items() if key not in self.matrices]
        for item in new:
            matrix = self.matrices[item.key] = matrix_of(item.measurement, self.world)
            for part, noisy in zip(matrix, item.noisy, strict=True):
                self.found.draws.append((noisy - part @ rows) / math.sqrt(item.variance))
                if self.world.dense:
                    self.alone.setdefault(item.key[0], Dense(cells)).add(part, noisy, item.variance)
        if not self.world.dense or not (new or self.everything is None):
            return
        self.everything, self.counts = Dense(cells), Dense(cells)
        for key, item in history.items.items():
            if key in history.refined:  # a number tells nothing beside the finer one
                continue
            for part, noisy in zip(self.matrices[key], item.noisy, strict=True):
                self.everything.add(part, noisy, item.variance)
                if item.measurement.summand.column is None:
                    self.counts.add(part, noisy, item.variance)

    def ask(self, asked, table):
        """Ask, and compare what was said before, what is shown, and what least squares over everything gives."""
        found, before = self.found, dict(self.alone)
        query = asked.query(table)
        try:
            plan = query.plan
            release = query.run()
        except REFUSALS:
            return
        found.questions += 1
        found.spent += plan.cost.units
        found.free += plan.cost.units == 0
        for action in plan.actions:
            found.actions[action.kind] = found.actions.get(action.kind, 0) + 1
        table.count(error=1e9).plan  # noqa: B018 - reads what was recorded
        self.take()
        for place, name in enumerate(release.names):
            said = [name, *(part if name == "value" else f"{name}_{part}" for part in ("std_error", "lower", "upper"))]
            value, error, lower, upper = (release.frame[column].to_numpy(dtype=float) for column in said)
            if asked.queries is None:
                truth = asked.truth(release.frame)
                known = ~np.isnan(truth)
            else:
                queries = asked.queries(release.frame)[place]
                truth, known = queries @ self.world.rows, queries.any(axis=1)
            if not known.any():
                continue
            found.held.append(float(((lower - 1e-6 <= truth) & (truth <= upper + 1e-6))[known].mean()))
            if asked.queries is None:
                continue
            value, error, truth, queries = value[known], error[known], truth[known], queries[known]
            planned = plan.std_errors[known] if not asked.several else error
            # Of what is answered by itself the plan says what it would be at worst: what is known may be better.
            found.squares.append(float(np.mean(((value - truth) / (error if plan.own else planned)) ** 2)))
            if (error > planned * (1 + CLOSE)).any():
                raise self.broken(asked, f"planned {planned.max()}, shown {error.max()}")
            over = float(planned.max() ** 2 / error.max() ** 2)
            if plan.combined and over > 1 + OVERSTATED:
                found.overstated.append(f"{over:.3f}: {asked.text}, {self.world!r}")
            if self.world.dense:
                self.against_all(asked, plan, queries, value, error)
                if plan.cost.units and not asked.several:
                    self.determined(asked, queries, before, query)

    def against_all(self, asked, plan, queries, value, error):
        """Compare what is shown with least squares over everything that was recorded."""
        best, of_counts = self.everything.variances(queries), self.counts.variances(queries)
        if (best > error**2 * (1 + CLOSE)).any():
            raise self.broken(asked, f"everything has {(best / error**2).max():.4f} times the variance that is shown")
        if not plan.combined or plan.own or plan.recorded:
            return
        if "sum(" not in asked.text and (error**2 > of_counts * (1 + CLOSE)).any():
            raise self.broken(asked, f"{(error**2 / of_counts).max():.4f} times the variance that all counts have")
        same = error**2 <= best * (1 + SAME)
        off = np.abs(value - self.everything.values(queries))[same] / error[same]
        if (off > ROUNDED).any():
            raise self.broken(asked, f"{off.max():.4f} standard errors from least squares over everything")

    def determined(self, asked, queries, before, query):
        """Note a question that was charged although one release before it tells all of it as accurately as is asked."""
        if query.accuracy.error is not None:
            law = self.session.ledger.accountant.law
            wanted = (query.accuracy.error / law.kappa(query.accuracy.confidence)) ** 2
        else:
            wanted = replace(query, fresh=True).plan.std_errors.min() ** 2
        for number, release in before.items():
            if (release.variances(queries) <= wanted * (1 - CLOSE)).all():
                self.found.charged.append(f"{self.world!r}: {asked.text}, known from release {number}")
                return


def run(world):
    """Ask all questions of a session; return what was found."""
    budget = dpn.Budget(60.0, 1e-6 if world.noise == "gaussian" else 0.0)
    with dpn.Session(budget, ":memory:") as session:
        check = Check(world, session)
        table = session.protect(world.frame(), "t", domain=world.domain, rows=ROWS)
        for _ in range(world.count):
            check.ask(world.next(), table)
        return check.found


def noise_of(sessions, chance):
    """Return how large the noise of sessions of one law was, between the ends that it has but for this chance.

    Returns
    -------
    The least, what was found, the greatest, and by how much a tenth less noise would be smaller: mean squares of
    Gaussian noise, in variances, or mean sizes of Laplace noise, in scales.
    """
    draws = np.concatenate([draws.ravel() for found in sessions for draws in found.draws])
    if sessions[0].noise == "gaussian":
        law, size, tenth = stats.chi2(draws.size), np.mean(draws**2), 0.9**2
    else:
        law, size, tenth = stats.gamma(draws.size), np.mean(np.abs(draws)) * math.sqrt(2), 0.9
    return law.ppf(chance) / draws.size, size, law.ppf(1 - chance) / draws.size, tenth
