"""What Tab offers in the calls of df.dp: arguments, columns, levels, prices; nothing is run, read or spent for it."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import dpnotebook as dpn
from dpnotebook.engine.table import TableEngine
from dpnotebook.engine.workspace import Workspace
from dpnotebook.notebook.completion import calls
from dpnotebook.notebook.completion.open_call import unfinished
from dpnotebook.notebook.extension import MOST_OFFERED
from dpnotebook.predicate import Predicate
from dpnotebook.session.protected_rows import ProtectedRows

LEVELS = [
    "North",
    "it's",
    'a "b"',
    "both ' and \"",
    "back\\slash",
    "{brace}",
    "<b>&",
    "😀 smile",
    "new\nline",
    "`tick`",
]
ODD = ["ward no", "class", "emoji 😀", 'quo"te', "apo's", "back\\slash"]


@pytest.fixture
def scope(monkeypatch):
    """Return the variables of a notebook whose protected frame cannot be read."""
    n = 500
    rng = np.random.default_rng(4)
    days = pd.date_range("2023-01-01", periods=n, freq="h")
    columns = {"age": rng.integers(0, 100, n), "place": rng.choice(LEVELS, n), "smoker": rng.choice([True, False], n)}
    frame = pd.DataFrame(columns | {"day": days} | dict.fromkeys(ODD, "x"))
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
    domain = {"age": dpn.Range(0, 99), "place": LEVELS, "smoker": bool, "day": dpn.Dates("2023-01-01", "2023-03-31")}
    table = session.protect(frame, "visits", rows=n, domain=domain | {name: ["x", "y"] for name in ODD})

    def touched(*arguments):
        raise AssertionError("Tab read the data")

    for kind, name in ((TableEngine, "totals"), (Workspace, "run"), (ProtectedRows, "check_unchanged")):
        monkeypatch.setattr(kind, name, touched)
    yield {"visits": frame, "session": session, "table": table, "dpn": dpn, "pd": pd, "limit": 3}
    assert session.history().empty
    session.close()


def offered(before, scope, after=""):
    fragment, found = calls.offers(before, after, scope)
    assert before.endswith(fragment)
    return [text for text, _ in found]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("before", "has", "lacks"),
    [
        ("visits.dp.count(", "where=", "column="),
        ("visits.dp.count(whe", "where=", "epsilon="),
        ("visits.dp.count(error=25, ", "where=", "epsilon="),
        ("visits.dp.count(where='age > 3', ", "epsilon=", "where="),
        ("visits.dp['age'].mean(", "where=", "column="),
        ("visits.dp.age.mean(", "where=", "column="),
        ("visits.dp['age'].mean(where='a", "age", "epsilon="),
        ("visits.dp.histogram(", '"age"', "'age'"),
        ("visits.dp.histogram('age', ", "where=", "column="),
        ("visits.dp.histogram(column='", "age", "column="),
        ("visits.dp.histogram('a", "age", "place"),
        ("visits.dp.groupby(['age', 'p", "place", "age"),
        ("visits.dp.groupby('age').mean('", "age", "mean"),
        ("visits.dp.groupby(\n    'age'\n).mean(\n    '", "age", "mean"),
        ("x = visits.dp.crosstab('age', \"", "place", "where="),
        ("visits.dp.groupby({'day': '", "month", "age"),
        ("visits.dp.groupby({'", "day", "month"),
        ("visits.dp.agg({'age': ['mean', 'me", "median", "mean "),
        ("visits.dp.agg({'age': 'mean', '", "place", "mean"),
        ("visits.dp.quantile('age', 0.5, objective='", "worst", "age"),
        ("visits.dp.count(fresh=", "True", "where="),
        ("visits.dp.answer(dpn.ranges('", "age", "where="),
        ("table.count(where='", "age", "where="),
        ("session.table('visits').count(where='", "age", "where="),
        ("session.table('", "visits", "age"),
        ("session.prefetch(dpn.marginals(2), table='", "visits", "age"),
        ("session.prefetch(dpn.ranges('", "age", "visits"),
        ("session.sql('SELECT AVG(ag", "age", "place"),
        ('session.sql("""\nSELECT COUNT(*)\nFROM vi', "visits", "age"),
        ("session.sql(\"SELECT COUNT(*) FROM visits WHERE place = '", "it''s", "it's"),
        ("session.sql('SELECT 1', contribution='", "l2", "age"),
        ("session.sql('SELECT COUNT(*) FROM visits', ", "error=", "statement="),
        ("print(visits.dp.count(where='a", "age", "place"),
        ("visits.dp.count(where=f'", "age", "where="),
        # conditions
        ("visits.dp.count(where='age > 3 an", "and", "age"),
        ("visits.dp.count(where=\"place == '", "North", "age"),
        ("visits.dp.count(where=\"age > 3 and place == '", "North", "age"),
        ("visits.dp.count(where=\"place in ['North', '", "😀 smile", "age"),
        ("visits.dp.count(where=\"place.isin(['North', '", "😀 smile", "age"),
        ('visits.dp.count(where="place == ', "'North'", "place"),
        ('visits.dp.count(where="place not in [', "'North'", "place"),
        ("visits.dp.count(where='place != ", '"North"', "place"),
        ("visits.dp.count(where=\"`ward no` == '", "x", "North"),
        ("visits.dp.count(where='`", "ward no`", "ward no"),
        ("visits.dp.count(where='smoker == ", "True", "age"),
        ("visits.dp.count(where='place.", "isin([", "dt"),
        ("visits.dp.count(where='place.str.", "contains(", "isin(["),
        ("visits.dp.count(where='day.dt.", "month", "contains("),
        ("visits.dp.count(where=\"day >= '2023-02", "2023-02-01", "2023-01-01"),
    ],
)
def test_offers(before, has, lacks, scope):
    found = offered(before, scope)
    assert has in found
    assert lacks not in found


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "before",
    [
        "",
        "visits.dp.",
        "print('",
        "len(visits, '",
        "nobody.dp.count('",
        "visits.count(where='",
        "pd.DataFrame.dp.count(where='",
        "visits.dp.count(where=f'{",
        "visits.dp.count(where=b'",
        "visits.dp.count(where='age == \"",
        "session.protect(visits, '",
        "visits.dp.nothing('",
        "visits.dp.count(epsilon=lim",
        "visits.dp.count(where=some(1, ",
        "visits.dp.count()",
        "visits.dp.count('age') + (",
        "'",
        "# visits.dp.count(",
    ],
)
def test_nothing_elsewhere(before, scope):
    assert offered(before, scope) == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("outer", ['"', "'", '"""', "'''"])
@pytest.mark.parametrize("inner", ['"', "'"])
@pytest.mark.parametrize("prefix", ["", "f"])
def test_a_completed_condition_selects_the_level_that_was_offered(outer, inner, prefix, scope):
    """What Python makes of the completed text, and the predicate of that, is the level that was meant."""
    domain = scope["table"].table.domain
    begin = f"{prefix}{outer}place == " + (inner if inner != outer[0] else "\\" + inner)
    found = offered(f"visits.dp.count(where={begin}", scope)
    chosen = []
    for text in found:
        code = begin + text + (inner if inner != outer[0] else "\\" + inner) + outer
        mask = Predicate.parse(eval(code), domain)
        chosen += [level for level in LEVELS if mask == Predicate.parse(f"place == {level!r}", domain)]
    assert chosen == LEVELS


def test_a_completed_column_is_that_column(scope):
    domain = scope["table"].table.domain
    found = offered('visits.dp.count(where="', scope)
    names = [eval(f'"{text}"') for text in found if f"`{text.strip('`')}`" == text or text in domain]
    assert [name.strip("`") for name in names if name.strip("`") in ODD] == ODD
    for name in names:
        if name.strip("`") in ODD:
            assert Predicate.parse(f"{name} == 'x'", domain) != Predicate.everything(domain)
    assert [eval(text) for text in offered("visits.dp.histogram(", scope) if text[0] == '"'] == list(domain)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("visits.dp.count(epsilon=", ""),
        ("visits.dp.count(epsilon=", ")"),
        ("visits.dp.count(where='age > 3', epsilon=", ", confidence=0.95)"),
        ("visits.dp.count(epsilon=", ", where='age > 3', confidence=0.95).run().plot()"),
        ("q = session.sql('SELECT COUNT(*) FROM visits', epsilon=", ")"),
    ],
)
def test_epsilon_lists_what_it_buys(before, after, scope):
    found = dict(calls.offers(before, after, scope)[1])
    assert list(found) == ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"]
    # Laplace noise of scale 1/ε: 95% of it lies within ln(20)/ε
    for epsilon, said in found.items():
        percent, error = map(float, re.fullmatch("([0-9.]+)%,\u00a0±([0-9.,]+)\u00a0rows", said).groups())
        assert percent == pytest.approx(100 * float(epsilon))  # of a budget of 1
        assert error == pytest.approx(np.log(20) / float(epsilon), rel=0.1, abs=0.6)


def test_of_ten_thousand_levels_those_that_fit_are_offered(ip, scope):
    levels = [f"code {i:05}" for i in range(10_000)]
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
    coded = session.protect(pd.DataFrame({"code": levels}), "coded", domain={"code": levels})
    ip.user_ns["coded"] = coded
    for text, first, count in (("", "code 00000", MOST_OFFERED), ("code 0123", "code 01230", 10)):
        line = f"coded.count(where=\"code == '{text}"
        with provisionalcompleter():
            found = [one.text for one in ip.Completer.completions(line, len(line))]
        assert found[0] == first
        assert len(found) == count
    session.close()


def test_tab_in_a_cell_of_the_shell(ip, scope):
    ip.user_ns |= scope
    text = "n = 1\nvisits.dp.count(where=\"`emoji 😀` == '"
    with provisionalcompleter():
        found = [(one.text, one.type) for one in ip.Completer.completions(text, len(text))]
    assert found == [("x", "level"), ("y", "level")]


def test_a_failure_of_ours_is_no_traceback_of_the_shell(ip, scope, monkeypatch, capsys):
    monkeypatch.setattr(calls, "offers", lambda *_: 1 / 0)
    text = "visits.dp.count(where='a"
    with provisionalcompleter():
        list(ip.Completer.completions(text, len(text)))
    shown = capsys.readouterr()
    assert "ZeroDivisionError" not in shown.out + shown.err


PIECES = [
    *(
        "visits.dp.",
        "count(",
        "groupby(",
        "agg(",
        "session.sql(",
        "dpn.ranges(",
        "where=",
        "epsilon=",
        "{",
        "[",
        "}",
        "]",
    ),
    *(
        "'",
        '"',
        "'''",
        "f'",
        'r"',
        "\\",
        "\\'",
        "`",
        "place == ",
        "age > 3",
        " and ",
        " in ",
        ")",
        ",",
        ":",
        ".",
        "\n",
        "#",
    ),
]


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=14), st.text(max_size=5))
def test_whatever_stands_there_nothing_is_raised(scope, pieces, after):
    for before in ("".join(pieces), "visits.dp.count(" + "".join(pieces)):
        offered(before, scope, after)


@settings(max_examples=500, deadline=None)
@given(
    st.lists(
        st.sampled_from(["(", ")", "[", "]", "{", "}", ",", "a", "'b'", '"c)"', "# d", "\n", "f", "'''"]), max_size=20
    )
)
def test_what_python_can_parse_has_nothing_open(pieces):
    code = "".join(pieces)
    try:
        compile(code, "test", "exec")
    except SyntaxError:
        return
    found = unfinished(code)
    assert found.text is None
    assert found.brackets == []


@pytest.mark.parametrize("before", ["", "visits.dp["])
def test_a_column_is_offered_inside_the_bracket(before, scope):
    """IPython follows `visits.dp` without running anything, and asks it."""
    shell = InteractiveShell()
    shell.user_ns["visits"] = scope["visits"]
    text = f'{before}visits.dp["wa'
    with provisionalcompleter():
        assert "ward no" in {one.text.strip("\"'") for one in shell.Completer.completions(text, len(text))}
