"""Counts are shown again as the verb that asked for them shows them: shares, and the most frequent first."""

import pandas as pd
import pytest

import dpnotebook as dpn

WARDS = pd.DataFrame({"ward": ["a"] * 60 + ["b"] * 30 + ["c"] * 110, "sex": ["F", "M"] * 100})
DOMAIN = {"ward": ["a", "b", "c"], "sex": ["F", "M"]}

ASKED = {
    "wards.dp.value_counts('ward', normalize=True, epsilon=1)": 1.0,
    "wards.dp.value_counts(['ward', 'sex'], where=\"ward != 'a'\", normalize=True, epsilon=1)": 1.0,
    "wards.dp.value_counts('ward', sort=False, epsilon=1)": None,
    "wards.dp.value_counts('sex', epsilon=1)": None,
    "wards.dp.crosstab('ward', 'sex', normalize=True, epsilon=1)": 1.0,
    "wards.dp.crosstab('ward', 'sex', normalize='index', epsilon=1)": 3.0,
    "wards.dp.crosstab('ward', 'sex', normalize='columns', epsilon=1)": 2.0,
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("code", ASKED)
def test_a_release_is_shown_again_as_it_was_and_its_code_asks_for_it(tmp_path, code):
    path = tmp_path / "ledger.db"
    wards = WARDS.copy()
    with dpn.Session(dpn.Budget(20.0), ledger=path) as session:
        session.protect(wards, "wards", domain=DOMAIN)
        first = eval(code).run()
        assert session.code(first.number) == code
    with dpn.Session(dpn.Budget(20.0), ledger=path) as session:
        session.protect(wards, "wards", domain=DOMAIN)
        again, asked = session.release(first.number), eval(session.code(first.number)).run()
        assert asked.paid == 0
        for shown in (again, asked):
            pd.testing.assert_frame_equal(shown.frame, first.frame)
            assert shown.notes == first.notes
    if ASKED[code] is not None:
        assert first.frame.value.sum() == pytest.approx(ASKED[code])


def test_a_histogram_after_shares_shows_counts(tmp_path):
    wards = WARDS.copy()
    with dpn.Session(dpn.Budget(20.0), ledger=":memory:") as session:
        session.protect(wards, "wards", domain=DOMAIN)
        shares = wards.dp.value_counts("ward", normalize=True, epsilon=1.0).run()
        counts = wards.dp.histogram("ward", epsilon=1.0).run()
        assert counts.paid == 0
        assert counts.frame.value.sum() > 50 > shares.frame.value.sum()
