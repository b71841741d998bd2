"""What Pioneer chooses is accurate enough by least squares, costs what it says by brute force, and is worth it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from literal_pioneer import answer_literally, literal_plan, running_literally

from dpnotebook.planner.pioneer.choose import carry_out, choose, decide
from dpnotebook.planner.pioneer.groups import Groups, PastQuery
from dpnotebook.planner.pioneer.plans import cost, noise_down
from dpnotebook.planner.pioneer.simulate import answered, hierarchy_epsilon, running_epsilon
from dpnotebook.workload import Hierarchy
from dpnotebook.workload.hierarchy import depth

ATOMS = 8
EVERY = np.ones(ATOMS, dtype=bool)
masks = arrays(bool, ATOMS).filter(np.any)
questions = st.lists(st.tuples(masks, st.floats(0.2, 5)), min_size=1, max_size=8)


def span(start, end, atoms=ATOMS):
    return np.array([start <= atom < end for atom in range(atoms)])


def estimated(past, asked):
    """Return the variance of the best linear estimate from all past answers."""
    rows = np.array([query.mask for query in past], dtype=float)
    information = (rows.T / [query.variance for query in past]) @ rows
    target = asked.astype(float)
    inverse = np.linalg.pinv(information, rcond=1e-12)
    return target @ inverse @ target if np.allclose(information @ inverse @ target, target, atol=1e-6) else math.inf


def spent(past):
    """Return the spend of every atom: refining costs the difference, so the variance in the end says it all."""
    return sum(cost(query.variance) * query.mask for query in past)


def follow(choice, past):
    """Return the past after a choice was carried out."""
    after = dict(choice.refine)
    kept = [PastQuery(q.mask, after.get(i, q.variance), q.label(i), q.refinable) for i, q in enumerate(past)]
    fresh = object()
    labels = [(fresh, label) if label[0] == "new" else label for label in choice.groups]
    return kept + [PastQuery(*measure, label) for measure, label in zip(choice.measure, labels, strict=True)]


@settings(max_examples=200, deadline=None)
@given(questions, st.integers(0, 5))
def test_any_sequence_is_answered_accurately_at_the_stated_price(asked, k):
    past = []
    for mask, variance in asked:
        choice = choose(mask, variance, past, k)
        before, past = spent(past), follow(choice, past)
        assert estimated(past, mask) <= variance * (1 + 1e-6)
        assert np.max(spent(past)) == pytest.approx(np.max(before) + choice.epsilon, rel=1e-9)
        assert choice.epsilon <= cost(variance) * (1 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(questions, st.integers(0, 5), st.booleans())
def test_groups_keep_the_books(asked, k, exactly):
    groups = Groups(ATOMS)
    for mask, variance in asked:
        step = decide(groups, mask, variance, k, exactly=exactly)
        carry_out(groups, step)
        rows = [groups._masks[i] > 0 for i in range(len(groups.members))]
        for number in range(len(groups.variances)):
            assert sum(row.astype(int) for row, at in zip(rows, groups.members, strict=True) if at == number).max() == 1
        assert groups.spend == pytest.approx(
            sum(cost(groups.variances[at]) * row for row, at in zip(rows, groups.members, strict=True))
        )


@settings(max_examples=100, deadline=None)
@given(questions)
def test_the_choice_from_a_record_is_the_choice_from_the_running_state(asked):
    past, groups = [], Groups(ATOMS)
    for mask, variance in asked:
        step = decide(groups, mask, variance)
        choice = choose(mask, variance, past)
        carry_out(groups, step)
        past = follow(choice, past)
        assert choice.kind == step.kind
        assert spent(past) == pytest.approx(groups.spend)


def test_the_second_plan_of_figure_2_refines_disjoint_answers_at_one_price():
    first, second, both = span(0, 2), span(2, 4), span(0, 4)
    past = follow(choose(first, 2, []), [])
    past = follow(choose(second, 2, past), past)
    assert np.max(spent(past)) == pytest.approx(cost(2))
    choice = choose(both, 2, past)
    assert choice.kind == "refine"
    assert choice.epsilon == pytest.approx(math.sqrt(2) - 1)
    assert [variance for _, variance in choice.refine] == pytest.approx([1, 1])


def test_the_second_plan_of_figure_2_is_free_after_an_accurate_first_answer():
    past = follow(choose(span(0, 2), 1, []), [])
    past = follow(choose(span(2, 4), 2, past), past)
    choice = choose(span(0, 4), 2, past)
    assert (choice.kind, choice.epsilon, choice.measure, choice.refine) == ("free", 0, (), ())


def test_a_disjoint_query_is_free_once():
    """Fig. 12a, applied pairwise, would find room beside the first answer again and again."""
    past = follow(choose(span(0, 4), 1, []), [])
    epsilons = []
    for start in range(4):
        choice = choose(span(4, 5 + start), 1, past, k=1)
        past = follow(choice, past)
        epsilons.append(choice.epsilon)
    assert epsilons[0] == 0
    assert sum(epsilons) == pytest.approx(np.max(spent(past)) - cost(1))
    assert sum(epsilons) > 0


def test_answers_that_cannot_be_refined_are_combined():
    past = [PastQuery(span(0, 4), 1.0, refinable=False)]
    choice = choose(span(0, 4), 0.5, past)
    assert not choice.refine
    assert choice.epsilon == pytest.approx(cost(1))
    assert choose(span(0, 4), 0.5, [PastQuery(span(0, 4), 1.0)]).epsilon == pytest.approx(noise_down(1, 0.5))


def test_other_spending_takes_the_room():
    past = [PastQuery(span(0, 4), 1.0)]
    assert choose(span(4, 8), 1, past).epsilon == 0
    busy = cost(1) * EVERY
    assert choose(span(4, 8), 1, past, spend=busy).epsilon == pytest.approx(cost(1))
    assert choose(span(4, 8), 1, past, spend=busy + cost(1) * span(0, 4)).epsilon == 0


def test_bad_input():
    with pytest.raises(ValueError, match="selects nothing"):
        choose(np.zeros(ATOMS, dtype=bool), 1, [])


def test_what_another_planner_refined_or_measured_again_is_a_group_of_its_own():
    past = [PastQuery(span(0, 4), 1, "a"), PastQuery(span(4, 6), 2, "a"), PastQuery(span(5, 8), 2, "a")]
    groups, where = Groups.of(past, ATOMS)
    assert where == [0, 1, 2]
    assert groups.spend == pytest.approx(spent(past))
    assert estimated(follow(choose(EVERY, 1, past), past), EVERY) <= 1 + 1e-9


@pytest.mark.parametrize("variance", [1.0, 1e-6])
def test_the_literal_choice_of_queries_saves_at_most_a_factor_of_sqrt_2(variance):
    groups = Groups(ATOMS)
    for start in range(4):
        groups.add(span(start, start + 4), variance)
    plan = literal_plan(groups, range(4), span(1, 6), 1.0)
    assert plan.epsilon >= cost(1) / math.sqrt(2)
    assert plan.epsilon == pytest.approx(cost(1) / math.sqrt(2), rel=1e-3) or variance == 1.0
    # Without anything outside the question nothing new is needed, and the bound does not hold.
    assert literal_plan(groups, range(4), span(0, 7), 1.0).epsilon < cost(1) / math.sqrt(2)


@settings(max_examples=100, deadline=None)
@given(questions, st.integers(0, 5))
def test_the_literal_algorithm_answers_accurately_too(asked, k):
    groups = Groups(ATOMS)
    for mask, variance in asked:
        answer_literally(groups, mask, variance, k)
        past = [PastQuery(groups._masks[i] > 0, groups.variances[at]) for i, at in enumerate(groups.members)]
        assert estimated(past, mask) <= variance * (1 + 1e-6)
        assert groups.spend == pytest.approx(spent(past))


@pytest.mark.slow
def test_the_literal_algorithm_saves_little_on_the_default_workload(sequences):
    drawn = [sequences.ranges(300, np.random.default_rng(seed)) for seed in range(3)]
    total = np.mean([list(running_literally(one))[-1] for one in drawn])
    assert total > table_iii(sequences, 300, "naive")[-1] / math.sqrt(2)


def test_the_simple_methods_by_hand(sequences):
    drawn = sequences.ranges(60, np.random.default_rng(0), 100, (10, 8), 30)
    prices = [cost(variance) for *_, variance in drawn]
    assert running_epsilon(drawn, "naive") == pytest.approx(np.cumsum(prices))
    cells = np.zeros(100)
    for (start, end, _), total, price in zip(drawn, running_epsilon(drawn, "parallel"), prices, strict=True):
        cells[start:end] += price
        assert total == pytest.approx(cells.max())
    baseline = running_epsilon(drawn, "baseline")
    assert (baseline <= np.cumsum(prices) + 1e-12).all()
    assert (baseline >= running_epsilon(drawn, "parallel") - 1e-12).all()
    assert running_epsilon([(0, 2, 2.0), (2, 4, 0.5), (3, 5, 2.0)], "baseline") == pytest.approx([1, 2, 3])
    assert running_epsilon([(0, 2, 2.0), (1, 3, 2.0), (3, 4, 8.0)], "baseline") == pytest.approx([1, 2, 2])


@pytest.mark.parametrize("size", [1, 2, 7, 16, 20])
def test_the_static_hierarchy_by_matrices(size):
    rng = np.random.default_rng(size)
    cuts = [np.sort(rng.choice(size + 1, 2, replace=False)) for _ in range(10)]
    drawn = [(int(start), int(end), float(rng.uniform(1, 3))) for start, end in cuts]
    best = math.inf
    for branching in range(2, max(2, size) + 1):
        for levels in range(1, depth(size, branching) + 1):
            tree = Hierarchy(size, branching, levels).apply(np.eye(size)).T
            inverse = np.linalg.inv(tree.T @ tree)
            worst = max(inverse[start:end, start:end].sum() / variance for start, end, variance in drawn)
            best = min(best, levels * math.sqrt(2 * worst)) if branching <= 16 else best
    assert hierarchy_epsilon(drawn, size) == pytest.approx(best)


def test_nothing_asked_costs_nothing():
    assert running_epsilon([], "pioneer").size == 0
    assert answered([], "hierarchy", 1) == 0


def table_iii(sequences, count, method, **how):
    """Return the totals after each question, the mean of three sequences with the paper's default parameters."""
    drawn = [sequences.ranges(count, np.random.default_rng(seed)) for seed in range(3)]
    return np.mean([running_epsilon(one, method, **how) for one in drawn], axis=0)


def test_the_default_workload_one_by_one(sequences):
    totals = table_iii(sequences, 2_000, "naive")
    assert totals[[99, 499, 1999]] == pytest.approx([0.283, 1.42, 5.67], rel=0.01)


def test_the_default_workload_with_pioneer(sequences):
    assert table_iii(sequences, 100, "pioneer")[-1] == pytest.approx(0.167, rel=0.1)
    assert table_iii(sequences, 100, "pioneer", exactly=True)[-1] < 0.14
    alone = table_iii(sequences, 100, "pioneer", k=0)
    assert alone[-1] == pytest.approx(table_iii(sequences, 100, "parallel")[-1], rel=0.05)


@pytest.mark.slow
def test_the_default_workload_with_pioneer_for_long(sequences):
    """Between sequences the totals differ by 5, 10 and 8% (standard deviations)."""
    totals = table_iii(sequences, 2_000, "pioneer")
    assert totals[[99, 499, 1999]] == pytest.approx([0.167, 0.510, 1.08], rel=0.1)
    assert (table_iii(sequences, 2_000, "pioneer", exactly=True)[[499, 1999]] < [0.42, 1.0]).all()


@pytest.mark.parametrize(("std", "naive", "pioneer"), [(100, 70, 120), (25, 17, 22)])
def test_questions_answered_within_a_budget_of_1(sequences, std, naive, pioneer):
    drawn = [sequences.ranges(200, np.random.default_rng(seed), variance=(std**2, std**2 / 10)) for seed in range(3)]
    assert np.mean([answered(one, "naive", 1.0) for one in drawn]) == pytest.approx(naive, abs=1)
    assert np.mean([answered(one, "pioneer", 1.0) for one in drawn]) == pytest.approx(pioneer, rel=0.1)


@pytest.mark.slow
def test_the_wide_workload_with_pioneer(sequences):
    drawn = [sequences.ranges(1_000, np.random.default_rng(s), width=(320, 250), start_std=200) for s in range(3)]
    assert np.mean([running_epsilon(one, "pioneer")[-1] for one in drawn]) == pytest.approx(0.915, rel=0.1)
