"""Everything that was measured of one table, ready to answer what is asked next: a function of the ledger."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.domain.extension import Extension
from dpnotebook.planner import over_rows
from dpnotebook.planner.block_queries import same_queries
from dpnotebook.planner.class_information import KeptInformation
from dpnotebook.planner.closed_form import ClosedForm
from dpnotebook.planner.exchangeable import (
    FEW_CLASSES,
    MOST_BESIDE,
    MOST_CHOICES,
    ByClasses,
    asked_over,
    by_classes,
    wider_names,
    with_supposed,
)
from dpnotebook.planner.extended import under
from dpnotebook.planner.focused import focused
from dpnotebook.planner.items import Item, item_of
from dpnotebook.planner.known_part import Key, Observation
from dpnotebook.planner.least_squares_state import MOST_ATOMS, MOST_CELLS, LeastSquaresState
from dpnotebook.planner.level_classes import ToldProducts
from dpnotebook.planner.over_many_rows import MOST_ASKED, ByManyRows
from dpnotebook.planner.over_rows import ByRows, MeasuredRows, RowsBeside
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.plan_json import ReadBefore, planned_from_json, with_chosen
from dpnotebook.planner.product_terms import ProductTerm, is_identity
from dpnotebook.planner.recorded_answers import AnsweredQuestions
from dpnotebook.planner.repeats import RecordedRepeats, Repeats, SupposedRepeats, ranked, taken
from dpnotebook.planner.ski_rental import GROUP_BYS, Rent, Replaced
from dpnotebook.planner.supposed import Supposed, Telling, counts_of
from dpnotebook.planner.value_ends import COUNT, counts_levels, ends_name, summand_of, with_ends
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import Law, Noise, law_of
from dpnotebook.query.measurement import Measurement
from dpnotebook.query.question import Question, Summand

Found = TypeVar("Found")
Names = tuple[Summand, tuple[str, ...], bool]

RECENT = 64  # latest questions, from which it is guessed what will be asked
FOCUSED = 16  # blocks made for one question each are kept, the latest
MOST_ROWS = 2  # matrices of measured queries are kept (`over_rows`), one for each set of attributes
MOST_KEPT = 10**7  # entries that the matrices of all kept blocks may have together
FEW_CELLS = 400  # of the attributes of a question: a block of so few is made in a moment, without classes
# Classes of levels are used where there are at least FEWER times fewer of them than cells. Where a block of all cells
# would have room they are used only if there are FAR_FEWER times fewer, more cells than MANY_CELLS, and no more
# measured queries than FEW_QUERIES.
FEWER, FAR_FEWER = 1.4, 4
MANY_CELLS, FEW_QUERIES = 1_000, 64
NOTHING = RecordedRepeats()  # of what nobody measured


@dataclass(frozen=True)
class StrategyPrice:
    """What a strategy was found to cost, and what could have been paid for it when that was worked out, in units."""

    price: int
    credit: int


class LatestPlans(Protocol):
    """Finds what was planned last."""

    def __call__(self, count: int, *, earlier: bool = True) -> Sequence[Mapping[str, Any]]:
        """Return the latest plans, at most so many, of free questions too; without those of earlier domains or not."""


def _no_plans(count: int, *, earlier: bool = True) -> Sequence[Mapping[str, Any]]:
    return ()


class RecordedRelease(Protocol):
    """A recorded release, as the history sees it."""

    @property
    def number(self) -> int:
        """Its number in the ledger."""

    @property
    def since(self) -> int:
        """The entry of the ledger that said the domain of its table."""

    @property
    def plan(self) -> Mapping[str, Any]:
        """What was planned, as `plan_to_json` wrote it."""

    @property
    def question(self) -> str:
        """The key of its question."""

    @property
    def details(self) -> Mapping[str, Any]:
        """What belongs to its answers."""

    @property
    def units(self) -> int:
        """What it cost."""

    @property
    def numbers(self) -> Sequence[NDArray[np.signedinteger[Any]]]:
        """The noisy numbers, one array a measurement."""


class History:
    """What was measured of one table, and least squares over it.

    Parameters
    ----------
    domain, noise
        The table's declared domain, and the law of the noise of its session.
    earlier
        By the entry of the ledger that said it, what became of each domain that the table had before; None where other
        rows were counted under it, so that nothing of that time is of use.
    """

    def __init__(self, domain: Domain, noise: Noise, earlier: Mapping[int, Extension | None] | None = None) -> None:
        self.domain = domain
        self.with_ends = domain  # and with the ends of every value that was summed
        self.earlier = earlier or {}
        self.lost: list[int] = []  # releases of earlier domains that cannot be said in this one
        self.not_refined: frozenset[Key] = frozenset()  # measurements of earlier domains: for those there is no spend
        self.noise: Noise = noise
        self.law: Law = law_of(noise)
        self.releases: set[int] = set()
        self.answered = AnsweredQuestions()
        self.items: dict[Key, Item] = {}
        self.refined: set[Key] = set()
        self.refining: frozenset[Key] = frozenset()  # by charges that wait for their answers: not to be refined again
        self.version = 0
        self.latest_plans: LatestPlans = _no_plans
        self._recent: tuple[int, Sequence[Mapping[str, Any]]] = -1, ()
        self._alone: tuple[int, int] = -1, 0
        self.least_scale = math.inf  # of all noise
        self.rents: dict[str, Rent] = {}  # by the kind of question
        self.replaced: dict[str, Replaced] = {}  # what purchases took the place of, by the kind of question
        self.dearest = 0  # units paid at once for the dearest purchase
        self.prices: dict[str, StrategyPrice] = {}
        self._read = ReadBefore()
        self._read_earlier: dict[int, ReadBefore] = {}
        self._counts = RecordedRepeats()  # of counts, and of sums as counts over the ends of a value
        self._sums: dict[Summand, RecordedRepeats] = {}
        self._by_identity: dict[str, list[Key]] = {}
        self._attributes: dict[Summand, set[str]] = {}
        self._summed: dict[str, set[str]] = {}  # by the attribute of a value's ends: what its sums tell apart
        self._counted: set[str] = set()  # what counts depend on, and the groups of means, which tell how many rows
        self._blocks: OrderedDict[Names, tuple[LeastSquaresState, int]] = OrderedDict()
        self._entries = 0  # of the matrices of these blocks
        self._too_many: set[Names] = set()
        # For which all that was measured tells too many classes of levels apart: more only tells more.
        self._many_classes: set[tuple[Summand, tuple[str, ...], int | None]] = set()
        self._focused: OrderedDict[tuple[Any, ...], LeastSquaresState | None] = OrderedDict()
        # While a form of a question is looked for: it may be looked at twice.
        self._latest_with: tuple[tuple[Any, ...], Telling, LeastSquaresState | None] | None = None
        self._closed: dict[Summand, tuple[ClosedForm, int]] = {}
        self._rows: dict[tuple[Summand, tuple[str, ...]], tuple[MeasuredRows, int]] = {}
        self._latest_found: tuple[Question, int, Any] | None = None
        self._latest_classes: tuple[Any, Domain, ProductTerm, ByClasses | None] | None = None
        self._informed = KeptInformation()
        self.latest_answers: tuple[object, float, Any] | None = None  # what was told, at which confidence, the answers
        # Beside what is supposed, of the latest that was: a question of many measures looks at it for each of them.
        self._supposed: dict[Summand, tuple[Telling, int, SupposedRepeats]] = {}
        self._closed_beside: dict[Summand, tuple[Telling, int, ClosedForm]] = {}

    def take(self, releases: Iterable[RecordedRelease], version: int = 0) -> None:
        """Add releases that were recorded.

        Parameters
        ----------
        releases
            In the order of recording; what is here already is passed over.
        version
            Of the ledger, up to which everything is here afterwards.
        """
        for release in releases:
            if release.number in self.releases or "measures" not in release.plan:  # statements have a law of their own
                continue
            self.releases.add(release.number)
            bought, kind = "buy" in release.plan.get("actions", ()), release.plan.get("kind")
            if kind is not None:
                self.rents[kind] = self.rents.get(kind, Rent()).after(release.units, bought)
                # Cells of an earlier domain are others: what took their place counts as what would have been paid.
                instead = release.plan.get("instead")
                if instead is None and bought and kind != GROUP_BYS:
                    instead = Replaced.unsaid(int(release.plan["units"]))
                if instead is not None and release.since not in self.earlier:
                    self.replaced[kind] = self.replaced.get(kind, Replaced()).after(instead)
            if bought:
                self.prices = {}
                self.dearest = max(self.dearest, release.units)
            if release.since in self.earlier:
                self._take_earlier(release)
                continue
            if not bought:
                prices = release.plan.get("strategy_prices", {})
                self.prices.update({name: StrategyPrice(*price) for name, price in prices.items()})
            self.answered.take(release.number, release.question, release.plan, release.details)
            plan = with_chosen(release.plan, release.details)
            for index, planned in enumerate(planned_from_json(plan, self.domain, self._read)):
                self._take(planned, (release.number, index), release.numbers[index])
        self.version = max(self.version, version)

    def _take_earlier(self, release: RecordedRelease) -> None:
        """Add what a release of an earlier domain says of this one."""
        found = self.earlier[release.since]
        if found is None:
            self.lost.append(release.number)
            return
        known = self._read_earlier.setdefault(release.since, ReadBefore())
        plan = with_chosen(release.plan, release.details)
        for index, planned in enumerate(planned_from_json(plan, found.before, known)):
            measurement = under(planned.measurement, found)
            if measurement is not None:
                self._take(replace(planned, measurement=measurement), (release.number, index), release.numbers[index])
                self.not_refined |= {(release.number, index)}
            elif release.number not in self.lost[-1:]:
                self.lost.append(release.number)

    def _take(self, planned: Planned, key: Key, answers: NDArray[np.int64]) -> None:
        self.add(item_of(planned, key, answers, self.law))

    def add(self, item: Item) -> None:
        """Add a measurement, of a release after those of all others."""
        key = item.key
        self.items[key] = item
        self._informed.clear()
        self.least_scale = min(self.least_scale, float(item.scale))
        identity, summand = item.measurement.key, item.measurement.summand
        new = identity not in self._by_identity
        self._by_identity.setdefault(identity, []).append(key)
        counts = summand == COUNT
        if not counts:
            self._sums.setdefault(summand, RecordedRepeats()).add(item)
        if (seen := item if counts else counts_of(item)) is not None:
            self._counts.add(seen)
        if new:  # what is told apart depends on what was asked alone
            self._tells(item, seen)
        if item.refines is not None:
            self.refined.add(item.refines)

    def _tells(self, item: Item, seen: Item | None) -> None:
        """Note what a measurement tells apart, and as counts, if it is seen as such."""
        summand = item.measurement.summand
        self._attributes.setdefault(summand, set()).update(item.attributes)
        if seen is None:
            return
        if summand == COUNT or summand.ends:
            self._counted.update(item.attributes)
        if counts_levels(item.measurement):
            self._attributes.setdefault(COUNT, set()).update(seen.attributes)
            self._counted.update(seen.attributes)
        elif summand != COUNT:
            self._summed.setdefault(ends_name(summand, item.measurement.where), set()).update(seen.attributes)

    def _known(self, summand: Summand) -> RecordedRepeats:
        """Return the measurements that say something about sums of a summand, or about counts."""
        return self._counts if summand == COUNT else self._sums.get(summand, NOTHING)

    def _beside(self, summand: Summand, also: Telling) -> SupposedRepeats:
        """Return what further measurements say beside what was recorded; those of the latest are kept."""
        recorded = self._known(summand)
        kept = self._supposed.get(summand)
        if kept is None or kept[0] is not also or kept[1] != recorded.count:
            kept = self._supposed[summand] = also, recorded.count, SupposedRepeats(recorded, also.items)
        return kept[2]

    def told_of(self, summand: Summand) -> frozenset[str]:
        """Return the attributes of which something was recorded, for sums of a summand."""
        return frozenset(self._attributes.get(summand, ()))

    def summed(self, summand: Summand, where: Predicate, also: Sequence[Item] = ()) -> bool:
        """Return whether values of a summand were added up, in sums or for means, or are to be.

        Parameters
        ----------
        summand, where
            Whose values, and of which rows: others may have been measured with other bounds, if none of theirs is lost.
        also
            What comes beside the history.
        """
        name = ends_name(summand, where)
        return name in self._summed or name in Supposed.of(also).summed

    def counted(self, also: Sequence[Item] = ()) -> bool:
        """Return whether something was counted, or is to be."""
        return COUNT in self._attributes or Supposed.of(also).counts

    def counted_by(self, column: str | None, also: Sequence[Item] = ()) -> bool:
        """Return whether something was counted that depends on a column, or is to be, be it in groups of means."""
        return column in self._counted or column in Supposed.of(also).counted

    @property
    def recent(self) -> Sequence[Mapping[str, Any]]:
        """Plans of the latest questions, free ones too, oldest first."""
        if self._recent[0] != self.version:
            self._recent = self.version, self.latest_plans(RECENT, earlier=False)
        return self._recent[1]

    @property
    def alone_total(self) -> int:
        """What all questions so far would have cost one by one, in units."""
        version, total = self._alone
        if version != self.version:
            plans = self.latest_plans(RECENT if version < 0 else 1)
            total = max([total, *(int(plan.get("alone_total", 0)) for plan in plans)])
            self._alone = self.version, total
        return total

    def latest(self, measurement: Measurement) -> Item | None:
        """Return the most accurate recorded measurement of these very queries that may be refined; None without one."""
        keys = self._by_identity.get(measurement.key, ())
        found = [self.items[key] for key in keys if key not in self.refined and key not in self.refining]
        return min(found, key=lambda item: item.variance, default=None)

    def block(
        self,
        part: ProductTerm,
        summand: Summand,
        also: Sequence[Item] = (),
        *,
        whole: bool = False,
        sums: bool = False,
    ) -> LeastSquaresState | None:
        """Return least squares over what was measured, for a question; None where it tells too many cells apart.

        Over everything that was measured where that has room in one block; else over what tells something about the
        attributes of the question; else over what matters to the very question. A function of what was recorded, in
        the order in which it was, and of the question: whenever it is asked.

        Parameters
        ----------
        part
            The question.
        summand
            What each row adds; measurements of another one say nothing.
        also
            What is to be recorded next.
        whole
            Whether to return None rather than what matters to the question alone.
        sums
            Whether sums of values say something as well, as counts of the levels of their column, where every cell has
            room: they tell every level apart.
        """
        beside = Supposed.of(also).telling(summand)
        for names, with_levels in self._tries(part, summand, beside, sums=sums):
            if (found := self._with(summand, names, beside, sums=with_levels)) is not None:
                self._latest_with = None
                return found
        self._latest_with = None
        return None if whole else self._for(part, summand, self._ordered(part.attributes), beside)

    def by_classes(self, part: ProductTerm, summand: Summand, also: Sequence[Item] = ()) -> ByClasses | None:
        """Return how a question follows from what was measured of its attributes, by classes of their levels.

        Parameters
        ----------
        part, summand, also
            As for `block`.

        Returns
        -------
        None where the cells of the attributes are few, or all that was measured has room in one block; where something
        that has room there is no product; and where classes are hardly fewer than cells.
        """
        beside = Supposed.of(also).telling(summand)
        asked = self._ordered(part.attributes)
        told = self._attributes.get(summand, set()) | beside.attributes
        if not set(asked) <= set(self.domain.names) or len(told) < 2:
            return None  # of one attribute atoms are classes
        for names, _ in self._tries(part, summand, beside):
            cells = math.prod(self.with_ends[name].size for name in names)
            if names == asked:
                break
            plain = set(names) <= set(self.domain.names)
            if plain and cells <= MOST_ATOMS and self._soon(summand, beside, cells):
                known = self._by_importance(part, summand, beside, names)
                found = self._in_classes(part, summand, names, beside, known, whole=True)
                if found is not None and found.classes * FAR_FEWER <= cells:
                    return found
            if self._with(summand, names, beside) is not None:
                return None  # all that was measured has room in one block
        if cells > MOST_ATOMS and self._with(summand, asked, beside) is not None:
            return None  # in few atoms
        wider = asked
        if len(told) > len(asked):
            wider = wider_names(part, asked, self.domain, self._with_supposed(summand, beside).values())
        known = self._by_importance(part, summand, beside, wider)
        if wider != asked:
            # What takes longest is solved for only where it may hold all that was measured.
            whole = FEW_CLASSES if told <= set(wider) else None
            found = self._in_classes(part, summand, wider, beside, known, most=whole)
            if found is not None:
                return found
        if cells <= FEW_CELLS:
            return None
        few = cells <= MOST_ATOMS
        most = FEW_CLASSES if len(told) <= len(asked) and len(known) <= MOST_BESIDE else None
        found = self._in_classes(part, summand, asked, beside, known, whole=few, most=most)
        return None if found is None or (few and found.classes * FEWER > cells) else found

    def _in_classes(
        self,
        part: ProductTerm,
        summand: Summand,
        names: tuple[str, ...],
        beside: Telling,
        known: Iterable[Repeats],
        *,
        whole: bool = False,
        most: int | None = None,
    ) -> ByClasses | None:
        """Return how a question follows over some attributes, as `by_classes` does."""
        domain, before, found = self.with_ends, None, None
        of, latest = (summand, names, most, self._known(summand).count), self._latest_classes
        if not beside.items:
            found = self._in_recorded_classes(part, summand, names, known, whole=whole, most=most)
            if found is not None:  # to be looked at once more, with what is proposed beside it
                self._latest_classes = of, domain, part, found
            return found
        if not beside.supposed:
            return by_classes(part, names, domain, known, whole=whole, most=most)
        if latest is None or latest[0] != of or latest[1] is not domain or not same_queries(latest[2], part):
            recorded = self._by_importance(part, summand, Telling(()), names)
            before = self._in_recorded_classes(part, summand, names, recorded, whole=False, most=most)
            latest = self._latest_classes = of, domain, part, before
        before = latest[3]
        if before is not None:
            found = with_supposed(part, before.information, self._beside(summand, beside).by_queries)
            if found is not None and found.choices <= MOST_CHOICES and not (whole and not found.every):
                return found
        return by_classes(part, names, domain, known, whole=whole, apart=True, before=before, most=most)

    def _in_recorded_classes(
        self,
        part: ProductTerm,
        summand: Summand,
        names: tuple[str, ...],
        known: Iterable[Repeats],
        *,
        whole: bool,
        most: int | None,
    ) -> ByClasses | None:
        """Return how a question follows from what was recorded: of that as much is kept as no question changes."""
        asked, domain = asked_over(part, names, self.with_ends), self.with_ends
        if asked is None:
            return None
        of = summand, names, most

        def told(measured: Iterable[Repeats], *, all_or_none: bool = False) -> ToldProducts:
            found = ToldProducts(names, domain, (), most)
            for each in measured:
                found.put(each)
                if all_or_none and not found.room:
                    break
            return found

        if of not in self._many_classes:
            recorded = self._known(summand).by_queries.values()
            information = self._informed.of(of, domain, lambda: told(recorded, all_or_none=True))
            if not information.told.room:
                self._many_classes.add(of)
        if of in self._many_classes:  # what matters most to the question has room
            if whole:
                return None
            some = told(known)
            chosen = tuple(each.measurement.key for each, _ in some.measured)
            information = self._informed.of((*of, chosen), domain, lambda: some)
        if not information.told.parts or (whole and not information.told.every):
            return None
        found = ByClasses(part, asked, information)
        return found if found.choices <= MOST_CHOICES else by_classes(part, names, domain, known, apart=True, most=most)

    def by_rows(
        self, part: ProductTerm, summand: Summand, also: Sequence[Item] = (), *, whole: bool = False
    ) -> ByRows | None:
        """Return how a question follows from all that was measured, over the numbers of that.

        Parameters
        ----------
        part, summand, also
            As for `block`.
        whole
            Whether to return None rather than leave out anything.

        Returns
        -------
        None where the question is no disjoint counts; where cells are few enough for one block, or too many; and where
        too many numbers were measured.
        """
        beside = Supposed.of(also).telling(summand)
        asked, domain = self._ordered(part.attributes), set(self.domain.names)
        told = self._attributes.get(summand, set()) | beside.attributes
        names = self._ordered((told & domain).union(asked))
        if part.weight != 1 or not is_identity(part.operator) or not set(asked) <= domain:
            return None
        cells = math.prod(self.domain[name].size for name in names)
        if not MOST_ATOMS < cells <= over_rows.MOST_CELLS or part.operator.shape[0] > MOST_ASKED:
            return None
        recorded = self._known(summand)
        if len(recorded.by_queries) + len(beside.items) > over_rows.MOST_DIFFERENT:
            return None
        if self._with(summand, names, beside) is not None:
            return None
        rows, position = self._rows.get((summand, names)) or (MeasuredRows(names, self.with_ends), 0)
        rows.domain = self.with_ends  # which values were summed since then
        if not position or position != recorded.count:
            rows.put(recorded.changed(position))
            self._rows.pop((summand, names), None)
            self._rows[summand, names] = rows, recorded.count
            while len(self._rows) > MOST_ROWS:
                del self._rows[next(iter(self._rows))]
        known = recorded.by_queries
        if whole and not rows.every:
            return None
        if beside.items:
            supposed = self._beside(summand, beside).by_queries
            few = RowsBeside(rows, known.values())
            known = known | supposed
            if few.puts(supposed.values()):
                return self._over_rows(part, few, known)
            rows = rows.copy()
            rows.put(supposed.values(), over_rows.BESIDE)
        return self._over_rows(part, rows, known)

    def _over_rows(self, part: ProductTerm, rows: MeasuredRows, known: Mapping[str, Repeats]) -> ByRows | None:
        """Return how a question follows over measured numbers; None where these or its counts are too many."""
        if next(rows.parts(known.values()), None) is None:
            return None
        if part.operator.shape[0] * rows.space.apart.size <= over_rows.MOST_ENTRIES:
            return ByRows(part, rows, known.values())
        found = ByManyRows(part, rows, known.values())
        return found if found.few else None

    def _soon(self, summand: Summand, beside: Telling, cells: int) -> bool:
        """Return whether classes of levels are found sooner than a block of so many cells is made anew."""
        return cells > MANY_CELLS and len(self._known(summand).by_queries) + len(beside.items) <= FEW_QUERIES

    def _tries(
        self, part: ProductTerm, summand: Summand, beside: Telling, *, sums: bool = False
    ) -> list[tuple[tuple[str, ...], bool]]:
        """Return over which attributes one block is looked for, in order, and whether with sums as counts of levels."""
        self._make_room(beside.attributes)
        asked = self._ordered(part.attributes)
        known = self._attributes.get(summand, set()) | beside.attributes
        everything = {*asked, *known.intersection(self.domain.names)}
        ends = [name for name in asked if name not in self.domain]
        with_sums = {*asked, *self._told_by(ends, beside)}
        tries = [(self._ordered(names), False) for names in (everything | with_sums, with_sums, asked)]
        if sums:
            tries = [*self._small(asked, everything, beside), *tries]
        return list(dict.fromkeys(tries))

    def said(self, block: LeastSquaresState, summand: Summand, also: Sequence[Item]) -> list[Observation] | None:
        """Return what measurements that are to be recorded next say in a block; None where they say more elsewhere."""
        beside = Supposed.of(also).telling(summand)
        if not beside.items or not beside.attributes <= set(block.names):
            return None
        return list(self._beside(summand, beside).told(block))

    def _with(
        self, summand: Summand, names: tuple[str, ...], beside: Telling, *, sums: bool = False
    ) -> LeastSquaresState | None:
        """Return least squares over all that was measured of some attributes, and what comes beside it, if it fits."""
        key = summand, names, sums, self._known(summand).count
        if self._latest_with is not None and self._latest_with[0] == key and self._latest_with[1] is beside:
            return self._latest_with[2]
        found = self._whole(summand, names, sums=sums)
        if found is not None and beside.items:
            said = list(self._beside(summand, beside).told(found))
            found = found.twin() if found.has_room(said) else None
            if found is not None:
                found.add_all(said)
        self._latest_with = key, beside, found
        return found

    def along(self, part: ProductTerm, summand: Summand) -> LeastSquaresState | None:
        """Return least squares over what was measured of the one attribute of a question, or None for too many levels.

        Parameters
        ----------
        part, summand
            As for `block`.
        """
        names = self._ordered(part.attributes)
        block = self._whole(summand, names)
        return self._for(part, summand, names, Telling(())) if block is None else block

    def anew(self, block: LeastSquaresState, summand: Summand) -> LeastSquaresState:
        """Return the same least squares, made of all that was recorded at once: to the last bit a function of that.

        A block that is kept was added to release by release, since the session was opened or the block was looked for,
        and its last digits say when. What a descent makes of them differs in the fifth.

        Parameters
        ----------
        block
            Least squares over all that was measured of its attributes, or what was made for one question.
        summand
            What each row adds.
        """
        if block.partial:  # made at once as it is
            return block
        found = LeastSquaresState(block.domain, block.names, sums=block.sums)
        return found if taken(found, self._known(summand).of_some(block.names)) else block

    def closed_form(self, summand: Summand, also: Sequence[Item] = ()) -> ClosedForm:
        """Return what was measured as independent sources, of any size.

        Parameters
        ----------
        summand, also
            As for `block`.
        """
        beside = Supposed.of(also).telling(summand)
        self._make_room(beside.attributes)
        recorded = self._known(summand)
        found, position = self._closed.get(summand) or (ClosedForm(self.with_ends), 0)
        if not position or position != recorded.count:
            for known in recorded.changed(position):
                found.put(known)
            self._closed[summand] = found, recorded.count
        if beside.items:
            kept = self._closed_beside.get(summand)
            if kept is None or kept[0] is not beside or kept[1] != recorded.count or kept[2].domain is not found.domain:
                together = found.copy()
                for known in self._beside(summand, beside).by_queries.values():
                    together.put(known)
                kept = self._closed_beside[summand] = beside, recorded.count, together
            return kept[2]
        return found

    def once(self, question: Question, work: Callable[[], Found]) -> Found:
        """Return what follows for a question from what was recorded: worked out once for the latest of them.

        Planning it and the look at the answers that a free plan shows ask for the same.

        Parameters
        ----------
        question
            The very object: equal ones may list their answers in other orders.
        work
            Works it out.
        """
        latest = self._latest_found
        if latest is None or latest[0] is not question or latest[1] != len(self.items):
            latest = self._latest_found = question, len(self.items), work()
        found: Found = latest[2]
        return found

    def _told_by(self, ends: Iterable[str], beside: Telling) -> set[str]:
        """Return what sums tell apart that are seen as counts over some ends."""
        found: set[str] = set()
        for end in ends:
            found.update(self._summed.get(end, ()))
            found.update(name for item in beside.by_attribute.get(end, ()) for name in item.attributes)
        return found

    def _small(
        self, asked: Sequence[str], everything: Collection[str], beside: Telling
    ) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Yield attributes over which sums are seen as counts of levels: all, or those of the question and its sums."""
        every = {name for name in (*self._summed, *beside.attributes) if name not in self.domain}
        columns = {name: summand.column for name in every if (summand := summand_of(name)) is not None}
        for names in (everything, asked):
            ends = [name for name, column in columns.items() if column in names]
            if not ends:
                continue
            names = self._ordered({*names, *self._told_by(ends, beside)}.difference(every))
            if math.prod(self.domain[name].size for name in names) <= MOST_ATOMS:
                yield names, True

    def _whole(self, summand: Summand, names: tuple[str, ...], *, sums: bool = False) -> LeastSquaresState | None:
        """Return least squares over all that was measured of some attributes, or None where there is no room for it."""
        key = summand, names, sums
        wanted = set(names)
        if any((one, of) == (summand, sums) and wanted.issuperset(less) for one, less, of in self._too_many):
            return None
        if math.prod(self.with_ends[name].size for name in names) > MOST_CELLS:
            self._too_many.add(key)
            return None
        block, position = LeastSquaresState(self.with_ends, names, sums=sums), 0
        if key in self._blocks:
            block, position = self._blocks.pop(key)
            self._entries -= block.atoms.count**2
        block.domain = self.with_ends  # which values were summed since then
        recorded = self._known(summand)
        if not taken(block, recorded.changed(position) if position else recorded.of_some(names)):
            self._too_many.add(key)
            return None
        self._blocks[key] = block, recorded.count
        self._entries += block.atoms.count**2
        while len(self._blocks) > 1 and self._entries > MOST_KEPT:
            self._entries -= self._blocks.popitem(last=False)[1][0].atoms.count ** 2
        return block

    def _for(
        self, part: ProductTerm, summand: Summand, names: tuple[str, ...], beside: Telling
    ) -> LeastSquaresState | None:
        """Return least squares over what matters most to a question."""
        if math.prod(self.with_ends[name].size for name in names) > MOST_CELLS:
            return None
        recorded = self._known(summand)
        key = Measurement(part.operator, part.axes, part.where, summand).key, recorded.count, names
        if not beside.items and key in self._focused:
            self._focused.move_to_end(key)
            return self._focused[key]
        block = focused(self.with_ends, names, part, self._by_importance(part, summand, beside, names))
        if not beside.items:
            self._focused[key] = block
            while len(self._focused) > FOCUSED:
                self._focused.popitem(last=False)
        return block

    def _with_supposed(self, summand: Summand, beside: Telling) -> dict[str, Repeats]:
        """Return what was measured of a summand, and what comes beside it, by what was asked."""
        recorded = self._known(summand).by_queries
        return recorded | self._beside(summand, beside).by_queries if beside.items else recorded

    def _by_importance(
        self, part: ProductTerm, summand: Summand, beside: Telling, names: Collection[str]
    ) -> list[Repeats]:
        """Return what was measured of rows told by some attributes, and what comes beside it.

        What matters most to a question comes first.
        """
        among, known = frozenset(names), self._known(summand).of_rows(names)
        # What comes now first, then what was asked of the same rows, then of rows told by few other attributes, then of
        # many numbers, then the latest: a refined one has the place of the one that it refines.
        first: list[Repeats] = []
        if beside.items:
            supposed = self._beside(summand, beside).by_queries
            come = dict.fromkeys(item.measurement.key for item in beside.items if item.refines is None)
            first = [each for name in come if (each := supposed[name]).rows <= among]
            for rows in {each.rows for each in supposed.values() if each.rows <= among}:
                some = [each for each in known.get(rows, ()) if each.measurement.key not in supposed]
                some += [each for name, each in supposed.items() if name not in come and each.rows == rows]
                known[rows] = sorted(some, key=ranked)
        asked = frozenset(part.where.attributes)
        own = [each for each in known.get(asked, ()) if each.measurement.where.key == part.where.key]
        others: dict[int, list[Repeats]] = {}
        for rows, some in known.items():
            if rows == asked:
                some = [each for each in some if each.measurement.where.key != part.where.key]
            others.setdefault(len(rows - part.attributes), []).extend(some)
        return [
            *first,
            *own,
            *itertools.chain.from_iterable(sorted(others[count], key=ranked) for count in sorted(others)),
        ]

    def _ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        wanted = set(names)
        self._make_room(wanted)
        return tuple(name for name in self.with_ends.names if name in wanted)

    def _make_room(self, names: Iterable[str]) -> None:
        """Give the domain the ends of values that are asked about."""
        missing = {*names, *self._summed}.difference(self.with_ends.names)
        if missing:
            self.with_ends = with_ends(self.domain, {*missing, *self.with_ends} - {*self.domain})
            self._closed.clear()  # attributes may have other places
