"""The spend of a table that grows by parts: for every unit that there could be, the sum of what each release may lose.

Rows are cells of parts; nothing here knows how a spend is kept. Where a unit is in one part, it has lost what its
dearest row has; where it may be in all of them, it can have such a row in each.
"""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from spends import of_every_cell

from dpnotebook.domain import Categories, Domain, Range
from dpnotebook.domain.parts import with_parts
from dpnotebook.errors import LedgerConflict, LedgerCorrupt
from dpnotebook.ledger import Ledger, writing
from dpnotebook.ledger import ledger as module
from dpnotebook.ledger.audit import audit_file
from dpnotebook.ledger.writing import append
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import CellCost, CostTerm

COLUMNS = Domain({"age": Range(0, 3), "sex": ["F", "M"]})
WARD = Categories(["A", "B"], other="elsewhere", nullable=True)


def since(ledger):
    return ledger.domains("people")[-1].since


def grow(ledger, part, *, adds):
    ledger.grow("people", fingerprint=f"part {part}", since=since(ledger), adds=adds)


class Story:
    """What was charged so far: the cost of every release in every cell of every part, and what statements cost."""

    def __init__(self, ledger, seed, columns=COLUMNS, unit=None):
        self.ledger, self.columns, self.parts = ledger, columns, 0
        self.source = np.random.default_rng(seed)
        self.cells = np.zeros((*columns.shape, 1), dtype=np.int64)
        self.once, self.charged = 0, 0
        rows = None if unit is None else 3
        ledger.register("people", fingerprint="part 1", domain=columns.to_json(), unit=unit, max_rows=rows)

    def grow(self, *, adds):
        self.parts = max(self.parts, 1) + 1
        grow(self.ledger, self.parts, adds=adds)
        none = np.zeros((*self.columns.shape, 1), dtype=np.int64)
        self.cells = np.concatenate([self.cells, none], axis=-1)

    def charge(self, times, *, adds=False):
        """Charge random costs; where parts add up, those of the planner name the parts, and statements do not."""
        domain = with_parts(self.columns, self.parts)
        for _ in range(times):
            statement = self.source.random() < 0.3
            names = [name for name in domain if not statement and self.source.random() < 0.6]
            norms = {name: self.source.integers(0, 3, domain[name].size) for name in names}
            if adds and self.parts and not statement:
                norms.setdefault("part", np.ones(self.parts, dtype=np.int64))
            rate = Fraction(int(self.source.integers(1, 10**6)), int(self.source.integers(1, 7)))
            self.charged += 1
            plan = {} if statement else {"measures": []}
            cost = CellCost((CostTerm(rate, norms),))
            charge = self.ledger.charge("people", f"q{self.charged}", plan, cost)
            self.ledger.record(charge.number, [np.array([7])], {})
            if adds and self.parts and statement:
                self.once += math.ceil(rate)
            else:
                self.cells = self.cells + self.of_every_cell(rate, norms)

    def of_every_cell(self, rate, norms):
        cost = np.zeros(self.cells.shape, dtype=np.int64)
        names = [*self.columns, *(["part"] if self.parts else [])]
        for place in np.ndindex(cost.shape):
            levels = dict(zip(names, place, strict=False))
            cost[place] = math.ceil(rate * math.prod(int(norm[levels[name]]) for name, norm in norms.items()))
        return cost

    def dearest(self, *, adds):
        """Return what the unit that lost most has lost."""
        of_parts = self.cells.max(axis=tuple(range(self.cells.ndim - 1)))
        return self.once + int(of_parts.sum() if adds else of_parts.max())


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_total_is_what_the_unit_that_lost_most_has_lost(path, adds, seed):
    ledger = Ledger(path, Budget(1000.0))
    story = Story(ledger, seed, unit="who" if adds else None)
    story.charge(5)
    for _ in range(4):
        before = ledger.spent
        story.grow(adds=adds)
        assert ledger.spent == before == ledger.spend("people").maximum
        story.charge(5, adds=adds)
        assert ledger.spent == story.dearest(adds=adds) == ledger.spend("people").maximum
        for name, axis in (("age", 0), ("sex", 1), ("part", 2)):
            others = tuple(i for i in range(3) if i != axis)
            found = ledger.spend("people").by_attribute(name)
            assert found.tolist() == (story.cells.max(axis=others) + story.once).tolist()
    assert ledger.audit().ok
    ledger.close()
    again = Ledger(path, Budget(1000.0))
    assert again.spent == story.dearest(adds=adds)
    assert [one.parts for one in again.domains("people")[:-1]] == [1, 2, 3, 4]
    again.close()


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("cells", [1, 12, 30])
@pytest.mark.parametrize("merge", [False, True])
def test_where_cells_are_too_many_nobody_has_spent_less(path, adds, cells, merge, monkeypatch):
    monkeypatch.setattr(writing, "DENSE_LIMIT", cells)
    ledger = Ledger(path, Budget(1000.0))
    if not merge:
        monkeypatch.setitem(ledger._view.opening, "merge", False)
    story = Story(ledger, 1, unit="who" if adds else None)
    story.charge(4)
    for _ in range(3):
        story.grow(adds=adds)
        story.charge(4, adds=adds)
        assert ledger.spent >= story.dearest(adds=adds)
        assert ledger.spent == ledger.spend("people").maximum
    assert ledger.audit().ok or not merge
    ledger.close()


@pytest.mark.parametrize("adds", [False, True])
def test_a_ledger_with_snapshots_opens_to_the_same_bits(path, adds, monkeypatch):
    monkeypatch.setattr(module, "SNAPSHOT_WORK", 1)
    ledger = Ledger(path, Budget(1000.0))
    story = Story(ledger, 1, unit="who" if adds else None)
    story.charge(3)
    for _ in range(3):
        story.grow(adds=adds)
        story.charge(3, adds=adds)
    before = [module.snapshot.digest(ledger.spend("people")), ledger.head, ledger.spent]
    ledger.close()
    again = Ledger(path, Budget(1000.0))
    assert [module.snapshot.digest(again.spend("people")), again.head, again.spent] == before
    story.ledger = again
    again.register(
        "people",
        fingerprint="part 1",
        domain=with_parts(COLUMNS, 4).to_json(),
        unit="who" if adds else None,
        max_rows=3 if adds else None,
    )
    story.charge(3, adds=adds)
    assert again.spent == story.dearest(adds=adds)
    assert again.audit().ok
    again.close()
    assert audit_file(path).ok


@pytest.mark.parametrize("adds", [False, True])
def test_its_domain_is_extended_for_all_parts(path, adds):
    """What is spent stays; where parts add up, it is put on every unit, as samples of the parts may be others."""
    ledger = Ledger(path, Budget(1000.0))
    story = Story(ledger, 3, unit="who" if adds else None)
    story.charge(4)
    story.grow(adds=adds)
    story.charge(4, adds=adds)
    spent = ledger.spent
    wider = with_parts(Domain({**COLUMNS, "ward": WARD}), 2)
    known = {"fingerprint": "f", "domain": wider.to_json(), "since": since(ledger)}
    with pytest.raises(ValueError, match="all parts"):
        ledger.extend("people", **known)
    ledger.extend("people", **known, parts=["f", "g"])
    assert ledger.spent == spent == ledger.spend("people").maximum
    assert ledger.tables()["people"]["parts"] == ["f", "g"]
    first = np.array([1, 0])
    everywhere = CellCost((CostTerm(Fraction(UNITS), {"part": first}),))
    second = CellCost((CostTerm(Fraction(UNITS), {"part": 1 - first}),))
    for number, cost in enumerate((everywhere, second)):
        charge = ledger.charge("people", f"r{number}", {"measures": []}, cost)
        ledger.record(charge.number, [np.array([7])], {})
    dearest = story.cells.max(axis=(0, 1))
    assert ledger.spent == (spent + 2 * UNITS if adds else int(dearest.max()) + UNITS)
    assert ledger.audit().ok
    ledger.close()
    assert audit_file(path).ok


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_had_no_cell_have_paid_for_the_statements_over_their_part(path, seed):
    """They come in by a level that is added; one part after another was asked by statements, which cost one of them."""
    source, parts = np.random.default_rng(seed), 4
    ledger = Ledger(path, Budget(1000.0))
    story = Story(ledger, seed)
    lost = np.zeros(parts, dtype=np.int64)
    for part in range(parts):
        if part:
            story.grow(adds=False)
        for _ in range(3):
            asked = source.random(part + 1) < 0.5
            norms = {"part": asked.astype(np.int64)} if part else {}
            rate = Fraction(int(source.integers(1, 10**6)))
            if part and not asked.any():
                continue
            charge = ledger.charge("people", f"s{part} {rate}", {}, CellCost((CostTerm(rate, norms),)))
            ledger.record(charge.number, [np.array([7])], {})
            paid = int(rate) * (asked if part else np.ones(1, dtype=np.int64))
            lost[: part + 1] += paid
            story.cells = story.cells + paid
    spent = ledger.spent
    assert spent == lost.max() < lost.sum()
    wider = with_parts(Domain({"age": Range(0, 3), "sex": ["F", "M", "X"]}), parts)
    fingerprints = [f"new {part}" for part in range(parts)]
    ledger.extend("people", fingerprint="new 0", domain=wider.to_json(), since=since(ledger), parts=fingerprints)
    assert ledger.spent == spent == ledger.spend("people").maximum
    spend = ledger.spend("people")
    assert not spend.labels
    found = of_every_cell(spend)
    assert (found[:, 2] >= lost).all()
    assert (found[:, :2] == story.cells).all()
    assert ledger.audit().ok
    ledger.close()
    assert audit_file(path).ok


def test_what_is_charged_and_not_answered_is_waited_for(path):
    old, new = Ledger(path, Budget(1.0)), Ledger(path, Budget(1.0))
    for ledger in (old, new):
        ledger.register("people", fingerprint="part 1", domain=COLUMNS.to_json(), unit=None, max_rows=None)
    everywhere = CellCost((CostTerm(Fraction(UNITS, 10), {}),))
    waiting = old.charge("people", "q", {"measures": []}, everywhere)
    head, known = new.head, since(new)
    with pytest.raises(LedgerConflict, match="release 1, which reads 'people', was charged and is not answered yet"):
        new.grow("people", fingerprint="part 2", since=known, adds=False)
    assert new.head == head
    old.record(waiting.number, [np.array([3])], {})
    new.grow("people", fingerprint="part 2", since=known, adds=False)
    for use in (
        lambda: old.charge("people", "r", {}, everywhere),
        lambda: old.note("people", "r", {}, {}),
        lambda: old.moment("people"),
        lambda: old.grow("people", fingerprint="other", since=known, adds=False),
    ):
        with pytest.raises(LedgerConflict, match="was changed by another kernel"):
            use()
    assert old.tables()["people"]["parts"] == ["part 1", "part 2"]
    assert new.audit().ok
    old.close()
    new.close()


def forged(path, change):
    """Append a growth that says something else than what a ledger writes."""
    ledger = Ledger(path, Budget(1000.0))
    story = Story(ledger, 1, unit="who")
    story.charge(3)
    story.grow(adds=True)
    story.charge(3, adds=True)
    with ledger._writing() as (_, view):
        known = view.tables["people"].registered
        domain = with_parts(COLUMNS, 3)
        values = {"name": "people", "fingerprint": "part 3", "domain": domain.to_json(), "adds": True} | {
            "unit": known["unit"],
            "max_rows": known["max_rows"],
            "sizes": [[name, size] for name, size in domain.sizes.items()],
        }
        values["cells"] = module.snapshot.digest(view.after_growth("people", values))
    values = json.loads(json.dumps(values))
    change(values)
    with ledger._writing() as (connection, view):
        append(connection, view, "grow", values)
    ledger.close()


def test_the_entry_that_is_not_changed_is_right(path):
    forged(path, lambda values: None)
    assert audit_file(path).ok


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.update(adds=False),
        lambda values: values.update(adds=1),
        lambda values: values.update(unit=None),
        lambda values: values.update(max_rows=2),
        lambda values: values.update(cells="0" * 64),
        lambda values: values["sizes"][0].__setitem__(1, 5),
        lambda values: values["sizes"][-1].__setitem__(1, 4),
        lambda values: values["sizes"].reverse(),
        lambda values: values["domain"]["attributes"][0].update(high=4),
        lambda values: values["domain"]["attributes"][-1].update(levels=[1, 3, 2]),
        lambda values: values["domain"]["attributes"][-1].update(name="batch"),
        lambda values: values["domain"].update(attributes=[]),
        lambda values: values.pop("adds"),
        lambda values: values.pop("fingerprint"),
    ],
)
def test_a_growth_that_does_not_follow_is_refused(path, change):
    forged(path, change)
    assert not audit_file(path).ok
    with pytest.raises(LedgerCorrupt):
        Ledger(path, Budget(1000.0))
