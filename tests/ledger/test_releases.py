import hashlib
import zlib

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
        assert after.dtype.kind == "i"
        assert after.dtype.itemsize <= 8
        assert after.shape == before.shape
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("bits", range(64))
def test_the_largest_numbers_of_so_many_bits_come_back(bits):
    for number in (2**bits - 1, -(2**bits)):
        (found,) = unpack(*pack([np.array([number, 0, 1, -1])]))
        assert found.tolist() == [number, 0, 1, -1]
        assert found.dtype.itemsize == next(size for size in (1, 2, 4, 8) if 8 * size > bits)


def test_noise_takes_no_more_bytes_than_it_has_and_what_repeats_itself_less():
    noise = np.random.default_rng(1).laplace(0, 2**17, 10_000).astype(np.int64)
    assert len(pack([noise])[0]) == 3 * noise.size
    assert len(pack([np.arange(10_000) % 7])[0]) < 1_000


def test_answers_of_earlier_versions_come_back():
    numbers = np.array([3, -1, 2**40])
    blob = zlib.compress(numbers.astype("<i8").tobytes(), 6)
    about = {"shapes": [[3]], "bytes": len(blob), "sha256": hashlib.sha256(blob).hexdigest()}
    assert unpack(blob, about)[0].tolist() == numbers.tolist()


@pytest.mark.parametrize("width", [0, 9, -1, None, "2", 3])
def test_a_width_that_cannot_be_is_refused(width):
    blob, about = pack([np.array([2**30, -(2**30)])])
    with pytest.raises(Broken, match="shape"):
        unpack(blob, about | {"width": width})


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
