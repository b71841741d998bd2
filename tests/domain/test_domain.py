from __future__ import annotations

import copy
import datetime
import decimal
import fractions
import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpnotebook.domain import Bins, Boolean, Categories, Domain, Range, attribute_from_json
from dpnotebook.errors import DomainError, PredicateError

ATTRIBUTES = [
    Range(0, 115),
    Range(-5, 5, outside="other", nullable=True),
    Range(7, 7),
    Bins(0, 200_000, width=5_000),
    Bins(0, 1, width=0.1, outside="other"),
    Bins(0, 1, count=3, nullable=True),
    Bins(edges=[0, 18, 65, 120]),
    Bins(intervals=[(-1.5, 0), (0, 2.25)]),
    Categories(["F", "M"], other="else", nullable=True),
    Categories(["lo", "mid", "hi"], ordered=True),
    Categories([1, 2, 3]),
    Categories([0.5, 1]),
    Categories([True, False]),
    Categories(["it's", 'a "b"', "c\\d", "`"]),
    Boolean(),
    Boolean(nullable=True),
]
NAMES = {kind.__name__: kind for kind in (Range, Bins, Categories, Boolean, Domain)}


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=repr)
def test_an_attribute_survives_its_repr_json_and_pickle(attribute):
    assert eval(repr(attribute), dict(NAMES)) == attribute
    assert attribute_from_json(json.loads(json.dumps(attribute.to_json()))) == attribute
    assert len(attribute.labels) == attribute.size  # fills the caches, which must not travel
    for again in (pickle.loads(pickle.dumps(attribute)), copy.deepcopy(attribute)):
        assert again == attribute
        assert hash(again) == hash(attribute)
        assert again.labels == attribute.labels


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=repr)
def test_attributes_do_not_change(attribute):
    with pytest.raises(AttributeError):
        attribute.nullable = True


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=repr)
def test_levels_are_numbered_regular_then_other_then_null(attribute):
    assert attribute.size == attribute.regular + (attribute.other_index is not None) + (
        attribute.null_index is not None
    )
    if attribute.other_index is not None:
        assert attribute.other_index == attribute.regular
        assert attribute.labels[attribute.other_index] == attribute.other_label
    if attribute.null_index is not None:
        assert attribute.null_index == attribute.size - 1
        assert attribute.labels[-1] is None
    assert attribute.encode([None])[0] == (-1 if attribute.null_index is None else attribute.null_index)


def test_attributes_differ_when_anything_differs():
    assert len({*ATTRIBUTES}) == len(ATTRIBUTES)
    assert Categories([True, False]) != Categories([1, 0])
    assert Range(0, 1) != Range(0, 1, nullable=True)
    assert (
        Bins(0, 10, width=5) == Bins(edges=[0, 5, 10]) == Bins(0.0, 10.0, count=2) == Bins(intervals=[(5, 10), (0, 5)])
    )


def test_labels_and_bounds():
    assert Range(3, 5, outside="other", nullable=True).labels == (3, 4, 5, "other", None)
    assert Bins(0, 200_000, width=5_000).labels[0] == "[0, 5,000)"
    assert Bins(0, 200_000, width=5_000).labels[-1] == "[195,000, 200,000]"
    assert Bins(1950, 1970, width=10).labels == ("[1950, 1960)", "[1960, 1970]")
    assert Bins(0, 0.3, width=0.1).edges == (0, 0.1, 0.2, 0.3)
    assert Categories(["b", "a"], other="o").labels == ("b", "a", "o")
    assert Boolean().labels == (False, True)
    assert Range(0, 9).bounds == (0, 9)
    assert Bins(0.5, 2, count=3).bounds == (0.5, 2)
    assert Categories([1, 2]).bounds is None
    assert [list(side) for side in Bins(edges=[0, 1, 5]).level_bounds()] == [[0, 1], [1, 5]]
    assert [list(side) for side in Range(2, 4, nullable=True).level_bounds()] == [[2, 3, 4], [2, 3, 4]]
    with pytest.raises(DomainError, match="Range or Bins"):
        Categories([1, 2]).level_bounds()


def test_only_what_has_an_order_is_ordered():
    assert [item.ordered for item in (Range(0, 1), Bins(0, 1, count=2), Categories(["a", "b"], ordered=True))] == [
        True
    ] * 3
    assert not Categories(["a", "b"]).ordered
    assert not Boolean().ordered


# ---------------------------------------------------------------------------------------------------- encoding

numbers = st.one_of(
    st.integers(-30, 30),
    st.floats(-30, 30),
    st.sampled_from([math.inf, -math.inf, math.nan, 1e300, -(2**63), 2**63 - 1, 5.0, -5.0, 5.999, 6.0, -5.0001]),
)


@given(st.lists(numbers, max_size=30), st.sampled_from(["clamp", "other"]), st.booleans())
@example([float(2**60), -math.inf, 6.0, -6.0], "other", True)
@settings(max_examples=150, deadline=None)
def test_range_encodes_as_floor_and_clip_do(values, outside, nullable):
    attribute = Range(-5, 5, outside=outside, nullable=nullable)
    data = np.array(values, dtype=float)
    floored = np.floor(data)
    expected = np.clip(floored, -5, 5) + 5
    if outside == "other":
        expected[(floored < -5) | (floored > 5)] = 11
    expected[np.isnan(data)] = attribute.size - 1 if nullable else -1
    assert attribute.encode(data).tolist() == expected.tolist()
    assert attribute.encode(values).tolist() == expected.tolist()
    assert attribute.encode(pd.Series(values, dtype=float)).tolist() == expected.tolist()


@given(
    st.lists(numbers, max_size=30),
    st.lists(st.integers(-40, 40).map(lambda n: n / 4), min_size=2, max_size=8, unique=True).map(sorted),
)
@settings(max_examples=150, deadline=None)
def test_bins_encode_as_pandas_cut_does(values, edges):
    data = pd.Series(values, dtype=float)
    inside = data.clip(edges[0], edges[-1])
    # pandas has no closed last interval, so its last edge moves up by the least step
    cut = pd.cut(inside, [*edges[:-1], np.nextafter(edges[-1], np.inf)], right=False, labels=False)
    expected = cut.fillna(-1).astype(int)
    assert Bins(edges=edges).encode(data).tolist() == expected.tolist()
    counted = expected.where(data.isna() | ((data >= edges[0]) & (data <= edges[-1])), len(edges) - 1)
    counted = counted.where(data.notna(), len(edges))
    assert Bins(edges=edges, outside="other", nullable=True).encode(values).tolist() == counted.tolist()


@given(st.lists(st.one_of(st.none(), st.sampled_from("abcdxyz")), max_size=30))
@settings(max_examples=60, deadline=None)
def test_categories_encode_as_pandas_categorical_does(values):
    codes = pd.Index(list("abcd")).get_indexer(pd.Index(values, dtype=object))
    assert Categories(list("abcd")).encode(values).tolist() == codes.tolist()
    full = Categories(list("abcd"), other="rest", nullable=True).encode(pd.Series(values, dtype="str"))
    expected = [5 if value is None else 4 if code < 0 else code for value, code in zip(values, codes, strict=True)]
    assert full.tolist() == expected


def test_columns_of_every_dtype_are_read():
    age = Range(0, 9, nullable=True)
    for column in (
        [3, None, 12],
        np.array([3.7, np.nan, 12]),
        np.array([3, None, 12], dtype=object),
        pd.Series([3, None, 12], dtype="Int64"),
        pd.Series([3.5, None, 12], dtype="Float64"),
        np.ma.MaskedArray([3, 0, 12], mask=[False, True, False]),
        [decimal.Decimal("3.99"), decimal.Decimal("NaN"), fractions.Fraction(25, 2)],
        np.array([3, np.nan, 12], dtype=np.float16),
        [np.int8(3), pd.NA, 10**400],
        [3, pd.NaT, math.inf],
    ):
        assert age.encode(column).tolist() == [3, 10, 9]
    assert age.encode(np.array([2**64 - 1, 0], dtype=np.uint64)).tolist() == [9, 0]
    assert Range(0, 9, outside="other").encode(np.array([2**64 - 1, 5], dtype=np.uint64)).tolist() == [10, 5]
    assert age.encode(np.array([True, False])).tolist() == [1, 0]
    assert Boolean(nullable=True).encode(pd.Series([True, None, False], dtype="boolean")).tolist() == [1, 2, 0]
    assert Boolean().encode([1, 0, np.bool_(True), 2, "True"]).tolist() == [1, 0, 1, -1, -1]
    assert Categories([1, 2]).encode(pd.Series([2, 1, 3, None])).tolist() == [1, 0, -1, -1]
    assert Categories(["1", "2"]).encode([2, "1"]).tolist() == [-1, 0]
    assert Categories(["a"], nullable=True).encode(pd.Categorical(["a", None, "a"])).tolist() == [0, 1, 0]
    assert Categories(["a", "nan"]).encode(["nan", math.nan, "a"]).tolist() == [1, -1, 0]
    assert age.encode([]).tolist() == []


def test_values_that_cannot_be_read_are_unlisted_and_never_an_error():
    odd = ["7", [1], {}, datetime.date(2020, 1, 1), object(), b"x", 1j]
    for attribute in (Range(0, 9), Bins(0, 1, count=2), Categories([1, 2]), Boolean()):
        assert attribute.encode(odd).tolist() == [-1] * len(odd)
    assert Categories(["a"], other="rest").encode(odd).tolist() == [1] * len(odd)
    assert Range(0, 9, outside="other").encode(odd).tolist() == [10] * len(odd)
    dates = np.array(["2020-01-01", "NaT"], dtype="M8[ns]")
    assert Range(0, 9, nullable=True).encode(dates).tolist() == [-1, 10]
    assert Categories([1], nullable=True).encode(dates).tolist() == [-1, 1]


@pytest.mark.parametrize("values", [np.zeros((2, 2)), 5, "abc", np.array(3)])
def test_what_is_no_column_is_refused(values):
    with pytest.raises(DomainError, match="column of values"):
        Range(0, 9).encode(values)


# ---------------------------------------------------------------------------------------------------- comparisons

OPERATORS = ["==", "!=", "<", "<=", ">", ">="]


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("value", [-7, -2, 0, 2, 5, -1.5, 2.0, 99, decimal.Decimal("1.5"), np.float32(0.5), 10**30])
def test_range_compares_as_its_levels_do(op, value):
    attribute = Range(-2, 5, outside="other", nullable=True)
    if op in ("==", "!=") and (value != int(value) or not -2 <= value <= 5):
        with pytest.raises(PredicateError, match=r"not a level of age: it holds the whole numbers -2 to 5"):
            attribute.compare(op, value, "age")
        return
    raw = value.item() if isinstance(value, np.generic) else value
    expected = [bool(eval("level " + op + " raw", {"level": level, "raw": raw})) for level in range(-2, 6)]
    assert attribute.compare(op, value).tolist() == [*expected, op == "!=", op == "!="]


def test_bins_compare_at_their_edges_only():
    bins = Bins(0, 20, width=5, nullable=True)
    masks = {
        ("<", 5): [1, 0, 0, 0, 0],
        (">=", 5): [0, 1, 1, 1, 0],
        ("<", 0): [0, 0, 0, 0, 0],
        (">=", 0): [1, 1, 1, 1, 0],
        ("<=", 20): [1, 1, 1, 1, 0],
        (">", 20): [0, 0, 0, 0, 0],
        ("<=", -1): [0, 0, 0, 0, 0],
        ("<", 25): [1, 1, 1, 1, 0],
        (">", -0.5): [1, 1, 1, 1, 0],
    }
    for (op, value), expected in masks.items():
        assert bins.compare(op, value).tolist() == [bool(bit) for bit in expected], (op, value)


@pytest.mark.parametrize(
    ("op", "value", "hint"),
    [
        ("<", 7, "edges are 5 and 10: write income < 5 or income < 10"),
        ("<=", 5, "edges are 5 and 10: write income < 5 or income < 10"),
        (">", 5, "edges are 5 and 10: write income >= 5 or income >= 10"),
        (">=", 7.5, "edges are 5 and 10: write income >= 5 or income >= 10"),
        ("<", 20, "edges are 15 and 20: write income < 15 or income <= 20"),
        (">=", 20, "edges are 15 and 20: write income >= 15$"),
        ("<=", 0, "edges are 0 and 5: write income < 0 or income < 5"),
        ("==", 7, r"its bin is \[5, 10\): compare with the edges 5 and 10"),
        ("!=", 20, r"its bin is \[15, 20\]"),
        ("==", 21, "outside the bins of income, which go from 0 to 20"),
        ("<", "x", "income holds numbers, and 'x' is a text"),
        ("==", "[0, 5)", "income holds numbers"),
        ("==", True, "True is a truth value"),
    ],
)
def test_a_comparison_that_cuts_a_bin_names_the_nearest_edges(op, value, hint):
    with pytest.raises(PredicateError, match=hint):
        Bins(0, 20, width=5).compare(op, value, "income")


def test_listed_levels_compare_by_value_or_by_place():
    assert Categories([3, 1, 2]).compare(">=", 2).tolist() == [True, False, True]
    ordered = Categories(["lo", "mid", "hi"], ordered=True, other="rest", nullable=True)
    assert ordered.compare("<=", "mid").tolist() == [True, True, False, False, False]
    assert ordered.compare("==", "rest").tolist() == [False, False, False, True, False]
    assert ordered.compare("!=", "lo").tolist() == [False, True, True, True, True]
    assert Categories([3, 1, 2], ordered=True).compare("<", 2).tolist() == [True, True, False]
    assert Boolean().compare("==", 1).tolist() == [False, True]
    assert Range(0, 1, outside="other").compare("==", "other").tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("attribute", "op", "value", "hint"),
    [
        (Categories(["F", "M"]), "==", "Female", "sex has no level 'Female'; its levels are 'F', 'M'"),
        (Categories(["north", "south"]), "==", "North", "did you mean 'north'"),
        (Categories(["12345"]), "==", 12345, "write '12345'"),
        (Categories([1, 2]), "==", "2", "write 2"),
        (Categories([1, 2]), "==", True, "truth value"),
        (Categories([1, 2]), "<", "2", "compare it with a number"),
        (Categories(list("abcdefghijk")), "==", "zz", "'h' and 3 more"),
        (Categories(["F", "M"]), "<", "F", "have no order"),
        (Boolean(), ">", 0, "write sex or not sex"),
        (Range(0, 9), "==", "5", "without quotes"),
        (Range(0, 9), "<", "2020-01-01", r"Dates\("),
        (Range(0, 9), "<", datetime.date(2020, 1, 1), r"Dates\("),
        (Range(0, 9), "<", np.datetime64("2020-01-01"), r"Dates\("),
        (Range(0, 9), "<", math.inf, "infinity"),
        (Range(0, 9), "<", decimal.Decimal("-Infinity"), "infinity"),
        (Range(0, 9), "==", None, r"sex.isna\(\)"),
        (Range(0, 9), "==", math.nan, r"sex.isna\(\)"),
        (Range(0, 9), "==", [1], "compared with a list"),
        (Range(0, 9), "=", 1, "no comparison"),
    ],
)
def test_comparisons_that_mean_nothing_say_what_to_write(attribute, op, value, hint):
    with pytest.raises(PredicateError, match=hint):
        attribute.compare(op, value, "sex")


def test_masks_are_described_and_cut_into_runs():
    age = Range(0, 115, nullable=True)
    assert age.describe(age.compare(">=", 65)) == "65-115"
    assert age.describe(age.compare("<", 18) | age.compare("==", 40)) == "0-17, 40"
    assert age.describe(age.compare("!=", 40)) == "not 40"
    assert age.describe(np.arange(117) < 116) == "not null"
    assert age.describe(np.arange(117) == 116) == "null"
    assert age.describe(np.ones(117, dtype=bool)) == "any"
    assert age.describe(np.zeros(117, dtype=bool)) == "none"
    assert age.describe(np.arange(117) % 2 == 0).endswith("8 and 54 more")
    assert Range(-5, 5).describe(np.arange(11) < 3) == "-5 to -3"
    sex = Categories(["F", "M", "X"], other="else")
    assert sex.describe(np.array([True, False, False, False])) == "'F'"
    assert sex.describe(np.array([False, True, False, True])) == "'M', else"
    assert sex.describe(np.array([False, True, True, True])) == "not 'F'"
    assert Bins(0, 20, width=5).describe(np.array([True, True, False, True])) == "not [10, 15)"
    assert Bins(0, 30, width=5).describe(np.array([1, 1, 0, 0, 1, 1], dtype=bool)) == "not [10, 20)"
    assert Bins(0, 30, width=5).describe(np.array([1, 0, 1, 0, 1, 1], dtype=bool)) == "[0, 5), [10, 15), [20, 30]"
    assert age.runs(age.compare("<", 3) | age.compare("==", 115)) == [(0, 3), (115, 116)]
    assert age.runs(np.arange(117) == 116) == []
    with pytest.raises(PredicateError, match="117 entries"):
        age.describe(np.ones(3, dtype=bool))


# ---------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: Range(5, 4), "low end is above"),
        (lambda: Range(0, 10**6), "1,000,001 levels"),
        (lambda: Range(0, 2**60), "at most 2"),
        (lambda: Range(0, 10**5000), "finite number, not a number of 16,610 bits"),
        (lambda: Range(0, math.nan), "finite number"),
        (lambda: Range(-math.inf, 3), "finite number"),
        (lambda: Range(0, 2.5), "whole number, not 2.5; for fractions declare Bins"),
        (lambda: Range("0", 5), "is a number, not '0'"),
        (lambda: Range(True, 5), "is a number, not True"),
        (lambda: Range(datetime.date(2020, 1, 1), 5), r"Dates\("),
        (lambda: Range(0, 5, outside="drop"), "outside= is 'clamp' or 'other', not 'drop'"),
        (lambda: Range(0, 5, nullable="yes"), "nullable= is False or True"),
        (lambda: Range(0, 5, nullable=1), "nullable= is False or True"),
        (lambda: Bins(0, 100), "one of these ways"),
        (lambda: Bins(0, 100, width=5, count=20), "one of these ways"),
        (lambda: Bins(0, 100, edges=[0, 1]), "one of these ways"),
        (lambda: Bins(width=5), "one of these ways"),
        (lambda: Bins(0, 100, width=30), r"width=25 \(4 bins\) or width=50 \(2 bins\) does, or end at 90 or 120"),
        (lambda: Bins(0, 1, width=0.3), r"width=0.25 \(4 bins\) does, or end at 0.9 or 1.2"),
        (lambda: Bins(0, 7, width=0.9), r"width=0.875 \(8 bins\) or width=1 \(7 bins\)"),
        (lambda: Bins(0, 10, width=20), r"width=10 \(1 bins\)"),
        (lambda: Bins(0, 10, width=0), "width= is above 0"),
        (lambda: Bins(0, 10, width=-1), "width= is above 0"),
        (lambda: Bins(0, 10, width=math.nan), "finite number"),
        (lambda: Bins(0, math.inf, width=1), "finite number"),
        (lambda: Bins(5, 5, width=1), "no width"),
        (lambda: Bins(5, 4, count=1), "no width"),
        (lambda: Bins(0, 10, count=0), "count= is at least 1"),
        (lambda: Bins(0, 10, count=2.5), "whole number"),
        (lambda: Bins(0, 10, count=10**9), "at most 1,000,000"),
        (lambda: Bins(0, 10**15, width=1), "at most 1,000,000"),
        (lambda: Bins(1, 1 + 1e-15, count=1000), "edges of Bins increase"),
        (lambda: Bins(edges=[0, 10, 10]), "10 comes before 10"),
        (lambda: Bins(edges=[0, 10, 5]), "10 comes before 5"),
        (lambda: Bins(edges=[0]), "at least two edges"),
        (lambda: Bins(edges=[]), "at least two edges"),
        (lambda: Bins(edges=[0, math.nan]), "finite number"),
        (lambda: Bins(edges="abc"), "is a list"),
        (lambda: Bins(edges=[datetime.date(2020, 1, 1)]), r"Dates\("),
        (lambda: Bins(intervals=[(0, 10), (5, 15)]), r"\(0, 10\) and \(5, 15\) overlap"),
        (lambda: Bins(intervals=[(0, 10), (12, 15)]), r"add \(10, 12\)"),
        (lambda: Bins(intervals=[(0, 10), (0, 10)]), "overlap"),
        (lambda: Bins(intervals=[(3, 3)]), "no width"),
        (lambda: Bins(intervals=[3]), "is a pair"),
        (lambda: Bins(intervals=[]), "at least one pair"),
        (lambda: Categories([]), "no levels"),
        (lambda: Categories([None]), "no levels"),
        (lambda: Categories(["a", "b", "a"]), "'a' is listed twice"),
        (lambda: Categories([1, 1.0]), "1 is listed twice"),
        (lambda: Categories(["a", 1]), "mix number and text"),
        (lambda: Categories([True, 1]), "mix boolean and number"),
        (lambda: Categories([1, math.inf]), "finite"),
        (lambda: Categories([b"a"]), "a level is a text"),
        (lambda: Categories([["a"]]), "a level is a text"),
        (lambda: Categories([pd.Timestamp("2020")]), r"Dates\("),
        (lambda: Categories([pd.Period("2020")]), r"Dates\("),
        (lambda: Categories("F"), "levels are a list"),
        (lambda: Categories({"F": 1}), "levels are a list"),
        (lambda: Categories({"F", "M"}), "a set has no order"),
        (lambda: Categories(5), "levels are a list"),
        (lambda: Categories(["a"], other="a"), "also one of the levels"),
        (lambda: Categories(["a"], other=3), "label of all other values"),
        (lambda: Categories(range(10**6 + 1)), "more than 1,000,000 levels; list those that matter"),
        (lambda: Boolean(nullable=None), "nullable="),
        (lambda: attribute_from_json({"kind": "circle"}), "recorded attribute"),
        (lambda: attribute_from_json({"kind": "range", "low": 0}), "recorded attribute"),
        (lambda: attribute_from_json([]), "recorded attribute"),
    ],
)
def test_a_declaration_that_cannot_be_says_what_to_write(make, hint):
    with pytest.raises(DomainError, match=hint):
        make()


# ---------------------------------------------------------------------------------------------------- the domain

SMALL = {"age": Range(0, 115), "sex": ["F", "M"], "smoker": bool}


def test_short_forms_stand_for_attributes():
    ordered = pd.CategoricalDtype(["lo", "hi"], ordered=True)
    domain = Domain(
        {
            "a": ["F", "M"],
            "b": ("F", None),
            "c": bool,
            "d": range(3, 9),
            "e": ordered,
            "f": pd.Series(["lo"], dtype=ordered).cat,
            "g": pd.Categorical(["x"], categories=["y", "x"]),
            "h": np.array([2, 1]),
            "i": pd.Series(["q", "p", None]).unique(),
            "j": np.bool_,
            "k": [np.int64(1), np.float32(0.5)],
        }
    )
    assert list(domain.values()) == [
        Categories(["F", "M"]),
        Categories(["F"], nullable=True),
        Boolean(),
        Range(3, 8),
        Categories(["lo", "hi"], ordered=True),
        Categories(["lo", "hi"], ordered=True),
        Categories(["y", "x"]),
        Categories([2, 1]),
        Categories(["q", "p"], nullable=True),
        Boolean(),
        Categories([1, 0.5]),
    ]
    assert [type(level) for level in domain["k"].levels] == [int, float]


def test_a_domain_is_an_ordered_mapping():
    domain = Domain(SMALL)
    assert domain.names == ("age", "sex", "smoker") == tuple(domain)
    assert domain.shape == (116, 2, 2)
    assert domain.sizes == {"age": 116, "sex": 2, "smoker": 2}
    assert domain.size == 464
    assert "sex" in domain
    assert "Sex" not in domain
    assert domain.get("x") is None
    assert domain.project(["smoker", "age"]).shape == (2, 116)
    assert domain.project(iter(["age"])) == Domain({"age": Range(0, 115)})
    assert domain != Domain(dict(reversed(SMALL.items())))
    assert domain != SMALL
    assert len({domain, Domain(SMALL)}) == 1
    assert Domain(domain) == domain
    for again in (
        Domain.from_json(json.loads(json.dumps(domain.to_json(), sort_keys=True))),
        pickle.loads(pickle.dumps(domain)),
        copy.deepcopy(domain),
        eval(repr(domain), dict(NAMES)),
    ):
        assert again == domain
        assert again.names == domain.names
    with pytest.raises(AttributeError):
        domain.x = 1
    with pytest.raises(TypeError):
        domain["x"] = bool


def test_a_domain_of_a_huge_size_is_only_a_number():
    domain = Domain({f"c{i}": Range(1, 10**6) for i in range(50)})
    assert domain.size == 10**300
    assert domain.shape == (10**6,) * 50


@pytest.mark.parametrize(
    ("attributes", "hint"),
    [
        ({}, "at least one column"),
        ([("a", bool)], "dict from column names"),
        ({1: bool}, "column names are text, and 1 is not"),
        ({None: bool}, "column names are text"),
        ({" ": bool}, "name is empty"),
        ({"a`b": bool}, "backtick"),
        ({"a\0b": bool}, "invisible"),
        ({"Age": bool, "age": bool}, "differ only in case"),
        ({"a": int}, "'a': int alone does not say"),
        ({"a": "F"}, "levels are a list"),
        ({"a": None}, "levels are a list"),
        ({"a": 5}, "levels are a list"),
        ({"a": {"F"}}, "no order"),
        ({"a": range(0)}, "is empty"),
        ({"a": range(0, 10, 2)}, "leaves numbers out"),
        ({"a": np.zeros((2, 2))}, "one dimension"),
        ({"a": pd.Series(["F", "M"])}, "column of data"),
        ({"a": pd.CategoricalDtype()}, "lists no categories"),
        ({"a": pd.cut(pd.Series([1, 2]), 2).dtype}, "a level is a text"),
        ({"a": ["x", "x"]}, "column 'a': the level 'x' is listed twice"),
    ],
)
def test_a_domain_that_cannot_be_says_which_column(attributes, hint):
    with pytest.raises(DomainError, match=hint):
        Domain(attributes)


def test_unknown_columns_are_named_with_a_near_one():
    domain = Domain(SMALL)
    with pytest.raises(DomainError, match=r"'Age'; did you mean 'age'\?"):
        domain.project(["Age"])
    with pytest.raises(DomainError, match="'income'; the domain declares age, sex, smoker"):
        domain.project(["income"])
    with pytest.raises(DomainError, match="named twice"):
        domain.project(["age", "age"])
    with pytest.raises(DomainError, match=r"a list such as \['age'\]"):
        domain.project("age")
    for obj in ({}, {"attributes": [{}]}, {"attributes": 3}, []):
        with pytest.raises(DomainError, match="recorded domain"):
            Domain.from_json(obj)


def test_no_error_of_encoding_can_tell_of_a_value():
    # whatever a column holds, encoding it raises nothing that depends on a single value
    secret = ["secret", 10**500, decimal.Decimal("sNaN"), [], b"\xff", pd.NA, complex(1, 2), type, "\ud800"]
    for attribute in ATTRIBUTES:
        assert len(attribute.encode(secret)) == len(secret)
