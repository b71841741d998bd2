"""Rows with missing values are counted by one word; where they are not, the table says so, and by which."""

from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DomainError
from dpnotebook.testing import exact_session

DOMAIN = {
    "sex": dpn.Categories(["F", "M"], other="another", label="Sex"),
    "smokes": bool,
    "income": dpn.Bins(0, 100, width=10, unit="dollars"),
    "born": dpn.Dates("2000-01-01", "2000-12-31", by="month"),
    "at": dpn.Times(),
    "siblings": range(9),
}


def pupils(size=900):
    """Return rows of which a third has no sex, a fifth no income, and so on; only siblings are always there."""
    place = np.arange(size)
    born = pd.Series(pd.Timestamp("2000-01-01") + pd.to_timedelta(place % 366, unit="D"))
    return pd.DataFrame(
        {
            "sex": np.where(place % 3 == 0, None, np.where(place % 2 == 0, "F", "M")),
            "smokes": pd.array([None if i % 7 == 0 else i % 2 == 0 for i in place], dtype="boolean"),
            "income": np.where(place % 5 == 0, np.nan, place % 100),
            "born": born.mask(place % 11 == 0),
            "at": born.mask(place % 13 == 0),
            "siblings": place % 9,
        }
    )


@pytest.fixture(autouse=True)
def may_answer_exactly(monkeypatch):
    """Let sessions leave the noise out."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def exact(frame, **options):
    """Return a table in a session whose noise is left out."""
    return exact_session(dpn.Budget(9.0)).protect(frame, "pupils", domain=DOMAIN, **options)


def test_every_row_counts_where_missing_values_do():
    frame = pupils()
    assert exact(frame).count(epsilon=0.1).run().value == len(frame.dropna()) < len(frame)
    table = exact(frame, nullable=True)
    assert table.count(epsilon=0.1).run().value == len(frame)
    assert repr(table).endswith("\n rows with an undeclared born are left out>")
    found = table.groupby("sex").count(epsilon=0.1).run().frame
    assert found["value"].tolist() == [*frame["sex"].value_counts()[["F", "M"]], 0, frame["sex"].isna().sum()]
    # Levels are ten wide, and values are taken to be in their middle.
    assert table.mean("income", epsilon=0.1).run().value == pytest.approx(frame["income"].mean(), abs=1.0)
    assert table.count(where="income.isna()", epsilon=0.1).run().value == frame["income"].isna().sum()


def test_only_those_that_are_named_do():
    frame = pupils()
    table = exact(frame, nullable=["sex", "smokes"])
    assert table.count(epsilon=0.1).run().value == len(frame.dropna(subset=["income", "born", "at"]))
    assert table.domain["sex"].nullable
    assert not table.domain["income"].nullable
    said = "rows with no income, born, at or siblings, or with an undeclared born, are left out; nullable=True"
    assert said in repr(table)


@pytest.mark.parametrize("nullable", [True, ["born", "income"], [], False])
def test_it_is_the_domain_that_is_written_out(nullable):
    """With what people call the columns, which tells no domains apart."""
    names = list(DOMAIN) if nullable is True else nullable or []
    written = dpn.Domain(DOMAIN)
    found = written.with_missing(nullable)
    assert {name for name, attribute in found.items() if attribute.nullable} == set(names)
    assert found.names == written.names
    assert (found.label_of("sex"), found.unit_of("income")) == ("Sex", "dollars")
    by_hand = {
        "sex": dpn.Categories(["F", "M"], other="another", nullable=True),
        "smokes": dpn.Boolean(nullable=True),
        "income": dpn.Bins(0, 100, width=10, nullable=True),
        "born": dpn.Dates("2000-01-01", "2000-12-31", by="month", nullable=True),
        "at": dpn.Times(nullable=True),
        "siblings": dpn.Range(0, 8, nullable=True),
    }
    assert found == dpn.Domain({name: by_hand[name] if name in names else written[name] for name in written})


def test_a_frame_says_it_too():
    frame = pupils()
    with closing(dpn.Session(dpn.Budget(1.0), ":memory:")) as session:
        table = frame.dp.protect("pupils", domain=DOMAIN, nullable=["at"], session=session)
        assert table.domain["at"].nullable


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (1, "True, or a list of declared columns whose missing values count (got 1)"),
        ("sex", "names are a list such as ['sex']"),
        (["sex", "age"], "there is no declared column 'age'"),
        ([None], "there is no declared column None"),
        (None, "(got None)"),
    ],
)
def test_what_says_no_columns_is_refused(given, said):
    with closing(dpn.Session(dpn.Budget(1.0), ":memory:")) as session:
        with pytest.raises(DomainError, match="nullable= is True") as caught:
            session.protect(pupils(), "pupils", domain=DOMAIN, nullable=given)
        assert said in str(caught.value)
        assert session.tables().empty


@pytest.mark.parametrize("form", ["Int64", "arrow", "float", "object", "int64"])
def test_columns_are_spoken_of_whether_any_are_missing_or_not(form):
    """Whether some are would be read from the data: one missing value turns NumPy's integers into floating point."""
    here = pd.DataFrame({"n": np.arange(40) % 9, "m": np.arange(40) % 2})
    frame = pa.table(here) if form == "arrow" else here.astype({"n": form})
    with closing(dpn.Session(dpn.Budget(1.0), ":memory:")) as session:
        table = session.protect(frame, "numbers", domain={"n": range(9), "m": range(2)})
        assert "rows with no n or m are left out" in repr(table)


NEGATIVE = {
    "siblings != 3": True,
    "not siblings == 3": True,
    "not (siblings < 3)": True,
    "not (2 <= siblings <= 5)": True,
    "grade != 1 and siblings >= 2": True,
    "siblings > 7 or not (grade < 2)": True,
    "siblings < 3": False,
    "siblings != 3 and siblings.notna()": False,
    "grade == 1 or siblings >= 4": False,
}


@pytest.mark.parametrize("where", NEGATIVE)
def test_a_condition_that_counts_missing_values_says_so(where):
    # pandas has both: NaN differs from every value, and what can be NA does not.
    place = np.arange(900)
    siblings = pd.Series(place % 9, dtype=float).mask(place % 4 == 0)
    grade = pd.Series(place % 5, dtype=float).mask(place % 7 == 0)
    frame = pd.DataFrame({"siblings": siblings, "grade": grade})
    with_na = frame.astype("Int64")
    as_nan, as_na = (len(each.query(where, engine="python")) for each in (frame, with_na))
    assert NEGATIVE[where] is (as_nan != as_na)
    domain = {"siblings": dpn.Range(0, 9), "grade": dpn.Range(0, 4)}
    for each in (frame, with_na):  # the dtype of a column decides nothing: other forms of the table do not have it
        session = exact_session(dpn.Budget(9.0))
        session.protect(each, "pupils", domain=domain, nullable=True)
        query = each.dp.count(where=where, epsilon=0.1)
        release = query.run()
        assert release.value == as_nan
        said = [note for note in release.notes if "as NaN differs from every value" in note]
        assert bool(said) is NEGATIVE[where] is ("as NaN differs from every value" in str(query.plan))
        if said:  # what it says to write leaves them out, as pandas does of what can be NA
            apart = said[0].split("'and ")[1].split("'")[0]
            assert each.dp.count(where=f"({where}) and {apart}", epsilon=0.1).run().value <= as_na
    if "or" not in where.split():
        assert each.dp.count(where=f"({where}) and {apart}" if said else where, epsilon=0.1).run().value == as_na
        counted = session.sql(f"SELECT COUNT(*) AS n FROM pupils WHERE {sql_of(where)}", epsilon=0.1).run()
        assert counted.frame["n"].iloc[0] == as_na  # NULL in SQL, of which nothing is said
        assert not any("as NaN" in note for note in counted.notes)


def sql_of(where):
    """Return a condition of pandas as SQL writes it."""
    written = where.replace("==", "=").replace("siblings.notna()", "siblings IS NOT NULL")
    return written.replace("2 <= siblings <= 5", "siblings BETWEEN 2 AND 5")


def test_shares_of_what_a_condition_is_not_say_so_too():
    frame = pupils()
    table = exact(frame, nullable=True)
    release = table.mean("not smokes", epsilon=0.1).run()
    assert release.value == (frame["smokes"].fillna(False) == False).mean()  # noqa: E712 - of a column with NA
    assert any("rows with no smokes satisfy the condition too" in note for note in release.notes)
    assert not any("satisfy the condition" in note for note in table.mean("smokes", epsilon=0.1).run().notes)
    # Measured by itself it is about the same rows.
    ages = table.std("siblings", ddof=0, where="not smokes", epsilon=0.1).run().value
    assert ages == pytest.approx(frame["siblings"][frame["smokes"].fillna(False) == False].std(ddof=0))  # noqa: E712
