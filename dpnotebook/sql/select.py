"""What is measured privately of a statement: its aggregates over units, its keys, how much of one unit counts.

Everything here is public: it follows from the text of the statement and from what is declared of the tables.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from dpnotebook.dialect.types import Kind
from dpnotebook.sql.group_weights import GroupWeights
from dpnotebook.sql.level_texts import level_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import exp

ContributionKind = Literal["rows", "groups", "l2"]
"""How what one unit adds is bounded: see `Contribution`."""
ContributionChoice = Literal["l2", "rows", "counted", "planned", "alike"]
"""Which kind of bound a statement is read with. Where nothing is chosen (None), limits are what is written or declared.

"l2": all that a unit adds, over all groups, is scaled down to one L2 norm. "rows": as many rows of a unit count as are
declared. "counted": as many rows or groups count as are found privately to suit what is asked, where nobody has written
how many. "planned": "l2" for all that it suits, and for the rest "counted". "alike": "l2" where that suits all that is
asked, and else "counted" for all of it. Of these two, limits that are declared stand for "counted" where a threshold
hides small groups, which goes by them. Analysts may say "l2" or "rows"; the others are for what plans and chooses.
"""
Selection = Literal["all", "threshold", "public"]
BoundsFrom = Literal["written", "declared", "follows", "auto"]  # what says the bounds of an aggregate
TRUTH = (Fraction(0), Fraction(1))  # between which truth values lie


@dataclass(frozen=True)
class Contribution:
    """How what one unit adds is bounded.

    Parameters
    ----------
    kind
        "rows": a uniform sample of at most `most` rows of the unit, every value clamped. "groups": rows are first
        aggregated by unit and group, and a uniform sample of at most `most` groups of the unit is kept; each
        aggregate of the unit in a group is clamped. "l2": the vector of all that the unit adds, over all groups, is
        scaled down to an L2 norm: of counts and sums their upper bound, of averages what stands behind their bounds.
    most
        Rows or groups. Of "l2" how many rows of a unit are meant to count, where that is known: a norm that the data
        does not tell is that of so many rows; 1 where it is not.
    """

    kind: ContributionKind
    most: int = 1


@dataclass(frozen=True)
class Apart:
    """Aggregates whose contributions are bounded otherwise than those of the others of a private aggregation.

    Parameters
    ----------
    contribution
        How.
    aggregates
        Their numbers.
    """

    contribution: Contribution
    aggregates: tuple[int, ...]


@dataclass(frozen=True)
class KeysTogether:
    """Keys of which only some levels stand together, as those of columns of one public table.

    Parameters
    ----------
    keys
        Their numbers, increasing.
    levels
        The numbers of their levels in each row that there is, each once, in order.
    """

    keys: tuple[int, ...]
    levels: tuple[tuple[int, ...], ...]

    @cached_property
    def digest(self) -> str:
        """What is equal for the same levels of the same keys."""
        return hashlib.sha256(repr((self.keys, self.levels)).encode()).hexdigest()


@dataclass(frozen=True)
class Key:
    """What a statement groups by.

    Parameters
    ----------
    name
        The column of the answer.
    levels
        Declared levels in order; the engine then gives the index of a row's level in its place, and leaves rows
        without one out. None: what is in the data, which thresholding must hide where few units share it.
    kind
        What the column holds.
    untyped
        Whether its texts stand for values of any kind.
    """

    name: str
    levels: tuple[Any, ...] | None = None
    kind: Kind = "text"
    untyped: bool = False


@dataclass(frozen=True)
class Aggregate:
    """An aggregate over privacy units.

    Parameters
    ----------
    kind
        Which of `sql/aggregates` it is.
    name
        The column of the release.
    input
        Number i of the input column `x{i}`; None for COUNT(*) and "units".
    bounds
        Lower and upper: of a unit's aggregate in a group for "groups", of a row's value for "rows" and for variances
        and quantiles, of the norm (the upper) for "l2". None: to be found from the data, privately (AUTO).
    bounds_from
        "written" in the statement, "declared" of the column or table, what "follows" from both for an expression, or
        "auto".
    epsilon
        Its own share, where the statement says so.
    fractions
        Of quantiles, each in [0, 1].
    array
        Whether the answer is the array of all quantiles (APPROX_QUANTILES) and not the only one.
    population
        Whether variances divide by n and not by n - 1.
    integer
        Whether the input is whole numbers.
    edges
        For quantiles of a declared column: the edges of its levels, increasing.
    words
        As it is written, without what only privacy needs.
    other
        Of pairs of columns: the second one, its input, its bounds and where these are from.
    values
        Where norms are to be found: lower and upper bound of the column, as declared; None where there are none.
    within
        Where bounds of values are to be found: lower and upper end of what is declared of the column, which may be much
        wider; None where nothing is.
    by_itself
        Whether it is found how much of a unit counts for it, however that is bounded for the others.
    """

    kind: str
    name: str
    input: int | None = None
    bounds: tuple[Fraction, ...] | None = None
    bounds_from: BoundsFrom = "written"
    epsilon: Fraction | None = None
    fractions: tuple[float, ...] = ()
    array: bool = False
    population: bool = True
    integer: bool = False
    edges: tuple[float, ...] | None = None
    words: str = ""
    other: Aggregate | None = None
    values: tuple[Fraction, ...] | None = None
    within: tuple[Fraction, ...] | None = None
    by_itself: bool = False

    @property
    def operands(self) -> tuple[Aggregate, ...]:
        """What it says of each of its columns: itself, and the other one of a pair."""
        return (self,) if self.other is None else (self, self.other)

    @property
    def inside(self) -> bool:
        """Whether all bounds that are found of its columns are found inside declared ones."""
        sought = [one.within for one in self.operands if one.bounds is None]
        return bool(sought) and None not in sought

    @property
    def clamped(self) -> bool:
        """Whether values beyond what is declared count as the nearest that is; truth values are all inside."""
        return any(one.within not in (None, TRUTH) for one in self.operands if one.bounds is None)

    @property
    def all_bounds(self) -> tuple[Fraction, ...] | None:
        """The bounds of all columns, one behind the other; None where those of one are not known."""
        every: tuple[Fraction, ...] = ()
        for operand in self.operands:
            if operand.bounds is None:
                return None
            every += operand.bounds
        return every

    @property
    def argument(self) -> str:
        """What it is of, as it is written: `cost` of SUM(cost)."""
        words = self.words or self.name
        inside = re.fullmatch(r"\w+\s*\((.*)\)", words, re.DOTALL)
        return _before_comma(inside.group(1)) if inside and _is_one(inside.group(1)) else words

    @property
    def canonical(self) -> dict[str, Any]:
        """What is measured, as JSON values: equal for aggregates that measure the same."""
        values = {
            "kind": self.kind,
            "input": self.input,
            "bounds": None if self.bounds is None else [str(bound) for bound in self.bounds],
            "epsilon": None if self.epsilon is None else str(self.epsilon),
            "fractions": list(self.fractions),
            "population": self.population,
            "edges": None if self.edges is None else list(self.edges),
        }
        if self.values is not None:
            values["values"] = [str(bound) for bound in self.values]
        if self.within is not None:
            values["within"] = [str(bound) for bound in self.within]
        return values if self.other is None else values | {"other": self.other.canonical}


def plainly(words: str) -> str:
    """Return an aggregate as it is written, without bounds and epsilon: what it asks, not how that is kept private."""
    # Of pairs of columns the first one may have bounds too, before the comma.
    words = re.sub(r"\s+CLAMPED\s+BETWEEN\s+\S+\s+AND\s+[^\s,()]+(?=\s*,)", "", words, flags=re.IGNORECASE)
    short = re.split(r",\s*\w+\s*=>|\s+CLAMPED\s+BETWEEN\s", words, maxsplit=1, flags=re.IGNORECASE)
    return " ".join((short[0] + ")" if len(short) > 1 else words).split())


def is_column(words: str) -> bool:
    """Return whether what an aggregate is of is a column, and no expression, which has no unit of its own."""
    return re.fullmatch(r'[\w.]+|"[^"]+"', words) is not None


def _is_one(inside: str) -> bool:
    """Return whether what stands between the first parenthesis and the last closes all that it opens."""
    depths = list(accumulate((letter in "([") - (letter in ")]") for letter in inside))
    return min(depths, default=0) >= 0


def _before_comma(text: str) -> str:
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            return text[:i].strip()
    return text.strip()


@dataclass(frozen=True)
class PrivateSelect:
    """One private aggregation: rows that belong to units, grouped by keys, aggregated over units.

    Parameters
    ----------
    rows
        SQL (DuckDB's) of the rows: columns `u` (the unit, never NULL), `k0`, `k1`, ... (keys), `x0`, ... (inputs).
        Tables are named as they were protected or registered.
    tables, public
        The protected and the public tables that it reads.
    keys, aggregates, inputs
        What it groups by, what it asks for, and how many input columns there are.
    contribution
        How what a unit adds is bounded.
    selection
        "all": every group of the declared levels is released. "threshold": groups whose noisy number of units
        reaches a threshold. "public": every group that `groups` lists.
    groups
        SQL over public tables that gives the columns `k0`, ... of all groups; for "public".
    min_units
        Fewest units that a group must have to be released under "threshold".
    epsilon, delta, selection_epsilon
        What the statement itself says it may cost; None where it does not.
    single
        Whether no unit can have more than one of the rows.
    notes
        What the plan should say of choices made here: defaults, bounds, dropped rows.
    written
        Whether it was written with WITH DIFFERENTIAL_PRIVACY, WITH ANONYMIZATION or ANON_ functions.
    tree
        The aggregation as it was read, for the linear route.
    conditions
        Of one that is of the rows of one table: the conditions on them that all have to hold, as they were read; None
        where it is of anything else.
    most_declared
        Of one that is of the rows of one table: how many of them a unit has at most, as declared; 0 of anything else.
    dates
        SQL of the columns that keys are worked out from which hold dates, which have no hours.
    kept
        Where the rows are kept while several queries read them; empty where each of them asks `rows`.
    grouped
        What is kept in place of rows, where all queries begin by adding these up by unit and group: SQL of the columns
        `s0`, `s1`, ... that are kept of each unit and group.
    kept_rows
        Where the rows are kept beside that; empty where they are not.
    coded
        Where each group of these has a number, `k`, beside its keys `k0`, ...; empty where what is kept has the keys.
    sampled, inputs_sampled
        Where the rows are kept that are drawn of each unit, while several queries read them, and the columns of inputs
        that they have; empty where each of them draws for itself.
    shared
        Where the values of one column are kept, with what part of its unit each of them is; empty where they are not.
    weights
        By what is multiplied what units have in groups, before vectors are clipped to a norm; None where nothing is, or
        that is still to be found.
    vectors
        The same as it reads what units have in groups, which is kept for those of its aggregates that are bounded
        apart, by a norm; None where that is not kept.
    inside
        Whether it stands inside a query over its release: earlier versions measured all of those by themselves.
    drawn
        What drawing rows of a unit does to the answer, where nobody has said how many it has; else empty.
    rows_if_hidden
        Where it is found privately how many rows of a unit count, at most those of `contribution`: how many do if noise
        hides that. 0 where it is not to be found.
    apart
        Aggregates for which `contribution`, and what else is said of rows that are drawn, does not hold: those whose
        vectors are clipped to a norm beside others that rows are drawn for. What a threshold counts is bounded as they
        are. None where all aggregates are bounded alike.
    together
        Of which levels of several keys there are groups, where not of all.
    also_counted
        Which rows count although no answer that is planned from the declared domain counts them; else empty.
    """

    rows: str
    tables: tuple[str, ...]
    public: tuple[str, ...]
    keys: tuple[Key, ...]
    aggregates: tuple[Aggregate, ...]
    inputs: int
    contribution: Contribution
    selection: Selection
    groups: str | None = None
    min_units: int = 1
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    selection_epsilon: Fraction | None = None
    single: bool = False
    notes: tuple[str, ...] = ()
    written: bool = False
    tree: exp.Select | None = field(default=None, compare=False, repr=False)
    conditions: tuple[exp.Expr, ...] | None = field(default=None, compare=False, repr=False)
    inside: bool = field(default=False, compare=False, repr=False)
    drawn: str = ""
    rows_if_hidden: int = 0
    apart: Apart | None = None
    together: tuple[KeysTogether, ...] = ()
    also_counted: str = field(default="", compare=False, repr=False)
    most_declared: int = field(default=0, compare=False)
    dates: tuple[str, ...] = field(default=(), compare=False, repr=False)
    kept: str = field(default="", compare=False, repr=False)
    grouped: tuple[str, ...] = field(default=(), compare=False, repr=False)
    kept_rows: str = field(default="", compare=False, repr=False)
    coded: str = field(default="", compare=False, repr=False)
    sampled: str = field(default="", compare=False, repr=False)
    inputs_sampled: tuple[str, ...] = field(default=(), compare=False, repr=False)
    shared: str = field(default="", compare=False, repr=False)
    weights: GroupWeights | None = field(default=None, compare=False, repr=False)
    vectors: PrivateSelect | None = field(default=None, compare=False, repr=False)

    @property
    def source(self) -> str:
        """SQL of the rows behind FROM."""
        return self.kept or f"({self.rows})"

    @property
    def from_rows(self) -> PrivateSelect:
        """The same as it reads rows, and not what was kept of units and groups in their place."""
        return replace(self, kept=self.kept_rows, grouped=(), coded="")

    @property
    def canonical(self) -> dict[str, Any]:
        """What is measured, as JSON values: equal for statements that measure the same."""
        told = {
            "rows": self.rows,
            "keys": [[key.levels is not None, level_texts(key.levels)] for key in self.keys],
            "aggregates": [aggregate.canonical for aggregate in self.aggregates],
            "contribution": [self.contribution.kind, self.contribution.most],
            "selection": [self.selection, self.groups, self.min_units],
            "shares": [None if share is None else str(share) for share in (self.selection_epsilon,)],
        }
        if self.apart is not None:
            bounded = self.apart.contribution
            told["apart"] = [bounded.kind, bounded.most, list(self.apart.aggregates)]
        if self.together:
            told["together"] = [one.digest for one in self.together]
        return told | {"rows_if_hidden": self.rows_if_hidden} if self.rows_if_hidden else told

    @property
    def counts_all_rows(self) -> bool:
        """Whether single rows count, and as many of each unit as it has by what is declared."""
        return self.contribution.kind == "rows" and 0 < self.most_declared <= self.contribution.most

    def contribution_of(self, index: int) -> Contribution:
        """Return how what a unit adds to one of its aggregates is bounded."""
        apart = self.apart
        return self.contribution if apart is None or index not in apart.aggregates else apart.contribution

    def bounded(self, contribution: Contribution | None) -> PrivateSelect:
        """Return it as it is added up for what is bounded so; None for what does not say so."""
        if contribution is None:
            return self
        of_groups = self.vectors
        if of_groups is not None and of_groups.contribution == contribution:
            return of_groups
        return replace(self, contribution=contribution)

    def clips(self, index: int) -> bool:
        """Return whether the vectors of an aggregate are clipped to a norm."""
        return self.contribution_of(index).kind == "l2" and not self.aggregates[index].by_itself

    @property
    def can_weigh(self) -> bool:
        """Whether vectors are clipped, of groups that numbers and texts tell apart: some may be multiplied then."""
        told = all(key.levels is not None or key.kind in ("integer", "number", "text", "boolean") for key in self.keys)
        clipped = self.contribution.kind == "l2" and self.apart is None
        return clipped and bool(self.keys) and told and not self.single and self.selection != "public"

    @property
    def levels(self) -> tuple[tuple[Any, ...] | None, ...]:
        """What is declared of each of its keys; None where nothing is."""
        return tuple(key.levels for key in self.keys)

    def weighed(self, weights: GroupWeights | None) -> PrivateSelect:
        """Return the same, where what units have in groups is multiplied first."""
        unlike = weights if weights is not None and weights.unlike else None
        vectors = None if self.vectors is None else replace(self.vectors, weights=unlike)
        return replace(self, weights=unlike, vectors=vectors)

    @property
    def apart_for(self) -> str:
        """Which aggregates are bounded apart, in words; empty where none is."""
        return self._words(apart=True)

    @property
    def drawn_for(self) -> str:
        """For which aggregates rows are drawn, in words, where others are bounded apart; empty where none is."""
        return self._words(apart=False)

    def _words(self, *, apart: bool) -> str:
        numbers = () if self.apart is None else self.apart.aggregates
        mine = (one for i, one in enumerate(self.aggregates) if numbers and (i in numbers) is apart)
        return " and ".join(plainly(one.words or one.name) for one in mine)

    def said_of_drawn(self, text: str) -> str:
        """Return what is to be said of the rows that are drawn, and for which aggregates, where not for all."""
        return f"{self.drawn_for}: {text}" if self.drawn_for else text

    @property
    def counted_by(self) -> Contribution:
        """How what a unit adds to the count is bounded that a threshold is compared with."""
        return self.contribution if self.apart is None else self.apart.contribution

    @property
    def ways(self) -> tuple[tuple[PrivateSelect, tuple[int, ...]], ...]:
        """Private aggregations of those aggregates that are bounded alike, each with their numbers."""
        every = range(len(self.aggregates))
        if self.apart is None:
            return ((self, tuple(every)),)
        apart, rest = self.apart.aggregates, tuple(i for i in every if i not in self.apart.aggregates)
        clipped = replace(self, contribution=self.apart.contribution, rows_if_hidden=0, drawn="")
        return tuple(
            (replace(one, apart=None, aggregates=tuple(self.aggregates[i] for i in numbers)), numbers)
            for one, numbers in ((clipped, apart), (self, rest))
        )

    @property
    def clamped(self) -> frozenset[int]:
        """The numbers of the aggregates that are `clamped`."""
        return frozenset(i for i, one in enumerate(self.aggregates) if one.clamped)

    @property
    def groups_declared(self) -> int:
        """How many groups there are by the declared levels of its keys; 1 where some are not declared."""
        return self.groups_of(self.levels) or 1

    def groups_of(self, levels: Sequence[tuple[Any, ...] | None]) -> int:
        """Return how many groups there are of some of the levels of each key; 1 where those of a key are not known."""
        if None in levels:
            return 1
        count = math.prod(len(levels[i] or ()) for i in self._keys_alone)
        for one in self.together:
            every = [self.keys[i].levels for i in one.keys]
            if all(levels[i] is all_of or levels[i] == all_of for i, all_of in zip(one.keys, every, strict=True)):
                count *= len(one.levels)
                continue
            places = [{label: number for number, label in enumerate(all_of or ())} for all_of in every]
            kept = [{place[label] for label in levels[i] or ()} for i, place in zip(one.keys, places, strict=True)]
            count *= sum(all(number in of for number, of in zip(row, kept, strict=True)) for row in one.levels)
        return count

    @property
    def every_group(self) -> list[tuple[int, ...]]:
        """All groups that there are, by the numbers of levels of their keys, in order; none where some have none."""
        if None in self.levels:
            return []
        if not self.together:
            return list(itertools.product(*(range(len(key.levels or ())) for key in self.keys)))
        parts: list[Sequence[tuple[int, ...]]] = [
            [(number,) for number in range(len(self.keys[i].levels or ()))] for i in self._keys_alone
        ]
        parts += [one.levels for one in self.together]
        order = [*self._keys_alone, *(i for one in self.together for i in one.keys)]
        places = [order.index(i) for i in range(len(order))]
        found = (tuple(itertools.chain(*each)) for each in itertools.product(*parts))
        return sorted(tuple(group[place] for place in places) for group in found)

    @property
    def _keys_alone(self) -> list[int]:
        beside = {i for one in self.together for i in one.keys}
        return [i for i in range(len(self.keys)) if i not in beside]

    def with_rows(self, most: int) -> PrivateSelect:
        """Return the same of which so many rows, or groups, of a unit count; nothing is to be found any more."""
        return replace(self, contribution=Contribution(self.contribution.kind, most), rows_if_hidden=0)

    @property
    def most_counted(self) -> int:
        """How many rows, or groups, of a unit can count at most."""
        most = self.contribution.most
        all_known = all(key.levels is not None for key in self.keys)
        return min(most, self.groups_declared) if self.contribution.kind == "groups" and all_known else most
