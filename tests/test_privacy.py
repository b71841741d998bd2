"""The guarantee end to end: what one privacy unit can change in all that is measured is never more than is charged.

Sensitivities are measured, not derived: the exact answers of every planned measurement on a table and on the table
without one unit, through the engine and the operator, set against the scale of the noise and against the ledger.
"""

import json
import math
import os
import subprocess
import sys
import traceback
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, assume, event, given, settings
from hypothesis import strategies as st
from noise_laws import gaussian_log_mass
from scipy.fft import next_fast_len
from spends import of_every_cell

from dpnotebook.domain import Bins, Boolean, Categories, Domain, Range
from dpnotebook.engine.source import source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.errors import (
    AccuracyError,
    BudgetExceeded,
    DomainError,
    EngineError,
    LedgerError,
    LedgerFull,
    PredicateError,
)
from dpnotebook.planner.plan_json import plan_to_json
from dpnotebook.predicate import Predicate
from dpnotebook.predicate.expression import And, Compare, IsNull, Not, OneOf, Or
from dpnotebook.privacy.accountant import UNITS, delta_of_mu
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.noise import laplace_log_mass
from dpnotebook.progress import silent
from dpnotebook.session.questions import draw_noise
from dpnotebook.session.session import Session
from dpnotebook.workload import AllRange, Prefix, Total

RANDOM = settings(
    deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.reuse, Phase.generate, Phase.shrink]
)
ATTRIBUTES = st.one_of(
    st.builds(
        Range,
        st.integers(-3, 0),
        st.integers(1, 5),
        outside=st.sampled_from(["clamp", "other"]),
        nullable=st.booleans(),
    ),
    st.builds(
        lambda edges, outside, nullable: Bins(edges=sorted(edges), outside=outside, nullable=nullable),
        st.sets(st.sampled_from([-2.5, -1, 0, 0.45, 1, 2, 3.35, 7]), min_size=2, max_size=5),
        st.sampled_from(["clamp", "other"]),
        st.booleans(),
    ),
    st.builds(
        Categories,
        st.sampled_from([["F", "M"], ["it's", 'a "b"', "c;"]]),
        other=st.sampled_from([None, "rest"]),
        nullable=st.booleans(),
    ),
    st.builds(Boolean, nullable=st.booleans()),
)
NUMBERS = [
    -math.inf,
    -100.0,
    -2.6,
    -1.0,
    0.0,
    0.3,
    0.45,
    0.5,
    1.0,
    1.55,
    2.0,
    3.35,
    5.9,
    6.99,
    7.0,
    8.0,
    1e15,
    math.inf,
    math.nan,
]
TEXTS = ["F", "M", "it's", 'a "b"', "c;", "elsewhere", None]
ACCURACIES = st.sampled_from([{"epsilon": 0.25}, {"epsilon": 1.0}, {"error": 3.0}, {"variance": 5.0}])


@st.composite
def domains(draw):
    return Domain({f"x{i}": draw(ATTRIBUTES) for i in range(draw(st.integers(1, 3)))})


def column(attribute, draw, size):
    """Draw values of a column: also such as are outside the declaration, missing or infinite."""
    match attribute:
        case Range() | Bins():
            return np.array(draw(st.lists(st.sampled_from(NUMBERS), min_size=size, max_size=size)))
        case Categories():
            return pd.Series(draw(st.lists(st.sampled_from(TEXTS), min_size=size, max_size=size)), dtype="str")
        case _:
            values = st.lists(st.sampled_from([True, False, None]), min_size=size, max_size=size)
            return pd.array(draw(values), dtype="boolean")


@st.composite
def conditions(draw, domain, depth=2):
    """Draw a condition over a domain."""
    if depth and draw(st.booleans()):
        parts = [draw(conditions(domain, depth - 1)) for _ in range(2)]
        return draw(st.sampled_from([And(*parts), Or(*parts), Not(parts[0])]))
    name = draw(st.sampled_from(domain.names))
    attribute = domain[name]
    if isinstance(attribute, Bins):
        return Compare(name, draw(st.sampled_from(["<", ">="])), draw(st.sampled_from(attribute.edges[:-1])))
    levels = [level for level in attribute.labels if level is not None and (level != "other" or not attribute.ordered)]
    if attribute.nullable and draw(st.integers(0, 4)) == 0:
        return IsNull(name)
    if attribute.ordered and draw(st.booleans()):
        return Compare(name, draw(st.sampled_from(["<", "<=", ">", ">="])), draw(st.sampled_from(levels)))
    return OneOf(name, draw(st.lists(st.sampled_from(levels), min_size=1, max_size=3)))


@st.composite
def questions(draw, domain):
    """Draw a function from a table's verbs to a query about it."""
    where = None
    if draw(st.booleans()):
        where = str(draw(conditions(domain)))
        try:
            Predicate.parse(where, domain)
        except PredicateError:  # no level satisfies it
            assume(False)
    ordered = [name for name in domain if domain[name].ordered]
    keys = draw(st.lists(st.sampled_from(domain.names), max_size=2, unique=True))
    kind = draw(
        st.sampled_from(["count", "sum", "mean", "cdf", "quantile", "answer"] if ordered else ["count", "answer"])
    )
    event(kind)
    options = dict(draw(ACCURACIES), where=where)
    if kind == "count":
        return lambda verbs: verbs.groupby(keys).count(**options)
    if kind == "answer":
        on = draw(st.sampled_from(domain.names))
        size = Predicate.everything(domain).domain[on].size
        workload = draw(st.sampled_from([AllRange(size), Prefix(size), Total(size) + 2 * Prefix(size)]))
        return lambda verbs: verbs.answer(workload, on, **dict(options, where=None))
    name = draw(st.sampled_from(ordered))
    if kind in ("cdf", "quantile"):
        return lambda verbs: getattr(verbs.groupby([key for key in keys if key != name]), kind)(name, **options)
    low, high = domain[name].bounds
    inner = math.ceil(4 * low) / 4, math.floor(4 * high) / 4
    if inner[0] < inner[1] and draw(st.booleans()):
        options |= {"bounds": inner, "granularity": draw(st.sampled_from([0.05, 0.25]))}
    if kind == "mean":
        options = {"epsilon": 0.5, **{key: value for key, value in options.items() if key not in ("error", "variance")}}
    return lambda verbs: getattr(verbs.groupby(keys), kind)(name, **options)


def planned(query):
    """Return the plan of a random query, None where there is none that spends anything."""
    try:
        plan = query.plan
    except (AccuracyError, DomainError) as error:  # no row in any level; levels that are wider than the error
        if any(said in str(error) for said in ("nothing to rank", "levels that it touches")):
            return None
        raise
    return None if plan.free or not plan.affordable else plan


def engine(frame, domain, unit=None, most=None, key=b"k" * 32):
    """Return an engine over a frame."""
    return TableEngine(source_of(frame), domain, unit, most, key)


def exact_answers(counting, item):
    """Return the true answers of a planned measurement, one row a component."""
    totals = counting.totals(item.measurement)
    return np.stack([item.measurement.operator.matvec(component) for component in totals])


def losses(engines, plan):
    """Return what two databases differ by in everything that a plan measures, in the accountant's units, exactly.

    Of a lossless refinement that is what both answers together tell beyond the first (tests/privacy/test_refine.py).
    """
    total = Fraction(0)
    for item in plan.measurements:
        one, other = (exact_answers(counting, item) for counting in engines)
        change = [abs(int(x)) for x in (one - other).ravel()]
        if plan.noise == "laplace":
            before = 0 if item.refines is None else 1 / item.before
            total += Fraction(sum(change)) * UNITS * (1 / item.scale - before)
        else:
            total += Fraction(sum(x * x for x in change)) * UNITS / item.scale**2
    return total


@pytest.mark.parametrize("delta", [0.0, 1e-5], ids=["pure", "gaussian"])
@given(data=st.data())
@settings(RANDOM, max_examples=20)
def test_a_row_never_changes_more_than_its_cell_is_charged(delta, data):
    """Over random questions, the row's cell is charged at least what the row can reveal, and so is the session."""
    domain = data.draw(domains())
    size = data.draw(st.integers(2, 6))
    frame = pd.DataFrame({name: column(domain[name], data.draw, size) for name in domain})
    gone = data.draw(st.integers(0, size - 1))
    session = Session(Budget(500.0, delta))
    table = session.protect(frame, "t", domain=domain, rows=100)
    without = engine(frame.drop(index=gone), domain)
    cell = tuple(int(domain[name].encode(frame[name].to_numpy(dtype=object))[gone]) for name in domain)
    lost = Fraction(0)
    for _ in range(data.draw(st.integers(1, 3))):
        query = data.draw(questions(domain))(table)
        plan = planned(query)
        if plan is None:
            continue
        loss = losses((table.engine, without), plan)
        assert loss <= plan.units
        lost += loss
        assert query.run().number > 0
    if min(cell) < 0:
        event("the row is outside the domain")
        assert lost == 0
    else:
        assert lost <= int(of_every_cell(session.ledger.spend("t"))[cell])
    assert lost <= session.ledger.spent
    session.close()
    without.close()


@pytest.mark.parametrize("delta", [0.0, 1e-5], ids=["pure", "gaussian"])
@given(data=st.data())
@settings(RANDOM, max_examples=12)
def test_a_unit_never_changes_more_than_is_charged(delta, data):
    """All rows of a unit go, however many: what that changes is at most what was charged for max_rows of them."""
    domain = data.draw(domains())
    size = data.draw(st.integers(3, 9))
    frame = pd.DataFrame({name: column(domain[name], data.draw, size) for name in domain})
    frame["who"] = data.draw(st.lists(st.sampled_from([1, 2, 3]), min_size=size, max_size=size))
    assume(frame["who"].nunique() > 1)
    gone = frame["who"].iloc[0]
    most = data.draw(st.integers(1, 3))
    session = Session(Budget(900.0, delta))
    table = session.protect(frame, "t", domain=domain, unit="who", max_rows=most, rows=100)
    without = engine(frame[frame["who"] != gone], domain, "who", most, session.ledger.key)
    lost = Fraction(0)
    for _ in range(data.draw(st.integers(1, 3))):
        query = data.draw(questions(domain))(table)
        plan = planned(query)
        if plan is None:
            continue
        loss = losses((table.engine, without), plan)
        assert loss <= plan.units
        lost += loss
        query.run()
    assert lost <= session.ledger.spent
    session.close()
    without.close()


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize(
    ("planner", "kind"), [("optimal", "count"), ("optimal", "histogram"), ("optimal", "sum"), ("pioneer", "count")]
)
def test_a_refinement_costs_what_it_tells_of_all_rows_of_a_unit(most, planner, kind):
    """The same question, ever stricter: a unit with `most` rows in one cell, its exact loss, and the charge."""
    ask = {
        "count": lambda table, variance: table.count(where="age >= 1", variance=variance),
        "histogram": lambda table, variance: table.histogram("age", variance=variance),
        "sum": lambda table, variance: table.sum(
            "age", bounds=(0, 3), granularity=1, where="age >= 2", variance=variance
        ),
    }[kind]
    domain = Domain({"age": Range(0, 3)})
    frame = pd.DataFrame({"age": [0, 1, 2] + [3] * most, "who": [1, 2, 3] + [4] * most})
    session = Session(Budget(100.0), planner=planner)
    table = session.protect(frame, "t", domain=domain, unit="who", max_rows=most)
    without = engine(frame[frame["who"] != 4], domain, "who", most, session.ledger.key)
    lost, refined = Fraction(0), 0
    for variance in (200.0, 30.0, 8.0, 2.0):
        query = ask(table, variance)
        plan = planned(query)
        refined += sum(item.refines is not None for item in plan.measurements)
        loss = losses((table.engine, without), plan)
        before = session.ledger.spent
        query.run()
        assert loss <= session.ledger.spent - before
        lost += loss
    assert refined >= 3
    assert lost <= session.ledger.spent <= lost * (1 + Fraction(1, 10**6))  # tight: half of it would be too little
    session.close()
    without.close()


SMALL = {"age": Range(0, 3), "sex": ["F", "M"], "income": Bins(0, 100, width=25)}
VERBS = {
    "count": lambda table: table.count(where="age >= 1 or sex == 'F'", epsilon=1.0),
    "histogram": lambda table: table.histogram("age", epsilon=1.0),
    "crosstab": lambda table: table.crosstab("sex", "age", epsilon=1.0),
    "sum": lambda table: table.groupby("sex").sum("income", bounds=(0, 75), granularity=5, epsilon=1.0),
    "sum where": lambda table: table.sum("income", granularity=5, where="income < 50", epsilon=1.0),
    "mean": lambda table: table.mean("income", granularity=5, epsilon=1.0),
    "cdf": lambda table: table.cdf("age", epsilon=1.0),
    "quantile": lambda table: table.groupby("sex").quantile("age", epsilon=1.0),
    "ranges": lambda table: table.answer(AllRange(4), "age", epsilon=1.0),
    "union": lambda table: table.answer(Total(8) + Prefix(8), ["sex", "age"], epsilon=1.0),
}


@pytest.fixture(scope="module")
def without_each_row():
    """Return a frame with a row at both ends of every level, and an engine for each table that lacks one of them."""
    incomes = (0.0, 24.9, 49.9, 99.0, 100.0)
    rows = [(age, sex, income) for age in range(4) for sex in "FM" for income in incomes]
    frame = pd.DataFrame(rows, columns=["age", "sex", "income"])
    engines = [engine(frame.drop(index=row), Domain(SMALL)) for row in frame.index]
    yield frame, engines
    for each in engines:
        each.close()


@pytest.fixture(params=[0.0, 1e-6], ids=["pure", "gaussian"])
def changes(request, without_each_row):
    """Return a function from a verb to its plan and, for every row, the change of the exact answers without it."""
    frame, engines = without_each_row
    session = Session(Budget(100.0, request.param))
    table = session.protect(frame, "t", domain=SMALL)

    def found(verb):
        plan = VERBS[verb](table).plan
        (item,) = plan.measurements
        everyone = exact_answers(table.engine, item)
        return plan, [np.abs(everyone - exact_answers(rest, item)).ravel() for rest in engines]

    yield found
    session.close()


def pure_loss(change, scale):
    """Return the largest log-likelihood ratio of an answer under two neighbouring tables, from the mass function."""
    outputs = np.arange(-400, 401)
    largest = 0.0
    for shift in change[change != 0].tolist():
        ratio = laplace_log_mass(outputs, scale) - laplace_log_mass(outputs - shift, scale)
        largest += float(ratio.max())
    return largest


def gaussian_delta(change, sigma, epsilon):
    """Return delta at epsilon of rounded Gaussian noise on answers that change by whole numbers, from mass functions.

    The privacy losses of independent numbers add up: their laws are convolved on a grid, losses rounded up.
    """
    step = 1e-5
    # Where noise has very many steps every so many of them is enough: sums of a smooth law on a grid are exact.
    stride = max(1, int(sigma / 4096))
    outputs = stride * np.arange(-math.ceil(13 * sigma / stride), math.ceil(13 * sigma / stride) + 1)
    mass = gaussian_log_mass(outputs, sigma)
    offset = width = 0
    laws = []
    for shift, times in zip(*np.unique(np.abs(change[change != 0]), return_counts=True), strict=True):
        loss = mass - gaussian_log_mass(outputs - shift, sigma)  # of -shift it has the same law
        places = np.ceil(loss / step).astype(np.int64)
        dense = np.bincount(places - places.min(), weights=stride * np.exp(mass))
        laws.append((dense, times))
        offset, width = offset + int(times * places.min()), width + int(times * dense.size)
    size = next_fast_len(width, real=True)
    law = np.fft.irfft(reduce(np.multiply, (np.fft.rfft(dense, size) ** times for dense, times in laws)), size)
    losses_ = (np.arange(size) + offset) * step
    return float(np.sum(law * np.maximum(0.0, -np.expm1(epsilon - np.maximum(losses_, epsilon)))))


def test_gaussian_delta_of_one_number_is_the_sum_over_outputs():
    """The convolution above against the definition: sum of (P - e^epsilon Q)+ over all outputs."""
    outputs = np.arange(-30_000, 30_001)
    for sigma, shift, epsilon in ((2000.0, 450, 1.0), (1300.0, 1300, 4.0)):
        gain = np.exp(gaussian_log_mass(outputs, sigma)) - np.exp(epsilon + gaussian_log_mass(outputs - shift, sigma))
        expected = float(np.maximum(gain, 0).sum())
        assert gaussian_delta(np.array([shift, 0]), sigma, epsilon) == pytest.approx(expected, rel=1e-3)
        assert gaussian_delta(np.array([shift]), sigma, epsilon) >= expected * (1 - 1e-9)
        # A thousand times finer, the law is that of Gaussian noise that is not rounded.
        finer = gaussian_delta(np.array([1000 * shift]), 1000 * sigma, epsilon)
        assert finer == pytest.approx(delta_of_mu(shift / sigma, epsilon), rel=1e-3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("verb", VERBS)
def test_outputs_on_neighbouring_tables_are_as_likely_as_promised(changes, verb):
    """Exact privacy from the mass functions, at the planned scale, over every row that a table can hold.

    Noise of 10% less fails the same test, and the planned noise is not more than is needed.
    """
    plan, differences = changes(verb)
    (item,) = plan.measurements
    if plan.noise == "laplace":
        claimed, slack = plan.epsilon, 1e-9

        def reveals(change, scale):
            return pure_loss(change, scale)
    else:
        claimed, slack = plan.delta, 2e-3

        def reveals(change, scale):
            return gaussian_delta(change << item.bits, float(scale) * 2**item.bits, plan.epsilon)

    distinct = {tuple(sorted(change.tolist())): change for change in differences if change.any()}
    worst = max(distinct.values(), key=lambda change: int((change ** (1 if plan.noise == "laplace" else 2)).sum()))
    if plan.noise == "laplace":
        assert all(reveals(change, item.scale) <= claimed * (1 + slack) for change in distinct.values())
    assert claimed * 0.99 <= reveals(worst, item.scale) <= claimed * (1 + slack)
    assert reveals(worst, item.scale * Fraction(9, 10)) > claimed * (1 + slack)


def units(epsilon):
    """Return an epsilon of a pure session in units."""
    return round(epsilon * UNITS)


def test_disjoint_questions_cost_what_the_dearest_costs(opened):
    """Two disjoint predicates at 0.3 cost 0.3 together; a third that overlaps both is charged what it adds."""
    session = opened(1.0)
    verbs = session.table("people")
    young = verbs.count(where="age < 30", epsilon=0.3).run()
    assert young.paid == 0.3
    old = verbs.count(where="age >= 60", epsilon=0.3)
    assert old.plan.cost.epsilon == 0.0
    assert not old.plan.free  # measured, at no cost
    assert old.run().paid == 0.0
    assert session.ledger.spent == units(0.3)
    third = verbs.count(where="age >= 20 and age < 70", epsilon=0.2)
    assert third.plan.cost.units == units(0.2)
    third.run()
    assert session.ledger.spent == units(0.5)
    between = verbs.histogram("age", where="age >= 30 and age < 60", epsilon=0.35)  # 0.2 spent there, 0.5 elsewhere
    assert between.plan.cost.units == units(0.05)
    assert between.run().paid == pytest.approx(0.05)
    spend = of_every_cell(session.ledger.spend("people"))[:, 0, 0, 0, 0]
    expected = [0.3] * 20 + [0.5] * 10 + [0.55] * 30 + [0.5] * 10 + [0.3] * 30
    assert spend.tolist() == [units(epsilon) for epsilon in expected]
    assert session.spent.epsilon == pytest.approx(0.55)


def test_a_histogram_costs_one_row_and_sums_cost_by_value(opened):
    """Every row is in one cell of a histogram; a row of lower value pays less for a sum."""
    session = opened(10.0)
    verbs = session.table("people")
    assert verbs.crosstab("age", "region", epsilon=0.5).run().paid == 0.5
    verbs.sum("income", epsilon=1.0).run()
    spend = of_every_cell(session.ledger.spend("people"))[0, 0, 0, :, 0]
    assert spend.tolist() == [units(0.5 + (level + 1) / 10) for level in range(10)]


@pytest.mark.parametrize("delta", [0.0, 1e-5], ids=["pure", "gaussian"])
@given(data=st.data())
@settings(RANDOM, max_examples=12)
def test_the_spend_of_each_cell_is_brute_force(delta, data):
    """Random questions, the cost of every cell added up from the meaning of the predicate: the ledger has the same."""
    domain = Domain({"a": Range(0, 4), "b": ["x", "y", "z"], "c": Boolean(nullable=True)})
    frame = pd.DataFrame({"a": [0, 1], "b": ["x", "y"], "c": pd.array([True, None], dtype="boolean")})
    session = Session(Budget(50.0, delta))
    verbs = session.protect(frame, "t", domain=domain)
    spent = np.zeros(domain.shape, dtype=object)
    for _ in range(data.draw(st.integers(1, 6))):
        where = str(data.draw(conditions(domain)))
        try:
            predicate = Predicate.parse(where, domain)
        except PredicateError:
            continue
        epsilon = data.draw(st.sampled_from([0.1, 0.3, 0.7]))
        keys = data.draw(st.lists(st.sampled_from("abc"), max_size=2, unique=True))
        query = verbs.groupby(keys).count(where=where, epsilon=epsilon, fresh=True)
        (item,) = query.plan.measurements
        price = math.ceil(UNITS / (item.scale if delta == 0 else item.scale**2))
        before = max(spent.ravel())
        spent = spent + predicate.dense(domain.names) * price
        assert query.plan.cost.units == max(spent.ravel()) - before
        query.run()
    assert (of_every_cell(session.ledger.spend("t")) == spent).all()
    assert session.ledger.spent == max(spent.ravel())
    assert session.audit().ok
    session.close()


ROOT = Path(__file__).parent.parent

# A bare package in place of dpnotebook/__init__.py, which imports the whole library: what counts here is what the
# planner itself reaches for.
PLANNING_ALONE = """
import sys, types
package = types.ModuleType("dpnotebook")
package.__path__ = [sys.argv[1]]
sys.modules["dpnotebook"] = package
import dpnotebook.planner.planner as planner
from dpnotebook.planner.table import TableSchema
from dpnotebook.domain import Bins, Domain, Range
from dpnotebook.ledger import Ledger
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.budget import Budget
from dpnotebook.query.question import Accuracy, Measure, Question, bounded_value
domain = Domain({"age": Range(0, 99), "sex": ["F", "M"], "income": Bins(0, 1000, width=100)})
table = TableSchema("t", domain, rows=1000.0)
for budget in (Budget(10.0), Budget(10.0, 1e-6)):
    ledger = Ledger(":memory:", budget)
    ledger.register("t", fingerprint="f", domain=domain.to_json(), unit=None, max_rows=None)
    where = Predicate.parse("sex == 'F' and age < 50", domain)
    for measure, keys in (
        (Measure("count"), ("sex", "age")),
        (Measure("sum", "income", summand=bounded_value(domain, "income")), ()),
        (Measure("mean", "income", summand=bounded_value(domain, "income", ends=True)), ("sex",)),
        (Measure("cdf", "age"), ()),
        (Measure("quantile", "income", quantile=0.5), ()),
    ):
        # How many ranks an error of a quantile is depends on what was released.
        exact = Accuracy(variance=400.0) if measure.kind == "quantile" else Accuracy(error=40.0)
        for accuracy in (Accuracy(epsilon=0.5), exact):
            plan = planner.make_plan(Question("t", (measure,), keys, where), accuracy, table, ledger.moment("t"))
            assert plan.error > 0
print(*sorted(sys.modules))
"""


def run(text, *arguments):
    """Run Python text in another process and return what it printed."""
    options = {"capture_output": True, "text": True, "cwd": ROOT, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    done = subprocess.run([sys.executable, "-c", text, *map(str, arguments)], timeout=120, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_planning_imports_no_engine_and_nothing_that_holds_data():
    loaded = set(run(PLANNING_ALONE, ROOT / "dpnotebook").split())
    assert "dpnotebook.planner.planner" in loaded
    forbidden = (
        "dpnotebook.engine",
        "dpnotebook.session.session",
        "dpnotebook.session.protected",
        "duckdb",
        "pandas",
        "pyarrow",
    )
    assert [name for name in loaded if name.startswith(forbidden)] == []


class Poison:
    """Whatever is asked of it, it fails."""

    def __getattr__(self, name):
        raise AssertionError(f"planning touched the data: {name}")


ASKED = {
    "count": lambda verbs: verbs.count(where="age >= 65 and sex == 'F'", error=25),
    "histogram": lambda verbs: verbs.histogram("region", epsilon=0.1),
    "crosstab": lambda verbs: verbs.crosstab("age", "region", variance=100),
    "grouped sum": lambda verbs: verbs.groupby(["sex", "region"]).sum("income", epsilon=0.1),
    "mean": lambda verbs: verbs.mean("income", where="smokes", error=5_000),
    "cdf": lambda verbs: verbs.cdf("age", epsilon=0.1),
    "quantile": lambda verbs: verbs.groupby("sex").quantile("income", 0.9, epsilon=0.1),
    "ranges": lambda verbs: verbs.answer(AllRange(100), "age", epsilon=0.1),
    "workload": lambda verbs: verbs.answer(Total(8) + Prefix(8), ["sex", "region"], error=10),
    "sql": lambda verbs: verbs.session.sql("SELECT sex, COUNT(*) FROM people WHERE age > 30 GROUP BY sex", epsilon=0.1),
}


def cards(session, query):
    """Return everything that is shown of a query before it runs, and its plan as the ledger would keep it."""
    from card_texts import budget_html, budget_text, plan_html, plan_text

    from dpnotebook.notebook.dashboard.summary import dashboard_html, dashboard_text

    plan = query.plan
    shown = [plan_text(plan), plan_html(plan), budget_html(session), budget_text(session)]
    shown += [dashboard_html(session), dashboard_text(session), repr(query), repr(plan)]
    shown += [repr(query.at(**accuracy).plan) for accuracy in ({"epsilon": 0.3}, {"variance": 9.0})]
    return [*shown, json.dumps(plan_to_json(plan), sort_keys=True), plan.std_errors.tolist(), plan.cells.to_json()]


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
def test_no_card_and_no_plan_reads_the_data(opened, monkeypatch, delta):
    """With the engine, the frame and DuckDB itself poisoned, everything before Run works; Run does not."""
    import duckdb

    session = opened(10.0, delta, rows=400)
    table = session.table("people")
    table.engine.close()
    (rows,) = table.parts
    table.engine = rows.engine = rows.source = rows.whole = Poison()
    monkeypatch.setattr(duckdb, "connect", Poison())
    for ask in ASKED.values():
        query = ask(table)
        assert len(cards(session, query)) > 5
        assert query.assuming(rows=300.0).plan.error > 0
    with pytest.raises(AssertionError, match="touched the data"):
        ASKED["count"](table).run()
    session._tables.clear()


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
def test_plans_do_not_depend_on_the_rows(opened, people, delta):
    """Two tables with one domain and other rows: every plan and every card is the same to the last bit."""
    other = people.sample(150, random_state=1).reset_index(drop=True).assign(age=7, sex="M", income=99_999.0)
    one, two = opened(10.0, delta, rows=400), opened(10.0, delta, frame=other, rows=400)
    for name, ask in ASKED.items():
        assert cards(one, ask(one.table("people"))) == cards(two, ask(two.table("people"))), name


def failing(*_):
    """Stand in for an engine that breaks on a row."""
    raise RuntimeError("could not convert value 'Ms Doe, 84, HIV' to INT32")


def test_a_charge_that_was_not_measured_stands_and_is_measured_later(opened, people, tmp_path, monkeypatch):
    """Charge, measure, record, reveal: what fails in between is paid once and shown only when it is recorded."""
    path = tmp_path / "clinic.ledger"
    session = opened(1.0, ledger=path)
    histogram = people.dp.histogram("region", epsilon=0.4)
    monkeypatch.setattr(session.table("people").engine, "totals", failing)
    with pytest.raises(EngineError, match="Release 1 was charged") as caught:
        histogram.run()
    assert "Doe" not in "".join(traceback.format_exception(caught.value))
    assert session.spent.epsilon == 0.4
    assert session.history()["state"].tolist() == ["charged"]
    with pytest.raises(LedgerError, match="not recorded yet"):
        session.release(1)
    session.close()

    again = opened(1.0, ledger=path)
    assert again.history()["state"].tolist() == ["recorded"]
    assert again.spent.epsilon == 0.4
    query = people.dp.histogram("region", epsilon=0.4)
    assert query.plan.free
    release = query.run()
    assert (release.number, release.paid) == (1, 0.0)
    assert release.frame["value"].tolist() == again.release(1).frame["value"].tolist()
    truth = people["region"].value_counts().reindex(release.frame["region"]).to_numpy()
    assert np.abs(release.frame["value"] - truth).max() < 40 / 0.4  # it was measured: 2 in 10^17 are further out
    assert again.audit().ok


def test_asking_again_after_an_interrupt_pays_nothing_more(opened, people, monkeypatch):
    """An interrupted query is finished by running its cell again, also for an answer that may be less accurate."""
    session = opened(1.0)
    engine_ = session.table("people").engine
    totals = engine_.totals

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine_, "totals", interrupted)
    with pytest.raises(KeyboardInterrupt):
        people.dp.count(epsilon=0.4).run()
    monkeypatch.setattr(engine_, "totals", totals)
    assert people.dp.count(epsilon=0.4).plan.free
    assert people.dp.count(epsilon=0.4).run().paid == 0.0
    assert people.dp.count(epsilon=0.2).run().number == 1
    assert session.spent.epsilon == 0.4


def test_completions_draw_the_same_noise_and_the_first_record_stays(opened, people, tmp_path, monkeypatch):
    """Two processes may both finish a charge: nothing is drawn twice for it, one record is kept, and both show that."""
    path = tmp_path / "clinic.ledger"
    first = opened(900.0, ledger=path)
    drawn = []

    def watched(item, noise, source):
        drawn.append(draw_noise(item, noise, source))
        return drawn[-1]

    query = people.dp.histogram("age", epsilon=0.01)
    record = first.ledger.record
    first._questions.draw = watched
    monkeypatch.setattr(first.ledger, "record", lambda number, *_: failing())
    with pytest.raises(EngineError):
        query.run()
    with pytest.raises(EngineError):
        query.run()
    monkeypatch.setattr(first.ledger, "record", record)
    (charge,) = first.ledger.pending("people")
    second = opened(900.0, ledger=path)  # completes it
    kept = second.release(1).frame["value"].tolist()
    assert query.run().frame["value"].tolist() == kept
    late = first._pipeline.measure(first._questions, charge, silent)
    assert late.answers[0].ravel().tolist() == kept
    assert len(drawn) == 2
    truth = np.bincount(people["age"], minlength=100)
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[0], np.array(kept) - truth)
    fresh = replace(query, fresh=True).run().frame["value"] - truth
    assert (fresh != drawn[0]).mean() > 0.9  # equal in one of some 400 places by chance
    assert first.audit().ok


def test_nothing_is_returned_when_recording_fails(opened, people, monkeypatch):
    """An answer that could not be recorded is not shown; the charge stands, and asking again records and shows it."""
    session = opened(1.0)
    record, seen = session.ledger.record, []
    session.on_change(lambda: seen.append("change"))

    def full(*_):
        raise LedgerFull("no room on the disk")

    monkeypatch.setattr(session.ledger, "record", full)
    with pytest.raises(EngineError, match=r"Release 1 was charged, .* The ledger says: no room on the disk"):
        people.dp.count(epsilon=0.25).run()
    assert session.history()["state"].tolist() == ["charged"]
    monkeypatch.setattr(session.ledger, "record", record)
    release = people.dp.count(epsilon=0.25).run()
    assert (release.number, release.paid, session.spent.epsilon) == (1, 0.0, 0.25)


SAME = [
    "age >= 65 and sex == 'F'",
    "sex == 'F' and age > 64",
    "not (age < 65 or sex != 'F')",
    "sex in ['F'] & age.between(65, 99)",
    "(age >= 65 and age < 80 and sex == 'F') or (80 <= age and not sex == 'M')",
]


def test_the_same_question_costs_nothing_however_it_is_written(opened, people):
    session = opened(1.0)
    first = people.dp.count(where=SAME[0], epsilon=0.2).run()
    assert first.paid == 0.2
    for where in SAME:
        for accuracy in ({"epsilon": 0.2}, {"epsilon": 0.05}, {"error": 100.0}, {"variance": 1e4}):
            again = people.dp.count(where=where, **accuracy)
            assert again.plan.free
            assert again.plan.cost.units == 0
            assert again.plan.reused == (first.number,)
            release = again.run()
            assert (release.paid, release.number, release.value) == (0.0, first.number, first.value)
    by_sql = session.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'F' AND age >= 65", epsilon=0.2)
    assert by_sql.run().number == first.number
    loose = people.dp.count(where=SAME[0], epsilon=0.2, confidence=0.5).run()
    assert loose.number == first.number
    assert loose.interval[1] - loose.interval[0] < first.interval[1] - first.interval[0]
    assert session.spent.epsilon == 0.2
    assert len(session.history()) == 1


def test_a_stricter_or_fresh_question_is_charged(opened, people):
    session = opened(1.0)
    first = people.dp.count(epsilon=0.2).run()
    fresh = people.dp.count(epsilon=0.2, fresh=True)
    assert not fresh.plan.free
    assert (fresh.run().paid, fresh.run().number) == (0.2, 3)
    assert session.spent.epsilon == pytest.approx(0.6)
    assert people.dp.count(epsilon=0.3).plan.free  # three of 0.2 tell more than one of 0.3
    strict = people.dp.count(epsilon=0.4, fresh=True)
    assert strict.plan.cost.epsilon == 0.4
    assert strict.run().number == 4
    assert people.dp.count(error=strict.plan.error).plan.reused == (4,)
    stricter = people.dp.count(error=strict.plan.error / 2).plan
    assert stricter.cost.epsilon == pytest.approx(stricter.without_reuse.epsilon - 0.4, abs=1e-6)  # it is refined
    assert people.dp.count(epsilon=0.1).run().number == 4  # the most accurate one answers
    assert people.dp.count(where="age > 3", epsilon=0.1).plan.recorded is None
    assert first.number == 1


RESTART = """
import sys
import numpy as np, pandas as pd
import dpnotebook as dpn
session = dpn.Session(dpn.Budget(1.0), sys.argv[1])
frame = pd.DataFrame({"age": np.arange(100) % 50, "sex": ["F", "M"] * 50})
session.protect(frame, "t", domain={"age": dpn.Range(0, 49), "sex": ["F", "M"]})
release = frame.dp.histogram("age", where=sys.argv[2], epsilon=0.3).run()
print(release.paid, release.number, release.frame["value"].tolist(), session.spent.epsilon)
"""


def test_restart_and_run_all_is_free(tmp_path):
    """Another process, the same ledger and the same rows: the recorded answer, at no cost."""
    path = tmp_path / "restart.ledger"
    first = run(RESTART, path, "sex == 'F'")
    assert first.startswith("0.3 1 [")
    assert run(RESTART, path, "not sex == 'M'") == first.replace("0.3 1", "0.0 1", 1)


def test_two_sessions_share_one_ledger(opened, people, tmp_path):
    """What one session pays the other sees: answers are free for both, and the budget is one."""
    path = tmp_path / "shared.ledger"
    one, two = opened(1.0, ledger=path), opened(1.0, ledger=path)
    mine = one.table("people").crosstab("sex", "region", epsilon=0.6).run()
    theirs = two.table("people").crosstab("region", "sex", epsilon=0.6).run()
    assert (theirs.paid, theirs.number) == (0.0, mine.number)
    assert sorted(theirs.frame["value"]) == sorted(mine.frame["value"])
    assert two.spent.epsilon == one.spent.epsilon == 0.6
    with pytest.raises(BudgetExceeded, match=r"40% \(ε 0\.4\) is left"):
        two.table("people").histogram("age", epsilon=0.5, fresh=True).run()
    two.table("people").histogram("age", epsilon=0.4, fresh=True).run()
    assert one.remaining.epsilon == 0.0
    assert one.audit().ok
