"""What is said of a cell before it runs: what its plan says, of data and ledger untouched, and nothing of any other."""

import re
import threading

import numpy as np
import pandas as pd
import pytest
from card_texts import plan_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.engine.table import TableEngine
from dpnotebook.engine.workspace import Workspace
from dpnotebook.notebook import extension
from dpnotebook.notebook.estimate import status_bar
from dpnotebook.notebook.estimate.estimate import SILENCE, CellEstimate, estimate
from dpnotebook.session.protected_rows import ProtectedRows

LEVEL = 'it\'s "far" <b> 😀'
TOUCHED = []


def touch(*arguments, **keywords):
    TOUCHED.append(arguments)
    raise AssertionError("code of the notebook's own was run")


class Suspicious(type):
    """A class of which even comparing and hashing is noticed."""

    __eq__ = __hash__ = __instancecheck__ = __subclasscheck__ = __call__ = touch


def canary():
    """Return an object of which every use is noticed."""
    names = ["getattribute", "call", "str", "repr", "format", "len", "iter", "eq", "hash", "bool", "add", "radd"]
    names += ["mul", "rmul", "getitem", "index", "int", "float", "enter", "contains", "fspath", "array"]
    kind = type.__new__(Suspicious, "Canary", (), {f"__{name}__": touch for name in names})
    return object.__new__(kind)


class OwnFrame(pd.DataFrame):
    """A frame with a `dp` of its own."""

    dp = property(touch)


@pytest.fixture
def notebook(ip, tmp_path):
    """Return the variables of a notebook with a protected frame, over a ledger in a file."""
    n = 4000
    rng = np.random.default_rng(2)
    patients = pd.DataFrame(
        {
            "age": rng.integers(0, 100, n),
            "sex": rng.choice(["F", "M"], n),
            "region": rng.choice(["North", LEVEL], n),
            "ward": rng.integers(0, 5, n),
        }
    )
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger=tmp_path / "clinic.ledger")
    domain = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "region": ["North", LEVEL]}
    table = session.protect(patients, "patients", rows=n, domain=domain)
    scope = {"dpn": dpn, "pd": pd, "patients": patients, "session": session, "table": table, "limit": 65}
    scope |= {"by_sex": table.groupby("sex"), "query": table.count(error=25), "columns": ["sex", "region"]}
    scope |= {"options": {"least": 65}, "ranges": dpn.ranges, "workload": dpn.ranges("age"), "LEVEL": LEVEL}
    yield scope
    session.close()


@pytest.fixture
def untouched(notebook, tmp_path, monkeypatch):
    """Fail the test if a row was looked at, or a byte of the ledger changed."""
    for kind, name in ((TableEngine, "totals"), (Workspace, "run"), (ProtectedRows, "check_unchanged")):
        monkeypatch.setattr(kind, name, touch)

    def files():
        return {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")}

    before = files()
    TOUCHED.clear()
    yield
    assert files() == before
    assert TOUCHED == []


def say(cell, notebook, ip=None):
    magics = None if ip is None else ip.magics_manager.registry["DPMagics"]
    return estimate(cell, notebook, magics)


CALLS = [
    'patients.dp.count(where="age >= 65", error=25)',
    "patients.dp.count(where=f'age >= {limit}', epsilon=0.1)",
    "patients.dp.count(\n    where='region == \"North\"',  # a comment\n    epsilon=0.1,\n)",
    "patients.dp.groupby(columns).mean('age', epsilon=0.2)",
    "patients.dp.groupby(['sex']).agg({'age': ['mean', 'median']}, epsilon=0.3)",
    "patients.dp.crosstab('sex', 'region', error=40, confidence=0.9)",
    "patients.dp.answer(dpn.ranges('age') + 2 * dpn.marginals(1), epsilon=0.5)",
    "patients.dp.answer(ranges('age'), epsilon=0.5)",
    "patients.dp.answer(workload, epsilon=0.5)",
    "patients.dp.answer(dpn.workload.Prefix(100), 'age', epsilon=0.5)",
    "table.histogram('age', epsilon=0.1)",
    "session.table('patients').count(epsilon=0.1)",
    "by_sex.count(error=10)",
    "query.at(error=5)",
    "session.sql('SELECT sex, COUNT(*) AS n FROM patients WHERE age >= :least GROUP BY sex', error=25, "
    "parameters=options)",
    "session.sql('SELECT ward, COUNT(*) AS n FROM patients WHERE ward < 3', epsilon=0.1)".replace("ward, ", ""),
]


FORMS = ["{}", "q = {}", "{}.run()", "q = {}.run().plot()", "{}.run().frame['n'].head(3);"]


@pytest.mark.one_in(11)
@pytest.mark.parametrize(
    ("call", "form"), [*((call, FORMS[0]) for call in CALLS), *((CALLS[0], form) for form in FORMS[1:])]
)
def test_a_call_alone_in_a_cell_says_what_its_card_then_says(call, form, notebook, untouched, monkeypatch):
    found = say(form.format(call), notebook)
    monkeypatch.undo()  # the accessor looks at the frame when it is really called
    plan = eval(call, dict(notebook)).plan
    card = plan_text(plan)
    numbers = re.findall(r"±[\d,.]+|ε [\d.]+", found.text)
    assert len(numbers) >= 2
    assert all(number in card for number in numbers)
    assert float(found.text.partition("%")[0]) == pytest.approx(100 * plan.budget.cost_fraction, rel=0.01)
    assert found.text.endswith(" · 100% left")
    assert "Nothing has been spent" in found.title


def test_the_line_by_hand(notebook, untouched, ip):
    # Laplace noise of scale 1/ε: 95% within ln(20)/ε = 29.96 rows
    expected = "10% of the budget (ε 0.1) · ±30 rows · 100% left"
    assert say("patients.dp.count(epsilon=0.1)", notebook).text == expected
    assert say("%%dpsql -e 0.1\nSELECT COUNT(*) FROM patients", notebook, ip).text == expected
    assert say("%dpsql -e 0.1 SELECT COUNT(*) FROM patients", notebook, ip).text == expected
    assert say("n = %dpsql -e 0.1 SELECT COUNT(*) FROM patients WHERE age < :limit\n", notebook, ip).text == expected
    assert (
        say("%%dpsql n << -y -s session -e 0.1\n-- all\nSELECT COUNT(*) FROM patients", notebook, ip).text == expected
    )


def test_what_was_spent_and_what_is_known(notebook):
    notebook["query"].at(epsilon=0.3).run()
    assert say("patients.dp.count(epsilon=0.3)", notebook).text == "free · ±10 rows · 70% left"
    assert say("patients.dp.histogram('sex', epsilon=0.1)", notebook).text.endswith(" · 70% left")
    dear = say("patients.dp.histogram('age', epsilon=0.8)", notebook)
    assert re.fullmatch(r"not enough budget: needs [78]\d.*% of the budget \(ε 0\.[78].*\), 70% left", dear.text)
    assert "would be refused" in dear.title


def test_percents_add_up_where_epsilons_do_not(notebook):
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0, delta=1e-6))
    table = session.protect(notebook["patients"], "patients", domain={"sex": ["F", "M"]})
    plan = table.count(epsilon=0.5).plan
    share = float(say("table.count(epsilon=0.5)", {"table": table}).text.partition("%")[0])
    assert share == pytest.approx(100 * plan.cost.units / session.ledger.accountant.total, rel=0.005)
    assert share < 40  # of mu², which is what adds up
    session.close()


def test_an_error_that_a_first_run_finds_out_is_said_to_need_it(notebook, ip):
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0, delta=1e-6))
    visits = notebook["patients"].assign(pid=np.arange(4000) // 4)
    session.protect(visits, "visits", unit="pid", domain={"sex": ["F", "M"]})
    found = say("%%dpsql -e 0.1\nSELECT COUNT(*) AS n FROM visits", {}, ip)
    # Nobody has said how many rows a unit has: from one to ten, and the share that finds it is paid for.
    first = r"\(1 to 10 rows a unit\), once a first run has found how much one unit adds"
    said = re.search(rf"n ±([\d.,]+) to ±([\d.,]+) rows {first}", found.text)
    low, high = (float(end.replace(",", "")) for end in said.groups())
    assert high == pytest.approx(10 * low, rel=0.02)
    alone = session.sql("SELECT COUNT(DISTINCT pid) AS n FROM visits", epsilon=0.1).plan.error
    assert alone < low < 1.5 * alone  # what a unit adds that counts once, for all of the share
    found = say("%%dpsql -e 0.1\nSELECT SUM(age) AS total FROM visits", {}, ip)
    assert "error needs a first run" in found.text  # of values that nobody bounds there is no range
    assert "±" not in found.text
    found = say("%%dpsql --error 10\nSELECT COUNT(*) AS n FROM visits", {}, ip)
    two = r"0.5% of the budget \(ε 0.0\d+\) for a first look, then at most 25% in all for error=10"
    assert re.match(two, found.text)
    assert session.history().empty
    session.close()


def test_how_to_say_the_accuracy_is_the_one_hint(notebook, untouched, ip):
    assert say("patients.dp.count()", notebook).text == "say how accurate the answer must be, or what it may cost"
    found = say("%%dpsql\nSELECT COUNT(*) FROM patients", notebook, ip)
    assert found.text == "say what it may cost, -e 0.1, or how wrong it may be, --error 25"


@pytest.mark.one_in(8)
@pytest.mark.parametrize("sql", ["", "SEL", "SELECT COUNT(*) FROM nowhere", "SELECT age FROM patients", "SELECT '"])
@pytest.mark.parametrize("options", ["-e 0.1", "-s session -e 0.1", "-e", "--nothing", "-e '"])
def test_of_a_statement_that_is_not_finished_it_says_what_is_left(notebook, untouched, ip, sql, options):
    assert say(f"%%dpsql {options}\n{sql}", notebook, ip).text in ("100% left", "")
    if options == "-e 0.1":
        assert say(f"%%dpsql {options}\n{sql}", notebook, ip).text == "100% left"


def test_before_the_magics_are_loaded_only_python_is_told(notebook):
    assert say("%%dpsql -e 0.1\nSELECT COUNT(*) FROM patients", notebook) == SILENCE


OTHERS = [
    "",
    "patients",
    "patients.dp",
    "query",
    "patients.dp.count(epsilon=0.1",
    "patients.dp.count(epsilon=)",
    "patients.dp.count(epsilon=nobody)",
    "patients.dp.count(where='agee > 3', epsilon=0.1)",
    "patients.dp.count(where=where(), epsilon=0.1)",
    "patients.dp.count(**options)",
    "patients.dp.histogram(*columns, epsilon=0.1)",
    "patients.dp.count(epsilon=0.1 + 0.1)",
    "patients.dp.count(epsilon=(lambda: 0.1)())",
    "patients.dp.count(where=f'{canary}', epsilon=0.1)",
    "patients.dp.count(where=f'{limit:1000000000}', epsilon=0.1)",
    "patients.dp.count(where=canary, epsilon=0.1)",
    "patients.dp.answer(canary + dpn.ranges('age'), epsilon=0.1)",
    "patients.dp.answer(dpn.ranges('age') * canary, epsilon=0.1)",
    "patients.dp.answer(fake.ranges('age'), epsilon=0.1)",
    "patients.dp.count(epsilon=0.1).run(); 1",
    "x = 1\npatients.dp.count(epsilon=0.1)",
    "print(patients.dp.count(epsilon=0.1).run())",
    "patients.dp.count(epsilon=0.1).run().frame.assign(m=patients.dp.count(epsilon=0.2).run().value)",
    "patients[patients.age > 3].dp.count(epsilon=0.1)",
    "own.dp.count(epsilon=0.1)",
    "canary.dp.count(epsilon=0.1)",
    "canary.count(epsilon=0.1)",
    "session.protect(patients, 'again', domain={})",
    "session.extend('patients', patients)",
    "session.close()",
    "session.retry(1)",
    "query.session.sql('SELECT COUNT(*) FROM patients', epsilon=0.1)",
    "patients.dp._query(epsilon=0.1)",
    "table.hold(1, 2)",
    "dpn.Session(budget=dpn.Budget(epsilon=1.0)).sql('SELECT 1', epsilon=0.1)",
    "await patients.dp.count(epsilon=0.1)",
    "%timeit patients.dp.count(epsilon=0.1)",
    "patients.dp.count(epsilon=0.1)\0",
    "patients.dp.count(epsilon=0.1)\ud800",
    "(" * 5000,
    "-" * 20_000,
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("cell", OTHERS, ids=range(len(OTHERS)))
def test_of_any_other_cell_it_says_nothing_and_runs_nothing(cell, notebook, untouched):
    own = OwnFrame({"age": [1]})
    assert say(cell, notebook | {"canary": canary(), "own": own, "fake": canary()}) == SILENCE


PIECES = [
    *(
        "patients",
        "session",
        "table",
        "by_sex",
        "query",
        "canary",
        "own",
        "workload",
        "dpn",
        "limit",
        "columns",
        "LEVEL",
    ),
    *(".dp", ".count(", ".groupby(", ".sql(", ".run()", ".plot()", ".frame", ".mean(", ".answer(", ".at(", ".value"),
    *("dpn.ranges(", "dpn.marginals(", "f'{canary}'", "f'{limit}'", "'age'", '"age >= 65"', "'sex", "{'age': ", "["),
    *("where=", "epsilon=", "error=", "0.1", "25", "'5%'", "2", ")", "]", "}", ", ", " + ", " * ", "-", "=", "\n", ";"),
    *(
        "%%dpsql ",
        "%dpsql ",
        "-e 0.1",
        "-s canary",
        "-s session",
        "SELECT COUNT(*) FROM patients",
        "WHERE age > :canary",
    ),
    *("canary()", "canary[0]", "canary + ", "**canary", "*canary", "lambda: canary", "😀", "\\", "'''", "#"),
]


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=14))
def test_whatever_is_typed_nothing_is_raised_and_nothing_is_run(garbage, pieces):
    for cell in ("".join(pieces), "patients.dp.count(" + "".join(pieces), "%%dpsql\n" + "".join(pieces)):
        assert type(garbage(cell)) is CellEstimate
    assert TOUCHED == []


@pytest.fixture
def garbage():
    """Return a function that estimates a cell in a notebook with canaries, over a table that cannot be read."""
    frame = pd.DataFrame({"age": [3, 70], "sex": ["F", "M"]})
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
    table = session.protect(frame, "patients", domain={"age": dpn.Range(0, 99), "sex": ["F", "M"]})
    scope = {"dpn": dpn, "patients": frame, "session": session, "table": table, "canary": canary(), "limit": 65}
    scope |= {"own": OwnFrame({"age": [1]}), "by_sex": table.groupby("sex"), "query": table.count(error=25)}
    scope |= {"workload": dpn.ranges("age"), "columns": ["sex"], "LEVEL": LEVEL}
    from IPython.core.interactiveshell import InteractiveShell

    from dpnotebook.notebook.magics.magics import DPMagics

    magics = DPMagics(InteractiveShell())
    TOUCHED.clear()
    with pytest.MonkeyPatch.context() as patch:
        for kind, name in ((TableEngine, "totals"), (Workspace, "run"), (ProtectedRows, "check_unchanged")):
            patch.setattr(kind, name, touch)
        yield lambda cell: estimate(cell, scope, magics)
    assert session.history().empty
    session.close()


def test_a_plan_that_is_shown_is_not_crowded_out_by_what_is_typed(notebook):
    plan = notebook["query"].plan
    for hundredths in range(1, 40):
        say(f"patients.dp.count(epsilon={hundredths / 100})", notebook)
    assert notebook["query"].plan is plan


def test_ten_thousand_levels(notebook):
    levels = [f"level {i}" for i in range(10_000)]
    frame = pd.DataFrame({"code": levels})
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
    session.protect(frame, "wide", domain={"code": levels})
    found = say("frame.dp.histogram('code', epsilon=0.1)", {"frame": frame})
    assert found.text == "10% of the budget (ε 0.1) · ±30 rows · 100% left"
    session.close()


# --- the kernel's side


class Comm:
    """A comm whose front end is the test."""

    def __init__(self, number):
        self.comm_id, self.sent, self.closed = str(number), [], False
        self.arrived = threading.Event()

    def on_msg(self, callback):
        self.receive = callback

    def on_close(self, callback):
        self.left = callback

    def send(self, data):
        if self.closed:
            raise RuntimeError("closed")
        self.sent.append(data)
        self.arrived.set()

    def close(self):
        self.closed = True

    def ask(self, number, cell):
        self.receive({"content": {"data": {"number": number, "cell": cell}}})

    def answer(self):
        assert self.arrived.wait(30)
        self.arrived.clear()
        return self.sent[-1]


@pytest.fixture
def targets(monkeypatch):
    """Return the comm targets that are registered, in a kernel that is not there."""
    found = {}

    class Manager:
        register_target = staticmethod(found.__setitem__)

        def unregister_target(self, name, _):
            del found[name]

    monkeypatch.setattr(status_bar, "get_comm_manager", Manager)
    monkeypatch.setattr(status_bar, "create_comm", lambda target_name: Comm(target_name))
    return found


def test_only_the_latest_text_is_answered_and_a_failure_is_silence(targets):
    begun, go = threading.Event(), threading.Event()
    seen = []

    def slow(cell):
        seen.append(cell)
        begun.set()
        assert go.wait(30)
        if cell == "bad":
            raise RuntimeError("never shown")
        return CellEstimate(cell, "title")

    bar, comm = status_bar.StatusBar(slow), Comm(1)
    targets[status_bar.TARGET](comm, {})
    comm.ask(1, "first")
    assert begun.wait(30)
    for number, cell in enumerate(["p", "pa", "pat"], start=2):
        comm.ask(number, cell)
    go.set()
    assert comm.answer()["text"] in ("first", "pat")
    while comm.sent[-1]["number"] != 4:
        comm.answer()
    assert seen == ["first", "pat"]
    comm.arrived.clear()
    comm.ask(5, "bad")
    assert comm.answer() == {"number": 5, "text": "", "title": "", "shorter": []}
    comm.ask(6, "x" * (status_bar.LONGEST + 1))
    assert comm.answer() == {"number": 6, "text": "", "title": "", "shorter": []}
    bar.close()
    assert comm.closed
    assert targets == {}


def test_what_is_spent_elsewhere_is_told_again(targets, notebook):
    bar, comm = status_bar.StatusBar(lambda cell: say(cell, notebook)), Comm(1)
    targets[status_bar.TARGET](comm, {})
    comm.ask("a:1", "patients.dp.histogram('sex', epsilon=0.1)")
    assert comm.answer()["text"].endswith("100% left")
    notebook["query"].at(epsilon=0.25).run()
    assert comm.answer() == comm.sent[-1]
    assert comm.sent[-1]["number"] == "a:1"
    assert comm.sent[-1]["text"].endswith("75% left")
    bar.close()
    notebook["query"].at(epsilon=0.3).run()
    assert len(comm.sent) == 2


def test_a_kernel_is_attended_once_and_left_alone_after_unloading(targets, ip, monkeypatch):
    before = len(ip.Completer.custom_matchers)
    ip.run_line_magic("unload_ext", "dpnotebook")
    assert targets == {}  # a shell in a terminal has no front end that asks
    monkeypatch.setattr(type(ip), "kernel", object(), raising=False)
    extension.attend(ip)  # as importing the package does
    (opened,) = targets.values()
    assert len(ip.Completer.custom_matchers) == before
    ip.run_line_magic("load_ext", "dpnotebook")
    assert list(targets.values()) == [opened]
    assert len(ip.Completer.custom_matchers) == before
    ip.run_line_magic("unload_ext", "dpnotebook")
    assert targets == {}
    assert len(ip.Completer.custom_matchers) == before - 1
    ip.run_line_magic("load_ext", "dpnotebook")
    assert list(targets) == [status_bar.TARGET]
