"""Numbers in texts are written as people write them."""

import math

import pytest

from dpnotebook.views import digits


@pytest.mark.parametrize(
    ("number", "most", "said"),
    [
        (240_417.3, 4, "240,400"),
        (-1_234_567.8, 6, "-1,234,570"),
        (1_234.5, 4, "1,234"),
        (999.96, 4, "1,000"),
        (12_345_678_901.0, 3, "12,300,000,000"),
        (0.000123456, 3, "0.000123"),
        (0.0, 3, "0"),
        (50_000, 6, "50,000"),
        (3e15, 3, "3e+15"),
        (math.inf, 3, "inf"),
        (math.nan, 3, "nan"),
    ],
)
def test_digits_are_those_of_a_person(number, most, said):
    assert digits(number, most) == said
