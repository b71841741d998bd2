"""The SQL that puts numbers into bins says what NumPy says, at every edge and next to it."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from dpnotebook.sql.rewrite.steps import bin_number

EDGES = {
    "halves": np.unique(-3.0 + 259.5 * (np.arange(513) / 512)),
    "thirds": np.unique(1 / 3 + 1e-3 / 7 * (np.arange(513) / 512)),
    "far from zero": np.unique(1e6 + 1e-5 * (np.arange(101) / 100)),
    "too near for even ones": np.unique(1e15 + 3.0 * (np.arange(513) / 512)),
    "all that numbers reach": np.unique(-1e300 + 2e300 * (np.arange(257) / 256)),
    "tiny": np.unique(1e-310 * (np.arange(129) / 128)),
    "not even": np.cumsum(np.random.default_rng(2).random(200)),
    "nearly even": np.concatenate([np.arange(100.0), [100.5]]),
}


@pytest.mark.parametrize("name", EDGES)
def test_a_number_is_in_the_bin_that_its_edges_say(name):
    edges = EDGES[name]
    span = edges[-1] / 2 - edges[0] / 2
    near = [np.nextafter(np.nextafter(edges, way), way) for way in (-np.inf, np.inf)]
    near += [np.nextafter(edges, -np.inf), edges, np.nextafter(edges, np.inf)]
    outside = [-np.inf, edges[0] - span, edges[-1] + span, np.inf]
    values = np.concatenate([*near, np.random.default_rng(0).uniform(edges[0] / 2, edges[-1] / 2, 5_000) * 2, outside])
    frame = pd.DataFrame({"y": values})
    found = duckdb.from_df(frame).project(f"{bin_number('y', tuple(edges.tolist()))} AS b").fetchnumpy()["b"]
    wanted = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, edges.size - 2)
    np.testing.assert_array_equal(found, wanted)


def test_bins_of_one_width_are_worked_out_and_others_are_searched():
    told = {name for name, edges in EDGES.items() if "floor" in bin_number("y", tuple(edges.tolist()))}
    assert told == {"halves", "all that numbers reach", "tiny"}


@pytest.mark.parametrize(("low", "high"), [(1 / 3, 1 / 3 + 1e-3 / 7), (-7.1, 1e3 / 3), (1e6, 1e6 + 1e-5)])
def test_what_bins_divide_need_not_be_where_the_last_one_ends(low, high):
    """The last edge is rounded, and what it is away from the first one is not what was divided."""
    edges = low + (high - low) * (np.arange(513) / 512)
    inside = np.random.default_rng(0).uniform(low, high, 5_000)
    values = np.concatenate([np.nextafter(edges, -np.inf), edges, np.nextafter(edges, np.inf), inside])
    sql = bin_number("y", tuple(edges.tolist()), high)
    assert "floor" in sql
    found = duckdb.from_df(pd.DataFrame({"y": values})).project(f"{sql} AS b").fetchnumpy()["b"]
    np.testing.assert_array_equal(found, np.clip(np.searchsorted(edges, values, side="right") - 1, 0, 511))
