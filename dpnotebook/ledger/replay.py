"""What the entries add up to: the tables, the charges and the spend, replayed entry by entry.

Every process replays the same entries and so knows the same total; nothing else in the file is believed.
"""

from __future__ import annotations

import bisect
import copy
import hashlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpnotebook.domain.parts import PART
from dpnotebook.errors import LedgerError, NotProtected, shorten
from dpnotebook.ledger import snapshot
from dpnotebook.ledger.budgets import check_entry
from dpnotebook.ledger.chain import GENESIS, Broken, Entry, faults
from dpnotebook.ledger.extension import check_levels, extended, grown, level
from dpnotebook.ledger.policies import RecordedPolicy, read_policy_entry
from dpnotebook.ledger.without_plans import values_without_plan
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import Spend, bounds_at, from_runs

if TYPE_CHECKING:
    from dpnotebook.domain.extension import Extension

# A snapshot is due when this many cells were added to since the last: replaying what follows it takes well under 1 s.
SNAPSHOT_WORK = 1 << 24
CHARGE_WORK = 1 << 15
HASHED = 1 << 25  # cells


Place = tuple[int, int]


@dataclass(slots=True)
class ChargeLine:
    """One charge: where it and its record are in the chain, what it cost, and how many measurements were recorded.

    The random state is named until the answer is recorded. `since` is the entry that said what the table was.
    """

    table: str
    units: int
    entry: int
    since: int
    record: int | None = None
    measurements: int = 0
    random_state: str | None = None


@dataclass(frozen=True, slots=True)
class Earlier:
    """A domain that a table had before an extension.

    Parameters
    ----------
    since
        The number of the entry that said it.
    domain
        As `Domain.to_json` gives it.
    same_rows
        Whether the rows that were counted under it are rows that are counted under the next one, with the same sample
        of every unit's: only then its answers are answers about the next one too.
    parts
        Of how many parts it was.
    """

    since: int
    domain: dict[str, Any]
    same_rows: bool
    parts: int = 1


@dataclass(slots=True)
class TableEntries:
    """A registered table, its spend, and its charges.

    Parameters
    ----------
    registered
        What it was registered with, and the population that its units were said to belong to later.
    spend, digest, maximum
        What was spent on each cell after the last charge; the digest of all that, and the spend of the dearest cell.
    version
        The number of the last entry that is about the table.
    since
        The number of the entry that says what it is: its registration, or the latest correction or extension of that.
    outside_of
        What rows have paid, at most, that have no cell; of each part.
    earlier
        What was said of it before its extensions, first to last.
    units
        What its charges cost together.
    work
        How many cells were added to since the last snapshot.
    own
        Whether nothing else refers to the cells of its spend.
    checked
        Whether the digest was computed from the spend; what an audit took from the chain instead is compared later.
    charges
        The numbers of all its charges, in order.
    pending
        Those whose answers were not recorded, in order, and what each of them refines.
    measured
        Those whose noisy answers were recorded, in the order of recording: all but what was free.
    """

    registered: dict[str, Any]
    spend: Spend
    digest: str
    version: int
    since: int
    outside_of: list[int] = field(default_factory=lambda: [0])
    earlier: list[Earlier] = field(default_factory=list)
    maximum: int = 0
    units: int = 0
    work: int = 0
    own: bool = False
    checked: bool = True
    charges: list[int] = field(default_factory=list)
    pending: dict[int, tuple[Place, ...]] = field(default_factory=dict)
    measured: list[int] = field(default_factory=list)

    def follow(self, spend: Spend, digest: str | None = None) -> None:
        """Take a spend in place of the last one; its digest is computed unless it is given."""
        self.spend, self.digest, self.maximum = spend, digest or snapshot.digest(spend), spend.maximum
        self.own, self.checked = False, True

    @property
    def outside(self) -> int:
        """What rows have paid, at most, that have no cell, in whatever part."""
        return max(self.outside_of)

    def since_parts(self, parts: Container[int]) -> frozenset[int]:
        """Return the entries that said what it was while it had so many parts and nothing but parts has come since."""
        count = len(parts_of(self.registered))
        found = {self.since} if count in parts else set()
        for one in reversed(self.earlier):
            if one.parts == count:  # its domain was extended then
                break
            count = one.parts
            found |= {one.since} if count in parts else set()
        return frozenset(found)

    def add(self, cost: list[dict[str, Any]], claimed: str, trust: bool) -> None:
        """Add a cost to the spend; its digest is computed, or the claimed one taken for now."""
        if not self.own:
            self.spend = copy.copy(self.spend)
            self.spend.cells = self.spend.cells.copy()
            self.own = True
        self.maximum = self.spend.add_in_place(cost, self.maximum)
        self.digest, self.checked = (claimed, False) if trust else (snapshot.digest(self.spend), True)


class Replay:
    """The ledger as of the last entry that was replayed.

    Parameters
    ----------
    snapshots
        For some tables, the number of a charge and the packed spend after it: what came before need not be added up.
    charges
        How many charges there will be, if not every digest of a spend is to be checked but only as many, spread evenly,
        as a second allows; None to check each.
    """

    def __init__(self, snapshots: Mapping[str, tuple[int, bytes]] | None = None, charges: int | None = None) -> None:
        self.entries = 0
        self.head = GENESIS
        self.spent = 0
        self.delta = 0  # of all thresholds, in units of 10^-24
        self.opening: dict[str, Any] = {}
        self.budgets: list[dict[str, Any]] = []  # what the ledger was made for, and what that was raised to
        self.policies: list[RecordedPolicy] = []  # that it is under, the one that holds last
        self.overdrawn = False  # whether more was ever spent than the budget of that moment
        self.tables: dict[str, TableEntries] = {}
        self.lines: list[ChargeLine] = []
        self.refined: dict[Place, int] = {}
        self.random_states: dict[str, int] = {}  # of charges whose answers were not recorded yet, by token
        self._read: set[str] = set()  # the tables that statements were charged for
        self._questions: dict[tuple[str, bytes], list[int]] = {}
        self._snapshots = dict(snapshots or {})
        self._computed: tuple[bytes, Spend] | None = None
        self._charges, self._hashed = charges, 0

    @property
    def unused_snapshots(self) -> int:
        """How many snapshots belong to no charge in the chain."""
        return len(self._snapshots)

    def computed(self, entry: Entry, spend: Spend) -> None:
        """Keep the spend after an entry that is being appended: it need not be added up again if it is committed."""
        self._computed = (entry.hash, spend)

    def apply(self, entry: Entry) -> None:
        """Replay the next entry.

        Raises
        ------
        Broken
            If it does not follow from the entries before it.
        """
        for fault in faults(entry, self.entries + 1, self.head):
            raise Broken(fault)
        self._take(entry, lambda: values_without_plan(entry) if entry.kind == "charge" else entry.values)

    def share(self) -> None:
        """Let others refer to the spends: what is added from now on is added to copies of them."""
        for table in self.tables.values():
            table.own = False

    def take(self, entry: Entry) -> dict[str, Any]:
        """Replay what an entry says, whether or not its hash follows; return that."""
        return self._take(entry, lambda: entry.values)

    def _take(self, entry: Entry, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Replay what an entry says, read in this way; return that."""
        self.entries, self.head = entry.number, entry.hash
        if entry.kind not in _TAKING:
            raise Broken(f"entry {entry.number} is of no known kind")
        try:
            values = read()
            if entry.size != (values["answers"]["bytes"] if entry.kind == "record" else None):
                raise Broken(f"the answers beside entry {entry.number} are not those that were recorded")
            _TAKING[entry.kind](self, entry, values)
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise Broken(f"entry {entry.number} cannot be read: {error}") from None
        return values

    def table(self, name: str) -> TableEntries:
        """Return a registered table.

        Raises
        ------
        NotProtected
            If there is none of this name.
        """
        if name not in self.tables:
            known = ", ".join(map(repr, self.tables)) or "no table yet"
            raise NotProtected(f"the ledger knows no table {shorten(name)} (it knows {known}): protect it first")
        return self.tables[name]

    def line(self, number: int) -> ChargeLine:
        """Return a charge by its number.

        Raises
        ------
        LedgerError
            If there is none of this number.
        """
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= len(self.lines):
            shown = number if isinstance(number, int) and abs(number) < 10**15 else "of that number"
            raise LedgerError(f"there is no release {shown} in the ledger; it has {len(self.lines)}")
        return self.lines[number - 1]

    def numbers(self, table: str, question: str | None = None, after: int = 0) -> list[int]:
        """Return the numbers of the charges of a table, or of one question asked of it, after one of them, in order."""
        if question is None:
            numbers = self.tables[table].charges if table in self.tables else []
        else:
            numbers = self._questions.get(_key(table, question), [])
        return numbers[bisect.bisect_right(numbers, after) :]

    def pending(self, table: str) -> list[int]:
        """Return the numbers of the charges of a table whose answers were not recorded, in order."""
        return list(self.tables[table].pending) if table in self.tables else []

    def measured(self, table: str, version: int) -> list[int]:
        """Return which charges of a table had noisy answers recorded after an entry, in the order of recording."""
        numbers = self.table(table).measured
        return numbers[bisect.bisect_right(numbers, version, key=lambda number: self.lines[number - 1].record or 0) :]

    def refusal(self, table: str, refines: Iterable[Place]) -> str:
        """Return why a new charge of a table may not refine these measurements, in words; empty if it may.

        Two draws that are conditioned on one first answer cost more than a ledger that adds up either of them alone
        believes: so one charge at most refines a measurement, whether or not its answer is recorded yet.

        Parameters
        ----------
        table
            That is charged.
        refines
            Of each measurement, the number of its release and its place in it, from 0.
        """
        seen: set[Place] = set()
        for number, place in refines:
            if not all(type(part) is int for part in (number, place)) or not 1 <= number <= len(self.lines):
                return f"there is no release {shorten(number)}"
            line = self.lines[number - 1]
            if line.table != table:
                return f"release {number} is of the table {shorten(line.table)}"
            if line.record is None:
                return f"release {number} was charged but its answer was not recorded yet"
            if not 0 <= place < line.measurements:
                return f"release {number} has no measurement {place}"
            if line.since != self.tables[table].since:
                return f"release {number} was measured before the domain was extended"
            if (number, place) in self.refined:
                return f"release {number} was refined by release {self.refined[number, place]}"
            if (number, place) in seen:
                return f"release {number} is named twice"
            seen.add((number, place))
        return ""

    def _open(self, entry: Entry, values: dict[str, Any]) -> None:
        if entry.number != 1:
            raise Broken(f"entry {entry.number} opens the ledger a second time")
        Budget.from_json(values["budget"])
        int(values["total"]), int(values["cells"]), values["noise"], values["key"]
        self.opening = values
        self.budgets = [values | {"added": None, "reason": "", "time": entry.time, "entry": entry.number}]

    def _budget(self, entry: Entry, values: dict[str, Any]) -> None:
        check_entry(self.budgets, values, self.opening["noise"])
        self.budgets.append(values | {"time": entry.time, "entry": entry.number})
        for table in self.tables.values():
            table.version = entry.number  # what is planned may be afforded now

    def _policy(self, entry: Entry, values: dict[str, Any]) -> None:
        self.policies.append(read_policy_entry(values, entry.time, entry.number))

    def _register(self, entry: Entry, values: dict[str, Any]) -> None:
        if values["name"] in self.tables:
            raise Broken(f"entry {entry.number} registers a table a second time")
        self._start(entry, values)

    def _start(self, entry: Entry, values: dict[str, Any]) -> None:
        name = values["name"]
        spend = Spend(dict(values["sizes"]), self.opening["cells"], self.opening.get("merge", False))
        self.tables[name] = TableEntries(values, spend, snapshot.digest(spend), entry.number, entry.number)

    def _correct(self, entry: Entry, values: dict[str, Any]) -> None:
        name = values["name"]
        known = self.tables[name].registered
        if not self.unused(name):
            raise Broken(f"entry {entry.number} corrects a table that was charged")
        said = known["max_rows"] in (None, values["max_rows"])
        if known["unit"] != values["unit"] or not said or (values["unit"] is None and values["max_rows"] is not None):
            raise Broken(f"entry {entry.number} corrects more of a table than its domain")
        self._start(entry, values)

    def _extend(self, entry: Entry, values: dict[str, Any]) -> None:
        table = self.tables[values["name"]]
        known = table.registered
        if any(known[part] != values[part] for part in ("unit", "max_rows")):
            raise Broken(f"entry {entry.number} changes more of a table than its domain")
        if len(parts_of(values)) != len(parts_of(known)):
            raise Broken(f"entry {entry.number} changes how many parts a table has")
        spend, outside = self.after_extension(values["name"], values)
        same_rows = values["same_sample"] and not values["leaves_rows_out"]
        table.earlier.append(Earlier(table.since, known["domain"], same_rows, len(parts_of(known))))
        said = ("fingerprint", "domain", "sizes", *(("parts",) if "parts" in values else ()))
        table.registered = known | {part: values[part] for part in said}
        if not same_rows:
            table.outside_of = [outside] * len(table.outside_of)
        self._follow(entry, values, spend)

    def _grow(self, entry: Entry, values: dict[str, Any]) -> None:
        table = self.tables[values["name"]]
        known = table.registered
        if any(known[part] != values[part] for part in ("unit", "max_rows")):
            raise Broken(f"entry {entry.number} changes more of a table than its rows")
        if type(values["adds"]) is not bool or values["adds"] != known.get("adds", values["adds"]):
            raise Broken(f"entry {entry.number} changes whether units are in several parts")
        parts, attributes = parts_of(known), values["domain"]["attributes"]
        others, (named,) = attributes[:-1], attributes[-1:]
        before = {**known["domain"], "attributes": [*others, {**named, "levels": named["levels"][: len(parts)]}]}
        told = known["domain"]["attributes"][: len(others)]
        if told != others or named["levels"] != list(range(1, len(parts) + 2)) or named["name"] != PART:
            raise Broken(f"entry {entry.number} changes more of a table than how many parts it has")
        spend = self.after_growth(values["name"], values)
        table.earlier.append(Earlier(table.since, before, same_rows=True, parts=len(parts)))
        table.registered = known | {part: values[part] for part in ("domain", "sizes")}
        table.registered |= {"parts": [*parts, values["fingerprint"]], "adds": values["adds"]}
        table.outside_of.append(0)
        self._follow(entry, values, spend)

    def _follow(self, entry: Entry, values: Mapping[str, Any], spend: Spend) -> None:
        """Take the spend of a table after an entry that says anew what it is, and that changes no total."""
        table, digest = self.tables[values["name"]], snapshot.digest(spend)
        if values["name"] in self._snapshots:  # the spend is read later: what it is here was not added up
            digest = values["cells"]
        elif digest != values["cells"] or spend.maximum != table.units:
            raise Broken(f"entry {entry.number} does not add up to the spend that was written with it")
        table.follow(spend, digest)
        table.since, table.version = entry.number, entry.number

    def after_growth(self, name: str, values: Mapping[str, Any]) -> Spend:
        """Return the spend of every cell after a part came.

        Parameters
        ----------
        name
            Of the table.
        values
            What the entry says of it: "sizes" and "adds".
        """
        table = self.tables[name]
        return grown(table.spend, dict(values["sizes"]), len(parts_of(table.registered)), adds=bool(values["adds"]))

    def after_extension(self, name: str, values: Mapping[str, Any]) -> tuple[Spend, int]:
        """Return the spend of every cell after an extension, and what rows without a cell have paid at most.

        Parameters
        ----------
        name
            Of the table.
        values
            What the entry says of it: "sizes", "levels", "same_sample" and "leaves_rows_out".
        """
        table, sizes = self.tables[name], dict(values["sizes"])
        levels = {attribute: from_runs(coded) for attribute, coded in values["levels"].items()}
        check_levels(levels, table.spend.sizes, sizes)
        same_sample, leaves_rows_out = bool(values["same_sample"]), bool(values["leaves_rows_out"])
        if not same_sample and table.registered["unit"] is None:
            raise ValueError("where each row is a unit there is no sample")
        outside = table.outside if same_sample and not leaves_rows_out else table.units
        if same_sample and table.spend.adds is None:
            return extended(table.spend, sizes, levels, table.outside), outside
        return level(table.spend, sizes), outside

    def unused(self, name: str) -> bool:
        """Whether nothing was ever charged or answered that a table has a part in."""
        return not self.table(name).charges and name not in self._read

    def _population(self, entry: Entry, values: dict[str, Any]) -> None:
        table, population = self.tables[values["name"]], values["population"]
        known = table.registered
        if not isinstance(population, str) or known.get("unit") is None or known.get("population") is not None:
            raise Broken(f"entry {entry.number} names a population of units that have one, or of rows")
        table.registered = known | {"population": population}

    def _charge(self, entry: Entry, values: dict[str, Any]) -> None:
        table = self.tables[values["table"]]
        charge, units = int(values["number"]), int(values["units"])
        if charge != len(self.lines) + 1:
            raise Broken(f"entry {entry.number} does not charge release {len(self.lines) + 1}")
        refines = tuple((number, place) for number, place in values.get("refines", ()))
        refusal = self.refusal(values["table"], refines)
        for part in ("fingerprints", "columns"):  # of statements, which can read other tables beside their own
            self._read.update(values["plan"].get(part, ()))
        self.refined.update(dict.fromkeys(refines, charge))
        self.lines.append(ChargeLine(values["table"], units, entry.number, table.since))
        used = (key for part in ("profiles", "relations") for key in values["plan"].get(part, ()))
        for found_by in (values["question"], *used):  # what others can use of its answer
            self._questions.setdefault(_key(values["table"], found_by), []).append(charge)
        table.charges.append(charge)
        table.pending[charge] = refines
        table.version = entry.number
        table.units += units
        self.spent += units
        if "measures" not in values["plan"]:  # rows without a cell take no part in what the planner measures
            bounds = bounds_at(values["cost"], PART if "parts" in table.registered else "", len(table.outside_of))
            table.outside_of = [before + more for before, more in zip(table.outside_of, bounds, strict=True)]
        self._add(table, charge, entry, values)
        if "random_state" in values:
            self.lines[-1].random_state = token = str(values["random_state"])
            self.random_states[token] = charge
        if "delta" in values:
            delta = int(values["delta"])
            self.delta += delta
            if type(values["delta"]) is not int or delta <= 0 or self.delta != values["delta_spent"]:
                raise Broken(f"entry {entry.number} does not add up to the delta that it names")
        self.overdrawn |= self.spent > int(self.budgets[-1]["total"])
        if self.spent != values["spent"] or units < 0:
            raise Broken(f"entry {entry.number} does not add up to the total that it names")
        if refusal:
            raise Broken(f"release {charge} refines what it must not: {refusal}")

    def _add(self, table: TableEntries, charge: int, entry: Entry, values: dict[str, Any]) -> None:
        name = values["table"]
        known = self._snapshots.get(name)
        if known is not None:
            if charge < known[0]:
                return
            if charge == known[0]:
                spend = table.spend
                table.follow(snapshot.unpack(known[1], spend.sizes, spend.limit, spend.merge, spend.adds))
                del self._snapshots[name]
        elif values["cost"] != []:  # what is free leaves the spend as it is
            table.work += table.spend.cells.size + CHARGE_WORK
            if self._computed is not None and self._computed[0] == entry.hash:
                table.follow(self._computed[1], values["cells"])
                self._computed = None
                return
            table.add(values["cost"], values["cells"], self._trusts(table, charge))
        if table.units != table.maximum or values["cells"] != table.digest:
            raise Broken(f"release {charge} does not add up to the spend that was written with it")

    def _trusts(self, table: TableEntries, charge: int) -> bool:
        if self._charges is None:
            return False
        if self._hashed + table.spend.cells.size > HASHED * charge / self._charges:
            return True
        self._hashed += table.spend.cells.size
        return False

    def _record(self, entry: Entry, values: dict[str, Any]) -> None:
        charge = int(values["charge"])
        if not 1 <= charge <= len(self.lines) or self.lines[charge - 1].record is not None:
            raise Broken(f"entry {entry.number} records an answer that was not charged, or a second one")
        line = self.lines[charge - 1]
        line.record, line.measurements = entry.number, len(values["answers"]["shapes"])
        if line.random_state is not None:
            self.random_states.pop(line.random_state, None)
            line.random_state = None
        table = self.tables[line.table]
        table.version = entry.number
        del table.pending[charge]
        if line.measurements:
            table.measured.append(charge)


_TAKING = {
    "open": Replay._open,
    "register": Replay._register,
    "correct": Replay._correct,
    "extend": Replay._extend,
    "grow": Replay._grow,
    "population": Replay._population,
    "budget": Replay._budget,
    "policy": Replay._policy,
    "charge": Replay._charge,
    "record": Replay._record,
}


def parts_of(registered: Mapping[str, Any]) -> list[str]:
    """Return the fingerprints of the parts of a registered table: its own where it did not grow."""
    return list(registered.get("parts", [registered["fingerprint"]]))


def same_sample(registered: Mapping[str, Any], found: Extension, parts: Sequence[str]) -> bool:
    """Return whether the same rows of every unit count under an extended domain.

    Parameters
    ----------
    registered, found
        What the table was registered with, and its extension.
    parts
        The fingerprints of its parts under the extended domain.
    """
    # The sample of a unit's rows follows from the declared columns, from which rows have levels, and the data.
    same = not found.added and not found.takes_rows_in and parts_of(registered) == list(parts)
    return registered["unit"] is None or same


def _key(table: str, question: str) -> tuple[str, bytes]:
    # Questions can be long; of each only 16 bytes of its digest are kept in memory.
    return table, hashlib.sha256(question.encode("utf-8", "surrogatepass")).digest()[:16]
