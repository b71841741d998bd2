"""Means over rows that are drawn, in sessions without delta: intervals hold which rows and which people count.

Of noise and bounds of values alone they held .68 of the exact means over all rows.
"""

import math
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from messy_tables import GROUPS
from skewed_people import opened, table

from dpnotebook.sql.aggregates.counted_rows import CountedRows
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.moved import WALKED, with_moved
from dpnotebook.sql.aggregates.ratios import moves_of
from dpnotebook.sql.aggregates.taken import Taken

KINDS = ["lognormal", "years", "negative", "million", "wide lognormal", "mostly zero"]


def shown(frame, text, epsilon=1.0):
    with closing(opened(frame, 0)) as session:
        release = session.sql(text, epsilon=epsilon).run()
        details = session.ledger.get(release.number).details["selects"][0]
        return release, details, Measuring.from_json(details["measuring"])


@pytest.mark.statistical
def test_intervals_of_means_hold_the_exact_means_over_all_rows():
    """Random tables of people of whom few have most rows; held .58 before in these, for a quarter of the length.

    Of these 36 tables .955 are held, with a standard deviation of .03.
    """
    random, held = np.random.default_rng(), []
    for kind in [*KINDS, *KINDS, *KINDS]:
        for by in (False, True):
            frame = table(random, kind, int(random.choice([5_000, 20_000])))
            release, _, _ = shown(frame, f"SELECT {'g, ' * by}AVG(x) AS a FROM t{' GROUP BY g' * by}")
            told = release.frame
            truth = frame.groupby("g").x.mean().reindex(told["g"]) if by else [frame.x.mean()]
            held.append(np.mean((told["a_lower"] <= np.array(truth)) & (np.array(truth) <= told["a_upper"])))
    assert np.mean(held) > 0.84


def test_it_is_recorded_said_and_redrawn():
    random = np.random.default_rng(3)
    release, details, measured = shown(table(random, "years", 5_000), "SELECT g, AVG(x) AS a FROM t GROUP BY g")
    (part,) = measured.parts
    rows = CountedRows.from_json(details["rows"])
    assert rows.walked > 0
    assert part.drawn == pytest.approx(rows.drawn * details["cut_spread"]["0"] ** 2)
    assert Measuring.from_json(measured.to_json()) == measured
    assert any("intervals of averages are longer for that" in note for note in release.notes)
    frame = release.frame.set_index("g").loc[GROUPS]
    longer = np.sqrt((frame["a_upper"] - frame["a_lower"]) ** 2 / 4 - (2.12 * frame["a_std_error"]) ** 2)
    assert (longer.to_numpy() > 2.12 * WALKED * rows.walked * details["cut_spread"]["0"] * 0.5).all()
    drawn = release.samples(4_000)["a"].to_numpy(float).reshape(4_000, -1)
    reached = np.quantile(drawn, 0.975, axis=0) - np.quantile(drawn, 0.025, axis=0)
    assert reached == pytest.approx((frame["a_upper"] - frame["a_lower"]).to_numpy(), rel=0.25)


def test_small_groups_are_told_to_err_more_by_which_rows_count():
    _, _, measured = shown(table(np.random.default_rng(4), "years", 5_000), "SELECT AVG(x) AS a FROM t")
    part = replace(measured.parts[0], moved=3.0, moved_down=4.0, drawn=400.0)
    down, up = moves_of(part, np.array([1.0, 100.0, math.inf]))
    assert down.tolist() == pytest.approx([math.hypot(4, 20), math.hypot(4, 2), 4])
    assert up.tolist() == pytest.approx([math.hypot(3, 20), math.hypot(3, 2), 3])


def test_what_is_told_of_a_mean_follows_from_rows_and_from_how_values_are_spread():
    _, _, measured = shown(table(np.random.default_rng(5), "years", 2_000), "SELECT AVG(x) AS a FROM t")
    measured = replace(measured, parts=(replace(measured.parts[0], moved=0.0, moved_down=None, drawn=0.0),))
    told = with_moved(measured, {0: Taken(spread=5.0)}, rows=CountedRows(3, walked=2.0, drawn=7.0)).parts[0]
    assert told.moves == (WALKED * 10.0, WALKED * 10.0)
    assert told.drawn == 175.0
    assert with_moved(measured, {0: Taken(spread=5.0)}).parts[0].drawn == 0.0


def test_where_each_has_one_row_hardly_anything_is_told(monkeypatch):
    """Of rows that are drawn, as those of groups are.

    Noise may hide a few that have more; where few people have most rows it is at least .08, 1.4 and .15.
    """
    told = []
    monkeypatch.setattr("dpnotebook.sql.analysis.unit_sums.adds_up_rows", lambda select: False)
    for _ in range(9):
        frame = table(np.random.default_rng(), "years", 3_000, one=True)
        _, details, measured = shown(frame, "SELECT AVG(x) AS a FROM t")
        rows = CountedRows.from_json(details["rows"])
        told.append((rows.walked, rows.drawn, max(measured.parts[0].moves)))
    walked, drawn, moved = np.median(told, axis=0)
    assert walked < 0.02
    assert drawn < 0.1
    assert moved < 0.2
