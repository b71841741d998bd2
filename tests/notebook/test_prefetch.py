from types import SimpleNamespace

import pandas as pd
import pytest
from card_texts import offer_html, offer_text
from IPython.core.error import UsageError

import dpnotebook as dpn
from dpnotebook.notebook.magics.prefetch import prefetch, read
from dpnotebook.planner.plan import BudgetState

TABLES = ["patients", "visits"]


@pytest.fixture
def offer():
    """Return an offer with three prices, the dearest not affordable."""
    return SimpleNamespace(
        title='ranges("age")',
        table="patients",
        where="",
        unit="rows",
        answers=6_670,
        confidence=0.95,
        budget=BudgetState(1.0, 0.4, 0.6, 0.4, 0.0),
        code='session.prefetch(dpn.ranges("age"), table="patients")',
        prices=pd.DataFrame(
            {
                "error": [100.0, 50.0, 12.5],
                "epsilon": [0.05, 0.1, 0.8],
                "remaining": [0.55, 0.5, 0.0],
                "affordable": [True, True, False],
            }
        ),
    )


@pytest.mark.parametrize(
    ("line", "table", "workload", "where"),
    [
        ('patients ranges("age")', "patients", dpn.ranges("age"), None),
        ('"patients" dpn.ranges("age")', "patients", dpn.ranges("age"), None),
        ("visits marginals(2) + 3*cdf('age')", "visits", dpn.marginals(2) + 3 * dpn.cdf("age"), None),
        ("visits marginals(upto=2)", "visits", dpn.marginals(upto=2), None),
        ("patients small_marginals(100) where sex == 'F' and age > 9", "patients", dpn.small_marginals(100),
         "sex == 'F' and age > 9"),
        ("patients mine", "patients", dpn.workload.AllRange(8), None),
        ("patients 2 * mine", "patients", 2 * dpn.workload.AllRange(8), None),
        ("patients ranges(column)", "patients", dpn.ranges("age"), None),
    ],
)  # fmt: skip
def test_a_line_says_table_workload_and_rows(line, table, workload, where):
    wanted = read(line, TABLES, {"mine": dpn.workload.AllRange(8), "column": "age"})
    assert (wanted.table, wanted.where) == (table, where)
    assert repr(wanted.workload) == repr(workload)


def test_a_single_table_need_not_be_named():
    assert read("marginals(2)", ["patients"], {}).table == "patients"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "of which table"),
        ("patiens ranges('age')", "did you mean patients"),
        ("ranges('age')", "no protected table"),
        ("patients", "of what"),
        ("patients ranges('age'", "no expression"),
        ("patients 7", "no workload"),
        ("patients unknown", "neither a workload nor a variable"),
        ("patients open('/etc/passwd')", "no workload; there are"),
        ("patients ().__class__", "neither"),
        ("patients ranges(*names)", "neither"),
        ("patients ranges('age') + 7", "cannot be combined"),
        ("patients ranges('age') @ 7", "neither"),
        ("patients marginals('two')", "marginals"),
        ("patients ranges(**{})", "no workload"),
    ],
)
def test_what_is_no_line_is_refused(line, said):
    with pytest.raises(UsageError, match=said):
        read(line, TABLES, {"names": ["age"]})


def test_nothing_in_a_line_is_executed():
    seen = []
    with pytest.raises(UsageError):
        read("patients ranges(f())", TABLES, {"f": lambda: seen.append(1)})
    assert seen == []


def test_the_card_lists_prices_with_what_would_be_left(offer, page):
    parsed = page(offer_html(offer))
    assert 'For sale: ranges("age") in patients · 6,670 answers · nothing is spent by looking' in parsed.text
    assert parsed.rows == [
        ["error, 95%", "", "of the budget, once", "ε", "left after"],
        ["±100 rows", "", "5%", "0.05", "55%"],
        ["±50 rows", "", "10%", "0.1", "50%"],
        ["±12.5 rows", "", "80%", "0.8", "not enough budget"],
    ]
    assert parsed.alts == ["plus or minus 100", "plus or minus 50", "plus or minus 12.5"]


def test_the_card_has_the_code_for_every_price_that_can_be_paid(offer, page):
    text = page(offer_html(offer)).text
    for error in ("100", "50"):
        assert f'session.prefetch(dpn.ranges("age"), table="patients").buy(error={error})' in text
    assert "buy(error=12.5)" not in text


def test_the_text_of_an_offer(offer):
    lines = offer_text(offer).splitlines()
    assert lines[0] == 'For sale: ranges("age") in patients · 6,670 answers (nothing is spent by looking)'
    assert lines[3].split() == ["±100", "rows", "5%", "0.05", "55%"]
    assert lines[5].endswith("not enough budget")
    assert lines[6:] == [f"  code      {buy(error)}" for error in (100, 50)]


def buy(error):
    return f'session.prefetch(dpn.ranges("age"), table="patients").buy(error={error})'


def test_an_offer_that_nothing_is_left_for_says_what_the_least_needs(offer, page):
    offer.prices["affordable"] = False
    assert "None of these fits what is left; the least needs 5% of the budget (ε 0.05)." in page(offer_html(offer)).text
    assert "the least needs 5% of the budget (ε 0.05)" in offer_text(offer)


def test_what_is_known_already_is_free(offer, page):
    offer.prices.loc[0, "epsilon"] = 0.0
    parsed = page(offer_html(offer))
    assert parsed.rows[1] == ["±100 rows", "", "free", "0", "60%"]
    assert "answered by what is recorded already" in parsed.text
    assert "free" in offer_text(offer).splitlines()[3]


def test_the_magic_makes_an_offer_that_can_be_bought(session, page):
    found = prefetch(session, "ranges(\"age\") where sex == 'F'", {})
    assert session.ledger.spent == 0
    bundle = found._repr_mimebundle_()
    parsed = page(bundle["text/html"])
    assert "in people where sex == 'F' · 465 answers" in parsed.text
    assert len(parsed.rows) > 3
    code = next(line for line in bundle["text/plain"].splitlines() if ".buy(" in line).partition("session.")[2]
    release = eval(f"session.{code}", {"session": session, "dpn": dpn})
    assert release.paid > 0
    within = session.table("people").count(where="sex == 'F' and age >= 5 and age < 20", error=parsed_error(code))
    assert within.plan.free


def parsed_error(code):
    return float(code.rpartition("error=")[2].rstrip(")"))


def test_texts_of_an_offer_are_escaped(offer, page, evil):
    offer.title = offer.table = offer.where = offer.unit = offer.code = evil
    assert page(offer_html(offer)).text.count("<script>alert") > 4
