"""`%%dpsql` and `%dp` in a real IPython shell: options, capture, asking, errors, completion, loading."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from card_texts import release_html
from IPython.core.completer import provisionalcompleter
from IPython.core.error import StdinNotImplementedError, UsageError

import dpnotebook as dpn
from dpnotebook.engine.table import TableEngine
from dpnotebook.errors import AccuracyError, BudgetExceeded, NotConfirmed, NotProtected, SQLError
from dpnotebook.notebook import interactive, preview
from dpnotebook.notebook.magics import ask, completion, magics, options
from dpnotebook.session.query import Query
from dpnotebook.session.release import Release
from dpnotebook.session.session import Session

SQL = "SELECT COUNT(*) FROM visits"
BY_REGION = "SELECT region, COUNT(*) AS n FROM visits WHERE age >= 5 GROUP BY region"
DOMAIN = {
    "age": dpn.Range(0, 9),
    "region": ["N", "S", "E"],
    "cost": dpn.Bins(0, 100, width=10),
    "visit no": [1, 2, 3],
    "smoker": bool,
}


@pytest.fixture
def visits():
    """Return a small table of made-up visits."""
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 10, 500),
            "region": rng.choice(["N", "S", "E"], 500),
            "cost": rng.uniform(0, 100, 500).round(2),
            "visit no": rng.integers(1, 4, 500),
            "smoker": rng.choice([True, False], 500),
        }
    )


@pytest.fixture
def session(ip, visits):
    """Return a session over the visits, budget 1, that asks above 0.05; it is the variable `session` as well."""
    made = Session(dpn.Budget(epsilon=1.0))
    made.protect(visits, "visits", domain=DOMAIN, rows=500)
    ip.user_ns["session"] = made
    yield made
    made.close()


@pytest.fixture
def cell(ip, session):
    """Return a function that runs a cell magic in the session."""
    return lambda line, body=SQL: ip.run_cell_magic("dpsql", line, body)


@pytest.fixture
def replies(monkeypatch):
    """Return a function that sets what a person types; what it returns lists the prompts that were shown."""

    def answers(*typed):
        prompts, left = [], list(typed)

        def read(prompt=""):
            prompts.append(prompt)
            reply = left.pop(0)
            if isinstance(reply, type):
                raise reply
            return reply

        monkeypatch.setattr("builtins.input", read)
        return prompts

    return answers


@pytest.fixture
def no_data(monkeypatch):
    """Fail the test if anything counts rows."""

    def touched(self, measurement):
        raise AssertionError("planning read the data")

    monkeypatch.setattr(TableEngine, "totals", touched)


def spent(session):
    return session.spent.epsilon


# --- what is answered, and how it is kept


def test_the_cell_returns_the_release(cell, session):
    release = cell("-e 0.01", BY_REGION)
    assert isinstance(release, Release)
    assert list(release.frame.columns) == ["region", "n", "n_std_error", "n_lower", "n_upper"]
    assert release.epsilon == pytest.approx(0.01)
    assert spent(session) == pytest.approx(0.01)


@pytest.mark.parametrize("line", ["-e 0.02", "-e=0.02", "-e0.02", "--epsilon 0.02", "--epsilon=0.02", "--eps 0.02"])
def test_epsilon_in_every_spelling(cell, line):
    line = line.replace("-e=", "--epsilon=") if line.startswith("-e=") else line
    assert cell(line).epsilon == pytest.approx(0.02)


def test_error_is_kept(cell):
    query = cell("--error 30 -n")
    assert query.accuracy.error == 30
    assert query.plan.error <= 30
    assert cell("--error 30 --confidence 0.9 -n").accuracy.confidence == 0.9


def test_error_in_percent_is_of_the_answer(cell, session, visits):
    session.protect(visits, "unsized", domain=DOMAIN)
    part = "SELECT COUNT(*) FROM unsized WHERE region = 'N'"
    assert cell("--error 5% -n", part).plan.rest.asked == "error='5%'"  # a first look tells how large it is
    first = cell("-y -e 0.1", part)
    query = cell("--error 5% -n", part)
    assert query.accuracy.relative == 0.05
    assert query.plan.error <= 0.05 * first.value * (1 + 1e-9)
    assert query.plan.cost.units > 0
    assert cell("--error 50% -n", part).plan.free


def test_error_in_percent_of_all_rows_needs_no_answer_where_their_number_is_public(cell):
    assert cell("--error 5% -n").plan.error <= 25


def test_capture_in_three_ways(cell, ip, capsys):
    assert cell("r << -e 0.01") is None
    first = ip.user_ns["r"]
    assert isinstance(first, Release)
    assert cell("-e 0.01 -o t") is None
    assert ip.user_ns["t"].number == first.number
    assert ip.run_cell(f"u = %dpsql -e 0.01 {SQL}").success
    assert ip.user_ns["u"].number == first.number
    assert cell("r<<-e 0.01 -o r") is None
    with pytest.raises(UsageError, match="two names"):
        cell("r << -o t -e 0.01")


def test_a_shift_in_the_sql_is_not_a_name(ip, session):
    # the first word of the SQL is no option, so everything from there on is SQL
    assert options.read("-e 0.1 SELECT 1 << 3", None)[1] == "SELECT 1 << 3"
    assert options.read("r << -e 0.1 SELECT 1 << 3", None)[0].output == "r"


def test_the_line_form(ip, session):
    release = ip.run_line_magic("dpsql", f"-e 0.01 --confidence 0.9 {SQL}")
    assert release.confidence == 0.9
    assert ip.run_line_magic("dpsql", f"-qe 0.01 {SQL} WHERE region = 'N'").question.where.attributes == ("region",)
    assert ip.run_line_magic("dpsql", f"-e 0.01 -- a comment, then nothing\n{SQL}").table == "visits"


def test_dry_run_spends_nothing_and_returns_the_query(cell, ip, session, no_data, capsys):
    query = cell("-n -e 0.3", BY_REGION)
    assert isinstance(query, Query)
    assert query.plan.cost.epsilon == pytest.approx(0.3)
    assert cell("q << -n -e 0.3", BY_REGION) is None
    assert "nothing is spent by looking" in capsys.readouterr().out
    assert ip.user_ns["q"].question == query.question
    assert spent(session) == 0
    assert session.history().empty


def test_the_default_epsilon(cell, ip):
    with pytest.raises(UsageError, match=r"say what it may cost, -e 0\.1, or how wrong it may be"):
        cell("")
    ip.run_line_magic("config", "DPMagics.epsilon = 0.03")
    assert cell("").epsilon == pytest.approx(0.03)
    assert cell("-e 0.02", "SELECT AVG(age) FROM visits WHERE smoker").epsilon == pytest.approx(0.02)
    assert cell("--error 200 -n").accuracy.epsilon is None


def test_config_refuses_what_is_no_epsilon_and_no_way_to_confirm(ip, session, caplog):
    ip.run_cell("%config DPMagics.epsilon = -1")
    assert "epsilon is a number above 0, not -1.0" in caplog.text
    result = ip.run_cell("%config DPMagics.confirm = 'sometimes'")
    assert "'sometimes'" in caplog.text + str(result.error_in_exec)


def test_the_session_that_is_named(cell, ip, session, visits):
    other = Session(dpn.Budget(epsilon=2.0))
    other.protect(visits, "visits", domain=DOMAIN)
    ip.user_ns |= {"other": other, "visits": visits}
    cell("-s session -e 0.01")
    assert (spent(session), spent(other)) == (pytest.approx(0.01), 0)
    cell("-e 0.02")  # the one that was made last
    assert (spent(session), spent(other)) == (pytest.approx(0.01), pytest.approx(0.02))
    with pytest.raises(UsageError, match="visits is no session; sessions here are: other, session"):
        cell("-s visits -e 0.01")
    other.close()


def test_no_session_at_all(ip):
    with pytest.raises(NotProtected, match=r"session = dpn\.Session"):
        ip.run_cell_magic("dpsql", "-e 0.1", SQL)


def test_variables_are_bound_by_name(cell, ip):
    ip.user_ns |= {"low": 3, "place": "N", "table": [1]}
    query = cell("-n -e 0.1", f"{SQL} WHERE age >= :low AND region = :place -- not :nothing, nor ':nothing'")
    assert str(query.plan.where) == "age >= 3 and region == 'N'"
    with pytest.raises(SQLError, match=":nope has no value"):
        cell("-n -e 0.1", f"{SQL} WHERE age >= :nope")
    with pytest.raises(SQLError, match=":table is a list"):
        cell("-n -e 0.1", f"{SQL} WHERE age >= :table")


def test_a_function_binds_its_own_variables(ip, session):
    ip.run_cell(
        "def old(limit):\n    return get_ipython().run_line_magic('dpsql', '-n -e 0.1 "
        "SELECT COUNT(*) FROM visits WHERE age >= :limit')\nlimit = 1\nfound = old(7)"
    )
    assert ip.user_ns["found"].plan.where == "age >= 7"


def test_braces_and_dollars_are_left_alone(cell, ip):
    ip.user_ns["x"] = "N"
    with pytest.raises(SQLError, match=r"'\{x\}'"):
        cell("-n -e 0.1", f"{SQL} WHERE region = '{{x}}'")


def test_quiet_shows_the_table_only(ip, session, capsys):
    ip.run_cell(f"%%dpsql -q -y -e 0.2\n{BY_REGION}")
    shown = capsys.readouterr().out
    assert "n_upper" in shown
    assert "spent" not in shown
    assert isinstance(ip.user_ns["_"], Release)
    assert ip.user_ns["_"].number == 1


def test_the_card_comes_before_the_answer_and_each_once(ip, session, capsys):
    ip.run_cell(f"%%dpsql -y -e 0.2\n{BY_REGION}")
    shown = capsys.readouterr().out
    assert shown.count("nothing is spent by looking") == 1
    assert shown.index("nothing is spent by looking") < shown.index("release #1")
    assert len(re.findall(r"release #1\b", shown)) == 1


@pytest.fixture
def in_place(ip, monkeypatch):
    """Let the shell be one of a kernel, whose outputs can be replaced; return what stands in each, by its identity."""
    outputs = {}

    class Handle:
        def __init__(self):
            self.place = len(outputs)

        def update(self, bundle, raw=False):
            outputs[self.place] = bundle["text/plain"]

    def display(bundle, updatable=False):
        made = Handle()
        outputs[made.place] = bundle["text/plain"]
        return made if updatable else None

    for module in (preview, magics):
        monkeypatch.setattr(module, "display_bundle", display)
    monkeypatch.setattr(interactive, "in_notebook", lambda: True)
    return outputs


@pytest.mark.parametrize("way", ["-y", "--ask", ""])
def test_the_answer_stands_in_place_of_its_plan(ip, session, replies, in_place, capsys, way):
    prompts = replies("y")
    ip.run_cell(f"%%dpsql {way} -e 0.2\n{BY_REGION}", store_history=True)  # as a kernel does: cells are counted
    assert len(prompts) == (way != "-y")
    (shown,) = in_place.values()
    assert "paid 20% (ε 0.2) · left 80%" in shown
    assert "nothing is spent" not in shown
    assert "COUNT" not in capsys.readouterr().out  # the value of the cell is not shown once more
    assert ip.user_ns["_"].number == 1
    ip.run_cell("_", store_history=True)
    assert len(in_place) == 2  # in another cell it is shown
    ip.run_cell(f"r = %dpsql -y -e 0.3 {SQL}\nr.simultaneous()")
    assert "all at once" in capsys.readouterr().out  # what is made of it is not yet shown


def test_what_is_kept_leaves_its_plan_and_what_was_paid(ip, session, in_place):
    ip.run_cell(f"%%dpsql r << -y -e 0.2\n{SQL}")
    ip.run_cell(f"%%dpsql again << -y -e 0.2\n{SQL}")
    first, second = in_place.values()
    assert "(paid 20% of the budget (ε 0.2): release #1, kept as r)" in first
    assert "(costs nothing: release #1, kept as again)" in second
    assert "nothing is spent" not in first + second


@pytest.mark.parametrize(
    ("line", "reply", "says"),
    [
        ("-e 0.2", "n", "not run: nothing was spent"),
        ("-e 0.2", KeyboardInterrupt, "not run: nothing was spent"),
        ("-ye 7", None, "not answered (BudgetExceeded): nothing was spent"),
    ],
)
def test_what_was_not_run_says_so(ip, session, replies, in_place, line, reply, says):
    replies(reply)
    ip.run_cell(f"%%dpsql {line}\n{SQL}")
    (shown,) = in_place.values()
    assert f"({says})" in shown
    assert spent(session) == 0


def test_dots_instead_of_intervals(ip, session, page):
    release = ip.run_cell_magic("dpsql", "-ye 0.5", BY_REGION)
    assert "dots" not in "".join(page(release_html(release)).alts)
    ip.run_line_magic("config", "DPMagics.dots = True")
    alts = [alt for alt in page(release_html(release)).alts if "dots" in alt]
    assert len(alts) == len(release.frame)
    for alt, row in zip(alts, release.frame.itertuples(), strict=True):
        least, most = (float(end.replace(",", "")) for end in re.findall(r"-?[\d,.]+\d", alt.split("from")[1]))
        # The outermost of twenty dots are middles of the outer twentieths: about the ends of the 95% interval.
        assert row.n_lower - 2 <= least < row.n < most <= row.n_upper + 2
    single = ip.run_cell_magic("dpsql", "-ye 0.1", SQL)
    assert any("20 dots, each as likely" in alt for alt in page(release_html(single)).alts)
    ip.run_line_magic("unload_ext", "dpnotebook")
    assert "dots" not in "".join(page(release_html(release)).alts)
    ip.run_line_magic("load_ext", "dpnotebook")


def test_a_stored_answer_is_free_and_shown_at_once(cell, ip, session, replies, capsys):
    first = cell("-y -e 0.2")
    prompts = replies()
    again = cell("--ask -e 0.2")
    assert (again.number, again.paid, prompts) == (first.number, 0, [])
    pd.testing.assert_frame_equal(first.frame, again.frame)
    assert spent(session) == pytest.approx(0.2)
    capsys.readouterr()
    cell("r << -e 0.2")
    assert "#1" in capsys.readouterr().out  # what is kept is not shown, so its card says where it comes from
    cell("-yq --fresh -e 0.2")
    assert spent(session) == pytest.approx(0.4)


# --- asking


def test_what_is_cheap_is_not_asked(cell, session, replies):
    prompts = replies("n")
    cell("-e 0.05")
    assert prompts == []
    with pytest.raises(NotConfirmed):
        cell("-e 0.12")  # 0.07 more
    assert spent(session) == pytest.approx(0.05)


def test_yes(cell, session, replies):
    prompts = replies("Y")
    assert cell("-e 0.2").epsilon == pytest.approx(0.2)
    asked = r"Spend 20% of the budget \(ε 0\.2\) for ±1[5-6][.\d]* rows\? "
    assert re.fullmatch(asked + r"\[y\]es / \[n\]o / another price, as 10% or ε: ", prompts[0])
    assert spent(session) == pytest.approx(0.2)


@pytest.mark.parametrize("reply", ["n", "NO", "", "  ", KeyboardInterrupt])
def test_no(cell, session, replies, no_data, reply):
    replies(reply)
    with pytest.raises(NotConfirmed, match="nothing was spent"):
        cell("-e 0.2")
    assert spent(session) == 0


def test_another_epsilon_is_shown_and_asked_again(cell, session, replies, capsys):
    prompts = replies("0.5", "y")
    assert cell("-e 0.2").epsilon == pytest.approx(0.5)
    assert len(prompts) == 2
    assert "ε 0.5" in prompts[1]
    assert capsys.readouterr().out.count("nothing is spent by looking") == 2
    assert spent(session) == pytest.approx(0.5)


def test_another_percentage_is_a_part_of_the_budget(cell, session, replies):
    prompts = replies("50%", "y")
    assert cell("-e 0.2").epsilon == pytest.approx(0.5)
    assert "Spend 50% of the budget (ε 0.5)" in prompts[1]


def test_another_epsilon_that_is_too_much_is_asked_again(cell, session, replies):
    prompts = replies("7", "maybe", "-1", "0.3", "y")
    with pytest.raises(NotConfirmed, match="no answer that could be read"):
        cell("-e 0.2")
    assert "more than is left" in prompts[1]
    assert "neither y nor n" in prompts[2]
    assert len(prompts) == 3
    assert spent(session) == 0


def test_another_epsilon_may_be_answered_already(cell, session, replies):
    cell("-y -e 0.3")
    replies("0.3")
    release = cell("-e 0.4")
    assert (release.number, release.paid) == (1, 0)
    assert spent(session) == pytest.approx(0.3)


def test_a_price_that_rose_while_asked_is_asked_again(cell, session, replies, monkeypatch):
    disjoint = [f"{SQL} WHERE region = '{name}'" for name in "NS"]
    cell("-y -e 0.4", disjoint[0])
    prompts = []

    def read(prompt):
        prompts.append(prompt)
        if len(prompts) == 1:  # meanwhile, in another kernel
            session.sql(disjoint[1], epsilon=0.3).run()
        return "y"

    monkeypatch.setattr("builtins.input", read)
    cell("--ask -e 0.3 --fresh", disjoint[1])
    assert ["Spend nothing " in prompt for prompt in prompts] == [True, False]
    assert "Spend 20% of the budget (ε 0.2) " in prompts[1]
    assert spent(session) == pytest.approx(0.6)


@pytest.mark.parametrize("nobody", [StdinNotImplementedError, EOFError])
def test_nobody_to_ask(cell, session, replies, nobody, no_data):
    replies(nobody)
    with pytest.raises(NotConfirmed, match=r"Add -y .* confirm='never', .* DPNOTEBOOK_CONFIRM=never"):
        cell("-e 0.2")
    assert spent(session) == 0


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("line", "variable", "configured", "of_session", "asked"),
    [
        ("-e 0.2", None, None, "auto", True),
        ("-e 0.02", None, None, "auto", False),
        ("-e 0.02", None, None, "always", True),
        ("-e 0.2", None, None, "never", False),
        ("-e 0.2", None, "never", "always", False),
        ("-e 0.02", None, "always", "never", True),
        ("-e 0.2", "never", "always", "always", False),
        ("-e 0.02", " Always ", "never", "never", True),
        ("-y -e 0.2", "always", "always", "always", False),
        ("--ask -e 0.02", "never", "never", "never", True),
    ],
)
def test_who_decides_whether_to_ask(
    cell, ip, session, replies, monkeypatch, line, variable, configured, of_session, asked
):
    if variable is not None:
        monkeypatch.setenv(ask.VARIABLE, variable)
    session.confirm = of_session
    ip.run_line_magic("config", f"DPMagics.confirm = {configured!r}")
    prompts = replies("y")
    cell(line)
    assert bool(prompts) is asked


def test_an_unknown_word_in_the_environment(cell, monkeypatch):
    monkeypatch.setenv(ask.VARIABLE, "perhaps")
    with pytest.raises(NotConfirmed, match="auto, always or never, not 'perhaps'"):
        cell("-e 0.2")


def test_over_the_budget_is_refused_without_asking(cell, session, replies):
    prompts = replies()
    cell("-y -e 0.9")
    with pytest.raises(BudgetExceeded, match=r"With epsilon=0\.\d+ the error would be") as refused:
        cell("-e 0.5", BY_REGION)
    assert "0.1" in str(refused.value)
    assert prompts == []
    assert spent(session) == pytest.approx(0.9)


# --- what is refused


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--epslion 1", "unrecognized arguments: --epslion"),
        ("-e", "expected one argument"),
        ("-e zero", "a number above 0 such as 0.1, not zero"),
        ("-e 0", "above 0"),
        ("-e -1", "above 0"),
        ("-e nan", "above 0"),
        ("-e inf", "above 0"),
        ("--error much", "25, or 5%, not much"),
        ("--error 0%", "25, or 5%, not 0%"),
        ("-e 1 --error 5", "not allowed with"),
        ("-e 1 -y --ask", "not allowed with"),
        ("-e 1 --confidence 1", "between 0 and 1"),
        ("-e 1 -o 1x", "cannot be the name of a variable"),
        ("class << -e 1", "cannot be the name of a variable"),
        ("-e 1 -s nobody", "nobody is no session"),
        ("-e 1 -o 'x", "has no partner"),
        ("-e 1 SELECT 1", "only options stand on the first line"),
        ("r = << -e 1", "only options stand on the first line"),
        ("-e 1 \\", "only options|partner|unrecognized"),
    ],
)
def test_mistakes_in_options_are_usage_errors(cell, session, line, says):
    with pytest.raises(UsageError, match=says):
        cell(line)
    assert spent(session) == 0


def test_a_line_without_sql(ip, session):
    with pytest.raises(UsageError, match="there is no SQL"):
        ip.run_line_magic("dpsql", "-e 0.1")


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (f"%%dpsql --nope\n{SQL}", UsageError, "unrecognized arguments"),
        ("%%dpsql -e 0.1\nSELECT COUNT(*) FROM nowhere", NotProtected, "nowhere"),
        (f"%%dpsql -e 0.1\n{SQL} WHERE height > 3", SQLError, "^^^^^^"),
        (f"%%dpsql -e 0.2\n{SQL}", NotConfirmed, "nobody to ask"),
        (f"%%dpsql -ye 5\n{SQL}", BudgetExceeded, "nothing was spent"),
        ("%%dpsql -ny --error 5\nSELECT COUNT(*), SUM(cost) FROM visits", AccuracyError, "at once"),
        ("%dp columns nowhere", NotProtected, "nowhere"),
        ("%dp bugdet", UsageError, "did you mean %dp budget?"),
    ],
)
def test_errors_are_short_and_stop_the_run(ip, session, capsys, code, kind, says):
    result = ip.run_cell(code)
    error = result.error_in_exec or result.error_before_exec
    captured = capsys.readouterr()
    shown = captured.out + captured.err
    assert isinstance(error, kind)
    assert says in shown
    assert kind.__name__ in shown
    assert "Traceback" not in shown
    assert "dpnotebook/" not in shown


def test_help(ip, session, capsys):
    for line in ("--help", "-h"):
        assert ip.run_line_magic("dpsql", line) is None
        shown = capsys.readouterr().out
        for option in options.names():
            assert option in shown


# --- %dp


def test_dp_shows_the_budget_and_the_tables(ip, session, cell):
    cell("-ye 0.3")
    assert ip.run_line_magic("dp", "budget") is session
    history = ip.run_line_magic("dp", "history")
    assert list(history["question"]) == ["COUNT"]
    assert list(ip.run_line_magic("dp", "tables")["table"]) == ["visits"]
    assert ip.run_line_magic("dp", "-s session history").equals(history)
    assert ip.run_line_magic("dp", "audit").ok
    with pytest.raises(UsageError, match="takes nothing behind it"):
        ip.run_line_magic("dp", "budget all")


def test_dp_columns_are_the_declared_ones(ip, session, no_data):
    columns = ip.run_line_magic("dp", "columns visits")
    assert list(columns["column"]) == list(DOMAIN)
    assert list(columns["levels"]) == [10, 3, 10, 3, 2]
    assert ip.run_line_magic("dp", "columns").equals(columns)


def test_dp_preview_is_a_dry_run(ip, session, no_data):
    query = ip.run_line_magic("dp", f"preview -e 0.1 {SQL}")
    assert isinstance(query, Query)
    assert isinstance(ip.run_line_magic("dp", f"-s session preview -e 0.1 {SQL}"), Query)


def test_dp_export_writes_public_values(ip, session, cell, tmp_path, capsys):
    release = cell("-ye 0.3", BY_REGION)
    path = tmp_path / "all releases.json"
    ip.run_line_magic("dp", f"export '{path}'")
    assert "1 release written" in capsys.readouterr().out
    (written,) = json.loads(path.read_text())
    assert written["question"] == "COUNT by region"
    assert written["where"] == "age >= 5"
    assert written["epsilon"] == pytest.approx(0.3)
    assert pd.DataFrame(written["answers"])["n"].tolist() == release.frame["n"].tolist()
    with pytest.raises(UsageError, match=r"ends in \.json"):
        ip.run_line_magic("dp", "export releases.csv")
    with pytest.raises(UsageError, match="cannot be written"):
        ip.run_line_magic("dp", f"export {tmp_path}/no/such/folder.json")


@pytest.mark.parametrize("line", ["", "help", "-h", "--help"])
def test_dp_help(ip, session, capsys, line):
    ip.run_line_magic("dp", line)
    shown = capsys.readouterr().out
    for command in ("budget", "history", "tables", "columns", "prefetch", "preview", "export", "audit"):
        assert f"\n  {command} " in shown


# --- Tab


def completions(ip, text, at=None):
    with provisionalcompleter():
        return [(c.text, c.type) for c in ip.Completer.completions(text, len(text) if at is None else at)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("text", "has", "lacks"),
    [
        ("%%dpsql --d", "--dry-run", "--error"),
        ("%%dpsql -e 0.1 --", "--fresh", "visits"),
        ("%%dpsql -s se", "session", "other"),
        ("%%dpsql\nSELECT COUNT(*) FROM vi", "visits", "SELECT"),
        ("%%dpsql\nSELECT AVG(co", "cost", "visits"),
        ("%%dpsql\nSELECT AVG(CO", "cost", "visits"),
        ("%%dpsql\nsel", "SELECT", "visits"),
        ("%%dpsql\nSELECT COUNT(*) FROM visits v WHERE v.r", "region", "FROM"),
        ('%%dpsql\nSELECT COUNT(*) FROM visits WHERE "vi', '"visit no"', "visits"),
        ("%%dpsql\nSELECT COUNT(*) FROM visits WHERE region = '", "N", "region"),
        ("%%dpsql\nSELECT COUNT(*) FROM visits WHERE region IN ('N', 'S", "S", "N"),
        ("%%dpsql\nSELECT COUNT(*) FROM visits WHERE age > :lim", "limit", "listed"),
        ("x = 1\nr = %dpsql -e 0.1 SELECT COUNT(*) FROM vi", "visits", "SELECT"),
        ("%%dpsql --error ", "5%", "--fresh"),
        ("%%dpsql --error 1", "10%", "5%"),
        ("%dp bu", "budget", "tables"),
        ("%dp columns v", "visits", "budget"),
        ("%dp prefetch v", "visits", "ranges("),
        ("%dp prefetch visits ra", "ranges(", "visits"),
        ("%dp prefetch visits marginals(2) + ", "cdf(", "visits"),
        ('%dp prefetch visits ranges("a', "age", "cost"),
        ("%dp preview -e 0.1 SELECT COUNT(*) FROM vi", "visits", "budget"),
    ],
)
def test_completion(ip, session, no_data, text, has, lacks):
    ip.user_ns |= {"limit": 3, "listed": [3]}
    found = [text for text, _ in completions(ip, text)]
    assert has in found
    assert lacks not in found


def test_completion_names_the_columns_of_the_tables_in_the_cell(ip, session):
    session.protect(pd.DataFrame({"colour": ["red"]}), "cars", domain={"colour": ["red", "blue"]})
    assert "colour" not in dict(completions(ip, "%%dpsql\nSELECT COUNT(*) FROM visits WHERE co"))
    assert "colour" in dict(completions(ip, "%%dpsql\nSELECT COUNT(*) FROM cars WHERE co"))
    assert dict(completions(ip, "%%dpsql\nSELECT SUM(co")).keys() >= {"colour", "cost"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("%%dpsql -e ", f"\n{SQL}"),
        ("%%dpsql --epsilon ", f"\n{SQL}"),
        ("%%dpsql --epsilon=", f"\n{SQL}"),
        ("%%dpsql r << -n -s session -e ", f" -q\n{SQL}"),
        ("%dpsql -e ", f" {SQL}"),
        ("x = %dpsql -e ", f" -q {SQL}"),
    ],
)
def test_tab_after_epsilon_lists_what_it_buys(ip, session, no_data, before, after):
    found = dict(completions(ip, before + after, len(before)))
    assert list(found) == ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"]
    said = [re.fullmatch("([0-9.]+)%,\u00a0±([0-9.,]+)\u00a0rows", text).groups() for text in found.values()]
    assert [float(percent) for percent, _ in said] == [1, 2, 5, 10, 20, 50, 100]
    errors = [float(error.replace(",", "")) for _, error in said]
    assert errors == sorted(errors, reverse=True)
    assert errors[3] == pytest.approx(session.sql(SQL, epsilon=0.1).plan.error, rel=0.01)
    assert spent(session) == 0
    assert session.history().empty


def test_tab_after_epsilon_says_what_is_stored_and_stops_at_what_is_left(ip, session, cell):
    cell("-ye 0.3")
    found = dict(completions(ip, f"%%dpsql -e 0.\n{SQL}", len("%%dpsql -e 0.")))
    assert list(found) == ["0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5"]
    assert [text.startswith("stored:\u00a0free") for text in found.values()] == [True] * 6 + [False]


@pytest.mark.parametrize(
    "body", ["", "SELECT", "SELECT COUNT(*) FROM nowhere", "SELECT COUNT(*) FROM visits WHERE age > :no"]
)
def test_tab_after_epsilon_without_a_question_yet(ip, session, body):
    found = dict(completions(ip, f"%%dpsql -e \n{body}", len("%%dpsql -e ")))
    assert set(found.values()) == {"epsilon"}


def test_completion_without_a_session(ip):
    assert "--dry-run" in dict(completions(ip, "%%dpsql --d"))
    assert "SELECT" in dict(completions(ip, "%%dpsql\nSEL"))
    completions(ip, "%%dpsql -e ")


def test_other_cells_are_left_alone(ip, session):
    assert completion.offers("vis", "vis", {}) == ("", [])
    assert completion.offers("print(%dpsql", "print(%dpsql", {}) == ("", [])
    assert "dpsql" not in str(completions(ip, "import o"))


@pytest.mark.parametrize(
    ("most", "first", "last"), [(1.0, 0.01, 1.0), (0.83, 0.005, 0.5), (12.0, 0.1, 10.0), (0.0021, 2e-5, 0.002)]
)
def test_rungs(most, first, last):
    found = completion.rungs(most)
    assert (found[0], found[-1], len(found)) == (first, last, 7)
    assert found == sorted(found)
    assert completion.rungs(0.0) == []


# --- loading


def test_load_twice_reload_and_unload(ip, session, cell):
    before = len(ip.Completer.custom_matchers), len(ip.configurables)
    dpn.load_ipython_extension(ip)
    assert (len(ip.Completer.custom_matchers), len(ip.configurables)) == before
    ip.run_line_magic("reload_ext", "dpnotebook")
    assert (len(ip.Completer.custom_matchers), len(ip.configurables)) == before
    cell("-ye 0.1")
    ip.run_line_magic("unload_ext", "dpnotebook")
    assert (len(ip.Completer.custom_matchers), len(ip.configurables)) == (before[0] - 1, before[1] - 1)
    for kind in ("line", "cell"):
        assert "dpsql" not in ip.magics_manager.magics[kind]
    assert "dp" not in ip.magics_manager.magics["line"]
    dpn.unload_ipython_extension(ip)
    assert "--dry-run" not in dict(completions(ip, "%%dpsql --d"))
    ip.run_line_magic("load_ext", "dpnotebook")


def test_a_refused_configuration_does_not_stop_the_next_load(ip, session, cell):
    ip.run_cell("%config DPMagics.epsilon = -1")
    ip.run_line_magic("reload_ext", "dpnotebook")
    cell("-ye 0.1")
