"""Some of the groups of a release, where each row is a unit of its own, and groups that a condition rules out."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.sql.reuse.levels import KeyLevels

WARDS = [f"ward {i}" for i in range(4)]


def opened(domain, unit=None):
    """Return a session over a thousand rows a ward."""
    random = np.random.default_rng(2)
    frame = pd.DataFrame({"ward": np.repeat(WARDS, 1_000), "cost": random.gamma(2, 50, 4_000)}).assign(
        who=lambda rows: rows.index // 2, sex=random.choice(["F", "M"], 4_000)
    )
    session = dpn.Session(dpn.Budget(4.0, 1e-6), ":memory:", confirm="never")
    session.protect(frame, "visits", domain=domain, unit=unit)
    return session


WHAT = ["COUNT(*)", "COUNT(cost)", "SUM(cost)", "AVG(cost)", "VAR_SAMP(cost)", "AVG(cost), SUM(cost)"]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("domain", [{"ward": WARDS}, None], ids=["declared", "not declared"])
def test_some_groups_are_free_where_rows_are_units(domain, what, same_noise):
    """No rows of a unit are drawn there, so a group is the same whatever else is asked; a unit's may be others."""
    with closing(opened(domain)) as session:
        every = session.sql(f"SELECT ward, {what} FROM visits GROUP BY ward", epsilon=0.5).run().frame
        some = session.sql(
            f"SELECT ward, {what} FROM visits WHERE ward IN ('ward 1', 'ward 3') GROUP BY ward", epsilon=0.5
        )
        assert some.plan.free
        expected = every[every["ward"].isin(["ward 1", "ward 3"])].reset_index(drop=True)
        pd.testing.assert_frame_equal(some.run().frame, expected)
        two = session.sql(f"SELECT {what} FROM visits WHERE ward = 'ward 2'", epsilon=0.5, error=None)
        if domain is not None:  # of groups that were not declared, the one pays nothing for the threshold
            assert two.plan.free
            assert two.run().frame.iloc[0].tolist() == pytest.approx(every.iloc[2, 1:].tolist())


def test_a_sample_of_a_units_rows_is_not_that_of_some_groups(same_noise):
    """Where a few rows of each unit are drawn, those of a ward are others than those of all wards."""
    text = "SELECT ward, MEDIAN(cost) AS x FROM visits{} GROUP BY ward"
    with closing(opened({"ward": WARDS, "cost": dpn.Bins(0, 1_000, width=5)}, unit="who")) as session:
        session.sql(text.format(""), epsilon=0.5).run()
        assert not session.sql(text.format(" WHERE ward IN ('ward 1', 'ward 3')"), epsilon=0.5).plan.free


class TestRuledOut:
    """Groups of which a condition says that they have no rows."""

    @pytest.mark.one_in(4)
    @pytest.mark.parametrize(
        ("condition", "left"),
        [
            ("ward IN ('ward 1', 'ward 2')", WARDS[1:3]),
            ("ward <> 'ward 0'", WARDS[1:]),
            ("NOT (ward = 'ward 3') AND cost > 10", WARDS[:3]),
            ("cost > 10", WARDS),
        ],
    )
    def test_they_are_not_shown(self, condition, left, same_noise):
        """Neither in the answer nor in the number of answers: an average of nothing is nobody's question."""
        with closing(opened({"ward": WARDS})) as session:
            query = session.sql(f"SELECT ward, AVG(cost) AS x FROM visits WHERE {condition} GROUP BY ward", epsilon=0.5)
            assert query.plan.answers == len(left)
            assert query.run().frame["ward"].tolist() == left

    def test_of_several_keys_each_by_itself(self, same_noise):
        """And a release of what is left answers what is asked of it."""
        domain = {"ward": WARDS, "sex": ["F", "M"]}
        text = "SELECT ward, sex, SUM(cost) AS x FROM visits WHERE ward IN ('ward 1', 'ward 2') GROUP BY ward, sex"
        with closing(opened(domain)) as session:
            shown = session.sql(text, epsilon=0.5).run().frame
            assert list(zip(shown["ward"], shown["sex"], strict=True)) == [(w, s) for w in WARDS[1:3] for s in "FM"]
            again = session.sql(text.replace(" GROUP", " AND sex = 'F' GROUP"), epsilon=0.5)
            assert again.plan.free
            assert again.run().frame["x"].tolist() == shown.loc[shown["sex"] == "F", "x"].tolist()

    def test_numbers_beyond_the_ends_count_there(self, same_noise):
        """Of declared whole numbers the last level has what is beyond it."""
        frame = pd.DataFrame({"age": [5] * 500 + [130] * 500, "cost": np.linspace(0, 100, 1_000)})
        session = dpn.Session(dpn.Budget(4.0, 1e-6), ":memory:", confirm="never")
        with closing(session):
            session.protect(frame, "people", domain={"age": dpn.Range(0, 9)})
            found = session.sql("SELECT age, SUM(cost) AS x FROM people WHERE age >= 5 GROUP BY age", epsilon=1).run()
            assert found.frame["age"].tolist() == [5, 6, 7, 8, 9]

    def test_of_ten_thousand_levels_a_condition_is_read_once(self, same_noise, monkeypatch):
        """And not once a level; what is planned is what is delivered."""
        levels, read = [f"code {i}" for i in range(10_000)], []
        frame = pd.DataFrame({"code": np.repeat(levels[:2_000], 2), "cost": 1.0})
        told = KeyLevels.told
        monkeypatch.setattr(KeyLevels, "told", lambda key, condition: read.append(condition) or told(key, condition))
        session = dpn.Session(dpn.Budget(4.0, 1e-6), ":memory:", confirm="never")
        with closing(session):
            session.protect(frame, "visits", domain={"code": levels})
            query = session.sql(
                "SELECT code, SUM(cost) AS x FROM visits WHERE code NOT IN ('code 1', 'code 5') GROUP BY code",
                epsilon=1,
            )
            answers, reads = query.plan.answers, len(read)
            assert reads <= 4
            found = query.run().frame
        assert answers == len(found) == 9_998
        assert found["code"].tolist() == [level for level in levels if level not in ("code 1", "code 5")]
