"""What releases and cards of plain SQL say to whoever knows SQL and nothing else: totals, NULL, large numbers."""

import datetime

import pandas as pd
import pytest
from card_texts import release_html, release_text

import dpnotebook as dpn
from dpnotebook.notebook.cards.totals import ALL, EITHER, MISSING
from dpnotebook.sql.aggregates.expected import _taken
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.testing import exact_session

DAY = datetime.datetime(2024, 1, 5)
VISITS = pd.DataFrame(
    [(who, ward, city, DAY + datetime.timedelta(days=40 * month), 10.0)
     for who in range(120)
     for ward, city, month in [(["ER", "ICU"][who % 2], ["Ulm", "Bonn", None][who % 3], who % 3)]],
    columns=["who", "ward", "city", "day", "cost"],
)  # fmt: skip
KNOWN = VISITS.assign(city=VISITS["city"].fillna("Jena"))


@pytest.fixture(params=["known", "missing"])
def table(request):
    return request.param


@pytest.fixture
def session(table, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    made = exact_session(dpn.Budget(100.0, 1e-6), ":memory:", confirm="never")
    made.protect(KNOWN if table == "known" else VISITS, "visits", unit="who", max_rows=1)
    yield made
    made.close()


def shown(session, text):
    """Return the lines of a release in which groups stand, and the whole as a page has it."""
    release = session.sql(text, epsilon=1).run()
    return release_text(release).splitlines(), release_html(release)


TOTALS = "SELECT ward, city, COUNT(*) AS n FROM visits GROUP BY {} ORDER BY ward, city"


def test_totals_are_called_so(session, table):
    """As far as a group without a city is not another one, which nothing in the row would tell."""
    lines, page = shown(session, TOTALS.format("ROLLUP (ward, city)"))
    assert any(line.split()[:2] == [ALL, ALL] and "120" in line for line in lines)
    of_ward = [line for line in lines if line.split()[0] == "ER" and "(all" in line]
    if table == "known":
        assert [line.split()[1] for line in of_ward] == [ALL]
        assert MISSING not in page
    else:
        assert len(of_ward) == 2
        assert all(EITHER in line for line in of_ward)


def test_where_totals_may_be_left_out_it_is_not_claimed(session):
    lines, _ = shown(session, TOTALS.format("GROUPING SETS ((ward), (city))"))
    assert not any(ALL in line for line in lines)
    assert any(EITHER in line for line in lines)


@pytest.mark.parametrize("table", ["missing"], indirect=True)
def test_a_plain_group_without_a_key_is_missing(session):
    _, page = shown(session, "SELECT city, COUNT(*) AS n FROM visits GROUP BY city")
    assert MISSING in page
    assert ALL not in page
    text = "SELECT CASE WHEN city = 'Ulm' THEN 1 END AS k, COUNT(*) AS n FROM visits GROUP BY k"
    lines, page = shown(session, text)
    assert any(line.split()[0] == MISSING for line in lines)
    assert "NA" not in page.replace("NAN", "")


@pytest.mark.parametrize("table", ["known"], indirect=True)
def test_what_a_statement_leaves_empty_is_null_and_not_something_that_was_not_found(session):
    """LAG has nothing before the first row; there is a note, of values, that makes other gaps "not found"."""
    month = "date_trunc('month', day)"
    text = (
        f"SELECT {month} AS m, SUM(cost) AS s, SUM(cost) - LAG(SUM(cost)) OVER (ORDER BY {month}) AS change "
        "FROM visits GROUP BY m ORDER BY m"
    )
    lines, page = shown(session, text)
    first = next(line for line in lines if "2024-01" in line)
    assert "NULL" in first
    assert "not found" not in page


def test_what_bounds_take_is_written_in_plain_digits():
    assert _taken(Taken(17_412.3, 20_160.0), "group") == (
        "that takes about 17,400 from a group, at most about 20,200, beside the noise"
    )
    assert "1,840,000," in _taken(Taken(0.05, 1_841_000.0), "group")
    assert "about 0.0595 " in _taken(Taken(0.05951, 3.0), "mean")
