"""A statement whose noise is drawn many times, beside what it is without noise: for studies of cards and of intervals.

The table is as people have them: rows a person, groups and values are skewed, some keys and values are missing, one
group is small.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

import dpnotebook as dpn
from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.privacy.randomness import random_bytes
from dpnotebook.session.statement_releases import reveal_statement
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.layers import with_combinations
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.sharpening import sharpened

CITIES = np.array(["Ulm", "Bonn", "Jena", "Trier", "Gera", "Soest", None], dtype=object)
SHARES = [0.42, 0.25, 0.15, 0.09, 0.05, 0.02, 0.02]
YEARS, MOST = [2020, 2021, 2022, 2023], 12
PLACES = pd.DataFrame({"city": ["Ulm", "Bonn", "Jena", "Trier", "Gera", "Soest"], "region": list("abcabc")})


def visits(persons=6_000, seed=3):
    """Return about four rows a person, up to twelve, most of them in the person's own city."""
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(persons), np.minimum(random.geometric(0.25, persons), MOST))
    rows = who.size
    city = np.where(random.random(rows) < 0.8, random.choice(7, persons, p=SHARES)[who],
                    random.choice(7, rows, p=SHARES))  # fmt: skip
    cost = random.lognormal(4 + 0.1 * city, 0.7, rows).round(2)
    return pd.DataFrame({
        "who": who,
        "city": CITIES[city],
        "age": random.integers(0, 100, persons)[who],
        "sick": random.choice(["yes", "no"], rows, p=[0.12, 0.88]),
        "year": random.choice(YEARS, rows),
        "cost": np.where(random.random(rows) < 0.06, np.nan, cost),
        "nights": pd.array(np.where(random.random(rows) < 0.1, None, random.poisson(3, rows)), dtype="Int64"),
    })  # fmt: skip


def no_noise(law, scale, size):
    return np.zeros(size, dtype=np.int64)


@dataclass(frozen=True)
class Case:
    """A statement, how it is bounded, and which of its columns depend on their noise in no way that a card foretells.

    Parameters
    ----------
    text
        The statement.
    law, contribution
        Of the session's noise, and of the statement.
    rough
        Columns whose intervals hold more often than they say: on a grid, or where a quantile is read off bins.
    before
        A statement that was asked before, at epsilon 1: what it released answers, or is made sharper.
    accuracy
        Of the statement, beside epsilon 1.
    delta, domain
        Of the session, and what is declared beside years.
    one_row
        Whether each person has one row.
    """

    text: str
    law: str = "gaussian"
    contribution: str | None = None
    rough: tuple[str, ...] = ()
    before: str | None = None
    accuracy: tuple[tuple[str, float], ...] = (("epsilon", 1.0),)
    delta: float = 1e-5
    domain: tuple[tuple[str, object], ...] = ()
    one_row: bool = False


class Study:
    """A statement that was measured without noise, and what its noise does.

    Parameters
    ----------
    case, frame
        What is asked, of which rows.
    """

    def __init__(self, case, frame, epsilon=1.0):
        self.case = case
        budget = dpn.Budget(1e4, case.delta, noise=case.law)
        self.session = dpn.Session(budget, ":memory:", confirm="never")
        if case.one_row:
            frame = frame.drop_duplicates("who")
        domain = {"year": YEARS, **dict(case.domain)}
        self.session.protect(frame, "visits", unit="who", max_rows=1 if case.one_row else MOST, domain=domain)
        self.session.register(PLACES, "places", public=True)
        ask, statements = partial(self.session.sql, contribution=case.contribution), self.session._statements
        accuracy = dict(case.accuracy)
        if case.before is None:  # tells sizes of groups and norms of units, as any statement about them does
            ask(case.text, epsilon=20 * epsilon).run()
            self.query = ask(case.text, **{k: v * epsilon if k == "epsilon" else v for k, v in accuracy.items()},
                             fresh=True)  # fmt: skip
            self.plan = self.query.plan
            statements.draw = no_noise
        else:
            statements.draw = no_noise
            ask(case.before, epsilon=1.0).run()
            self.query = ask(case.text, **accuracy)
            self.plan = self.query.plan
            assert self.plan.free or self.plan.sharper is not None
        self.truth = self.query.run().frame
        statements.draw = None
        history = self.session.ledger.history()
        self.record = self.session.ledger.get(len(history))
        self.statement = self.query.question if self.plan.recorded is None else statements.asked_in(self.record)
        self.measured = [Measuring.from_json(one["measuring"]) for one in self.record.details["selects"]]
        self.exact = [
            np.asarray(numbers).reshape(-1, one.measured)
            for one, numbers in zip(self.measured, self.record.answers, strict=True)
        ]
        if self.case.before is None:
            self._true_quantiles()
        self.earlier = None
        if self.plan.sharper is not None:
            self.earlier = Measuring.from_json(self.session.ledger.get(1).details["selects"][0]["measuring"])
            self.scales = self.plan.sharper.scales

    def _true_quantiles(self):
        """Put quantiles of the binned values in place of those that are moved for noise to tell them from the ends."""
        for part in self.measured[0].parts if len(self.measured) == 1 else ():
            aggregate = self.statement.selects[0].aggregates[self.measured[0].parts.index(part)]
            if part.edges and not part.points and aggregate.name in self.truth:
                counts = np.concatenate([np.zeros((len(self.exact[0]), 1)), self.cumulative(0, part)], axis=1)
                self.truth[aggregate.name] = [
                    np.interp(part.fractions[0] * group[-1], group, part.edges) for group in counts
                ]

    def noisy(self, place, times=1):
        """Return the numbers of one private aggregation with new noise, as often below each other."""
        one, exact = self.measured[place], np.tile(self.exact[place], (times, 1))
        if self.earlier is None:
            return exact + np.stack([draw_integers(one.noise, scale, len(exact)) for scale in one.scales], axis=1)
        known = exact + np.stack([draw_integers(one.noise, scale, len(exact)) for scale in self.earlier.scales], axis=1)
        return sharpened(self.earlier, known, exact, self.scales, None, random_bytes)

    def estimates(self, place, runs):
        """Return the answers of one private aggregation with new noise, as often below each other."""
        one, numbers = self.measured[place], self.noisy(place, runs)
        if not any(part.layers for part in one.parts):
            return estimate(one, numbers, 0.95)
        found = [  # how two layers are put together depends on the noise
            estimate(with_combinations(one, each), each, 0.95) for each in np.split(numbers, runs)
        ]
        parts = ("value", "std_error", "lower", "upper")
        return [
            Estimates(*(np.concatenate([getattr(e, p) for e in each]) for p in parts))
            for each in zip(*found, strict=True)
        ]

    def measures(self, runs):
        """Yield what is measured: its name, what the card says, root mean square errors of groups, and coverage."""
        for place, select in enumerate(self.statement.selects):
            one = self.measured[place]
            truths, drawn = estimate(one, self.exact[place], 0.95), self.estimates(place, runs)
            for aggregate, part, truth, found in zip(select.aggregates, one.parts, truths, drawn, strict=True):
                value, lower, upper = (getattr(found, name).reshape(runs, -1) for name in ("value", "lower", "upper"))
                exact = truth.value
                if part.edges:  # in ranks, as the card says it
                    value, exact = self.ranks(place, part, value), part.fractions[0] * self.sizes(place, part)
                    held = np.full(value.shape[1], np.nan)
                else:
                    held = ((lower <= exact) & (exact <= upper)).mean(axis=0)
                seen = np.isnan(value).mean(axis=0) < 0.5  # a quantile of a small group is hidden by some noise
                errors = np.sqrt(np.nanmean((value - exact)[:, seen] ** 2, axis=0))
                (said,) = [planned for planned in self.plan.parts if planned.name == aggregate.name]
                yield aggregate.name, said.std_error, errors, held[seen]

    def cumulative(self, place, part):
        """Return how many values are below the end of each bin, without noise, shape (groups, bins)."""
        from dpnotebook.sql.aggregates.crossings import cumulative_weights

        one = self.measured[place]
        (block,) = part.blocks
        return self.exact[place][:, one.place(block)] @ cumulative_weights(one.blocks[block].combine).T

    def sizes(self, place, part):
        return self.cumulative(place, part)[:, -1]

    def ranks(self, place, part, values):
        """Return the ranks of values, those in a bin spread evenly over it."""
        counts = self.cumulative(place, part)
        edges = np.asarray(part.edges)
        if part.points:  # a whole number is all ranks of those who have it: the nearest to what was asked for
            goal = part.fractions[0] * counts[:, -1]
            at = np.where(np.isnan(values), 0, values - edges[0]).astype(int)
            before = np.concatenate([np.zeros((len(counts), 1)), counts], axis=1)
            low, high = (before[np.arange(len(counts)), at + more] for more in (0, 1))
            return np.where(np.isnan(values), np.nan, np.clip(goal, low, high))
        below = np.concatenate([np.zeros((len(counts), 1)), counts], axis=1)
        return np.stack([np.interp(one, edges, group) for one, group in zip(values.T, below, strict=True)], axis=1)

    def released(self):
        """Return what is shown with new noise."""
        answers = tuple(map(self.noisy, range(len(self.exact))))
        told = [
            one | {"measuring": with_combinations(measured, numbers).to_json()}
            for one, measured, numbers in zip(self.record.details["selects"], self.measured, answers, strict=True)
        ]
        record = replace(self.record, numbers=answers, details=dict(self.record.details) | {"selects": told})
        return self.session._statements.reveal(record, self.query, 0)

    def again(self, runs):
        """Yield the same as `measures` of a statement that was asked before, of what is shown."""
        shown, keys = [self.released().frame for _ in range(runs)], list(self.query.run().keys)
        names = {part.name for part in self.plan.parts}
        for name in [name for name in self.truth.columns if name in names]:
            frames = [
                (frame.set_index(keys) if keys else frame)[[name, f"{name}_lower", f"{name}_upper"]] for frame in shown
            ]
            exact = (self.truth.set_index(keys) if keys else self.truth)[name]
            found = np.stack([frame.reindex(exact.index).to_numpy(dtype=float) for frame in frames])
            seen = np.isnan(found[:, :, 0]).mean(axis=0) < 0.02
            errors = np.sqrt(np.nanmean((found[:, :, 0] - exact.to_numpy()) ** 2, axis=0))
            held = ((found[:, :, 1] <= exact.to_numpy()) & (exact.to_numpy() <= found[:, :, 2])).mean(axis=0)
            (said,) = [planned for planned in self.plan.parts if planned.name == name]
            yield name, said.std_error, errors[seen], held[seen]

    def derived(self, runs, at_once=False):
        """Return how often the interval of each number held, by column and row; how often all did; and in how many."""
        keys = [name for name in self.truth.columns if name in {key.name for key in self.statement.selects[0].keys}]
        columns = [name for name in self.truth.columns if f"{name}_lower" in self.truth.columns]
        exact = {} if not keys else self.truth.set_index(keys)
        held, seen, together = {}, {}, []
        for _ in range(runs):
            release = self.released()
            shown, all_held = release.simultaneous() if at_once else None, []
            for place, row in enumerate(release.frame.to_dict("records")):
                key = tuple(None if pd.isna(row[name]) else row[name] for name in keys)
                truth = self.row(exact, key) if keys else self.truth.iloc[place]
                for name in columns if truth is not None else ():
                    if pd.isna(truth[name]) or pd.isna(row[name]) or pd.isna(row.get(f"{name}_lower", math.nan)):
                        continue
                    near = 1e-9 * abs(truth[name])
                    inside = row[f"{name}_lower"] - near <= truth[name] <= row[f"{name}_upper"] + near
                    held[name, key] = held.get((name, key), 0) + inside
                    seen[name, key] = seen.get((name, key), 0) + 1
                    if shown is not None:
                        ends = (shown.frame[f"{name}_{part}"].iloc[place] for part in ("lower", "upper"))
                        low, high = ends
                        all_held.append(low - near <= truth[name] <= high + near)
            together.append(all(all_held))
        return held, seen, together

    def worked_out(self, draws):
        """Yield what is worked out: its name, the half-width that the card says, and those of the rows.

        Half-widths, as they hold what bounds may have cut off, which draws hold too and standard errors do not.
        """
        outer = partial(self.session._statements._outer, self.record.number)
        release = reveal_statement(self.record, self.statement, 0.95, self.session.ledger.accountant, dict, outer)
        drawn = release.samples(draws)  # about the answer without noise: as it is shown with noise
        for said in self.plan.derived():
            values = drawn[said.name].to_numpy(dtype=float).reshape(draws, -1)
            low, high = np.quantile(values[:, ~np.isnan(values).any(axis=0)], [0.025, 0.975], axis=0)
            yield said.name, said.half_width, (high - low) / 2

    @staticmethod
    def row(exact, key):
        """Return the row of a key, which may have missing parts; None where it is not shown without noise."""
        places = [
            i
            for i, one in enumerate(exact.index.to_list())
            if tuple(None if pd.isna(part) else part for part in (one if isinstance(one, tuple) else (one,))) == key
        ]
        return exact.iloc[places[0]] if len(places) == 1 else None
