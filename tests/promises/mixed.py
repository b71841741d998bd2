"""Random sessions in which everything comes together: verbs, SQL, offers, previews, restarts, and a part that is added.

The table has what tables have: dates, texts with quotes, missing values that are declared and rows that are not, one
column of thousands of levels. The exact answers are counted from levels that never pass through what is tested. Beside
what `delivered` holds every answer against, a plan is the same whatever was looked at before it, and after a restart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

import delivered
import numpy as np
import pandas as pd
from sessions import Asked, Column, World, shares

import dpnotebook as dpn

TEXTS = ["O'Neil", 'say "hi"', "😀", "naïve", " spaced ", "NULL", "100%", "line\nbreak"]
MOST_ANSWERS = 1_500
SPANS = {"day": "D", "week": "7D", "month": "MS"}
UNDECLARED = 0.03  # of the rows, that have a value which a column does not declare
SAME = 1e-6  # relative, of what two plans of one question say
PLANS = 2  # of questions that are compared before and after a restart


def dates(rng, name, by, levels, rows, nullable):
    """Return a column of days, and its levels."""
    first = pd.Timestamp("2021-01-01") + pd.Timedelta(days=0 if by == "month" else int(rng.integers(0, 300)))
    starts = pd.date_range(first, periods=levels + 1, freq=SPANS[by])
    codes = rng.choice(levels + nullable, rows, p=shares(rng, levels + nullable))
    begins, ends = (starts.to_numpy()[np.minimum(codes, levels - 1) + more] for more in (0, 1))
    days = (ends - begins) // np.timedelta64(1, "D")
    values = begins + (rng.random(rows) * days).astype(int) * np.timedelta64(1, "D")
    if nullable:
        values[codes == levels] = np.datetime64("NaT")
    declared = dpn.Dates(str(first.date()), str((starts[-1] - pd.Timedelta(days=1)).date()), by=by, nullable=nullable)
    texts = [f"'{start.date()}'" for start in starts[:-1]]
    bounds = [(float(place), float(place + 1)) for place in range(levels)]
    return Column(name, declared, codes, values, texts, texts, bounds, nullable)


def texts(rng, name, rows, nullable, other):
    """Return a column of texts, with a level for all others if that is asked."""
    levels = [TEXTS[place] for place in rng.permutation(len(TEXTS))[: rng.integers(2, len(TEXTS) + 1)]]
    count = len(levels) + other + nullable
    codes = rng.choice(count, rows, p=shares(rng, count))
    values = np.array([*levels, *["someone"] * other, *[None] * nullable], dtype=object)[codes]
    if other:
        values[(codes == len(levels)) & (rng.random(rows) < 0.5)] = "Zoë"
    declared = dpn.Categories(levels, other="any other" if other else None, nullable=nullable)
    return Texts(name, declared, codes, values, [repr(level) for level in levels], nullable=nullable, other=other)


def truths(rng, name, rows, nullable):
    """Return a column of truth values."""
    codes = rng.integers(0, 2 + nullable, rows)
    values = np.array([False, True, None], dtype=object)[codes] if nullable else codes.astype(bool)
    return Column(name, dpn.Boolean(nullable=nullable), codes, values, ["False", "True"], nullable=nullable)


def numbers(rng, name, levels, rows, nullable):
    """Return a column of whole numbers."""
    low = int(rng.integers(-20, 50))
    even = levels > 500
    codes = (
        rng.integers(0, levels, rows) if even else rng.choice(levels + nullable, rows, p=shares(rng, levels + nullable))
    )
    values = pd.array(codes + low, dtype="Int64")
    values[codes == levels] = pd.NA
    starts = [str(low + place) for place in range(levels)]
    bounds = [(float(low + place),) * 2 for place in range(levels)]
    declared = dpn.Range(low, low + levels - 1, nullable=nullable)
    return Column(name, declared, codes, values, starts, starts, bounds, nullable)


@dataclass
class Texts(Column):
    """A column of texts, that may have a level for all others."""

    other: bool = False

    @property
    def size(self):
        return self.regular + self.other + self.nullable


class Mixed(World):
    """A random session over a messy table: what `World` is, of other columns and with other questions.

    Parameters
    ----------
    seed
        Names it.
    questions
        How many it asks.
    """

    def __init__(self, seed, questions=14):
        self.seed, self.quick, self.most, self.questions = seed, False, MOST_ANSWERS, questions
        self.rng = rng = np.random.default_rng([seed, 41])
        self.moods = np.random.default_rng([seed, 42])
        self.theme, self.planner = "mixed", "optimal"
        self.rows = int(math.exp(rng.uniform(math.log(300), math.log(6_000))))
        self.noise = str(rng.choice(["laplace", "gaussian"]))
        self.purchases = str(rng.choice(["auto", "auto", "offer", "never"]))
        maybe = lambda: bool(rng.random() < 0.5)  # noqa: E731
        by = str(rng.choice(list(SPANS)))
        self.columns = [
            dates(rng, "the day", by, int(rng.integers(3, 40)), self.rows, maybe()),
            texts(rng, "name", self.rows, maybe(), maybe()),
            truths(rng, "smoker", self.rows, maybe()),
            numbers(rng, "age", int(rng.choice([12, 90, 90, 2_500])), self.rows, maybe()),
        ]
        if maybe():
            self.columns.append(numbers(rng, "kids", int(rng.integers(3, 6)), self.rows, maybe()))
        self.by_name = {column.name: column for column in self.columns}
        self.ordered = [column for column in self.columns if column.name in ("age", "kids")]
        self.cells = math.prod(column.size for column in self.columns)
        self.unit, self.adds, self.kernels, self.asked = bool(rng.random() < 0.25), False, 1, []
        self.ends = [self.rows]
        if rng.random() < 0.5:  # the table grows, once
            self.ends = [self.rows // 2 // 3 * 3, self.rows]
        self.parts = 1
        self.undeclared = self._undeclared(rng) if maybe() else {}

    def __repr__(self):
        kinds = ", ".join(f"{column.name} {column.size}{'?' * column.nullable}" for column in self.columns)
        return f"seed {self.seed}: {kinds}, {self.rows} rows up to {self.ends}, {self.noise}, {self.purchases}"

    @property
    def count(self):
        return self.questions

    @property
    def grown(self):
        """Of how many parts the table is by now; 0 while it is whole."""
        return self.parts if self.parts > 1 else 0

    def _undeclared(self, rng):
        """Return values that are not declared, of the columns that leave their rows out."""
        found = {}
        if not self.by_name["the day"].nullable:
            found["the day"] = np.datetime64("NaT")
        if not (self.by_name["name"].nullable and self.by_name["name"].other):
            found["name"] = "Zoë" if not self.by_name["name"].other else None
        return found

    def of_part(self, place):
        """Return the rows of a part, with some that are no rows of the declared table."""
        start, end = [0, *self.ends][place], self.ends[place]
        frame = pd.DataFrame({column.name: column.values for column in self.columns}).iloc[start:end]
        if self.unit:
            frame["person"] = np.arange(start, end) // 3
        if self.undeclared:
            more = frame.sample(max(1, int(UNDECLARED * len(frame))), random_state=self.seed)
            for column, value in self.undeclared.items():
                wrong = more.copy()
                wrong[column] = pd.Series([value] * len(more), index=wrong.index, dtype=frame[column].dtype)
                if self.unit:
                    wrong["person"] = 10**6 + 10**4 * place + np.arange(len(more))
                frame = pd.concat([frame, wrong])
        return frame.sample(frac=1, random_state=self.seed + place).reset_index(drop=True)

    def open(self, path, timeout=60.0):
        """Return a session on a ledger, and its table, of the parts that are here by now."""
        budget = dpn.Budget(epsilon=30.0, delta=1e-6 if self.noise == "gaussian" else 0.0)
        session = dpn.Session(budget=budget, ledger=path, timeout=timeout, purchases=self.purchases)
        unit = {"unit": "person", "max_rows": 3} if self.unit else {}
        domain = {column.name: column.declared for column in self.columns}
        session.protect(self.of_part(0), "t", domain=domain, rows=self.rows, **unit)
        for place in range(1, self.parts):
            self.grow(session, place)
        return session, session.table("t")

    def grow(self, session, place):
        """Add a part to the table of a session."""
        session.extend("t", self.of_part(place), one_part=self.unit)

    def inside(self, codes, pieces):
        """Return which rows a predicate keeps, of those that are here by now."""
        found = super().inside(codes, pieces)
        if found.ndim == 1 and found.size == self.rows:
            return found & (np.arange(self.rows) < self.ends[self.parts - 1])
        return found

    def condition(self, column):
        """Return a text about one column, and which of its levels satisfy it."""
        name = f"`{column.name}`" if " " in column.name else column.name
        if column.nullable and self.rng.random() < 0.2:
            missing = bool(self.rng.random() < 0.5)
            keep = (np.arange(column.size) == column.size - 1) == missing
            return f"({name}.{'isnull' if missing else 'notnull'}())", keep
        text, keep = super().condition(column)
        return text.replace(column.name, name) if name != column.name else text, keep

    def next(self):
        """Return a new question, or an earlier one at another accuracy."""
        if self.asked and self.rng.random() < 0.12:
            earlier = self.asked[self.rng.integers(len(self.asked))]
            if earlier.kind == "linear" and "count(" in earlier.text:
                accuracy = self.accuracy()
                return self._kept(
                    Asked(
                        f"{earlier.text}, again with {accuracy}",
                        lambda table, query=earlier.query: query(table).at(**accuracy),
                        earlier.truth,
                        possible=earlier.possible,
                    )
                )
        kinds = [self.a_count, self.a_histogram, self.a_group, self.a_group, self.a_sum, self.a_mean, self.a_cdf]
        kinds += [self.a_range, self.a_workload, self.a_select, self.a_select, self.an_offer]
        found = None
        while found is None:
            found = kinds[self.rng.integers(len(kinds))]()
        return self._kept(found)

    def _kept(self, asked):
        self.asked.append(asked)
        return asked

    def a_range(self):
        """Return a count of a run of levels."""
        column = max(self.ordered, key=lambda column: column.size)
        first, last = np.sort(self.rng.integers(0, column.regular, 2))
        rows = self.inside({}, []) & (column.codes >= first) & (column.codes <= last)
        text, accuracy = f"{column.texts[first]} <= {column.name} <= {column.texts[last]}", self.accuracy()
        return Asked(
            f"count({text!r}, {accuracy})",
            lambda table: table.count(where=text, **accuracy),
            lambda frame: np.array([float(rows.sum())]),
        )

    def a_select(self):
        """Return a statement of several aggregates by a key that is declared, or of all rows."""
        rng = self.rng
        keys = [self.by_name[name] for name in ("name", "smoker", "kids") if name in self.by_name]
        key = keys[rng.integers(len(keys))] if rng.random() < 0.8 else None
        column = self.ordered[rng.integers(len(self.ordered))]
        if key is column or (key is not None and getattr(key, "other", False)):
            return None
        where, rows = self._sql_condition()
        cut = int(rng.integers(column.regular))
        part = (column.codes <= cut) & (column.codes < column.regular)
        here = rows & self.inside({}, [])
        values = np.where(column.codes < column.regular, column.codes + column.bounds[0][0], 0.0)
        chosen = [("COUNT(*)", here.astype(float))]
        if rng.random() < 0.5:
            chosen.append(
                (f"COUNT(*) FILTER (WHERE {column.name} <= {column.texts[cut]})", (here & part).astype(float))
            )
        if rng.random() < 0.5:
            chosen.append((f"SUM({column.name})", here * values))
        names = [] if key is None else [key.name]
        listed = [*names, *(f"{text} AS m{place}" for place, (text, _) in enumerate(chosen))]
        text = f"SELECT {', '.join(listed)} FROM t{where}{' GROUP BY ' * bool(names)}{', '.join(names)}"
        accuracy = {"epsilon": float(f"{math.exp(rng.uniform(math.log(0.05), 0)):.3g}")}
        return Asked(
            f"sql({text!r}, {accuracy})",
            lambda table: table._session.sql(text, **accuracy),
            lambda frame: np.column_stack([self.by_labels(frame, names, weights) for _, weights in chosen]),
            "statement",
        )

    def _sql_condition(self):
        """Return a condition of SQL about a declared column, and which rows it keeps."""
        rng = self.rng
        column = self.columns[rng.integers(len(self.columns))]
        name = f'"{column.name}"' if " " in column.name else column.name
        level = column.codes
        if rng.random() < 0.25:
            return "", np.ones(self.rows, dtype=bool)
        if column.nullable and rng.random() < 0.3:
            missing = bool(rng.random() < 0.5)
            return f" WHERE {name} IS {'' if missing else 'NOT '}NULL", (level == column.size - 1) == missing
        if column.name == "smoker":
            return f" WHERE {name}", level == 1
        if column.name == "name":
            some = rng.permutation(column.regular)[: rng.integers(1, column.regular + 1)]
            said = ", ".join("'" + column.declared.levels[place].replace("'", "''") + "'" for place in some)
            return f" WHERE {name} IN ({said})", np.isin(level, some)
        cut = int(rng.integers(column.regular))
        word = "DATE " if column.name == "the day" else ""
        return f" WHERE {name} >= {word}{column.texts[cut]}", (level >= cut) & (level < column.regular)

    def an_offer(self):
        """Return the purchase of a workload in advance."""
        rng = self.rng
        small = [column for column in self.columns if column.size <= 100]
        error = float(f"{math.exp(rng.uniform(math.log(15), math.log(300))):.3g}")
        columns = [small[place] for place in rng.permutation(len(small))[:2]]
        names = [column.name for column in self.columns if column in columns]
        if len(names) < 2 or math.prod(column.size for column in columns) > self.most:
            return None
        request = dpn.marginals(1) + dpn.marginals(2) if rng.random() < 0.5 else dpn.marginals(2)
        return Asked(
            f"prefetch({request!r}, {names}).buy(error={error})",
            lambda table: table._session.prefetch(request, names, errors=[error]).query(error=error),
            self._of_request(request, names),
        )

    def _of_request(self, request, names):
        def truth(frame):
            sizes = [self.by_name[name].size for name in names]
            here = self.inside({}, [])
            codes = np.ravel_multi_index([self.by_name[name].codes[here] for name in names], sizes)
            workload = request.over(dpn.Domain({name: self.by_name[name].declared for name in names}), names)
            return workload.matvec(np.bincount(codes, minlength=math.prod(sizes)).astype(float))

        return truth

    def codes_of(self, frame, name):
        """Return the level of each row of a frame."""
        column = self.by_name[name]
        if name != "the day":
            return super().codes_of(frame, name)
        places = {pd.Timestamp(text.strip("'")): place for place, text in enumerate(column.texts)}
        return np.array([column.regular if pd.isna(day) else places[day] for day in frame[name]], dtype=int)

    def by_labels(self, frame, names, weights):
        """Return the sums of weights of the rows of each group of a frame, of the rows that are here by now."""
        return super().by_labels(frame, names, weights * (np.arange(self.rows) < self.ends[self.parts - 1]))


def facts(query):
    """Return what a plan says that a restart, or other questions that were looked at, must not change."""
    plan = query.plan
    kinds = [action.kind for action in plan.actions]
    return kinds, [plan.cost.units, plan.error, *np.asarray(plan.std_errors, dtype=float)]


def compare(world, asked, before, after):
    """Compare what two plans of a question say."""
    same = before[0] == after[0] and len(before[1]) == len(after[1])
    if not same or not np.allclose(before[1], after[1], rtol=SAME, atol=0, equal_nan=True):
        told = [f"{kinds}, {numbers[:3]}" for kinds, numbers in (before, after)]
        raise delivered.Broken(f"{world!r}\n  {asked.text}\n  planned {told[0]}, then {told[1]}")


@dataclass
class Spend:
    """What every cell has paid by now, by the recorded costs: a part that came later has paid nothing before.

    Parameters
    ----------
    world
        The session's.
    """

    world: Mixed
    parts: dict[int, int] = field(default_factory=dict)  # how many were here, by record

    def check(self, session):
        world = self.world
        if world.cells * len(world.ends) > delivered.DENSE:
            return
        sizes = {column.name: column.size for column in world.columns} | {"part": len(world.ends)}
        total = np.zeros(tuple(sizes.values()), dtype=np.int64)
        for number, record in enumerate(session.ledger.records("t")):
            here = self.parts.setdefault(number, world.parts)
            for term in record.cost.terms:
                norms = np.ones((1,) * len(sizes), dtype=np.int64)
                for axis, name in enumerate(sizes):
                    along = term.norms.get(name)
                    if name == "part":
                        along = np.ones(here, dtype=np.int64) if along is None else along
                        along = np.append(along, np.zeros(sizes["part"] - len(along), dtype=np.int64))
                    if along is not None:
                        norms = norms * along.reshape([-1 if i == axis else 1 for i in range(len(sizes))])
                levels, where = np.unique(norms, return_inverse=True)
                costs = np.array([math.ceil(int(level) * term.rate) for level in levels], dtype=np.int64)
                total = total + costs[where].reshape(norms.shape)
        dearest = int(total.max())
        if dearest != session.ledger.spent:
            raise delivered.Broken(
                f"{world!r}: {session.ledger.spent} units are spent, the dearest cell has cost {dearest}"
            )


def ask(world, path, tally):
    """Ask the questions of a session, and only look at what is measured and shown: many in little time."""
    session, table = world.open(path)
    held, squares = [], []
    with closing(session):
        for _ in range(world.count):
            check = delivered._Check(world, session, world.next())
            answered = check.answered(table)
            if answered is None:
                tally.refused += 1
                continue
            hold(check, *answered, held, squares, tally)
    tally.end_session(held, squares)


def hold(check, release, plan, held, squares, tally):
    """Hold a release against its plan, the truth, and the noise that was paid for."""
    tally.count(plan)
    check.shown(release, plan)
    check.missed(release, plan, held, squares, tally)
    if check.asked.kind != "statement" and plan.measurements:
        check.drawn(release, tally)


def run(world, path, tally):
    """Run one session and check it; add to the tally what is judged over many."""
    session, table = world.open(path)
    spend, done, held, squares = Spend(world), [], [], []
    later = [world.next() for _ in range(PLANS)]  # looked at now and then, never asked
    grows = world.count // 2 if len(world.ends) > 1 else -1
    try:
        for number in range(world.count):
            if number == grows:
                world.grow(session, 1)
                world.parts, world.asked, table, done = 2, [], session.table("t"), []
            if world.happens(0.12):
                look(world, table, later)
            if world.happens(0.12):
                session, table = restarted(world, path, session, table, later)
            asked = world.next()
            check = delivered._Check(world, session, asked)
            answered = check.answered(table)
            if answered is None:
                tally.refused += 1
                continue
            release, plan = answered
            hold(check, release, plan, held, squares, tally)
            spend.check(session)
            check.again(table, release)
            done.append((asked, release))
        session, table = restarted(world, path, session, table, later)
        for asked, release in done:
            delivered._Check(world, session, asked).again(table, release)
        audit = session.audit()
        if not audit.ok or audit.pending:
            raise delivered.Broken(f"{world!r}: the audit says {audit.problems}, {audit.pending} are pending")
        if len(session.history()) < len({release.number for _, release in done}):
            raise delivered.Broken(f"{world!r}: {len(session.history())} releases are told of, more were made")
    finally:
        session.close()
    tally.end_session(held, squares)


def plans(world, table, questions: list[Asked], order: Callable):
    """Return what plans say, by question, worked out in an order; None of those that are refused."""
    found = {}
    for place in order(len(questions)):
        try:
            query = questions[place].query(table)
            found[int(place)] = facts(query)
            if world.happens(0.2):
                repr(query)  # a card works out more than a plan
        except delivered.REFUSALS:
            found[int(place)] = None
    return found


def look(world, table, questions):
    """Look at some questions twice, in two orders: nothing is paid, and they say the same."""
    spent = table._session.ledger.spent
    first, second = (plans(world, table, questions, world.moods.permutation) for _ in range(2))
    told_apart(world, questions, first, second)
    if table._session.ledger.spent != spent:
        raise delivered.Broken(f"{world!r}: something was paid by looking")


def restarted(world, path, session, table, questions):
    """Return the session opened anew, in which plans are as they were."""
    before = plans(world, table, questions, world.moods.permutation)
    session.close()
    session, table = world.open(path)
    told_apart(world, questions, before, plans(world, table, questions, world.moods.permutation))
    return session, table


def told_apart(world, questions, before, after):
    for place, asked in enumerate(questions):
        if (before[place] is None) != (after[place] is None):
            raise delivered.Broken(f"{world!r}\n  {asked.text}\n  was refused before or after only")
        if before[place] is not None:
            compare(world, asked, before[place], after[place])
