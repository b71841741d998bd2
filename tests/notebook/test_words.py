import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnotebook.notebook import formatting

positive = st.floats(1e-9, 1e12)


def number(text):
    return float(text.replace(",", ""))


@given(positive)
def test_costs_and_errors_are_never_understated(x):
    for shown in (number(formatting.error(x)), number(formatting.cost(x))):
        assert x * (1 - 1e-8) <= shown <= x * 1.0101


@given(positive)
def test_what_is_left_is_never_overstated(x):
    assert x * 0.99 <= number(formatting.left(x)) <= x * (1 + 1e-8)


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (0.1, "0.1"),
        (0.1 + 0.2, "0.3"),
        (29.9573, "30"),
        (31.24, "31.3"),
        (1234.2, "1,240"),
        (0.97341, "0.974"),
        (1e-6, "1e-6"),
        (1.5e-7, "1.5e-7"),
        (0, "0"),
        (math.inf, "∞"),
        (math.nan, "–"),
    ],
)
def test_an_error_as_people_write_it(x, shown):
    assert formatting.error(x) == shown


def test_nothing_is_left_when_more_is_spent_than_there_was():
    assert formatting.left(-1e-13) == "0"


@pytest.mark.parametrize(
    ("value", "half", "shown"),
    [
        (1234.56, 31.0, "1,235"),
        (1234.56, 4.5, "1,234.6"),
        (1234.0, 4.5, "1,234"),
        (0.12345, 0.013, "0.123"),
        (-0.3, 12.0, "0"),
        (-7.2, 12.0, "-7"),
        (42.0, 0.0, "42"),
        (math.nan, 3.0, "–"),
    ],
)
def test_a_value_has_the_decimals_that_its_error_deserves(value, half, shown):
    assert formatting.value(value, half) == shown


@pytest.mark.parametrize(
    ("confidence", "shown"),
    [(0.95, "95 of 100"), (0.9, "90 of 100"), (0.999, "999 of 1,000"), (0.9999, "9999 of 10,000"), (2 / 3, "66.6667%")],
)
def test_a_confidence_is_a_count_of_cases(confidence, shown):
    assert formatting.share(confidence) == shown


@given(st.floats(0, 1), st.floats(0, 1), st.integers(3, 60))
def test_the_bar_has_its_width_and_shows_whatever_is_spent(spent, this, width):
    bar = formatting.bar(spent, this, width)
    assert len(bar) == width + 2
    assert ("▒" in bar) == (this > 0)
    if spent > 0 and this < 0.5:
        assert "█" in bar


def test_the_bar_in_full():
    assert formatting.bar(0.4, 0.1, 10) == "[████▒·····]"


def test_numbers_of_releases():
    assert formatting.releases((3,)) == "release #3"
    assert formatting.releases((2, 5, 7)) == "releases #2, #5 and #7"
    assert formatting.plural(1, "answer") == "1 answer"
    assert formatting.plural(1200, "answer") == "1,200 answers"
