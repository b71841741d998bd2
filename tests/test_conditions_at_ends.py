"""A condition at the end of what is declared leaves out no code beyond it, and says so; declared apart it does."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

SAYS = {
    "area <= 1000": "area above 1,000",
    "area >= 0 and area <= 1000": "area above 1,000 or below 0",
    "0 <= area <= 1000 and age > 10": "age below 18|area above 1,000 or below 0",
    "area.between(0, 1000)": "area above 1,000 or below 0",
    "age < 200": "age above 95",
    "area >= 100 and age < 95": "",
    "area >= 0 and area < 500": "",
    "age > 18": "",
    "area < 900 or type == 'a'": "",
}


def farms(rows=600):
    """Farms whose areas and ages have codes, -9 and 999999, where nothing is told."""
    place = np.arange(rows)
    area = np.where(place % 20 == 3, -9.0, np.where(place % 30 == 7, 999_999.0, place * 7.0 % 1_000))
    age = np.where(place % 17 == 0, -9, 18 + place % 70)
    return pd.DataFrame({"area": area, "age": age, "type": np.array(["a", "b"])[place % 2]})


def domain(**options):
    return {"area": dpn.Bins(0, 1_000, width=50, **options), "age": dpn.Range(18, 95, **options), "type": ["a", "b"]}


@pytest.mark.parametrize("where", SAYS)
def test_what_a_condition_asks_in_vain_is_said(where, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame = farms()
    with closing(exact_session(dpn.Budget(9.0))) as session:
        session.protect(frame, "farms", domain=domain())
        query = frame.dp.count(where=where, epsilon=0.1)
        notes = " ".join(query.run().notes)
        for part in filter(None, SAYS[where].split("|")):
            assert part in notes
            assert part in str(query.plan)
        assert ("leaves none of them out" in notes) is bool(SAYS[where])


def test_declared_apart_it_leaves_out_what_pandas_leaves_out(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame, where = farms(), "area >= 0 and area <= 1000 and age >= 18"
    with closing(exact_session(dpn.Budget(9.0))) as session:
        session.protect(frame, "farms", domain=domain(outside="other"))
        release = frame.dp.count(where=where, epsilon=0.1).run()
        assert release.value == len(frame.query(where))
        assert not any("leaves none" in note for note in release.notes)
    with closing(exact_session(dpn.Budget(9.0))) as session:
        session.protect(frame, "farms", domain=domain())
        release = frame.dp.count(where=where, epsilon=0.1).run()
        assert release.value == len(frame)  # all of them, which is why it is said


def test_in_sql_as_well(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame = farms()
    with closing(exact_session(dpn.Budget(9.0))) as session:
        session.protect(frame, "farms", domain=domain())
        text = "SELECT COUNT(*) AS n, AVG(age) AS age FROM farms WHERE area BETWEEN 0 AND 1000 AND age >= 18"
        notes = " ".join(session.sql(text, epsilon=0.1).run().notes)
        assert "of age below 18 and of area above 1,000 or below 0 count as the nearest bound" in notes
        other = session.sql("SELECT COUNT(*) AS n FROM farms WHERE area BETWEEN 100 AND 250", epsilon=0.1).run()
        assert not any("leaves none" in note for note in other.notes)


def test_data_decide_nothing_of_it():
    """It follows from what is declared: without any code in the data it is said as well."""
    clean = farms().assign(area=10.0, age=40)
    said = []
    for frame in (farms(), clean):
        with closing(dpn.Session(dpn.Budget(9.0), ":memory:")) as session:
            session.protect(frame, "farms", domain=domain())
            said.append(str(frame.dp.count(where="area <= 1000", epsilon=0.1).plan))
    assert said[0] == said[1]
