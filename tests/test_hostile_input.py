"""Every public name against arguments that it does not take: one short error of ours, nothing spent, no value shown.

One argument at a time is replaced, in a call that is otherwise as it should be: by another kind, another size, a
frame, a column of the protected data, or an object whose every method fails.
"""

import datetime
import decimal
import inspect
import itertools
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.ledger import audit_file

SECRETS = ("Zebulon", "98765", "4242")  # stand in the data and nowhere else
LONGEST = 600
W = dpn.workload.Prefix(5)


class Hostile:
    """Whatever is done with it fails, and says what no message may say."""

    def _fails(self, *_, **__):
        raise RuntimeError("Zebulon")

    for _name in [
        "__repr__",
        "__str__",
        "__eq__",
        "__ne__",
        "__iter__",
        "__next__",
        "__len__",
        "__float__",
        "__int__",
        "__index__",
        "__hash__",
        "__bool__",
        "__lt__",
        "__gt__",
        "__le__",
        "__ge__",
        "__getitem__",
        "__contains__",
        "__call__",
        "__array__",
        "__fspath__",
        "__add__",
        "__radd__",
        "__mul__",
        "__rmul__",
        "__format__",
        "__enter__",
        "__getattribute__",
        "__complex__",
        "__trunc__",
        "__round__",
        "__abs__",
        "__neg__",
    ]:
        locals()[_name] = _fails


class Endless:
    """Goes on for ever."""

    def __iter__(self):
        return itertools.count()


class Liar(str):
    """A text that is another at every look."""

    def __hash__(self):
        raise RuntimeError("Zebulon")

    def __eq__(self, other):
        raise RuntimeError("Zebulon")


class Ward:
    """A session with a protected frame, its names, and one release."""

    def __init__(self):
        self.frame = pd.DataFrame(
            {
                "age": [31, 4242, 64, 80] * 5,
                "sex": list("FMFM") * 5,
                "income": [98765.43, 20_000.0, np.inf, -5.0] * 5,
                "name": ["Zebulon", "Ann", "Bo", "Cy"] * 5,
            }
        )
        self.session = session = dpn.Session(dpn.Budget(5.0), timeout=0.1)
        domain = {"age": dpn.Range(0, 9), "sex": ["F", "M"], "income": dpn.Bins(0, 100_000, width=10_000)}
        self.table = session.protect(self.frame, "people", domain=domain)
        self.query = self.table.histogram("age", epsilon=0.25)
        self.release = self.query.run()
        self.offer = session.prefetch(dpn.ranges("age"))
        self.names = (f"other {n}" for n in itertools.count())


ward = Ward()
DOMAIN = ward.table.domain
# The calls: what is called, with what it takes.
CALLS = {
    "Budget": partial(dpn.Budget, 1.0, 1e-6, noise="gaussian", threshold_delta=1e-7),
    "Budget.from_json": partial(dpn.Budget.from_json, {"epsilon": 1.0, "delta": 0.0, "noise": "laplace"}),
    "Budget.agrees": partial(ward.session.budget.agrees, dpn.Budget(1.0)),
    "Unit": partial(dpn.Unit, "patient", column="name"),
    "Range": partial(dpn.Range, 0, 9, outside="other", nullable=True),
    "Bins": partial(dpn.Bins, 0, 9, width=3, outside="other", nullable=True),
    "Bins of edges": partial(dpn.Bins, edges=[1, 2, 3]),
    "Bins of intervals": partial(dpn.Bins, intervals=[(1, 2), (2, 4)]),
    "Bins by count": partial(dpn.Bins, 0, 9, count=3),
    "Categories": partial(dpn.Categories, ["a", "b"], other="c", nullable=True, ordered=True),
    "Boolean": partial(dpn.Boolean, nullable=True),
    "Domain": partial(dpn.Domain, {"age": dpn.Range(0, 9)}),
    "Domain of something": partial(lambda levels: dpn.Domain({"age": levels}), [1, 2]),
    "Domain.from_json": partial(dpn.Domain.from_json, DOMAIN.to_json()),
    "Domain.project": partial(DOMAIN.project, ["age"]),
    "Domain.unknown": partial(DOMAIN.unknown, "age"),
    "Domain.marginals": partial(DOMAIN.marginals, 1),
    "Domain.marginals upto": partial(DOMAIN.marginals, upto=1),
    "Domain.prefix_marginals": partial(DOMAIN.prefix_marginals, 1),
    "Domain.small_marginals": partial(DOMAIN.small_marginals, 5),
    "Domain.ranges": partial(DOMAIN.ranges, "age"),
    "Domain.cdf": partial(DOMAIN.cdf, "age", "income"),
    "Domain.identity": partial(DOMAIN.identity, "age", "sex"),
    **{
        f"{name}.{method}": partial(getattr(DOMAIN[name], method), *arguments)
        for name in DOMAIN
        for method, *arguments in [
            ("compare", "==" if name == "sex" else "<", "F" if name == "sex" else 0),
            ("levels_of", "F" if name == "sex" else 3),
            ("describe", np.ones(DOMAIN[name].size, dtype=bool)),
            ("runs", np.ones(DOMAIN[name].size, dtype=bool)),
        ]
    },
    "suggest_domain": partial(dpn.suggest_domain, ward.frame),
    "Session": partial(dpn.Session, dpn.Budget(1.0), ":memory:", "optimal", "auto", 0.5, 0.1),
    "Session.protect": partial(
        lambda data, name=None, **more: ward.session.protect(data, next(ward.names) if name is None else name, **more),
        ward.frame,
        name=None,
        domain={"age": [1, 2]},
        unit="name",
        max_rows=2,
        rows=20,
    ),
    "Session.register": partial(
        lambda data, name=None, **more: ward.session.register(data, next(ward.names) if name is None else name, **more),
        pd.DataFrame({"x": [1]}),
        name=None,
        public=True,
    ),
    "Session.table": partial(ward.session.table, "people"),
    "Session.sql": partial(
        ward.session.sql,
        "SELECT COUNT(*) AS n FROM people WHERE age > :x",
        epsilon=0.1,
        confidence=0.9,
        parameters={"x": 3},
        fresh=True,
        contribution=None,
    ),
    "Session.sql in error": partial(ward.session.sql, "SELECT COUNT(*) AS n FROM people", error=5),
    "Session.sql in variance": partial(ward.session.sql, "SELECT COUNT(*) AS n FROM people", variance=5),
    "Session.sql of a parameter": partial(
        lambda value: ward.session.sql(
            "SELECT COUNT(*) FROM people WHERE age > :x", epsilon=0.1, parameters={"x": value}
        ),
        3,
    ),
    "Session.prefetch": partial(
        ward.session.prefetch, dpn.ranges("age"), "age", table="people", where="age > 3", errors=[10], confidence=0.9
    ),
    "Session.plan": partial(ward.session.plan, ward.query),
    "Session.run": partial(ward.session.run, ward.query, lambda fraction, doing: None),
    "Session.release": partial(ward.session.release, 1),
    "Session.retry": partial(ward.session.retry, 1),
    "Session.audit": partial(ward.session.audit, ward.session.audit().head),
    "Session.raise_budget": partial(ward.session.raise_budget, dpn.Budget(6.0), reason="so"),
    "Session.renew_budget": partial(ward.session.renew_budget, dpn.Budget(1e-9), reason="so"),
    "audit_file": partial(audit_file, "no such file", "00", timeout=0.1),
    "count": partial(ward.table.count, where="age > 3", epsilon=0.1, confidence=0.9, fresh=True),
    "sum": partial(ward.table.sum, "age", bounds=(0, 9), granularity=1.0, where="age > 3", error=5),
    "mean": partial(ward.table.mean, "income", bounds=(0, 100_000), granularity=10_000, epsilon=0.1),
    "cdf": partial(ward.table.cdf, "age", where="sex == 'F'", variance=5),
    "quantile": partial(ward.table.quantile, "age", 0.5, where="sex == 'F'", epsilon=0.1),
    "histogram": partial(ward.table.histogram, "age", where="sex == 'F'", epsilon=0.1),
    "crosstab": partial(ward.table.crosstab, "age", "sex", where="sex == 'F'", epsilon=0.1),
    "groupby": partial(lambda keys: ward.table.groupby(keys).count(epsilon=0.1), ["age", "sex"]),
    "answer": partial(ward.table.answer, dpn.ranges("age"), "age", strategy=dpn.strategy.identity, epsilon=0.1),
    "answer of a workload": partial(ward.table.answer, dpn.workload.Prefix(10), ["age"], where=None, epsilon=0.1),
    "df.dp.histogram": partial(ward.frame.dp.histogram, "age", epsilon=0.1),
    "df.dp.protect": partial(ward.frame.dp.protect, "people", domain=DOMAIN),
    "df.dp.explore": partial(ward.frame.dp.explore, dpn.ranges("age"), epsilon=1.0, delta=1e-6),
    "explore": partial(dpn.explore, dpn.ranges("age"), DOMAIN, epsilon=1.0),
    "Query.at": partial(ward.query.at, epsilon=0.1, confidence=0.9),
    "Query.at error": partial(ward.query.at, error="5%"),
    "Query.assuming": partial(ward.query.assuming, rows=100, value=3.0),
    "Query.run": partial(ward.query.run, lambda fraction, doing: None),
    "Release.nonnegative": partial(ward.release.nonnegative, 20.0),
    "Release.to_csv": partial(ward.release.to_csv, "/no such folder/x.csv"),
    "Offer.query": partial(ward.offer.query, error=10.0),
    "audit": partial(dpn.audit, lambda data, n: [0] * n, 0, 1, epsilon=1.0, delta=0.1, samples=2000),
    "marginals": partial(dpn.marginals, 2),
    "prefix_marginals": partial(dpn.prefix_marginals, upto=2),
    "small_marginals": partial(dpn.small_marginals, 10),
    "small_prefix_marginals": partial(dpn.small_prefix_marginals, 10),
    "ranges": partial(dpn.ranges, "age", "income"),
    "cdf of": partial(dpn.cdf, "age"),
    "identity": partial(dpn.identity, "age"),
    "request + something": partial(dpn.total().__add__, dpn.ranges("age")),
    "request * weight": partial(dpn.total().__mul__, 2.0),
    "request.over": partial(dpn.ranges("age").over, DOMAIN, "age", levels={"age": [1, 2, 3]}),
    "request.attributes": partial(dpn.ranges("age").attributes, DOMAIN),
    "workload + workload": partial(W.__add__, W),
    "workload * weight": partial(W.__mul__, 2.0),
    "matvec": partial(W.matvec, np.ones(5)),
    "rmatvec": partial(W.rmatvec, np.ones(5)),
    "rows": partial(W.rows, [1, 2]),
    "quadratic": partial(W.quadratic, np.eye(5)),
    "column_norms": partial(W.column_norms, 2),
    "Workload.from_json": partial(dpn.workload.Workload.from_json, W.to_json()),
    "workload.marginals": partial(dpn.workload.marginals, [2, 3], 1),
    "Identity": partial(dpn.workload.Identity, 5),
    "AllRange": partial(dpn.workload.AllRange, 5),
    "WidthRange": partial(dpn.workload.WidthRange, 5, 2),
    "Hierarchy": partial(dpn.workload.Hierarchy, 5, 2),
    "Ones": partial(dpn.workload.Ones, 2, 5),
    "Padded": partial(dpn.workload.Padded, W, 2),
    "Kron": partial(dpn.workload.Kron, W, W),
    "Stack": partial(dpn.workload.Stack, W, W),
    "Weighted": partial(dpn.workload.Weighted, 2.0, W),
    "WeightedRows": partial(dpn.workload.WeightedRows, np.ones(5), W),
    "Explicit": partial(dpn.workload.Explicit, np.eye(5)),
    "Predicates": partial(dpn.workload.Predicates, np.eye(5, dtype=bool)),
    "Permuted": partial(dpn.workload.Permuted, W, [0, 2, 1, 3, 4]),
    "PIdentity": partial(dpn.workload.PIdentity, np.ones(5, dtype=int), np.ones((2, 5), dtype=int)),
    "Coarse": partial(dpn.workload.Coarse, W, [0, 1, 2, 3, 4, 5], 5),
    "Fourier": partial(dpn.workload.Fourier, 2, [(0,), (1,)]),
    "Marginals": partial(dpn.workload.Marginals, [W, W], {(0,): 1, (0, 1): 2}),
    "Difference": partial(dpn.workload.Difference, dpn.workload.Ones(5, 5), W),
    "complement": partial(dpn.workload.complement, dpn.workload.Identity(5)),
    "disjunction": partial(dpn.workload.disjunction, dpn.workload.Identity(5), dpn.workload.Identity(5)),
    **{
        f"strategy.{name}": partial(getattr(dpn.strategy, name), W, noise="laplace")
        for name in ("select", "identity", "itself", "h2", "hb", "wavelet", "hierarchical", "opt_0", "greedy_h")
    },
    "strategy.compare": partial(dpn.strategy.compare, W),
    "strategy.opt_hdmm": partial(dpn.strategy.opt_hdmm, W, noise="gaussian"),
    "strategy.opt_marginals": partial(dpn.strategy.opt_marginals, dpn.workload.marginals([2, 3], 1), noise="gaussian"),
    "strategy.datacube": partial(dpn.strategy.datacube, dpn.workload.marginals([2, 3], 1), noise="laplace"),
}
REFUSED = {
    "audit_file",
    "Release.to_csv",
    "income.levels_of",
}  # not to be done here
# What writes to the ledger when its arguments are in order.
WRITES = {
    "Session.protect",
    "df.dp.protect",
    "Session.raise_budget",
    "Session.renew_budget",
    "Session.run",
    "Query.run",
}

ODD = [
    Hostile(), Hostile, Endless(), Liar("age"), None, True, 0, 5, -1, 2.5, float("nan"), float("inf"), -float("inf"),
    10**30, 10**400, -(10**5000), 1e300, 5e-324, 3j, decimal.Decimal("NaN"), decimal.Decimal("1e-400"), "", " ", "age",
    "people", "x" * 100_000, "age == " * 3000, "\0", "\ud800", "(" * 2000, "'", b"age", [], [1, 2], ["age"],
    ["age", "age"], [["age"]], [Hostile()], (Hostile(), 1), {}, {"age": Hostile()}, {1: 2}, {"x": {"y": {}}}, set(),
    range(3), range(10**12), iter([1]), ward.frame, ward.frame["name"], ward.frame["age"], ward.frame[["income"]],
    pd.Series([], dtype=object), pd.Index(["age"]), pd.NA, pd.NaT, pd.Timestamp("2024-01-01"), np.int64(3),
    np.float32(2.5), np.bool_(True), np.str_("age"), np.array([1.0, np.nan]), np.array(["who"]), np.array(3),
    np.zeros((2, 0)), np.zeros((3, 3, 3)), np.datetime64("2024-01-01"), object(),
    int, ValueError, len, lambda *_, **__: 1 / 0, Path("/"), Path("no" * 200), datetime.date(2024, 1, 1), ...,
    dpn.Budget(1.0), dpn.Range(0, 9), W, dpn.ranges("nothing"), DOMAIN, ward.query, ward.session, ward.release,
]  # fmt: skip
for _ in range(3):
    ODD.append([ODD[-1]] * 3)
deep = []
for _ in range(5000):
    deep = [deep]
ODD.append(deep)
mixed = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.binary(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)


def check(name, slot, value):
    """Call with one argument replaced, and hold what comes of it to the promise."""
    call = CALLS[name]
    arguments, options = list(call.args), dict(call.keywords)
    if isinstance(slot, int):
        arguments[slot] = value
    else:
        options[slot] = value
    head, spent = ward.session.ledger.head, ward.session.ledger.spent
    failure = found = None
    try:
        found = call.func(*arguments, **options)
        if isinstance(found, dpn.Query):
            _ = found.plan
    except dpn.DPError as error:
        failure = error
    assert ward.session.ledger.spent == spent
    assert ward.session.ledger.head == head or (name in WRITES and not failure)
    if isinstance(found, dpn.Session):
        found.close()
    if failure:
        assert 0 < len(str(failure)) <= LONGEST
        assert not any(secret in str(failure) for secret in SECRETS), failure
        assert failure.__cause__ is failure.__context__ is None


def slots(name):
    return [*range(len(CALLS[name].args)), *CALLS[name].keywords]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """What is taken for the path of a ledger is one: not where the tests were started."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(choices=st.data())
def test_what_it_does_not_take_is_refused(name, choices):
    slot = choices.draw(st.sampled_from(slots(name)))
    odd = choices.draw(st.integers(-len(ODD) // 4, len(ODD) - 1))  # by its place: hypothesis prints what it draws
    check(name, slot, ODD[odd] if odd >= 0 else choices.draw(mixed))


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_every_odd_thing_in_every_place(name):
    for slot in slots(name):
        for value in ODD:
            check(name, slot, value)


def test_the_calls_are_in_order():
    """Else it would be the call and not the argument that is refused."""
    for name, call in CALLS.items():
        if name not in REFUSED:
            call()


BY_X = "SELECT COUNT(*) FROM people WHERE age > :x"
NAMED = {
    "parameters= of a list": (
        lambda: ward.session.sql(BY_X, epsilon=1, parameters=[1]),
        "a dict of",
        "parameters=",
    ),
    "parameters= of a number": (lambda: ward.session.sql(BY_X, epsilon=1, parameters=5), "parameters="),
    "a parameter that is a frame": (
        lambda: ward.session.sql(BY_X, epsilon=1, parameters={"x": ward.frame}),
        "a DataFrame",
    ),
    "a statement that is a number": (lambda: ward.session.sql(5, epsilon=1), "a text", "int"),
    "expected= of a number": (lambda: ward.session.audit(5), "expected= is a head"),
    "expected= of bytes": (lambda: audit_file("x", b"00"), "x"),
    "a file that is a number": (lambda: audit_file(5), "int"),
    "a file that is none": (lambda: audit_file(None), "NoneType"),
    "a table that is a list": (lambda: ward.session.table(["people"]), "['people']", "a text"),
    "a table that is a frame": (lambda: ward.session.table(ward.frame), "a DataFrame"),
    "ledger= of a number": (lambda: dpn.Session(dpn.Budget(1.0), ledger=5), "int"),
    "ledger= of bytes": (lambda: dpn.Session(dpn.Budget(1.0), ledger=b"x"), "bytes"),
    "ledger= of a long text": (lambda: dpn.Session(dpn.Budget(1.0), ledger="x" * 5000), "xxx"),
    "a weight that is a text": (lambda: "2" * dpn.ranges("age"), "'2'"),
    "a weight that is a column": (lambda: dpn.workload.Weighted(ward.frame["age"], W), "a Series"),
    "a weight without end": (lambda: 10**400 * dpn.ranges("age"), "bits"),
    "weights of texts": (lambda: dpn.workload.WeightedRows(["a"] * 5, W), "a"),
    "weights of marginals": (lambda: dpn.workload.Marginals([W, W], {"age": 1}), "by their positions"),
    "too few arguments": (lambda: ward.session.protect(ward.frame), "'name'"),
    "an argument of no such name": (lambda: ward.session.sql("SELECT 1", epsilom=1), "epsilom"),
    "a query that is none": (lambda: ward.session.run("SELECT 1"), "a Query", "'SELECT 1'"),
}


@pytest.mark.parametrize("case", NAMED)
def test_it_says_what_was_passed_and_what_it_takes(case):
    call, *words = NAMED[case]
    with pytest.raises(dpn.DPError) as caught:
        call()
    assert not [word for word in words if word not in str(caught.value)], str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_message_keeps_its_start_and_its_advice():
    error = dpn.SQLError("no " + "x" * 5000 + " here; write y instead")
    assert len(str(error)) <= LONGEST
    assert str(error).startswith("no xxx")
    assert str(error).endswith("write y instead")


def test_a_progress_that_fails_shows_nothing_and_loses_nothing():
    """It is called before and after the charge: whichever call fails, the answer is there and was paid for once."""
    for place in itertools.count(1):
        own, calls = Ward(), []

        def progress(fraction, doing, calls=calls, place=place):
            calls.append(doing)
            if len(calls) == place:
                raise KeyError("Zebulon")

        query = own.table.histogram("sex", epsilon=0.5)
        price = query.plan.cost.epsilon
        try:
            query.run(progress)
        except dpn.DPError as error:
            failure = error
        else:
            break
        assert "Zebulon" not in str(failure)
        assert len(query.run().frame) == 2
        assert own.session.spent.epsilon == pytest.approx(0.25 + price)
        own.session.close()
    assert len(calls) < place
    assert place > 3


def test_signatures_are_those_that_were_written():
    assert list(inspect.signature(dpn.Session.protect).parameters)[:3] == ["self", "data", "name"]
    assert list(inspect.signature(ward.frame.dp.histogram).parameters) == [
        "column",
        "where",
        "epsilon",
        "error",
        "variance",
        "confidence",
        "objective",
        "simultaneous",
        "fresh",
    ]
    assert inspect.getsource(dpn.Session.sql).lstrip().startswith("def sql(")
    assert inspect.getsource(dpn.marginals).startswith("def marginals(")
    assert dpn.Session.sql.__doc__.startswith("Return a query")
    assert pickle.loads(pickle.dumps(dpn.marginals(2))) == dpn.marginals(2)


def cells(*values):
    column = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        column[place] = value
    return pd.DataFrame({"c": column, "x": range(len(values))})


@pytest.mark.parametrize("how", [["a", "b"], [1, 2], bool, dpn.Range(0, 3), dpn.Bins(0, 3, width=1), None, "unit"])
def test_a_cell_that_cannot_be_read_is_refused(how):
    """Or it is in no column that is looked at; its name and what it says are in no message."""
    frame, session = cells("a", Hostile(), None), ward.session
    options = {"domain": {"x": [1, 2]}, "unit": "c", "max_rows": 1} if how == "unit" else {"domain": how and {"c": how}}
    head = session.ledger.head
    with pytest.raises(dpn.DPError) as caught:
        session.protect(frame, next(ward.names), **options)
    assert "Zebulon" not in str(caught.value)
    assert session.ledger.head == head
