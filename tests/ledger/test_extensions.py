"""The spend of an extended domain: for every row that there could be, the sum of what each release may have lost to it.

The rows are made of values, and each domain says by itself at which level a value is: nothing here knows of maps from
levels to levels.
"""

import itertools
import json
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dpnotebook.domain import Bins, Categories, Domain, Range
from dpnotebook.errors import DomainError, LedgerConflict, LedgerCorrupt, LedgerMismatch
from dpnotebook.ledger import Ledger, writing
from dpnotebook.ledger import ledger as module
from dpnotebook.ledger.audit import audit_file
from dpnotebook.ledger.writing import append
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import CellCost, CostTerm

AGES = [*range(-3, 10), 1.5, 3.5, 20, None]  # and so a row in every cell of each domain
SEXES = ["F", "M", "X", "?", None]
WARDS = ["A", "B", "Z", None]
VALUES = {"age": AGES, "sex": SEXES, "ward": WARDS}

BASE = {"age": Range(0, 3), "sex": ["F", "M"]}
WARD = Categories(["A", "B"], other="elsewhere", nullable=True)

STORIES = {
    "a new attribute": [BASE, BASE | {"ward": WARD}],
    "in front of the others": [BASE, {"ward": WARD} | BASE],
    "one after the other": [{"sex": ["F", "M"]}, BASE, {"ward": WARD} | BASE],
    "without a level for every row": [BASE, BASE | {"ward": ["A", "B"]}],
    "of a table without any": [{}, BASE, BASE | {"ward": WARD}],
}
STORIES |= {
    "a level is added": [BASE, BASE | {"sex": ["F", "M", "X"]}],
    "in the middle": [BASE, BASE | {"sex": ["F", "X", "M"]}],
    "one of the others": [
        BASE | {"sex": Categories(["F", "M"], other="other")},
        BASE | {"sex": Categories(["F", "X", "M"], other="other")},
    ],
    "others come": [BASE, BASE | {"sex": Categories(["F", "M"], other="other")}],
    "others and one of them": [BASE, BASE | {"sex": Categories(["F", "M", "X"], other="other")}],
    "missing values come": [BASE, {"age": Range(0, 3, nullable=True), "sex": Categories(["F", "M"], nullable=True)}],
    "a wider range": [BASE, BASE | {"age": Range(-2, 5)}],
    "a wider range with others": [
        BASE | {"age": Range(0, 3, outside="other", nullable=True)},
        BASE | {"age": Range(-3, 9, outside="other", nullable=True)},
    ],
    "finer bins": [
        BASE | {"age": Bins(0, 8, width=4)},
        BASE | {"age": Bins(0, 8, width=2)},
        BASE | {"age": Bins(edges=[-3, 0, 1, 2, 4, 6, 8, 12])},
    ],
    "finer bins with others": [
        BASE | {"age": Bins(edges=[2, 5, 9], outside="other")},
        BASE | {"age": Bins(edges=[-1, 2, 3, 5, 9], outside="other", nullable=True)},
    ],
    "one after the other of all": [
        {"sex": ["F", "M"]},
        {"sex": ["F", "M", "X"], "age": Range(0, 3, nullable=True)},
        {"ward": WARD, "sex": Categories(["F", "M", "X"], nullable=True), "age": Range(0, 5, nullable=True)},
    ],
    "a level of what left rows out": [
        BASE,
        BASE | {"ward": ["A", "B"]},
        BASE | {"ward": ["A", "B", "Z"]},
        {"age": Range(0, 3, nullable=True), "sex": ["F", "M"], "ward": ["A", "B", "Z"]},
    ],
}
EXACT = STORIES.keys() - {"a level of what left rows out", "one after the other of all"}


def made(attributes):
    return Domain(attributes) if attributes else Domain.nothing()


def random_cost(source, domain):
    terms = []
    for _ in range(source.integers(1, 3)):
        names = [name for name in domain if source.random() < 0.6]
        norms = {name: source.integers(0, 3, domain[name].size) for name in names}
        terms.append(CostTerm(Fraction(int(source.integers(1, 10**6)), int(source.integers(1, 7))), norms))
    return CellCost(tuple(terms))


@cache
def level_of(domain, name, value):
    return int(domain[name].encode([value])[0])


def loss(release, row):
    """Return what one release may lose to a row: nothing, where the row was no part of the table."""
    domain, cost, is_statement = release
    levels = {name: level_of(domain, name, row[name]) for name in domain}
    if not is_statement and -1 in levels.values():
        return 0
    return sum(
        math.ceil(term.rate * math.prod(int(norm[levels[name]]) for name, norm in term.norms.items()))
        for term in cost.terms
    )


def spent_on(spend, domain, row):
    """Return what the ledger says of the cell of a row; None where it has none."""
    levels = {name: level_of(domain, name, row[name]) for name in domain}
    if -1 in levels.values():
        return None
    place = (spend.labels[name][levels[name]] if name in spend.labels else levels[name] for name in spend.axes)
    return int(spend.cells[tuple(place)]) + spend.everywhere


def rows():
    return [dict(zip(VALUES, values, strict=True)) for values in itertools.product(*VALUES.values())]


def charge(ledger, source, domain, releases, times):
    for _ in range(times):
        is_statement = not domain or source.random() < 0.3
        cost = CellCost((CostTerm(Fraction(int(source.integers(1, 10**6))), {}),)) if is_statement else None
        cost = cost or random_cost(source, domain)
        plan = {} if is_statement else {"measures": []}
        number = ledger.charge("people", f"q{len(releases)}", plan, cost).number
        ledger.record(number, [np.array([7])], {})
        releases.append((domain, cost, is_statement))


def since(ledger):
    return ledger.domains("people")[-1].since


def told(ledger, story, seed, times=6):
    """Tell a story: charges under each of its domains in turn; return the last domain and all releases."""
    source, releases = np.random.default_rng(seed), []
    for place, attributes in enumerate(story):
        domain = made(attributes)
        if place:
            ledger.extend("people", fingerprint=f"f{place}", domain=domain.to_json(), since=since(ledger))
        else:
            ledger.register("people", fingerprint="f0", domain=domain.to_json(), unit=None, max_rows=None)
        charge(ledger, source, domain, releases, times)
    return domain, releases


def check(ledger, domain, releases, exact=True):
    spend, covered = ledger.spend("people"), 0
    for row in rows():
        lost = sum(loss(release, row) for release in releases)
        assert lost <= spend.maximum == ledger.spent
        if (found := spent_on(spend, domain, row)) is not None:
            assert (found == lost) if exact else (found >= lost)
            covered = max(covered, lost)
    if exact:
        assert covered == spend.maximum  # and no more is said to be spent than could be lost


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", STORIES)
def test_every_cell_has_spent_what_its_rows_may_have_lost(path, name, seed):
    ledger = Ledger(path, Budget(1000.0))
    domain, releases = told(ledger, STORIES[name], seed)
    check(ledger, domain, releases, name in EXACT)
    digest = module.snapshot.digest(ledger.spend("people"))
    assert ledger.audit().ok
    ledger.close()
    again = Ledger(path, Budget(1000.0))
    assert module.snapshot.digest(again.spend("people")) == digest
    again.close()


@pytest.mark.one_in(11)
@pytest.mark.parametrize("name", STORIES)
def test_a_ledger_with_snapshots_opens_to_the_same_bits(path, name, monkeypatch):
    monkeypatch.setattr(module, "SNAPSHOT_WORK", 1)
    ledger = Ledger(path, Budget(1000.0))
    domain, releases = told(ledger, STORIES[name], 1)
    before = [module.snapshot.digest(ledger.spend("people")), ledger.head]
    ledger.close()
    again = Ledger(path, Budget(1000.0))
    assert [module.snapshot.digest(again.spend("people")), again.head] == before
    check(again, domain, releases, name in EXACT)
    charge(again, np.random.default_rng(5), domain, releases, 3)
    check(again, domain, releases, name in EXACT)
    assert again.audit().ok
    again.close()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("cells", [1, 12])
@pytest.mark.parametrize("name", STORIES)
def test_where_cells_are_too_many_none_has_spent_less(path, name, cells, monkeypatch):
    monkeypatch.setattr(writing, "DENSE_LIMIT", cells)
    ledger = Ledger(path, Budget(1000.0))
    domain, releases = told(ledger, STORIES[name], 2)
    check(ledger, domain, releases, exact=False)
    assert ledger.audit().ok
    ledger.close()
    again = Ledger(path, Budget(1000.0))
    check(again, domain, releases, exact=False)
    again.close()


def test_extending_costs_nothing_and_gives_nothing_back(either):
    either.register("visits", fingerprint="f", domain=Domain(BASE).to_json(), unit=None, max_rows=None)
    either.charge("visits", "q", {"measures": []}, CellCost((CostTerm(Fraction(UNITS, 2), {}),)))
    spent = either.spent
    either._random_states = type(either._random_states)(
        None
    )  # what is random about it is gone: it is lost, not pending
    wider = Domain(BASE | {"ward": WARD})
    either.extend("visits", fingerprint="g", domain=wider.to_json(), since=either.domains("visits")[-1].since)
    assert either.spent == spent == either.spend("visits").maximum
    assert either.audit().ok


def test_the_sample_of_units_may_be_another_one(either):
    """Then what a unit lost before and after adds up wherever its rows are."""
    either.register("visits", fingerprint="f", domain=Domain(BASE).to_json(), unit="who", max_rows=2)
    norm = np.array([1, 0, 0, 0])
    number = either.charge("visits", "q", {"measures": []}, CellCost((CostTerm(Fraction(UNITS, 4), {"age": norm}),)))
    either.record(number.number, [np.array([1])], {})
    wider = Domain(BASE | {"ward": WARD})
    either.extend("visits", fingerprint="g", domain=wider.to_json(), since=either.domains("visits")[-1].since)
    assert either.spend("visits").by_attribute("age").tolist() == [UNITS // 4] * 4
    other = CellCost((CostTerm(Fraction(UNITS, 4), {"age": 1 - norm}),))
    assert either.price("visits", other) == UNITS // 4
    assert [one.same_rows for one in either.domains("visits")] == [False, True]


def test_another_kernel_is_refused_and_what_it_was_charged_for_is_waited_for(path):
    old, new = Ledger(path, Budget(1.0)), Ledger(path, Budget(1.0))
    for ledger in (old, new):
        ledger.register("people", fingerprint="f", domain=Domain(BASE).to_json(), unit=None, max_rows=None)
    everywhere = CellCost((CostTerm(Fraction(UNITS, 10), {}),))
    waiting = old.charge("people", "q", {"measures": []}, everywhere)
    wider = {"fingerprint": "g", "domain": Domain(BASE | {"ward": WARD}).to_json(), "since": since(new)}
    head = new.head
    with pytest.raises(LedgerConflict, match="release 1, which reads 'people', was charged and is not answered yet"):
        new.extend("people", **wider)
    assert new.head == head
    old.record(waiting.number, [np.array([3])], {})
    new.extend("people", **wider)
    head = new.head
    for use in (
        lambda: old.charge("people", "r", {}, everywhere),
        lambda: old.note("people", "r", {}, {}),
        lambda: old.moment("people"),
        lambda: old.extend("people", **wider),
    ):
        with pytest.raises(LedgerConflict, match="was changed by another kernel"):
            use()
    assert new.head == head
    charged = new.charge("people", "r", {"measures": []}, everywhere)
    with pytest.raises(LedgerConflict):
        old.record(charged.number, [np.array([1])], {})
    with pytest.raises(LedgerMismatch, match="its data and its domain differ"):
        old.register("people", fingerprint="f", domain=Domain(BASE).to_json(), unit=None, max_rows=None)
    old.register("people", fingerprint="g", domain=wider["domain"], unit=None, max_rows=None)
    old.record(charged.number, [np.array([1])], {})
    assert old.spent == UNITS // 5
    assert old.audit().ok
    old.close()
    new.close()


def test_a_statement_about_two_tables_is_waited_for(either, kit):
    kit.answer(either)
    kit.register(either, "visits")
    waiting = either.charge("visits", "q", {"columns": {"visits": {}, "people": {}}}, kit.cost(0.1))
    wider = Domain({**Domain.from_json(kit.domain), "ward": WARD})
    with pytest.raises(LedgerConflict, match="release 2, which reads 'people', was charged"):
        either.extend("people", fingerprint="g", domain=wider.to_json(), since=since(either))
    either.record(waiting.number, [np.array([1])], {})
    either.extend("people", fingerprint="g", domain=wider.to_json(), since=since(either))
    assert either.audit().ok


def test_what_was_measured_before_is_not_refined(either, kit):
    answered = kit.answer(either)
    wider = Domain.from_json(kit.domain)
    wider = Domain({**wider, "ward": WARD})
    either.extend("people", fingerprint="g", domain=wider.to_json(), since=since(either))
    with pytest.raises(LedgerConflict, match="release 1 was measured before the domain was extended"):
        either.charge("people", "r", {}, CellCost((CostTerm(Fraction(1), {}),)), [(answered.number, 0)])
    assert either.spent == UNITS // 10


def test_records_say_under_which_domain_they_were_charged(either, kit):
    first = kit.answer(either)
    wider = Domain({**Domain.from_json(kit.domain), "ward": WARD})
    either.extend("people", fingerprint="g", domain=wider.to_json(), since=since(either))
    cost = CellCost((CostTerm(Fraction(UNITS, 10), {}),))
    number = either.charge("people", "q", {}, cost).number
    second = either.record(number, [np.array([1])], {})
    before, now = (one.since for one in either.domains("people"))
    assert (first.since, second.since) == (before, now) == tuple(one.since for one in either.records("people", "q"))
    assert [one.number for one in either.moment("people").records("q")] == [2]  # nor is it taken for an answer now
    assert Domain.from_json(either.domains("people")[0].domain) == Domain.from_json(kit.domain)


@pytest.mark.parametrize("what", ["levels", "unit", "sample", "cells", "sizes", "name"])
def test_an_extension_that_must_not_be_does_not_follow(path, kit, what):
    ledger = Ledger(path, Budget(1.0))
    kit.register(ledger)
    kit.answer(ledger, 0.5, age=[3])
    wider = Domain({**Domain.from_json(kit.domain), "ward": WARD})
    ledger.extend("people", fingerprint="g", domain=wider.to_json(), since=since(ledger))
    ledger.close()
    with kit.raw(path) as connection:
        values = json.loads(connection.execute("SELECT payload FROM entry WHERE number = 5").fetchone()[0])
        connection.execute("DELETE FROM entry WHERE number = 5")
        head = connection.execute("SELECT hash FROM entry WHERE number = 4").fetchone()[0]
        connection.execute("UPDATE state SET entries = 4, head = ?", (head,))
    match what:
        case "levels":  # the level that paid is gone
            values["levels"]["age"] = [[level if level != 3 else 2, 1] for level in range(10)]
        case "unit":
            values["unit"] = "id"
        case "sample":
            values["same_sample"] = False
        case "cells":
            values["cells"] = "0" * 64
        case "sizes":
            values["sizes"] = values["sizes"][1:]
        case "name":
            values["name"] = "nobody"
    ledger = Ledger(path, Budget(1.0))
    with ledger._writing() as (connection, view):
        append(connection, view, "extend", values)
    ledger.close()
    assert not audit_file(path).ok
    with pytest.raises(LedgerCorrupt):
        Ledger(path, Budget(1.0))


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"age": Range(0, 9)}, "'sex' is gone"),
        ({"sex": ["F", "M"], "age": Range(0, 9)}, "in another order"),
        ({"age": Range(0, 8), "sex": ["F", "M"]}, "'age' was .* bounds may only be wider"),
        ({"age": Range(0, 9, outside="other"), "sex": ["F", "M"]}, "outside='clamp' stays"),
        ({"age": Bins(0, 10, width=1), "sex": ["F", "M"]}, "'age' was .* of another kind"),
        ({"age": Range(0, 9), "sex": ["F", "W"]}, "'sex' was .* level 'M' is gone"),
        ({"age": Range(0, 9), "sex": Categories(["F", "M"], ordered=True)}, "another kind or order"),
    ],
)
def test_what_is_no_extension(either, kit, other, why):
    kit.answer(either)
    head = either.head
    with pytest.raises(DomainError, match=why):
        either.extend("people", fingerprint="g", domain=Domain(other).to_json(), since=since(either))
    assert either.head == head
