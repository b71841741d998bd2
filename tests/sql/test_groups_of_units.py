"""Units in each group, without delta: as many groups of each unit count as are found, and not rows of few groups."""

import math
from contextlib import closing
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from added_up import connect
from private_selects import aggregate, select

import dpnotebook as dpn
from dpnotebook.privacy.accountant import accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.sql.aggregates.budget_split import shares
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.row_histogram import row_edges
from dpnotebook.sql.rewrite.profiles import rows_of_units
from dpnotebook.sql.rows_profile import measured_rows
from dpnotebook.sql.select import Key

MONTHS = list(range(1, 11))
BY_MONTH = "SELECT month, COUNT(DISTINCT pupil) AS n FROM exams GROUP BY month"


def exams(pupils=6_000, seed=2):
    """Return up to 29 exams of each pupil, in any of ten months, of which a few pupils have one only."""
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(pupils), random.integers(4, 30, pupils))
    month = np.where(who % 10 == 0, 1 + who % 7, random.choice(MONTHS, who.size))
    return pd.DataFrame({"pupil": who, "month": month, "good": random.random(who.size) < 0.3})


EXAMS = exams()


def opened(epsilon=60.0):
    """Return a session in which nobody says how many exams a pupil has."""
    session = dpn.Session(Budget(epsilon), ":memory:", confirm="never")
    session.protect(EXAMS, "exams", unit="pupil", domain={"month": MONTHS, "good": bool})
    return session


def sought(most=1_000, levels=MONTHS):
    """Return a private aggregation that looks for how many groups of a unit count."""
    chosen = select(aggregate("units"), kind="groups", most=most, selection="all", rows_if_hidden=most)
    return replace(chosen, keys=(Key("k", tuple(levels)),), rows='SELECT u, k0, x0 FROM "the table"')


def as_rows(frame):
    """Return rows as the queries name them, in which keys are places among the levels."""
    return pd.DataFrame({"u": frame["pupil"].astype(str), "k0": frame["month"] - 1, "x0": 1.0})


def test_each_unit_is_counted_once_by_the_number_of_its_groups():
    edges = row_edges(10)
    found = rows_of_units(sought(), edges, connect(as_rows(EXAMS)))
    exact, _ = np.histogram(EXAMS.groupby("pupil")["month"].nunique(), np.array(edges, dtype=float))
    np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("budget", [Budget(1.0), Budget(1.0, 1e-6)], ids=["Laplace", "Gaussian"])
@pytest.mark.parametrize("levels", [MONTHS, MONTHS[:1]])
def test_it_costs_what_it_costs(budget, levels):
    """By the noise that is drawn, of what is found and of the counts: a unit changes as many of them as count."""
    accountant = accountant_for(budget)
    total, power = accountant.units(0.7), 2 if accountant.law.euclidean else 1
    chosen, drawn = sought(levels=levels), []

    def draw(noise, scale, size):
        drawn.append(scale)
        return np.zeros(size, dtype=np.int64)

    frame = EXAMS[EXAMS["month"].isin(levels)]
    found, _ = measured_rows(chosen, shares(chosen, total, accountant), accountant, connect(as_rows(frame)), draw)
    assert found.most <= len(levels)
    measured = measuring(chosen.with_rows(found.most), shares(chosen, total, accountant), accountant)
    (block,) = measured.blocks
    (times,) = block.combine[0]
    spent = accountant.rate(drawn[0]) + found.most * times**power * accountant.rate(block.scale)
    assert 0.998 * total < spent <= total


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_answers_are_about_the_exact_ones(epsilon):
    """An eighth of the pupils was missing where as many rows were drawn as there are months, and nothing was said."""
    exact = EXAMS.groupby("month")["pupil"].nunique()
    with closing(opened()) as session:
        release = session.sql(BY_MONTH, epsilon=epsilon).run()
        found = release.frame.set_index("month")
        off = found["n"] - exact.reindex(found.index)
        assert np.abs(off).mean() < 5.5 * found["n_std_error"].max() < 0.1 * exact.mean()
        assert found["n_std_error"].max() < 15 * math.sqrt(2) / epsilon
        assert any("groups of each unit count, as was found" in note for note in release.notes)
        assert session.profile()["of"].tolist() == ["groups of one unit"]


def test_what_was_found_serves_the_same_groups_alone():
    with closing(opened()) as session:
        first = session.sql(BY_MONTH, epsilon=1.0)
        assert "find first how many groups of one unit to let count" in " ".join(first.plan.steps)
        first.run()
        again = session.sql(BY_MONTH, epsilon=1.5).plan
        assert "find first" not in " ".join(again.steps)
        assert np.isfinite(again.error)
        for other in ("SELECT good, COUNT(DISTINCT pupil) AS n FROM exams GROUP BY good", f"{BY_MONTH}, good"):
            assert "find first" in " ".join(session.sql(other, epsilon=1.0).plan.steps)


def test_beside_a_count_it_is_rows_that_count_and_what_that_takes_is_told():
    """Of few of a unit's rows most are in the same groups: that was not told."""
    with closing(opened()) as session:
        release = session.sql(f"{BY_MONTH.replace(' FROM', ', COUNT(*) AS m FROM')}", epsilon=1.0).run()
        assert any("rows of each unit count, as was found" in note for note in release.notes)
        exact = EXAMS.groupby("month")["pupil"].nunique()
        found = release.frame.set_index("month")
        assert np.abs(found["n"] - exact.reindex(found.index)).mean() < 5.5 * found["n_std_error"].max()


def test_who_is_in_a_group_is_reached_by_so_many_rows():
    """The share of groups that rows reach, against drawing them."""
    from dpnotebook.sql.aggregates.units_rows import _reached

    random = np.random.default_rng(3)
    for groups, rows in ((10, 12), (4, 3), (50, 30)):
        drawn = [np.unique(random.integers(groups, size=rows)).size for _ in range(4_000)]
        spread = np.std(drawn) / math.sqrt(len(drawn))
        assert _reached(np.array([float(rows)]), groups)[0] == pytest.approx(np.mean(drawn), abs=5.5 * spread)
