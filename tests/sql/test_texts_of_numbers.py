"""Texts of numbers: those of a value alone, whatever type a frame has, which one person's gap changes for all rows."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

TEXTS = {
    "CAST(c AS VARCHAR) = '2'": lambda c, y: c == 2,
    "c || 'x' = '2x'": lambda c, y: c == 2,
    "CONCAT(c + 1, '-', y) = '2-2021'": lambda c, y: (c == 1) & (y == 2021),
    "LENGTH(CAST(ABS(c) + 10 AS VARCHAR)) = 2": lambda c, y: c < 90,
    "DATE '2022-06-01' > CAST((y + 1) || '-05-31' AS DATE)": lambda c, y: y < 2022,
    "CAST(c / 2 AS VARCHAR) = '0.5'": lambda c, y: c == 1,
}


@pytest.mark.parametrize("gap", [False, True])
def test_a_missing_value_of_one_person_changes_no_text_of_others(gap):
    random = np.random.default_rng(1)
    frame = pd.DataFrame({"c": random.poisson(1, 3_000), "y": random.integers(2020, 2023, 3_000), "k": "a"})
    if gap:
        frame.loc[0, ["c", "y"]] = np.nan  # both columns are floating-point numbers now
    with dpn.Session(dpn.Budget(1e4, 1e-6), ":memory:", confirm="never") as session:
        session.protect(frame, "t", domain={"k": ["a"]})
        for condition, exact in TEXTS.items():
            told = session.sql(f"SELECT COUNT(*) AS n FROM t WHERE {condition}", epsilon=20.0).run().frame["n"][0]
            assert abs(told - exact(frame["c"], frame["y"]).sum()) < 10, condition
