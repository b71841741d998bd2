"""How rarely each interval may miss for all to hold at once: against laws that are known exactly."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from dpnotebook.errors import SQLError
from dpnotebook.session.together import misses_together

HALF = norm.ppf(0.975)
ROWS = 4


def released(columns, rows=ROWS):
    """Return a frame with columns of standard normal errors, each with its interval of 95%."""
    frame = pd.DataFrame(index=range(rows))
    for name in columns:
        parts = {"": 7.0, "_std_error": 1.0, "_lower": 7.0 - HALF, "_upper": 7.0 + HALF}
        frame = frame.assign(**{name + part: value for part, value in parts.items()})
    return frame


def noise(count, draws):
    """Return standard normal noise for columns, shape (columns, draws, rows)."""
    return np.random.default_rng(5).standard_normal((count, draws, ROWS))


def test_numbers_with_nothing_in_common_have_the_exact_bound():
    names = ["a", "b", "c"]
    found = misses_together(released(names), names, 0.95, lambda n: dict(zip(names, 7 + noise(3, n), strict=True)))
    assert found == pytest.approx(1 - 0.95 ** (1 / 12), rel=0.25)  # 200 of 4,000 draws are beyond: 7% each


def test_columns_of_the_same_noise_miss_together():
    """Three columns of four rows: as four numbers, not as twelve."""
    names, signs = ["a", "b", "c"], (1, -1, 1)

    def redraws(draws):
        (one,) = noise(1, draws)
        return {name: 7 + sign * one for name, sign in zip(names, signs, strict=True)}

    found = misses_together(released(names), names, 0.95, redraws)
    assert found == pytest.approx(1 - 0.95 ** (1 / 4), rel=0.25)


def test_what_does_not_exist_is_not_counted_and_what_has_no_width_is():
    """A change has no first row, which misses never; of a rank without another nobody knows how rare another is."""
    names = ["a", "b"]
    frame = released(names)
    frame.loc[:, "b"] = np.nan
    drawn = {"a": 7 + noise(1, 4_000)[0], "b": np.full((4_000, ROWS), np.nan)}
    alone = misses_together(frame, names, 0.95, lambda n: drawn)
    assert alone == pytest.approx(1 - 0.95 ** (1 / 4), rel=0.25)
    frame = released(names).assign(b=3.0, b_lower=3.0, b_upper=3.0)
    assert misses_together(frame, names, 0.95, lambda n: drawn) == pytest.approx(1 - 0.975 ** (1 / 4), rel=0.3)


def test_it_is_never_rarer_than_the_union_bound_nor_more_often_than_alone():
    names = ["a"]
    for spread, most in ((1e3, True), (1e-3, False)):
        redraws = lambda n: {"a": 7 + spread * noise(1, n)[0]}  # noqa: E731, B023
        found = misses_together(released(names), names, 0.95, redraws)
        assert 0.05 / 4 <= found <= 0.05, (spread, most)


def test_where_noise_is_not_redrawn_it_is_not_told():
    def refused(draws):
        raise SQLError("it cannot be redrawn")

    assert misses_together(released(["a"]), ["a"], 0.95, refused) is None
    assert misses_together(released(["a"], rows=1), ["a"], 0.95, refused) is None
    assert misses_together(released(["a"], rows=5_000), ["a"], 0.95, refused) is None
