"""Adaptive answers: what is charged, how private choices are, what an interruption leaves, what later questions get."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, BudgetExceeded, DomainError, EngineError, WorkloadError
from dpnotebook.planner import adaptive_rounds
from dpnotebook.planner.adaptive_plan import AdaptiveTable, part_of
from dpnotebook.planner.adaptive_rounds import AdaptiveAnswers, MeasuredMarginals, Rounds, RoundShares
from dpnotebook.planner.plan_json import planned_from_json, with_chosen
from dpnotebook.planner.pricing import units_of
from dpnotebook.privacy.laws import law_of
from dpnotebook.privacy.randomness import Randomness
from dpnotebook.progress import silent
from dpnotebook.session.adaptive import exact_scores
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.workload import Identity, Kron, marginals

pytestmark = pytest.mark.usefixtures("same_noise")  # which decides what is measured next
DELTAS = {"gaussian": 1e-6, "laplace": 0.0}
LEVELS = {"a": 5, "b": 5, "c": 4, "d": 3, "e": 3}
DOMAIN = {name: dpn.Range(0, size - 1) for name, size in LEVELS.items()}


def people(rows=3000):
    """Return a table in which b follows a, and d follows c."""
    random = np.random.default_rng(3)
    found = {name: random.integers(0, size, rows) for name, size in LEVELS.items()}
    found["b"] = (found["a"] + (random.random(rows) < 0.1)) % 5
    found["d"] = np.where(random.random(rows) < 0.9, found["c"] % 3, found["d"])
    return pd.DataFrame(found)


def exact(frame, way):
    tables = []
    for names in itertools.combinations(LEVELS, way):
        sizes = [LEVELS[name] for name in names]
        cells = np.ravel_multi_index([frame[name] for name in names], sizes)
        tables.append(np.bincount(cells, minlength=math.prod(sizes)))
    return np.concatenate(tables)


@pytest.fixture(params=DELTAS)
def noise(request):
    return request.param


@pytest.fixture(autouse=True)
def chooses(monkeypatch):
    """Without a delta there is a choice among few columns too, so that tests are small."""
    monkeypatch.setattr(adaptive_rounds, "FEW_PURE_COLUMNS", 0)


@pytest.fixture
def session(noise):
    with dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=DELTAS[noise]), ledger=":memory:") as session:
        session.protect(people(), "people", domain=DOMAIN)
        yield session


def asked(session, epsilon=1.0, way=3, **kwargs):
    return session.table("people").answer(dpn.marginals(way), epsilon=epsilon, adaptive=True, **kwargs)


def test_the_whole_price_is_charged_to_every_cell_and_all_rounds_cost_no_more(session):
    query = asked(session)
    plan, table = query.plan, session.table("people")._table
    assert session.spent.epsilon == 0
    release = query.run()
    record, accountant = session.ledger.get(release.number), session.ledger.accountant
    assert record.units == plan.cost.units == accountant.units(1.0)
    assert release.paid == session.spent.epsilon == pytest.approx(1.0, abs=1e-6)
    told = AdaptiveTable(query.question, table, accountant)
    items = planned_from_json(with_chosen(record.plan, record.details), table.domain)
    rounds = record.details["rounds"]
    for one in rounds:
        scored = told.scored(len(one["candidates"]), part_of(record.units, RoundShares.of(accountant.law).scores))
        assert one["scale"] == str(scored.scale)
        items.append(scored)
    assert 0.99 * record.units <= units_of(items, table, accountant) <= record.units
    assert len(record.answers) == len(items)
    for name, size in LEVELS.items():  # no cell has paid less than the others, so nothing is left to be had for free
        for level in (0, size - 1):
            later = session.table("people").count(where=f"{name} == {level}", epsilon=0.5, fresh=True).plan
            assert later.cost.units == later.units


@pytest.mark.one_in(2)
def test_counts_are_none_below_nothing_and_lie_in_their_intervals(session):
    frame = asked(session, epsilon=0.2).run().frame
    assert len(frame) == exact(people(), 3).size
    assert (frame["value"] >= 0).all()
    told = frame[frame["upper"].notna()]
    assert (told["lower"] <= told["value"]).all()
    assert (told["value"] <= told["upper"]).all()
    assert frame["std_error"].isna().equals(frame["upper"].isna())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rows", [300, 300_000])
def test_where_little_is_to_be_chosen_all_is_measured_at_once(noise, rows):
    # By few cells, which is known before, or by many rows, which a twentieth of the price tells.
    names = ["c", "d", "e"] if rows == 300 else list(LEVELS)
    frame = people(rows)[names]
    with dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=DELTAS[noise]), ledger=":memory:") as session:
        table = session.protect(frame, "people", domain={name: DOMAIN[name] for name in names})
        query = table.answer(dpn.marginals(2), epsilon=1.0, adaptive=True)
        release = query.run()
        record, accountant = session.ledger.get(release.number), session.ledger.accountant
        assert record.details["rounds"] == []
        items = planned_from_json(with_chosen(record.plan, record.details), table._table.domain)
        assert len(items) == (1 if rows == 300 else 2)
        assert 0.99 * record.units <= units_of(items, table._table, accountant) <= record.units
        assert session.spent.epsilon == pytest.approx(1.0, abs=1e-6)
        assert release.frame.notna().all(axis=None)
        plain = table.answer(dpn.marginals(2), epsilon=1.0, fresh=True).plan
        width = (release.frame["upper"] - release.frame["lower"]).max() / 2
        # Errors of plans are told in whole rows. Pure ones may measure other queries than cells, a little better ones.
        assert width <= (1.1 if noise == "gaussian" else 1.15) * (plain.error + 1)
        assert "were counted at once" in release.notes[0]
        pd.testing.assert_frame_equal(query.run().frame, release.frame)


@pytest.mark.one_in(3, first=1)
def test_without_a_delta_few_columns_are_measured_at_once(noise, monkeypatch):
    # With pure noise choosing erred more than `nonnegative()` on CPS1988 and Zipf tables: `benchmarks/adaptive.py`.
    monkeypatch.setattr(adaptive_rounds, "FEW_PURE_COLUMNS", 8)
    for columns in (8, 9):
        frame = pd.DataFrame({f"c{i}": np.arange(60) % 2 for i in range(columns)})
        with dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=DELTAS[noise]), ledger=":memory:") as session:
            table = session.protect(frame, "people", domain={name: dpn.Range(0, 1) for name in frame})
            query = table.answer(dpn.marginals(2), epsilon=1.0, adaptive=True)
            plan = query.plan
            at_once = noise == "laplace" and columns == 8
            assert ("without a delta, choosing among 8 columns would cost more" in plan.steps[0]) == at_once
            assert bool(plan.warnings) != at_once
            release = query.run()
            if at_once:
                plain = table.answer(dpn.marginals(2), epsilon=1.0, fresh=True).plan
                assert plan.error == plan.least_error
                assert plan.error <= 1.1 * (plain.error + 1)
                assert session.ledger.get(release.number).details["rounds"] == []
                assert release.frame.notna().all(axis=None)


@pytest.mark.one_in(3, first=1)
def test_asked_again_it_is_free_and_the_same_in_another_session_too(noise, tmp_path):
    budget = dpn.Budget(epsilon=4.0, delta=DELTAS[noise])
    with dpn.Session(budget=budget, ledger=tmp_path / "one.ledger") as session:
        session.protect(people(), "people", domain=DOMAIN)
        first = asked(session).run()
        again = [asked(session).run(), asked(session, epsilon=0.5).run(), session.release(first.number)]
        assert [one.paid for one in again] == [0.0, 0.0, 0.0]
        assert asked(session, epsilon=1.5).plan.cost.units > 0
        assert asked(session, fresh=True).plan.cost.units > 0
        assert session.table("people").answer(dpn.marginals(3), epsilon=1.0).plan.recorded is None
    with dpn.Session(budget=budget, ledger=tmp_path / "one.ledger") as session:
        session.protect(people(), "people", domain=DOMAIN)
        again += [asked(session).run(), session.release(first.number)]
        assert session.audit()
    for one in again:
        pd.testing.assert_frame_equal(one.frame, first.frame)
    assert "combinations of columns were counted" in first.notes[0]
    pd.testing.assert_frame_equal(first.nonnegative().frame, first.frame)


def test_what_was_not_measured_has_no_interval(session, monkeypatch):
    # Which are measured is not left to noise, which of pure budgets takes all of these now and then.
    monkeypatch.setattr(Rounds, "takes_everything", lambda self, units: False)
    monkeypatch.setattr(Rounds, "choose", lambda self, found, scores, std, units: list(found[::2]))
    release = asked(session, epsilon=0.3, way=2).run()
    first, wider = release.frame, release.again(0.99).frame
    (chosen,) = (one["chosen"] for one in session.ledger.get(release.number).details["rounds"])
    assert len(chosen) == 5  # of ten
    pairs = {(list(LEVELS)[i], list(LEVELS)[j]) for i, j in chosen}
    counted = np.zeros(len(first), dtype=bool)
    for pair in pairs:
        counted |= (first[list(pair)].astype(str) != "(all)").all(axis=1).to_numpy()
    told = first["upper"].notna()
    assert 0 < told.sum() < len(told)
    np.testing.assert_array_equal(told, counted)
    assert first["std_error"].notna().equals(told)
    assert first["value"].notna().all()
    assert (wider["upper"] >= first["upper"])[told].all()
    assert (wider["lower"] <= first["lower"])[told].all()
    assert wider["upper"].notna().equals(told)
    for shown in (repr(release), release._repr_mimebundle_()["text/html"]):
        assert "have no interval" in shown


@pytest.mark.one_in(2)
def test_what_was_measured_answers_other_questions(session):
    release = asked(session).run()
    pairs = {tuple(pair) for pair in session.ledger.get(release.number).details["rounds"][0]["chosen"]}
    assert {(0, 1), (2, 3)} <= pairs  # the two that have to do with each other, by far
    for query in (
        session.table("people").histogram("e", error=300),
        session.table("people").crosstab("a", "b", error=300),
    ):
        assert query.plan.free
        assert release.number in query.plan.reused
    counts = session.table("people").histogram("e", error=300).run().frame
    truth = np.bincount(people()["e"], minlength=3)
    assert (np.abs(counts["value"] - truth) <= 300).all()


@pytest.mark.parametrize("fails", [1, 2, 3])
def test_interrupted_half_way_it_is_charged_whole_and_ends_with_the_same_noise(session, monkeypatch, fails):
    drawn, streams, plain = [], [], session._questions.draw

    def draw(item, noise, source):
        streams.append(source._seed)
        drawn[-1].append(plain(item, noise, source))
        if len(drawn) == 1 and len(drawn[0]) == fails:
            raise OSError("7 patients")
        return drawn[-1][-1]

    monkeypatch.setattr(session._questions, "draw", draw)
    drawn.append([])
    with pytest.raises(EngineError, match="was charged, but answering it failed") as told:
        asked(session).run()
    assert "7 patients" not in str(told.value)
    assert session.spent.epsilon == pytest.approx(1.0, abs=1e-6)
    drawn.append([])
    release = asked(session).run()
    assert session.spent.epsilon == pytest.approx(1.0, abs=1e-6)
    assert release.number == 1
    assert len(set(streams)) == len(drawn[1])  # every round has noise of its own, and again the same
    for before, after in zip(drawn[0], drawn[1], strict=False):
        np.testing.assert_array_equal(before, after)


def test_where_and_units_of_many_rows(noise):
    frame = people()
    frame["who"] = np.arange(len(frame)) // 3
    with dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=DELTAS[noise]), ledger=":memory:") as session:
        table = session.protect(frame, "visits", unit="who", max_rows=3, domain=DOMAIN)
        release = table.answer(dpn.marginals(2), where="a <= 2 and e != 1", epsilon=1.0, adaptive=True).run()
        assert set(release.frame["a"]) == {0, 1, 2, "(all)"}
        record, accountant = session.ledger.get(release.number), session.ledger.accountant
        scale = Fraction(record.details["rounds"][0]["scale"])
        candidates = len(record.details["rounds"][0]["candidates"])
        # The scores of a unit's three rows move by three each: in the law's norm, to its power, that is what they cost.
        moved = candidates * 3**accountant.law.power
        paid = float(accountant.rate(scale)) * moved / accountant.units(1.0)
        share = float(RoundShares.of(accountant.law).scores)
        assert 0.99 * share <= paid <= share


@pytest.mark.parametrize("seed", range(40))
def test_a_row_changes_a_score_by_one_at_most(seed):
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 6, 4)
    rows = random.integers(0, sizes, (int(random.integers(1, 30)), 4))
    subsets = [one for order in (2, 3) for one in itertools.combinations(range(4), order)]
    wild = 10 ** random.integers(0, 10)
    predictions = [random.integers(-wild, wild, math.prod(sizes[list(one)])) for one in subsets]

    def scores(rows):
        counts = [
            np.bincount(
                np.ravel_multi_index(tuple(rows[:, one].T), sizes[list(one)]), minlength=math.prod(sizes[list(one)])
            )
            for one in map(list, subsets)
        ]
        return exact_scores(counts, predictions)

    whole = scores(rows)
    assert whole.dtype == np.int64
    for gone in range(len(rows)):
        assert (np.abs(whole - scores(np.delete(rows, gone, axis=0))) <= 1).all()
    several = random.permutation(len(rows))[:5]
    assert (np.abs(whole - scores(np.delete(rows, several, axis=0))) <= several.size).all()


def test_the_law_of_a_choice_is_as_private_as_it_costs_and_no_more(session):
    # One candidate, which is taken where its noisy score reaches a threshold: the exact law on two tables whose scores
    # are one apart. Noise a tenth too small would pass what was paid; where the threshold lies does not matter.
    accountant = session.ledger.accountant
    question = session.table("people").answer(dpn.marginals(2), ["a", "b"], epsilon=1.0, adaptive=True).question
    told = AdaptiveTable(question, session.table("people")._table, accountant)
    units = part_of(accountant.units(1.0), RoundShares.of(accountant.law).scores)
    item = told.scored(1, units)
    law, scale = law_of(accountant.noise), item.scale * 2**item.bits
    steps = np.arange(0, 12) * max(int(scale / 3), 1) + 1
    one, other = (law.log_tail(scale, steps - moved * 2**item.bits) for moved in (1, 0))
    if accountant.noise == "laplace":
        lost, paid = (one - other).max(), units / 1e12
    else:
        lost, paid = (ndtri(np.exp(one)) - ndtri(np.exp(other))).max(), math.sqrt(units / 1e12)
    assert 0.99 * paid <= lost <= paid * (1 + 1e-9)


@pytest.mark.statistical
def test_the_noise_of_scores_and_of_counts_has_the_size_that_was_paid_for(noise, monkeypatch):
    # Nothing is in the table, and nothing is predicted: every score and every count is its noise. The same noise is
    # drawn every time; a tenth too little would be 4 standard deviations of the least certain of these averages.
    columns = [f"c{i:02}" for i in range(12)]
    frame = pd.DataFrame({name: np.zeros(0, dtype=np.int64) for name in columns})
    nothing = np.zeros(8, dtype=np.int64)
    monkeypatch.setattr(Rounds, "predictions", lambda self, found: [nothing[: 2 ** len(one)] for one in found])
    monkeypatch.setattr(Rounds, "choose", lambda self, found, scores, std, units: list(found))
    monkeypatch.setattr(Rounds, "answers", lambda self: AdaptiveAnswers(*(np.zeros(self.workload.shape[0]),) * 4))
    sizes = {"scores": [], "counts": []}
    with dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=DELTAS[noise]), ledger=":memory:") as session:
        table = session.protect(frame, "nobody", domain={name: dpn.Range(0, 1) for name in columns})
        law, domain = session.ledger.accountant.law, table._table.domain
        record = session.ledger.get(table.answer(dpn.marginals(3), epsilon=1.0, adaptive=True).run().number)
        for key in range(5):
            noisy, details = session._adaptive.measure(record, Randomness(bytes([key]) * 32), silent)
            items = planned_from_json(with_chosen(record.plan, details), domain)
            for item, numbers in zip(items, noisy, strict=False):
                sizes["counts"].append(np.abs(numbers.ravel()) / float(item.scale * 2**item.bits))
            for one, numbers in zip(details["rounds"], noisy[len(items) :], strict=True):
                sizes["scores"].append(np.abs(numbers) / (float(Fraction(one["scale"])) * 2 ** one["bits"]))
    for found in map(np.concatenate, sizes.values()):
        assert found.size > 1400
        expected = 1.0 if law.name == "laplace" else math.sqrt(2 / math.pi)  # of its scale, but for rounding
        assert found.mean() == pytest.approx(expected, rel=0.05)


def test_bad_input_spends_nothing(session):
    table = session.table("people")
    for wrong, error in (
        (lambda: table.answer(dpn.marginals(2), error=20, adaptive=True), AccuracyError),
        (lambda: table.answer(dpn.marginals(2), variance=20, adaptive=True), AccuracyError),
        (lambda: table.answer(dpn.marginals(2).within(20), adaptive=True), AccuracyError),
        (lambda: table.answer(dpn.marginals(2), epsilon=1, adaptive=True, simultaneous=True), AccuracyError),
        (lambda: table.answer(dpn.marginals(2), epsilon=1, adaptive=True, objective="worst"), AccuracyError),
        (
            lambda: table.answer(dpn.marginals(2), epsilon=1, adaptive=True, strategy=dpn.strategy.wavelet),
            AccuracyError,
        ),
        (lambda: table.answer(dpn.marginals(1), epsilon=1, adaptive=True), WorkloadError),
        (lambda: table.answer(dpn.ranges("a"), epsilon=1, adaptive=True), WorkloadError),
        (lambda: table.answer(dpn.workload.Prefix(5), "a", epsilon=1, adaptive=True), WorkloadError),
        (lambda: asked(session).at(error=5).plan, AccuracyError),
        (lambda: asked(session).simultaneous().run(), AccuracyError),
        (lambda: asked(session, epsilon=9.0).run(), BudgetExceeded),
    ):
        with pytest.raises(error):
            wrong()
    assert session.spent.epsilon == 0


def test_units_in_several_parts_are_refused():
    with dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=1e-6), ledger=":memory:") as session:
        frame = people()
        frame["who"] = np.arange(len(frame)) // 3
        session.protect(frame, "people", unit="who", max_rows=3, domain=DOMAIN)
        session.extend("people", frame.assign(who=frame["who"] + 10))
        with pytest.raises(DomainError, match="may be in several parts"):
            asked(session).run()
        assert session.spent.epsilon == 0


def test_the_card_says_a_range_and_what_it_rests_on(session):
    text = repr(asked(session).plan)
    assert " to ±" in text
    assert "get no interval" in text
    assert "as good or better" in text
    plan = asked(session).plan
    assert 0 < plan.least_error <= plan.error
    assert "adaptive=True)" in plan.code


def test_all_at_once_over_few_cells_is_nearer_for_knowing_that_there_are_cells():
    """Tables that agree and have no count below 0 may still be those of no rows: the same noise in every run."""
    sizes, random = (4, 2, 2, 2), np.random.default_rng(6)
    subsets = list(itertools.combinations(range(4), 3))
    operator = opt_residual(marginals(sizes, 3)).operator
    squares, std = np.zeros(2), 8.0 * float(max(weight for _, weight in operator.weights))
    for _ in range(30):
        table = random.multinomial(400, random.dirichlet(np.full(32, 0.15))).reshape(sizes)
        exact = [
            weight * Kron(Identity(1), *[operator.factors[i] for i in subset]).matvec(_margin(table, subset))
            for subset, weight in operator.weights
        ]
        measured = MeasuredMarginals(sizes, residual=True)
        noisy = np.concatenate(exact) + std * random.normal(size=operator.shape[0])
        measured.add(operator, noisy, std**2)
        for place, whole in enumerate((False, True)):
            counts = measured.fit(whole)
            squares[place] += sum(((counts.marginal(s).ravel() - _margin(table, s)) ** 2).sum() for s in subsets)
    assert squares[1] < 0.97 * squares[0]


def _margin(table, subset):
    return table.sum(axis=tuple(i for i in range(table.ndim) if i not in subset)).ravel()
