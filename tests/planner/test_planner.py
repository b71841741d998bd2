"""Plans and answers from everything recorded, held against dense least squares over the full domain."""

import math

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, BudgetExceeded
from dpnotebook.planner.plan_json import planned_from_json
from dpnotebook.planner.to_linear import answer_axes, as_asked, asked_workload
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.laws import law_of

BUDGETS = {"pure": dpn.Budget(50.0), "gaussian": dpn.Budget(50.0, 1e-6)}
SIZES = {"age": 8, "sex": 2, "region": 3}


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    return pd.DataFrame({name: rng.integers(0, size, 3000) for name, size in SIZES.items()})


@pytest.fixture(params=BUDGETS)
def session(request, rows):
    session = dpn.Session(budget=BUDGETS[request.param])
    session.protect(rows, "t", domain={name: dpn.Range(0, size - 1) for name, size in SIZES.items()})
    return session


def dense_rows(measurement, domain):
    """Return a measurement's queries over all cells of the domain, by asking it of every single cell."""
    shape = tuple(domain[name].size for name in domain.names)
    inside = np.broadcast_to(_mask(measurement.where, domain), shape)
    found = np.zeros((measurement.operator.shape[0], math.prod(shape)))
    operator = measurement.operator.dense()
    for cell, levels in enumerate(np.ndindex(*shape)):
        at = dict(zip(domain.names, levels, strict=True))
        if not inside[levels] or any(at[axis.attribute] not in axis.levels for axis in measurement.axes):
            continue
        place = 0
        for axis in measurement.axes:
            place = place * axis.size + axis.levels.index(at[axis.attribute])
        found[:, cell] = operator[:, place]
    return found


def _mask(where, domain):
    shape = tuple(domain[name].size for name in domain.names)
    mask = np.zeros(shape, dtype=bool)
    for box in where.products() if not where.is_everything else [{}]:
        part = np.ones(shape, dtype=bool)
        for axis, name in enumerate(domain.names):
            if name in box:
                part &= box[name].reshape([-1 if i == axis else 1 for i in range(len(shape))])
        mask |= part
    return mask


class Dense:
    """Least squares over everything recorded, with one unknown a cell."""

    def __init__(self, session):
        self.domain = session.table("t").table.domain
        noise = session.ledger.accountant.noise
        found, refined = {}, set()
        for record in session.ledger.records("t"):
            for place, item in enumerate(planned_from_json(record.plan, self.domain)):
                noisy = np.ldexp(record.answers[place][0].astype(float), -item.bits)
                found[record.number, place] = item, noisy
                if item.refines is not None:
                    refined.add(item.refines)
        self.rows, self.weights, self.noisy, self.norms = [], [], [], []
        for key, (item, noisy) in found.items():
            if key in refined:
                continue
            queries = dense_rows(item.measurement, self.domain)
            self.rows.append(queries)
            self.weights.append(np.full(len(noisy), 1 / law_of(noise).count_variance(item.scale)))
            self.noisy.append(noisy)
            power = 1 if noise == "laplace" else 2
            self.norms.append(float(UNITS) / float(item.scale) ** power * (np.abs(queries) ** power).sum(axis=0))

    def answer(self, question):
        """Return the best answers to a question and their variances; infinite where not determined."""
        (measure,) = question.measures
        axes = answer_axes(measure, question, self.domain)
        from dpnotebook.query.measurement import Measurement

        queries = dense_rows(Measurement(asked_workload(measure, axes), axes, question.where), self.domain)
        rows, weights = np.concatenate(self.rows), np.concatenate(self.weights)
        scaled = rows * np.sqrt(weights)[:, None]
        combination = queries @ np.linalg.pinv(scaled, rcond=1e-10)
        values = combination @ (np.concatenate(self.noisy) * np.sqrt(weights))
        variances = (combination**2).sum(axis=1)
        known = np.abs(combination @ scaled - queries).max(axis=1) < 1e-7
        found = np.where(known, values, np.nan), np.where(known, variances, np.inf)
        return tuple(as_asked(each, measure, question, self.domain) for each in found)


def random_query(rng, table):
    """Return a random question at a random accuracy."""
    where = rng.choice(
        [
            None,
            f"age >= {rng.integers(1, 7)}",
            f"age < {rng.integers(1, 7)} or region == {rng.integers(3)}",
            f"sex == {rng.integers(2)} and age in {sorted(rng.choice(8, 3, replace=False).tolist())}",
            f"region != {rng.integers(3)}",
        ]
    )
    accuracy = {"variance": float(10 ** rng.uniform(1, 3.5))}
    match rng.integers(6):
        case 0:
            return table.count(where=where, **accuracy)
        case 1:
            return table.histogram(rng.choice(list(SIZES)), where=where, **accuracy)
        case 2:
            return table.crosstab(*rng.choice(list(SIZES), 2, replace=False), where=where, **accuracy)
        case 3:
            return table.cdf("age", where=where, **accuracy)
        case 4:
            return table.answer(dpn.ranges("age"), **accuracy)
        case _:
            return table.count(where=f"age == {rng.integers(8)}", **accuracy)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("seed", range(4))
def test_answers_are_the_best_linear_unbiased_ones(session, seed):
    rng = np.random.default_rng(seed)
    table = session.table("t")
    free = combined = 0
    for _ in range(20):
        query = random_query(rng, table)
        plan = query.plan
        assert plan.std_errors.max() ** 2 <= query.accuracy.variance * (1 + 2e-6)
        release = query.run()
        free += plan.free
        found = release.frame["std_error"].to_numpy()
        assert (found <= plan.std_errors * (1 + 1e-6)).all()
        values, variances = Dense(session).answer(query.question)
        if plan.recorded is None and plan.combined and not plan.own:
            combined += 1
            assert found**2 == pytest.approx(variances, rel=1e-6)
            assert release.frame["value"].to_numpy() == pytest.approx(values, abs=1e-4 * found.max())
        else:  # where its own measurement has a narrower interval, that is given: never better than all together
            assert (found**2 >= variances * (1 - 1e-6)).all()
    assert free > 0
    assert combined > 3


@pytest.mark.parametrize("seed", range(4))
def test_the_spend_is_the_column_norm_of_everything_measured(session, seed):
    rng = np.random.default_rng(10 + seed)
    table = session.table("t")
    for _ in range(12):
        query = random_query(rng, table)
        before, price = session.ledger.spent, query.plan.cost.units
        query.run()
        assert session.ledger.spent - before == price
    dense = Dense(session)
    cells = np.sum(dense.norms, axis=0)
    steps = 2 * len(session.ledger.records("t"))  # each cost is rounded up to a unit
    spend = np.broadcast_to(session.ledger.spend("t").maximum, ())
    assert spend >= cells.max() - 1e-3
    assert spend <= cells.max() + steps + 1e-9 * cells.max()


def test_what_is_known_is_free_and_the_same_ever_after(rows, tmp_path):
    domain = {name: dpn.Range(0, size - 1) for name, size in SIZES.items()}
    with_file = {"budget": dpn.Budget(5.0), "ledger": tmp_path / "t.ledger"}
    session = dpn.Session(**with_file)
    table = session.protect(rows, "t", domain=domain)
    table.crosstab("sex", "region", error=20).run()
    spent = session.spent
    query = table.histogram("region", error=60)
    assert query.plan.free
    assert query.plan.reused == (1,)
    first = query.run()
    assert first.paid == 0
    assert first.sources == (1,)
    table.count(where="region == 1", error=2).run()  # makes a new combination better
    session.close()
    again = dpn.Session(**with_file)
    later = again.protect(rows, "t", domain=domain).histogram("region", error=60).run()
    assert later.number == first.number
    pd.testing.assert_frame_equal(later.frame, first.frame)
    pd.testing.assert_frame_equal(again.release(first.number).frame, first.frame)
    assert spent.epsilon < again.spent.epsilon
    better = again.table("t").histogram("region", error=25)
    assert better.run().frame["std_error"][1] < later.frame["std_error"][1]


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_a_stricter_repeat_pays_the_difference_alone(rows, confidence):
    session = dpn.Session(budget=dpn.Budget(5.0))
    table = session.protect(rows, "t", domain={"age": dpn.Range(0, 7)})
    loose = table.count(where="age > 3", error=100, confidence=confidence).run()
    strict = table.count(where="age > 3", error=25, confidence=confidence)
    assert [action.kind for action in strict.plan.actions if action.kind != "reuse"] == ["refine"]
    release = strict.run()
    half = (release.frame["upper"] - release.frame["lower"])[0] / 2
    assert half <= 25
    alone = dpn.Session(budget=dpn.Budget(5.0)).protect(rows, "t", domain={"age": dpn.Range(0, 7)})
    whole = alone.count(where="age > 3", error=25, confidence=confidence).plan.cost.epsilon
    assert loose.paid + release.paid == pytest.approx(whole, rel=1e-3)
    assert session.spent.epsilon == pytest.approx(loose.paid + release.paid)


def test_gaussian_repeats_lose_nothing(rows):
    budget = dpn.Budget(5.0, 1e-6)
    session = dpn.Session(budget=budget)
    table = session.protect(rows, "t", domain={"age": dpn.Range(0, 7)})
    for error in (200, 80, 20):
        table.histogram("age", error=error).run()
    alone = dpn.Session(budget=budget)
    alone.protect(rows, "t", domain={"age": dpn.Range(0, 7)}).histogram("age", error=20).run()
    assert session.ledger.spent == pytest.approx(alone.ledger.spent, rel=2e-3)


def test_parts_and_differences_of_what_is_known_are_free(session):
    table = session.table("t")
    table.count(variance=50.0).run()
    table.count(where="sex == 0", variance=50.0).run()
    other = table.count(where="sex == 1", variance=100.1)
    assert other.plan.free
    assert not table.count(where="sex == 1", variance=90.0).plan.free
    assert not table.count(where="age > 3", variance=1e6).plan.free
    table.crosstab("age", "region", variance=20.0).run()
    old = table.count(where="age > 3 and region == 2", variance=80.1)
    assert old.plan.free


def test_disjoint_groups_cost_one_cells_price(session):
    table = session.table("t")
    for level in range(8):
        table.count(where=f"age == {level}", epsilon=0.5).run()
    assert session.spent.epsilon == pytest.approx(0.5, rel=1e-6)


def test_fresh_answers_stand_alone(session):
    table = session.table("t")
    table.histogram("sex", epsilon=2.0).run()
    plan = table.count(variance=100.0, fresh=True).plan
    assert not plan.free
    assert not plan.reused
    release = table.count(variance=100.0, fresh=True).run()
    assert release.sources == (release.number,)
    assert release.frame["std_error"][0] > 5


def test_a_naive_session_measures_every_new_question(rows):
    session = dpn.Session(budget=dpn.Budget(5.0), planner="naive")
    table = session.protect(rows, "t", domain={"sex": [0, 1]})
    table.histogram("sex", error=10).run()
    plan = table.count(error=60).plan
    assert not plan.free
    assert not plan.reused
    assert table.histogram("sex", error=10).plan.recorded == 1


def test_sums_have_a_history_of_their_own(rows):
    session = dpn.Session(budget=dpn.Budget(500.0))
    table = session.protect(rows, "t", domain={"age": dpn.Range(0, 7), "sex": [0, 1]})
    table.groupby("sex").sum("age", error=60).run()
    assert table.sum("age", error=130).plan.free
    assert not table.count(error=130).plan.free
    table.histogram("age", error=4).run()
    assert not table.sum("age", error=30).plan.free  # a sum of counts times ages is another measurement's business


def test_quantiles_are_read_off_what_is_known(same_noise, session):
    table = session.table("t")
    table.histogram("age", variance=4.0).run()
    median = table.quantile("age", 0.5, variance=100.0)
    assert median.plan.free
    release = median.run()
    assert release.frame["lower"][0] <= 4 <= release.frame["upper"][0]
    again = table.quantile("age", 0.5, variance=100.0)
    assert again.plan.recorded == release.number


def test_many_attributes_are_reused_through_their_marginals():
    rng = np.random.default_rng(3)
    names = [f"a{i}" for i in range(9)]
    frame = pd.DataFrame({name: rng.integers(0, 8, 500) for name in names})
    session = dpn.Session(budget=dpn.Budget(100.0))
    table = session.protect(frame, "t", domain={name: dpn.Range(0, 7) for name in names})
    table.answer(dpn.marginals(2), epsilon=20.0).run()  # over 8^9 cells
    plan = table.crosstab("a2", "a7", epsilon=0.5).plan
    assert plan.std_errors.max() < 25
    free = table.crosstab("a2", "a7", error=60)
    assert free.plan.free
    truth = frame.groupby(["a2", "a7"]).size().reindex(pd.MultiIndex.from_product([range(8)] * 2), fill_value=0)
    found = free.run().frame
    assert (np.abs(found["value"].to_numpy() - truth.to_numpy()) < 17 * found["std_error"].to_numpy()).all()


def test_a_large_histogram_answers_its_totals():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"zip": rng.integers(0, 3000, 4000), "sex": rng.integers(0, 2, 4000)})
    session = dpn.Session(budget=dpn.Budget(100.0))
    table = session.protect(frame, "t", domain={"zip": dpn.Range(0, 2999), "sex": [0, 1]})
    table.crosstab("zip", "sex", epsilon=5.0).run()  # 6,000 cells: more than are kept as atoms
    plan = table.histogram("sex", error=60).plan
    assert plan.free
    assert abs(table.histogram("sex", error=60).run().frame["value"].sum() - 4000) < 400


def test_relative_errors_are_planned_from_what_is_known(session, rows):
    table = session.table("t")
    with pytest.raises(AccuracyError, match="ask it once with error= or epsilon="):
        table.count(where="sex == 0", error="5%").run()
    table.histogram("sex", error=60).run()
    plan = table.count(where="sex == 0", error="2%").plan
    assert plan.error == pytest.approx(0.02 * (rows["sex"] == 0).sum(), rel=0.1)


def test_an_answer_that_is_mostly_noise_is_no_size_to_plan_with(rows):
    session = dpn.Session(budget=dpn.Budget(5.0))
    table = session.protect(rows, "t", domain={"age": dpn.Range(0, 7)})
    table.count(where="age == 0", error=1e6).run()  # about 375 rows
    if abs(session.release(1).value) < 5e5:
        with pytest.raises(AccuracyError, match="too uncertain"):
            table.count(where="age == 0", error="5%").run()


def test_public_rows_are_enough_for_a_relative_error(rows):
    session = dpn.Session(budget=dpn.Budget(5.0))
    table = session.protect(rows, "t", domain={"sex": [0, 1]}, rows=3000)
    assert 140 < table.histogram("sex", error="10%").plan.error <= 150


def test_an_accuracy_that_no_budget_buys_says_what_it_could(rows):
    session = dpn.Session(budget=dpn.Budget(1.5))
    table = session.protect(rows, "t", domain={"age": dpn.Range(0, 7)})
    table.histogram("age", epsilon=1.0).run()
    with pytest.raises(BudgetExceeded, match=r"the error would be ±"):
        table.count(where="age > 3", error=0.5).run()
    assert session.spent.epsilon == 1.0


def test_what_others_recorded_meanwhile_is_used(rows, tmp_path):
    domain = {name: dpn.Range(0, size - 1) for name, size in SIZES.items()}
    one, other = (dpn.Session(budget=dpn.Budget(5.0), ledger=tmp_path / "shared.ledger") for _ in range(2))
    here, there = (session.protect(rows.copy(), "t", domain=domain) for session in (one, other))
    assert not here.count(error=50).plan.free
    there.histogram("sex", error=20).run()
    assert here.count(error=50).plan.free
    first = here.histogram("sex", error=12)
    assert first.plan.actions[-1].kind == "refine"
    first.run()
    second = there.histogram("sex", error=6)
    assert second.plan.actions[-1].releases == (2,)  # the refined one, not the one it refined
    second.run()
    assert one.audit().ok


def test_what_does_not_stand_the_whole_test_is_measured(session, monkeypatch):
    """A plan looks at residuals in passing; what is shown is answered only if its own residual vanishes."""
    table = session.table("t")
    table.histogram("age", variance=10.0).run()
    query = table.count(variance=500.0)
    assert query.plan.free
    monkeypatch.setattr("dpnotebook.session.histories.Histories.free", lambda *args: None)
    release = query.run()
    assert release.paid > 0
    assert release.sources == (release.number,)


def test_noise_that_is_hardly_ever_anything_is_no_division_by_zero():
    """At such an epsilon its variance is below the least floating-point number; the table can be asked on."""
    with dpn.Session(budget=dpn.Budget(1e5)) as session:
        frame = pd.DataFrame({"sex": ["F", "M", "F"] * 100})
        table = session.protect(frame, "t", domain={"sex": ["F", "M"]})
        assert table.histogram("sex", epsilon=1e4).run().frame["value"].tolist() == [200, 100]
        assert table.count(where="sex == 'F'", error=1).run().value == pytest.approx(200, abs=30)
