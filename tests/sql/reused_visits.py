"""Visits with missing and undeclared values, and when two answers about them are the same."""

import numpy as np
import pandas as pd

import dpnotebook as dpn

DOMAIN = {
    "sex": ["f", "m"],
    "ward": dpn.Categories(["north", "south", "it's"], other="elsewhere", nullable=True),
    "year": dpn.Range(2019, 2023),
    "age": dpn.Range(0, 3, nullable=True),
    "urgent": dpn.Boolean(),
    "room": [f"r{i}" for i in range(30)],
}

MUCH = 8_000.0  # nothing is clipped at so little noise


def made(rows=6_000, seed=3):
    """Return visits with missing and undeclared values in every column."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "who": random.permutation(np.arange(rows) % 900),  # no unit has far more than others, to be clipped
        "sex": random.choice(["f", "m", "x", None], rows),
        "ward": random.choice(["north", "south", "it's", "elsewhere", "attic", None], rows),
        "town": random.choice(["a", "B", "b", "", None], rows),
        "year": random.choice([2019, 2020, 2021, 2022, 2023, None], rows),
        "age": random.choice([0, 1, 2, 3, None], rows),
        "urgent": random.choice([True, False, None], rows),
        "room": random.choice([f"r{i}" for i in range(31)], rows),
        "floor": random.integers(-2, 3, rows),
        "cost": np.where(random.random(rows) < 0.1, np.nan, random.gamma(2, 50, rows).clip(max=200).round(2)),
    })  # fmt: skip
    return frame.astype({"year": "Int64", "age": "Int64", "urgent": "boolean"})


def protected(session, frame=None, **more):
    session.protect(made() if frame is None else frame, "visits", unit="who", domain=DOMAIN, **more)
    return session


def assert_same(answer, fresh):
    """Assert that answers are those of another release; groups that cannot have rows may be missing."""
    keys = list(fresh.keys)
    assert answer.keys == fresh.keys
    assert list(answer.frame.columns) == list(fresh.frame.columns)
    numbers = [name for name in fresh.frame.columns if name not in keys and "_" not in name.removeprefix("avg_")]
    if not keys:
        assert_close(answer.frame, fresh.frame, numbers)
        return
    both, here = (frame[keys].map(repr).agg("|".join, axis=1) for frame in (fresh.frame, answer.frame))
    assert list(here) == [key for key in both if key in set(here)]  # in the same order
    left_out = fresh.frame[~both.isin(set(here)).to_numpy()]
    counts = [name for name in left_out if name.startswith(("count", "sum", "n")) and "_" not in name]
    assert (left_out[counts] == 0).all(axis=None)
    shown = fresh.frame[both.isin(set(here)).to_numpy()]
    assert_close(answer.frame, shown, numbers)


def assert_close(frame, fresh, numbers):
    """Assert that numbers are equal but for rounding and what noise is left in them, in small groups the most."""
    for name in numbers:
        error, rounded = f"{name}_std_error", 1e-4 * fresh[name].abs().to_numpy(float)
        if error in frame and error in fresh:
            rounded = 9 * np.hypot(frame[error].to_numpy(float), fresh[error].to_numpy(float))
        here, there = frame[name].to_numpy(float), fresh[name].to_numpy(float)
        assert (np.isnan(here) == np.isnan(there)).all()
        known = ~np.isnan(there)
        assert (np.abs(here - there) <= np.nan_to_num(rounded) + 1e-3)[known].all(), name
