import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpnotebook.ledger.chain import Broken
from dpnotebook.ledger.releases import pack, unpack

integers = arrays.arrays(np.int64, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0))


@given(st.lists(integers, max_size=4))
def test_answers_come_back_as_they_were(answers):
    blob, about = pack(answers)
    found = unpack(blob, about)
    assert len(found) == len(answers)
    for before, after in zip(answers, found, strict=True):
        assert after.dtype == np.int64
        assert after.shape == before.shape
        np.testing.assert_array_equal(after, before)


def test_answers_are_read_only():
    (found,) = unpack(*pack([np.arange(3)]))
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 7


@pytest.mark.parametrize("array", [np.array([0.5]), np.array([2**63], dtype=np.uint64), np.array([True]), ["1"]])
def test_only_integers_are_recorded(array):
    with pytest.raises(TypeError, match="64-bit integers"):
        pack([array])


def test_changed_answers_are_refused():
    blob, about = pack([np.arange(100)])
    with pytest.raises(Broken, match="changed"):
        unpack(blob[:-1] + bytes([blob[-1] ^ 1]), about)
    with pytest.raises(Broken, match="changed"):
        unpack(None, about)
    with pytest.raises(Broken, match="shape"):
        unpack(blob, about | {"shapes": [[99]]})
