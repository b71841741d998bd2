"""What was measured ten thousand times says as much as one measurement of all its precision, and takes no more to keep.

Nothing here reads a clock: what is counted is how often something is read, parsed, added and held.
"""

import json
import tracemalloc
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.ledger import ledger as ledger_module
from dpnotebook.planner import least_squares_state, plan_json
from dpnotebook.planner.history import History
from dpnotebook.planner.information import Information
from dpnotebook.planner.product_terms import ProductTerm, measurement_to_json
from dpnotebook.predicate import Predicate, diagram, predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.privacy.tails import half_widths
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Question, Summand
from dpnotebook.workload import Identity, Kron, Prefix, Stack, Total

BUDGETS = {"laplace": dpn.Budget(1000.0), "gaussian": dpn.Budget(1000.0, 1e-6)}
LEVELS, REPEATS = 100, 3_000


def opened(noise, path):
    frame = pd.DataFrame({"age": np.arange(5_000) % 20, "sex": ["F", "M"] * 2_500})
    session = dpn.Session(BUDGETS[noise], ledger=path)
    return session, session.protect(frame, "t", domain={"age": dpn.Range(0, 19), "sex": ["F", "M"]})


def recorded(numbers, noise="laplace", levels=LEVELS):
    """Return releases of one histogram, each measured anew, with noise of scale 100."""
    domain = Domain({"x": dpn.Range(0, levels - 1)})
    measured = Measurement(Identity(levels), (Axis("x", tuple(range(levels))),), Predicate.everything(domain))
    rng = np.random.default_rng(3)
    releases = []
    for number in numbers:
        item = {"measurement": measurement_to_json(measured), "scale": "100", "bits": 0}
        plan = {"measures": [], "items": [item], "noise": noise, "units": 1_000}
        answers = rng.integers(0, 1_000, (1, levels))
        releases.append(
            SimpleNamespace(
                number=number, since=2, question="q", units=1_000, numbers=(answers,), plan=plan, details={}
            )
        )
    return domain, measured, releases


@pytest.mark.parametrize("noise", BUDGETS)
def test_repeats_are_their_mean_by_precision_with_the_law_of_all_their_noise(noise, tmp_path):
    session, table = opened(noise, tmp_path / "ledger")
    releases = [table.histogram("age", epsilon=e, fresh=True).run() for e in (0.1, 0.3, 0.1, 0.2, 0.3)]
    scales = [Fraction(session.ledger.get(r.number).plan["measures"][0]["scale"]) for r in releases]
    precisions = np.array([1 / law_of(noise).count_variance(scale) for scale in scales])
    query = table.histogram("age", variance=1.0001 / precisions.sum())
    assert query.plan.free
    frame = query.run().frame
    shares = precisions / precisions.sum()
    values = np.array([release.frame["value"].to_numpy() for release in releases])
    assert frame["value"].to_numpy() == pytest.approx(shares @ values, abs=1e-5)
    assert frame["std_error"].to_numpy() == pytest.approx(precisions.sum() ** -0.5, rel=1e-6)
    widths = ((frame["upper"] - frame["lower"]) / 2).to_numpy()
    if noise == "laplace":
        assert widths == pytest.approx(half_widths(shares[None], scales, noise, 0.95)[0], rel=1e-4)
    else:
        assert widths == pytest.approx(1.959964 * precisions.sum() ** -0.5, rel=1e-4)


def test_one_of_several_repeats_is_refined_and_the_others_stay(tmp_path):
    session, table = opened("laplace", tmp_path / "ledger")
    for epsilon in (0.1, 0.2, 0.1):
        table.histogram("age", epsilon=epsilon, fresh=True).run()
    query = table.histogram("age", variance=20.0)
    (item,) = query.plan.measurements
    assert item.refines == (2, 0)
    found = query.run().frame  # in the very session that has the repeats in hand, and in one that reads them anew
    session.close()
    again, table = opened("laplace", tmp_path / "ledger")
    numbers, scales = [1, 3, 4], []
    for number in numbers:
        plan = again.ledger.get(number).plan
        scales.append(next(Fraction(each["scale"]) for each in [*plan["measures"], *plan.get("items", ())]))
    assert again.ledger.get(4).refines == ((2, 0),)
    precisions = np.array([1 / law_of("laplace").count_variance(scale) for scale in scales])
    assert found["std_error"].max() == pytest.approx(precisions.sum() ** -0.5, rel=1e-6)
    expected = table.histogram("age", variance=1.0001 / precisions.sum())
    assert expected.plan.free
    values = []
    for number in numbers:
        record = again.ledger.get(number)
        (bits,) = (each["bits"] for each in [*record.plan["measures"], *record.plan.get("items", ())])
        values.append(np.ldexp(record.answers[0][0].astype(float), -bits))
    mean = precisions @ np.array(values) / precisions.sum()
    assert found["value"].to_numpy() == pytest.approx(mean, abs=1e-4)
    assert expected.run().frame["value"].to_numpy() == pytest.approx(mean, abs=1e-4)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("noise", BUDGETS)
def test_thousands_of_repeats_are_parsed_once_added_once_and_small(noise, monkeypatch):
    counted = Counter()

    def counting(name, module, attribute, size=lambda *given: 1):
        work = getattr(module, attribute)

        def counts(*given, **named):
            counted[name] += size(*given)
            return work(*given, **named)

        monkeypatch.setattr(module, attribute, counts)

    counting("rows", Information, "add", lambda _, rows, *__: rows.shape[0])
    counting("rows", least_squares_state, "told_of_cells", lambda counts, _, said, __: sum(one.size for one in said))
    counting("parsed", Predicate, "from_json")
    domain, measured, releases = recorded(range(1, REPEATS + 1), noise)
    part = ProductTerm(measured.axes, measured.where, measured.operator, 1.0, np.arange(LEVELS))
    history = History(domain, noise)
    tracemalloc.start()
    history.take(releases)
    block = history.block(part, Summand())
    values, variances, _ = block.estimates(block.queries(part))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 12 * REPEATS * LEVELS * 8  # bytes: a few copies of the noisy numbers and not their product with cells
    assert counted == {"rows": LEVELS, "parsed": 1}
    assert len(block.sources) == 1
    exact = np.mean([release.numbers[0][0] for release in releases], axis=0)
    assert values == pytest.approx(exact, rel=1e-9)
    assert variances == pytest.approx(law_of(noise).count_variance(Fraction(100)) / REPEATS, rel=1e-9)
    # One more is one more addition, and nothing is read or made anew.
    domain, _, (late,) = recorded([REPEATS + 1], noise)
    history.take([late])
    block = history.block(part, Summand())
    assert block.information.atoms == LEVELS  # what is to be added up is when it is looked at
    assert counted == {"rows": 2 * LEVELS, "parsed": 1}
    assert len(block.sources) == 1
    assert len(next(iter(block.sources.values())).repeats) == REPEATS + 1


def test_a_plan_of_what_was_asked_often_reads_each_record_once_in_a_session(tmp_path, monkeypatch):
    session, table = opened("laplace", tmp_path / "ledger")
    for _ in range(30):
        table.histogram("age", epsilon=0.1, fresh=True).run()
    session.close()
    read, asked = Counter(), Counter()
    work, parse = ledger_module.read_record, Question.from_json.__func__

    def reading(connection, line):
        record = work(connection, line)
        read[record.number] += 1
        return record

    def parsing(cls, *given):
        asked["questions"] += 1
        return parse(cls, *given)

    monkeypatch.setattr(ledger_module, "read_record", reading)
    monkeypatch.setattr(Question, "from_json", classmethod(parsing))
    session, table = opened("laplace", tmp_path / "ledger")
    assert table.histogram("age", variance=3.0).plan.cost.epsilon > 0
    assert table.histogram("age", epsilon=0.1).plan.recorded == 30
    assert len(read) == 30
    # What was measured once, and twice the latest few for what is likely to come.
    assert sum(read.values()) <= 3 * 30
    assert asked["questions"] <= 1
    before = sum(read.values())
    assert table.histogram("age", variance=2.0).plan.cost.epsilon > 0
    row = table.count(where="age == 7", variance=30.0).plan
    assert row.picked.rows == 20  # levels of age
    assert asked["questions"] <= 2  # what a row may be picked from is parsed once, however often it was asked
    assert sum(read.values()) == before


def test_conditions_and_operators_of_many_questions_are_read_and_written_once_each(tmp_path, monkeypatch):
    session, table = opened("laplace", tmp_path / "ledger")
    conditions = ["age < 10", "age >= 5 and sex == 'F'", "age in [1, 3, 5] or sex == 'M'", "age == 7"]
    for where in [*conditions, None]:
        for of in (table, table.groupby("sex"), table.groupby("age"), table.groupby(["age", "sex"])):
            of.count(where=where, epsilon=0.1, fresh=True).run()
    session.close()
    session, table = opened("laplace", tmp_path / "ledger")
    releases = session.ledger.news("t")[1]
    assert len(releases) == 4 * (len(conditions) + 1)
    counted = Counter()

    def counting(name, owner, attribute):
        work = getattr(owner, attribute)
        monkeypatch.setattr(owner, attribute, lambda *given: counted.update([name]) or work(*given))

    counting("read", diagram, "read")
    counting("named", predicate, "_key_of")
    counting("written", Kron, "to_json")
    plan_json._few_operators.cache_clear()  # as in a process that has just begun
    history = History(table._table.domain, "laplace")
    history.take(releases)
    keys = {item.measurement.key for item in history.items.values()}
    assert len(history.items) == len(releases)
    assert len(keys) > 2 * len(conditions)  # far more than there are conditions
    assert counted["read"] == len(conditions) + 1
    assert counted["named"] <= len(conditions) + 1
    assert 0 < counted["written"] <= 5  # as there are at most five sizes of a table of both columns


@given(
    st.sampled_from([Identity(3), Kron(Identity(2), Prefix(4)), 2 * Prefix(3), Stack(Identity(2), Total(2))]), st.data()
)
def test_a_measurements_key_is_what_its_values_are_as_one_text(operator, data):
    domain = Domain({"x": dpn.Range(0, 9), 'it\'s "y"': ["F", "M"]})
    axes = tuple(Axis(name, tuple(data.draw(st.lists(st.integers(0, 9), max_size=4)))) for name in domain.names)
    where = Predicate.parse("x < 5", domain) if data.draw(st.booleans()) else Predicate.everything(domain)
    summand = data.draw(st.sampled_from([Summand(), Summand("x", Fraction(0), Fraction(9), Fraction(1, 2))]))
    measured = Measurement(operator, axes, where, summand)
    sides = [[axis.attribute, axis.runs] for axis in axes]
    whole = json.dumps([operator.to_json(), sides, where.key, summand.to_json()], sort_keys=True)
    assert measured.key == whole
