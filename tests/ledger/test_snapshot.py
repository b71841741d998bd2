import json
import zlib
from fractions import Fraction

import numpy as np
import pytest

from dpnotebook.ledger import snapshot
from dpnotebook.ledger.chain import Broken
from dpnotebook.privacy.spend import CellCost, CostTerm, Spend

SIZES = {"age": 10, "sex": 2}


def term(rate, **norms):
    return CostTerm(Fraction(rate), {name: np.array(norm) for name, norm in norms.items()})


def spend(limit=100):
    spend = Spend(SIZES, limit)
    spend.add(CellCost((term(7, sex=[1, 0]), term("1/3", age=range(10)))))
    spend.add(CellCost((term(5),)))
    return spend


def test_plus_leaves_the_spend_as_it_was():
    before = spend()
    digest = snapshot.digest(before)
    after, units = snapshot.plus(before, CellCost((term(4, sex=[0, 1]),)))
    # M costs 4 less than F before and after: ceil(9/3) + 5 + 7 for (9, F), 3 + 5 + 4 for (9, M).
    assert units == 0
    assert after.maximum == before.maximum == 15
    assert snapshot.digest(before) == digest != snapshot.digest(after)


@pytest.mark.parametrize("limit", [100, 10, 1])
def test_a_snapshot_is_the_same_spend(limit):
    before = spend(limit)
    after = snapshot.unpack(snapshot.pack(before), SIZES, limit)
    assert snapshot.digest(after) == snapshot.digest(before)
    more = CellCost((term(3, age=[0] * 9 + [1]),))
    after.add(more)
    before.add(more)
    assert after.maximum == before.maximum
    np.testing.assert_array_equal(after.cells, before.cells)


def test_a_snapshot_of_another_table_is_refused():
    packed = snapshot.pack(spend())
    with pytest.raises(Broken, match="another table"):
        snapshot.unpack(packed, {"sex": 2, "age": 10}, 100)
    with pytest.raises(Broken, match="cannot be read"):
        snapshot.unpack(packed[:-3], SIZES, 100)


def test_a_cost_beyond_64_bits_is_not_added():
    before = spend()
    after, units = snapshot.plus(before, CellCost((term(2**63),)))
    assert units == 2**63
    assert after is before


def shared(limit=12):
    """A spend whose levels share cells: age in three classes, two values of sex, where 20 cells would be too many."""
    spend = Spend(SIZES, limit)
    spend.add(CellCost((term(7, sex=[1, 0], age=[1, 1, 1, 0, 0, 0, 0, 2, 2, 2]),)))
    assert spend.cells.shape == (3, 2)
    return spend


def test_a_snapshot_knows_which_levels_share_cells():
    before = shared()
    after = snapshot.unpack(snapshot.pack(before), SIZES, 12)
    assert snapshot.digest(after) == snapshot.digest(before)
    assert after.labels["age"].tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    more = CellCost((term(3, age=[0] * 9 + [1]),))
    after.add(more)
    before.add(more)
    assert snapshot.digest(after) == snapshot.digest(before)
    assert after.by_attribute("age").tolist() == [7, 7, 7, 0, 0, 0, 0, 14, 14, 17]


def test_the_digest_tells_which_levels_share_cells():
    one, other = shared(), shared()
    other.labels = {**other.labels, "age": other.labels["age"][::-1].copy()}
    assert np.array_equal(one.cells, other.cells)
    assert snapshot.digest(one) != snapshot.digest(other)
    # What is given out can be changed without changing the original.
    twin = one.read_only()
    twin.add(CellCost((term(3, age=range(10)),)))
    assert snapshot.digest(one) == snapshot.digest(shared())


@pytest.mark.parametrize("coded", [[[0, 3], [1, 10**15]], [[0, 9]], [], "age", [[0]], None])
def test_a_snapshot_with_other_levels_is_refused(coded):
    header, _, cells = zlib.decompress(snapshot.pack(shared())).partition(b"\n")
    values = json.loads(header)
    values["labels"]["age"] = coded
    packed = zlib.compress(json.dumps(values).encode() + b"\n" + cells)
    with pytest.raises(Broken):
        snapshot.unpack(packed, SIZES, 12)


@pytest.mark.parametrize(
    ("seed", "limit", "merge", "digest"),
    [
        (0, 10**6, True, "6eac15c2d101b1b5"),
        (1, 60, True, "6e5205397d518ec7"),
        (2, 12, True, "0ca16e5797e72fbd"),
        (4, 60, True, "ea4fd0b567213ce9"),
        (5, 12, False, "eee687c5c0b537f8"),
    ],
)
def test_digests_are_those_of_the_version_with_an_axis_a_column(seed, limit, merge, digest):
    """As they were worked out by the code of that version: every ledger that it wrote has such in its entries."""
    random = np.random.default_rng(seed)
    sizes = {"age": 5, "sex": 2, "one": 1, "region": 4, "job": 6}
    spend = Spend(sizes, limit, merge)
    for _ in range(8):
        terms = []
        for _ in range(random.integers(1, 3)):
            names = random.choice(list(sizes), random.integers(0, 4), replace=False).tolist()
            norms = {name: random.integers(0, 3, sizes[name]) for name in names}
            rate = Fraction(int(random.integers(1, 10**9)), int(random.integers(1, 50)))
            terms.append(CostTerm(rate, norms))
        spend.add(CellCost(tuple(terms)))
    assert snapshot.digest(spend).startswith(digest)
    again = snapshot.unpack(snapshot.pack(spend), sizes, limit, merge)
    assert (again.axes, snapshot.digest(again)) == (spend.axes, snapshot.digest(spend))
