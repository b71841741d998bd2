"""Conditions on texts and methods of columns select the rows that pandas' own do, worked out on declared levels."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.predicate import Predicate
from dpnotebook.predicate.where import parse_where

LEVELS = ["Cardiology", "cardiac surgery", "it's", 'say "b"', "a.b", "a+b", "(x|y)", "$9", "💶 shop", "<b>ward</b>", ""]
LEVELS += [" a "]
ROWS = pd.DataFrame(
    {"ward": np.random.default_rng(0).choice(LEVELS, 300), "age": np.random.default_rng(1).integers(0, 50, 300)}
)
DOMAIN = dpn.Domain({"ward": dpn.Categories(LEVELS), "age": dpn.Range(0, 49)})
PIECES = st.one_of(
    st.sampled_from(["a", "card", "C", "b", "'", '"', ".", "+", "(x|y)", "$", "💶", "<b>", " ", ""]),
    st.sampled_from(LEVELS).flatmap(lambda text: st.integers(0, len(text)).map(lambda end: text[:end])),
)


def chosen(text):
    """Return which rows satisfy a condition, none of them perhaps."""
    where = Predicate.of(parse_where(text, DOMAIN), DOMAIN)
    return where.dense(["ward", "age"])[DOMAIN["ward"].encode(ROWS["ward"]), DOMAIN["age"].encode(ROWS["age"])]


@given(PIECES, PIECES)
@settings(max_examples=150, deadline=None)
def test_texts(one, other):
    texts = ROWS["ward"].str
    assert np.array_equal(chosen(f"ward.str.contains({one!r}, regex=False)"), texts.contains(one, regex=False))
    assert np.array_equal(chosen(f"ward.str.startswith({one!r})"), texts.startswith(one))
    assert np.array_equal(chosen(f"~ward.str.endswith({one!r})"), ~texts.endswith(one))
    assert np.array_equal(chosen(f"ward.str.startswith(({one!r}, {other!r}))"), texts.startswith((one, other)))
    both = texts.contains(one, regex=False) & ~texts.endswith(other) | (ROWS["age"] >= 30)
    written = f"(ward.str.contains({one!r}, regex=False) & ~ward.str.endswith({other!r})) | age >= 30"
    assert np.array_equal(chosen(written), both)


@pytest.mark.parametrize("method", ["contains", "match", "fullmatch"])
@pytest.mark.parametrize("text", ["card", "Cardiology", "it's", "💶", ""])
@pytest.mark.parametrize("case", [True, False])
def test_texts_that_are_no_patterns_mean_what_they_do_to_pandas(method, text, case):
    expected = getattr(ROWS["ward"].str, method)(text, case=case)
    assert np.array_equal(chosen(f"ward.str.{method}({text!r}, case={case})"), expected)


@pytest.mark.parametrize("method", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_that_are_called(method):
    assert np.array_equal(chosen(f"age.{method}(20)"), getattr(ROWS["age"], method)(20))
    assert np.array_equal(chosen(f"~age.{method}(20)"), ~getattr(ROWS["age"], method)(20))


def test_methods_beside_each_other():
    for text, expected in {
        "ward.isin(['a.b', '$9']) & age.between(10, 20, inclusive='left')": ROWS["ward"].isin(["a.b", "$9"])
        & ROWS["age"].between(10, 20, inclusive="left"),
        "~(ward.isin(['a.b']) | age.isin([1, 2, 3]))": ~(ROWS["ward"].isin(["a.b"]) | ROWS["age"].isin([1, 2, 3])),
        "not ward.isna() and age.notna()": ROWS["ward"].notna() & ROWS["age"].notna(),
    }.items():
        assert np.array_equal(chosen(text), expected), text


def test_missing_and_other_texts_have_no_text():
    domain = dpn.Domain({"ward": dpn.Categories(["a", "b"], other="abc", nullable=True)})
    where = Predicate.parse("ward.str.contains('a')", domain)
    assert where.dense(["ward"]).tolist() == [True, False, False, False]
    assert Predicate.parse("~ward.str.contains('a')", domain).dense(["ward"]).tolist() == [False, True, True, True]
    assert Predicate.parse("ward.isna()", domain).dense(["ward"]).tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ward.str.contains('card.*')", "for the text itself write ward.str.contains('card.*', regex=False)"),
        ("ward.str.match('^C')", "for the text itself write ward.str.startswith('^C')"),
        ("ward.str.fullmatch('(a+)+$')", "for the text itself write ward == '(a+)+$'"),
        ("ward.str.contains(('a', 'b'))", "a list alone is no condition"),
        ("ward.str.startswith(('a', 3))", "is not supported"),
        ("ward.str.startswith(())", "is not supported"),
        ("ward.str.lower() == 'a'", "ward.str.lower() is not supported"),
        ("age.str.contains('3')", "age holds no texts"),
        ("age.ge()", "does not have the arguments it needs"),
        ("age.ge(20, 30)", "does not have the arguments it needs"),
        ("age.ge(ward)", "ward stands where a value is wanted"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(dpn.PredicateError) as found:
        Predicate.parse(text, DOMAIN)
    assert words in str(found.value)
    assert len(str(found.value)) < 300


def test_ten_thousand_levels():
    levels = [f"ward {number:05d}" for number in range(10_000)]
    domain = dpn.Domain({"ward": dpn.Categories(levels)})
    where = Predicate.parse("ward.str.endswith(('7', '77', '777')) and ward.str.startswith('ward 0')", domain)
    expected = [level.endswith("7") and level.startswith("ward 0") for level in levels]
    assert where.dense(["ward"]).tolist() == expected
