"""Workloads that hold arrays, as JSON: small, exact, and the same workload again."""

import base64
import copy
import json
import zlib

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.workload import AllRange, Explicit, Permuted, Predicates, Workload
from dpnotebook.workload.packing import canonical_arrays, packed, unpacked


@pytest.mark.parametrize(
    ("matrix", "kind"),
    [
        ([[0, 1], [-128, 127]], "|i1"),
        ([[0, 128]], "<i2"),
        ([[-(2**15) - 1]], "<i4"),
        ([[2**31]], "<i8"),
        ([[0.5, 1e300], [np.pi, -0.1]], "<f8"),
    ],
)
def test_an_array_takes_the_smallest_type_and_comes_back(matrix, kind):
    array = np.array(matrix)
    value = json.loads(json.dumps(packed(array)))
    assert value["dtype"] == kind
    np.testing.assert_array_equal(unpacked(value), array)
    assert unpacked(value).dtype == array.dtype
    assert Workload.from_json(json.loads(json.dumps(Explicit(array).to_json()))) == Explicit(array)


def test_arrays_are_small_as_text():
    dense = Explicit(AllRange(64).dense())  # 2,080 rows of 64 coefficients
    assert len(json.dumps(dense.to_json())) < 8_000 < len(json.dumps(dense.matrix.tolist())) / 40
    assert len(json.dumps(Permuted(AllRange(8192), 0).to_json())) < 30_000
    masks = np.random.default_rng(0).random((1000, 100)) < 0.5
    assert len(json.dumps(Predicates(masks).to_json())) < 60_000


def test_what_older_ledgers_hold_is_read():
    old = {"kind": "Explicit", "matrix": [[1, 0, -2], [0, 3, 1]]}
    assert Workload.from_json(old) == Explicit([[1, 0, -2], [0, 3, 1]])
    assert Workload.from_json({"kind": "Explicit", "matrix": [[0.5]]}) == Explicit([[0.5]])


def test_the_digest_of_an_array_does_not_depend_on_how_it_was_compressed():
    value = {"a": [Explicit([[1, 0, 0, 0, 5]]).to_json()], "b": 1}
    other = copy.deepcopy(value)
    data = zlib.decompress(base64.b64decode(other["a"][0]["matrix"]["zlib"]))
    other["a"][0]["matrix"]["zlib"] = base64.b64encode(zlib.compress(data, 0)).decode()
    assert value != other
    assert canonical_arrays(value) == canonical_arrays(other)
    assert canonical_arrays(value) != canonical_arrays({"a": [Explicit([[1, 0, 0, 0, 6]]).to_json()], "b": 1})


def _broken(**changes):
    return {"kind": "Explicit", "matrix": {**packed(np.arange(6).reshape(2, 3)), **changes}}


@pytest.mark.parametrize(
    "value",
    [
        _broken(shape=[2, 2]),
        _broken(shape=[3, 3]),
        _broken(shape=[-2, -3]),
        _broken(shape="x"),
        _broken(dtype="O"),
        _broken(dtype="<i2"),
        _broken(dtype=None),
        _broken(zlib="%%%"),
        _broken(zlib=base64.b64encode(b"no zlib").decode()),
        _broken(zlib=3),
        {"kind": "Explicit", "matrix": {}},
        {"kind": "Explicit", "matrix": [[1], [2, 3]]},
        {"kind": "Predicates", "n": 3, "runs": packed(np.array([[0, 2]])), "counts": packed(np.array([2]))},
        {"kind": "Predicates", "n": 3, "runs": packed(np.array([0, 2])), "counts": packed(np.array([1]))},
        {"kind": "Permuted", "workload": {"kind": "Prefix", "n": 2}, "order": packed(np.array([0, 0]))},
        {"kind": "Padded", "workload": {"kind": "Explicit", "matrix": [[1]]}, "extra": 1},
        {"kind": "WidthRange", "n": 3, "width": 5},
        {"kind": "WidthRange", "n": 3},
    ],
)
def test_broken_values_are_refused(value):
    with pytest.raises(WorkloadError):
        Workload.from_json(value)


def test_a_claim_of_a_huge_array_is_refused_before_it_is_made():
    with pytest.raises(WorkloadError, match=r"a recorded array would take 7\.5 GiB"):
        Workload.from_json(_broken(shape=[10**6, 1000]))
