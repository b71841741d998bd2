"""Random sessions as analysts have them: a table, a ledger, and questions of every verb, with the exact answers beside.

A seed names a session. The exact answers are counted here, from codes that never pass through what is tested: levels of
a row are drawn first, and its values from those.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

import dpnotebook as dpn

ROWS = (500, 20_000)
CELLS = (10**3, 10**6)
MOST_ANSWERS = 3_000  # of one question: more take long and show nothing else
THEMES = ("mixed", "mixed", "mixed", "crossed", "crossed", "ranges", "drill", "wide", "long")
QUESTIONS = {"mixed": 8, "crossed": 8, "ranges": 14, "drill": 12, "wide": 8, "long": 10}
QUICK = 5  # questions of a session that takes a second
MORE = (0.7, 1, 1, 1, 2, 5)  # times the questions of its theme has a session: 5 to 60
GROWN = 0.1  # the share of sessions whose table came in parts
PLANNERS = ("optimal",) * 8 + ("naive", "pioneer")


@dataclass
class Column:
    """A declared column: how it is declared, the level and the value of every row, and the levels in words.

    `starts` has what to write for the beginning of each ordered level; None where the levels have no order.
    """

    name: str
    declared: object
    codes: np.ndarray
    values: object
    texts: list[str]
    starts: list[object] | None = None
    bounds: list[tuple[float, float]] | None = None
    nullable: bool = False

    @property
    def regular(self):
        return len(self.texts)

    @property
    def size(self):
        return self.regular + self.nullable


@dataclass
class Asked:
    """A question: what it is called, the query, and how its exact answers are found from the frame of a release."""

    text: str
    query: Callable
    truth: Callable = field(repr=False)
    kind: str = "linear"
    possible: Callable | None = field(default=None, repr=False)  # whether there could be a row in each group
    first: Callable | None = field(default=None, repr=False)  # how it is asked at first, where that is otherwise


def shares(rng, size):
    """Return how common the levels of a column are: skewed or even."""
    return rng.dirichlet(np.full(size, 0.3 if rng.random() < 0.5 else 5.0))


def make_column(rng, name, kind, size, rows):
    """Return a column of a kind with about so many levels."""
    nullable = kind in ("range", "bins") and rng.random() < 0.2 and size > 4
    regular = size - nullable
    codes = rng.choice(size, rows, p=shares(rng, size)) if size <= 5_000 else rng.integers(0, size, rows)
    if kind == "bool":
        return Column(name, bool, rng.integers(0, 2, rows), codes := None, ["False", "True"])
    if kind == "text":
        levels = [f"{name}{i}" for i in range(size)]
        return Column(name, levels, codes, np.array(levels, dtype=object)[codes], [repr(level) for level in levels])
    low = int(rng.integers(-50, 50))
    missing = codes == regular
    if kind == "range":
        values = codes + low
        starts = [low + i for i in range(regular)]
        bounds = [(float(start), float(start)) for start in starts]
        declared = dpn.Range(low, low + regular - 1, nullable=nullable)
    else:
        width = int(rng.integers(2, 50))
        values = low + codes * width + rng.integers(0, width, rows)
        starts = [low + i * width for i in range(regular)]
        bounds = [(float(start), float(start + width)) for start in starts]
        declared = dpn.Bins(low, low + regular * width, count=regular, nullable=nullable)
    if nullable:
        values = np.where(missing, np.nan, values)
    return Column(name, declared, codes, values, [str(start) for start in starts], starts, bounds, nullable)


def shape(rng, theme, quick):
    """Return kinds and sizes of the columns of a table, of 10^3 to 10^6 cells in all."""
    if theme == "wide":
        sizes = [int(size) for size in rng.integers(2, 4, 8 if quick else 12)]
        return [("bool" if size == 2 and rng.random() < 0.5 else "text", size) for size in sizes]
    if theme == "long":
        first = int(rng.choice([2_000, 2_001, 2_500, 9_999, 10_001, 40_000, 100_000]))
        return [("range", 2_001 if quick else first), ("text", 3)]
    if theme == "ranges":
        first = int(rng.choice([600, 1_500, 4_000]))
        return [("range", 300 if quick else first), ("text", int(rng.integers(2, 5)))]
    if theme == "crossed":  # two questions tell thousands of cells apart
        return [("range", int(rng.integers(60, 120))), ("text", 2), ("bins", int(rng.integers(25, 60)))]
    cells = math.exp(rng.uniform(math.log(CELLS[0]), math.log(CELLS[1] // 20 if quick else CELLS[1])))
    kinds = [str(rng.choice(["range", "bins", "text", "bool"]))]
    kinds += [str(kind) for kind in rng.choice(["range", "bins", "text"], int(rng.integers(2, 5)))]
    logs = rng.dirichlet(np.ones(len(kinds))) * math.log(cells)
    return [(kind, 2 if kind == "bool" else max(2, round(math.exp(s)))) for kind, s in zip(kinds, logs, strict=True)]


class World:
    """One random session: its table, its budget, and a stream of questions with their exact answers.

    Parameters
    ----------
    seed
        Names it.
    quick
        Whether to ask less, of smaller tables and for fewer answers at once.
    """

    def __init__(self, seed, quick=False):
        self.seed, self.quick = seed, quick
        self.most = MOST_ANSWERS // 15 if quick else MOST_ANSWERS
        self.rng = rng = np.random.default_rng(seed)
        self.theme = str(rng.choice(THEMES))
        self.rows = int(math.exp(rng.uniform(*np.log(ROWS))))
        self.columns = []
        for place, (kind, size) in enumerate(shape(rng, self.theme, quick)):
            column = make_column(rng, "abcdefghijklmn"[place], kind, size, self.rows)
            if kind == "bool":
                column.values = column.codes.astype(bool)
            self.columns.append(column)
        self.by_name = {column.name: column for column in self.columns}
        self.ordered = [column for column in self.columns if column.starts is not None]
        self.cells = math.prod(column.size for column in self.columns)
        self.noise = "laplace" if rng.random() < 0.6 else "gaussian"
        self.planner = str(rng.choice(PLANNERS))
        if self.noise == "gaussian" and self.planner == "pioneer":
            self.planner = "optimal"
        self.unit = rng.random() < 0.15
        self.asked: list[Asked] = []
        # What else may happen is drawn by itself, so that a seed asks the same questions whatever is added here.
        self.moods = np.random.default_rng([seed, 1])
        self.parts = np.random.default_rng([seed, 2])
        growing = np.random.default_rng([seed, 3])
        self.grown = int(growing.integers(2, 5)) if growing.random() < GROWN else 0  # of how many parts the table is
        self.adds = self.unit and self.grown > 0 and bool(growing.random() < 0.5)
        self.kernels = 2 if self.moods.random() < 0.35 else 1
        self.more = float(self.moods.choice(MORE))

    def __repr__(self):
        sizes = " x ".join(str(column.size) for column in self.columns)
        sizes += ", quick" * self.quick
        kernels = f", {self.kernels} kernels" * (self.kernels > 1)
        sizes += f", {self.grown} parts{' that add up' * self.adds}" * (self.grown > 0)
        return f"seed {self.seed}: {self.theme}, {sizes}, {self.rows} rows, {self.noise}, {self.planner}{kernels}"

    @property
    def count(self):
        return QUICK if self.quick else max(5, min(60, round(QUESTIONS[self.theme] * self.more)))

    def happens(self, chance):
        """Return whether something that has this chance happens now."""
        return bool(self.moods.random() < chance)

    def open(self, path, timeout=60.0):
        """Return a session on a ledger, and its table."""
        budget = dpn.Budget(epsilon=20.0) if self.noise == "laplace" else dpn.Budget(epsilon=20.0, delta=1e-6)
        session = dpn.Session(budget=budget, ledger=path, planner=self.planner, timeout=timeout)
        frame = pd.DataFrame({column.name: column.values for column in self.columns})
        unit = {}
        if self.unit:  # three rows a person at most, so that none is sampled away
            frame["person"] = np.arange(self.rows) // 3
            unit = {"unit": "person", "max_rows": 3}
        domain = {column.name: column.declared for column in self.columns}
        self.frame = frame
        cuts = [self.rows // 3 * place // max(self.grown, 1) * 3 for place in range(max(self.grown, 1))]
        first, *later = (frame.iloc[start:end] for start, end in zip(cuts, [*cuts[1:], self.rows], strict=True))
        table = session.protect(first, "t", domain=domain, rows=self.rows, **unit)
        for part in later:
            session.extend("t", part, one_part=self.unit and not self.adds)
        return session, table

    # Predicates: a text, and which rows it keeps.

    def condition(self, column):
        """Return a text about one column, and which of its levels satisfy it."""
        rng, keep = self.rng, np.zeros(column.size, dtype=bool)
        if column.starts is not None and rng.random() < 0.7:
            first, last = np.sort(rng.integers(0, column.regular, 2))
            how = rng.choice(["from", "before", "range", "range", "one"])
            if how == "from":
                keep[first : column.regular] = True
                text = f"{column.name} >= {column.texts[first]}"
            elif how == "before" and last:
                keep[:last] = True
                text = f"{column.name} < {column.texts[last]}"
            elif how == "one" and column.bounds[0][0] == column.bounds[0][1]:
                keep[first] = True
                text = f"{column.name} == {column.texts[first]}"
            else:
                if last == first:
                    last = first + 1
                keep[first:last] = True
                text = f"{column.name} >= {column.texts[first]}"
                if last < column.regular:
                    text += f" and {column.name} < {column.texts[last]}"
        elif column.starts is not None and column.bounds[0][0] != column.bounds[0][1]:
            cut = int(rng.integers(0, column.regular))
            keep[cut : column.regular] = True
            text = f"{column.name} >= {column.texts[cut]}"
        else:
            several = rng.permutation(column.regular)[: rng.integers(1, min(column.regular, 6) + 1)]
            keep[several] = True
            if len(several) == 1 and rng.random() < 0.5:
                text = f"{column.name} == {column.texts[several[0]]}"
            else:
                text = f"{column.name} in [{', '.join(column.texts[i] for i in several)}]"
        if rng.random() < 0.15 and not keep.all():
            return f"not ({text})", ~keep
        return f"({text})", keep

    def where(self, most=3, among=None):
        """Return a predicate as a text, None for all rows, and which rows it keeps."""
        rng = self.rng
        among = self.columns if among is None else among
        number = min(1 if self.theme == "crossed" else int(rng.choice([0, 1, 1, 2, 3])), most, len(among))
        text, pieces = None, []
        for place in rng.permutation(len(among))[:number]:
            piece, keep = self.condition(among[place])
            both = bool(rng.random() < 0.75)
            text = piece if text is None else f"({text} {'and' if both else 'or'} {piece})"
            pieces.append((among[place].name, keep, both))
        self.kept = pieces
        return text, self.inside({column.name: column.codes for column in self.columns}, pieces)

    def inside(self, codes, pieces):
        """Return which rows a predicate keeps, from the levels of their columns."""
        found = None
        for name, keep, both in pieces:
            here = keep[codes[name]]
            found = here if found is None else found & here if both else found | here
        return np.ones(self.rows, dtype=bool) if found is None else found

    def possible(self, frame, names, pieces):
        """Return for each group of a frame whether a row could be in it, as far as a few thousand made-up ones say."""
        rng = np.random.default_rng(self.seed)
        shape = (len(frame), 2_000 if len(frame) < 1_000 else 300)
        codes = {
            column.name: rng.integers(0, column.size, shape) for column in self.columns if column.name not in names
        }
        codes |= {name: np.broadcast_to(self.codes_of(frame, name)[:, None], shape) for name in names}
        return self.inside(codes, pieces).any(axis=1) if pieces else np.ones(len(frame), dtype=bool)

    def keys(self, most):
        """Return some columns to group by, with at most so many combinations of levels."""
        rng = self.rng
        chosen, cells = [], 1
        for place in rng.permutation(len(self.columns))[: int(rng.choice([1, 1, 2, 2, 3]))]:
            if cells * self.columns[place].size <= most:
                chosen.append(self.columns[place])
                cells *= self.columns[place].size
        return chosen

    def accuracy(self, worth=1.0):
        """Return how accurate an answer must be, or what it may cost; `worth` is the scale of one row in the answer."""
        rng = self.rng
        how = rng.choice(["epsilon", "error", "variance"])
        if how == "epsilon":
            return {"epsilon": float(f"{math.exp(rng.uniform(math.log(0.01), 0)):.3g}")}
        error = float(f"{worth * math.exp(rng.uniform(math.log(8), math.log(1_500))):.3g}")
        confidence = {"confidence": float(rng.choice([0.8, 0.9, 0.99]))} if rng.random() < 0.15 else {}
        return {"error": error, **confidence} if how == "error" else {"variance": error**2 / 4, **confidence}

    # Questions.

    def next(self):
        """Return a new question, or an earlier one at another accuracy."""
        rng = self.rng
        if self.asked and rng.random() < 0.15:
            earlier = self.asked[rng.integers(len(self.asked))]
            if earlier.kind == "linear" and "sum" not in earlier.text and "sql" not in earlier.text:
                accuracy = self.accuracy()
                query = earlier.query
                new = Asked(
                    f"{earlier.text}, again with {accuracy}",
                    lambda table, query=query, accuracy=accuracy: query(table).at(**accuracy),
                    earlier.truth,
                    possible=earlier.possible,
                )
                self.asked.append(new)
                return new
        kinds = {
            "ranges": [self.a_range] * 8 + [self.a_count, self.a_histogram, self.a_quantile],
            "long": [self.a_range] * 4 + [self.a_count, self.a_quantile, self.a_cdf, self.a_group, self.a_sum],
            "drill": [self.a_group] * 6 + [self.a_count, self.a_histogram],
            "crossed": [self.a_group, self.a_histogram, self.a_quantile, self.a_cdf, self.a_count],
        }.get(
            self.theme,
            [
                self.a_count,
                self.a_histogram,
                self.a_histogram,
                self.a_group,
                self.a_group,
                self.a_sum,
                self.a_mean,
                self.a_quantile,
                self.a_cdf,
                self.a_workload,
                self.a_statement,
            ],
        )
        question = None
        while question is None:
            question = kinds[rng.integers(len(kinds))]()
        if question.kind == "linear" and self.happens(0.06):
            question.first = lambda table, query=question.query: replace(query(table), fresh=True)
        self.asked.append(question)
        return question

    def a_count(self):
        text, rows = self.where()
        accuracy = self.accuracy()
        return Asked(
            f"count({text!r}, {accuracy})",
            lambda table: table.count(where=text, **accuracy),
            lambda frame: np.array([float(rows.sum())]),
        )

    def a_range(self):
        column = max(self.ordered, key=lambda column: column.size)
        rng = self.rng
        width = max(1, int(column.regular * math.exp(rng.uniform(-4, -0.5))))
        first = int(rng.integers(0, column.regular - width + 1))
        text = f"{column.name} >= {column.texts[first]}"
        if first + width < column.regular:
            text += f" and {column.name} < {column.texts[first + width]}"
        rows = (column.codes >= first) & (column.codes < min(first + width, column.regular))
        accuracy = self.accuracy()
        return Asked(
            f"count({text!r}, {accuracy})",
            lambda table: table.count(where=text, **accuracy),
            lambda frame: np.array([float(rows.sum())]),
        )

    def a_histogram(self):
        keys = [column for column in self.columns if column.size <= self.most]
        return self._grouped([keys[self.rng.integers(len(keys))]]) if keys else None

    def a_group(self):
        keys = self.keys(self.most)
        return self._grouped(keys) if keys else None

    def _grouped(self, keys):
        text, rows = self.where()
        pieces = self.kept
        accuracy, names = self.accuracy(), [column.name for column in keys]
        verb, query = f"groupby({names}).count", lambda table: table.groupby(names).count(where=text, **accuracy)
        if self.happens(0.5):  # the same by another name
            verb = f"crosstab{tuple(names)}" if len(names) > 1 else f"histogram({names[0]!r})"
            both = (lambda table: table.crosstab) if len(names) > 1 else (lambda table: table.histogram)
            query = lambda table: both(table)(*names, where=text, **accuracy)  # noqa: E731
        return Asked(
            f"{verb}({text!r}, {accuracy})",
            query,
            lambda frame: self.by_labels(frame, names, rows.astype(float)),
            possible=lambda frame: self.possible(frame, names, pieces),
        )

    def a_sum(self):
        if not self.ordered:
            return None
        column = self.ordered[self.rng.integers(len(self.ordered))]
        keys = [key for key in self.keys(100) if key is not column] if self.rng.random() < 0.6 else []
        text, rows = self.where()
        pieces, names = self.kept, [key.name for key in keys]
        values = np.nan_to_num(np.asarray(column.values, dtype=float))
        accuracy = self.accuracy(max(1.0, float(np.abs(column.bounds).max())))
        return Asked(
            f"groupby({names}).sum({column.name!r}, {text!r}, {accuracy})",
            lambda table: table.groupby(names).sum(column.name, granularity=1, where=text, **accuracy),
            lambda frame: self.by_labels(frame, names, rows * values),
            possible=lambda frame: self.possible(frame, names, pieces),
        )

    def a_mean(self):
        if not self.ordered:
            return None
        column = self.ordered[self.rng.integers(len(self.ordered))]
        keys = [key for key in self.keys(60) if key is not column] if self.rng.random() < 0.6 else []
        text, rows = self.where()
        names = [key.name for key in keys]
        values = np.asarray(column.values, dtype=float)
        rows = rows & ~np.isnan(values)
        epsilon = float(f"{math.exp(self.rng.uniform(math.log(0.05), 0)):.3g}")

        def truth(frame):
            with np.errstate(invalid="ignore"):
                total = self.by_labels(frame, names, np.where(rows, values, 0.0))
                return total / self.by_labels(frame, names, rows.astype(float))

        return Asked(
            f"groupby({names}).mean({column.name!r}, {text!r}, epsilon={epsilon})",
            lambda table: table.groupby(names).mean(column.name, granularity=1, where=text, epsilon=epsilon),
            truth,
            "mean",
        )

    def a_cdf(self):
        columns = [column for column in self.ordered if column.size <= self.most]
        if not columns:
            return None
        column = columns[self.rng.integers(len(columns))]
        text, rows = self.where()
        accuracy = self.accuracy()

        def truth(frame):
            counts = np.bincount(column.codes[rows], minlength=column.size)[: column.regular].cumsum()
            return counts[self.codes_of(frame, column.name)].astype(float)

        return Asked(
            f"cdf({column.name!r}, {text!r}, {accuracy})",
            lambda table: table.cdf(column.name, where=text, **accuracy),
            truth,
        )

    def a_quantile(self):
        columns = [column for column in self.ordered if column.size <= (self.most if self.quick else 10_001)]
        if not columns:
            return None
        column = columns[self.rng.integers(len(columns))]
        keys = [key for key in self.keys(8) if key is not column] if self.rng.random() < 0.3 else []
        text, rows = self.where()
        names = [key.name for key in keys]
        share, accuracy = float(self.rng.choice([0.1, 0.25, 0.5, 0.9])), self.accuracy()
        rows = rows & (column.codes < column.regular)

        def truth(frame):
            found = []
            for group in self.groups(frame, names):
                counts = np.bincount(column.codes[rows & group], minlength=column.size)[: column.regular].cumsum()
                level = int(np.argmax(counts >= share * counts[-1])) if counts[-1] else -1
                found.append(column.bounds[level] if level >= 0 else (math.nan, math.nan))
            return np.array(found)

        return Asked(
            f"groupby({names}).quantile({column.name!r}, {share}, {text!r}, {accuracy})",
            lambda table: table.groupby(names).quantile(column.name, share, where=text, **accuracy),
            truth,
            "quantile",
        )

    def a_workload(self):
        rng, request, used, answers = self.rng, None, {}, 0
        for place in rng.permutation(len(self.columns))[: int(rng.integers(1, 4))]:
            column = self.columns[place]
            ranges = column.regular * (column.regular + 1) // 2
            if column.starts is not None and ranges <= self.most // 5 and rng.random() < 0.5:
                part, more = dpn.ranges(column.name), ranges
            elif column.starts is not None and rng.random() < 0.5:
                part, more = dpn.cdf(column.name), column.regular
            else:
                part, more = dpn.identity(column.name), column.size
            if answers + more <= self.most // 2:
                answers += more
                request = part if request is None else request + part
                used[column.name] = column
        small = [column for column in used.values() if column.size <= 30]
        if len(small) >= 2 and rng.random() < 0.7:
            request = request + dpn.identity(small[0].name, small[1].name)
        if request is None or math.prod(column.size for column in used.values()) > 200_000:
            return None
        if rng.random() < 0.3:
            request = request + dpn.total()
        names = [column.name for column in self.columns if column.name in used]
        others = [column for column in self.columns if column.name not in used]
        text, rows = self.where(1, others) if others else (None, np.ones(self.rows, dtype=bool))
        accuracy = self.accuracy()

        def truth(frame):
            sizes = [used[name].size for name in names]
            codes = np.ravel_multi_index([used[name].codes[rows] for name in names], sizes)
            workload = request.over(dpn.Domain({name: used[name].declared for name in names}), names)
            return workload.matvec(np.bincount(codes, minlength=math.prod(sizes)).astype(float))

        return Asked(
            f"answer({request!r}, where={text!r}, {accuracy})",
            lambda table: table.answer(request, names, where=text, **accuracy),
            truth,
        )

    def a_statement(self):
        if not self.ordered:
            return None
        keys = [key for key in self.keys(40) if key.size <= 40 and not key.nullable][:1]
        column = self.ordered[self.rng.integers(len(self.ordered))]
        if not keys or column in keys or column.nullable or column.name == keys[0].name:
            return None
        name, summed = keys[0].name, column.name
        epsilon = float(f"{math.exp(self.rng.uniform(math.log(0.05), 0)):.3g}")
        values = np.asarray(column.values, dtype=float)
        if column.bounds[0][0] != column.bounds[0][1]:
            return None
        how = self.moods.choice(["planned", "filtered", "averaged", "anonymized"])
        rows, text = np.ones(self.rows, dtype=bool), f"SELECT {name}, COUNT(*) AS n, SUM({summed}) AS s FROM t"
        part = None
        if how == "filtered":
            cut = int(self.moods.integers(column.regular))
            rows, text = column.codes >= cut, f"{text} WHERE {summed} >= {column.texts[cut]}"
        elif how == "averaged":
            text = f"SELECT {name}, COUNT(*) AS n, AVG({summed}) AS s FROM t"
        elif how == "anonymized" and not self.unit:
            low, high = column.texts[0], column.texts[-1]
            text = (
                f"SELECT WITH ANONYMIZATION {name}, ANON_COUNT(*) AS n, ANON_SUM({summed}, {low}, {high}) AS s FROM t"
            )
        if how != "anonymized" and self.parts.random() < 0.5:  # an aggregate of fewer rows beside those of all
            cut = int(self.parts.integers(column.regular))
            part = column.codes <= cut
            text = text.replace(" FROM", f", COUNT(*) FILTER (WHERE {summed} <= {column.texts[cut]}) AS k FROM")
        text += f" GROUP BY {name}"

        def truth(frame):
            ones = self.by_labels(frame, [name], rows.astype(float))
            sums = self.by_labels(frame, [name], rows * values)
            with np.errstate(invalid="ignore"):
                found = [ones, sums / ones if how == "averaged" else sums]
            if part is not None:
                found.append(self.by_labels(frame, [name], (rows & part).astype(float)))
            return np.column_stack(found)

        return Asked(
            f"sql({text!r}, epsilon={epsilon})",
            lambda table: table._session.sql(text, epsilon=epsilon),
            truth,
            "statement",
        )

    # The exact answers, by the labels that a frame shows.

    def codes_of(self, frame, name):
        """Return the level of each row of a frame."""
        labels = dpn.Domain({name: self.by_name[name].declared})[name].labels
        places = {label: place for place, label in enumerate(labels)}
        return np.array([places[None if pd.isna(label) else label] for label in frame[name].tolist()], dtype=int)

    def by_labels(self, frame, names, weights):
        """Return the sums of weights of the rows of each group of a frame."""
        if not names:
            return np.array([float(weights.sum())])
        sizes = [self.by_name[name].size for name in names]
        cells = np.ravel_multi_index([self.by_name[name].codes for name in names], sizes)
        totals = np.bincount(cells, weights, math.prod(sizes))
        return totals[np.ravel_multi_index([self.codes_of(frame, name) for name in names], sizes)]

    def groups(self, frame, names):
        """Yield which rows are in each group of a frame."""
        codes = [self.codes_of(frame, name) for name in names]
        for place in range(len(frame)):
            inside = np.ones(self.rows, dtype=bool)
            for name, levels in zip(names, codes, strict=True):
                inside &= self.by_name[name].codes == levels[place]
            yield inside
