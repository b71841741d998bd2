"""Which level of an earlier domain the rows at a level of an extended one had: as the two encode the same values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnotebook.domain import Bins, Boolean, Categories, Domain, Range
from dpnotebook.domain.extension import NONE, extension, has_every_value
from dpnotebook.errors import DomainError

VALUES = [*np.arange(-12, 13) / 2, 1e9, -1e9, None]
TEXTS = ["a", "b", "c", "d", "other", "", None]
OUTSIDE, NULLABLE = st.sampled_from(["clamp", "other"]), st.booleans()


@st.composite
def ranges(draw):
    low = draw(st.integers(-4, 2))
    return Range(low, draw(st.integers(low, 4)), outside=draw(OUTSIDE), nullable=draw(NULLABLE))


@st.composite
def bins(draw):
    edges = sorted(draw(st.sets(st.integers(-4, 4), min_size=2, max_size=6)))
    return Bins(edges=[edge / 2 for edge in edges], outside=draw(OUTSIDE), nullable=draw(NULLABLE))


@st.composite
def categories(draw):
    levels = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
    return Categories(levels, other=draw(st.sampled_from([None, "rest"])), nullable=draw(NULLABLE))


def check(before, after, values):
    """Where a domain extends another one every value was at the level that is named; return whether it does."""
    old, new = before.encode(values), after.encode(values)
    try:
        levels = extension(Domain({"x": before}), Domain({"x": after})).levels["x"]
    except DomainError:
        return False
    assert levels.shape == (after.size,)
    assert set(levels) - {NONE} == set(range(before.size))
    known = new != -1
    assert (old[known] == levels[new[known]]).all()
    assert (old[~known] == -1).all()
    return True


@given(ranges(), ranges())
def test_ranges(before, after):
    check(before, after, VALUES)


@given(bins(), bins())
def test_bins(before, after):
    check(before, after, VALUES)


@given(categories(), categories())
def test_categories(before, after):
    check(before, after, TEXTS)


@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        (Range(0, 3), Range(-1, 4), VALUES),
        (Range(0, 3, outside="other"), Range(-1, 4, outside="other", nullable=True), VALUES),
        (Bins(0, 4, width=2), Bins(0, 5, width=1), VALUES),
        (Bins(edges=[0, 2], outside="other"), Bins(edges=[-1, 0, 1, 2], outside="other"), VALUES),
        (Categories(["a"]), Categories(["b", "a"], nullable=True), TEXTS),
        (Categories(["a"], other="rest"), Categories(["b", "a"], other="rest"), TEXTS),
        (Categories(["a"]), Categories(["b", "a"], other="rest"), TEXTS),
        (Boolean(), Boolean(nullable=True), [True, False, None]),
    ],
)
def test_what_extends(before, after, values):
    assert check(before, after, values)
    assert before == after or not check(after, before, values)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (Range(0, 3), Bins(0, 4, width=1), "of another kind"),
        (Range(0, 3), Range(1, 5), "only be wider"),
        (Range(0, 3), Range(0, 3, outside="other"), "outside='clamp' stays"),
        (Range(0, 3, nullable=True), Range(0, 4), "missing values have a level"),
        (Bins(0, 4, width=2), Bins(0, 4, width=4), "an edge is gone"),
        (Bins(0, 4, width=2), Bins(edges=[0, 1, 3, 4]), "an edge is gone"),
        (Bins(0, 4, width=2, outside="other"), Bins(0, 6, width=2, outside="other"), "highest edge stays"),
        (Categories(["a"], other="rest"), Categories(["a"], other="more"), "other='rest' stays"),
        (Categories(["a"], other="rest"), Categories(["a"]), "other='rest' stays"),
        (Categories(["a", "b"]), Categories(["a", "c"]), "the level 'b' is gone"),
        (Categories(["1"]), Categories([1]), "another kind or order"),
    ],
)
def test_what_does_not(before, after, why):
    with pytest.raises(DomainError, match=why):
        extension(Domain({"x": before}), Domain({"x": after}))


@pytest.mark.parametrize("before", [Range(0, 3), Range(0, 3, outside="other", nullable=True), Bins(0, 4, width=2)])
def test_an_extension_of_an_extension_is_one(before):
    domains = [Domain({"x": before}), Domain({"x": before, "y": ["a"]})]
    wider = Range(-2, 9, outside=before.outside, nullable=True) if isinstance(before, Range) else Bins(0, 6, width=1)
    domains.append(Domain({"x": wider, "y": ["a", "b"]}))
    once = extension(domains[0], domains[2])
    twice = extension(domains[0], domains[1]).then(extension(domains[1], domains[2]))
    assert list(once.levels) == list(twice.levels) == ["x"]
    assert np.array_equal(once.levels["x"], twice.levels["x"])
    assert (once.before, once.after) == (twice.before, twice.after)


@pytest.mark.parametrize("attribute", [Range(0, 3), Bins(0, 4, width=2), Categories(["a"]), Boolean()])
def test_which_attributes_have_a_level_for_every_row(attribute):
    """A row without one would be left out."""
    assert not has_every_value(attribute)
    found = {
        Range: Range(0, 3, nullable=True),
        Bins: Bins(0, 4, width=2, nullable=True),
        Categories: Categories(["a"], other="rest", nullable=True),
    }
    if type(attribute) in found:
        assert has_every_value(found[type(attribute)])
        assert not has_every_value(Categories(["a"], nullable=True))
        assert (found[type(attribute)].encode(VALUES if attribute.holds == "number" else TEXTS) >= 0).all()
