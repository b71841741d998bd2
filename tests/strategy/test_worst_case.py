"""Strategies for the worst answer, against dense matrices, independent convex solvers and closed forms."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from dpnotebook.errors import AccuracyError, WorkloadError
from dpnotebook.strategy import Strategy, opt_marginals, opt_residual, select, worst_case
from dpnotebook.strategy.select import select_own
from dpnotebook.strategy.worst_case import all_alike, weighed_again
from dpnotebook.strategy.worst_explicit import WeighedAnswers, gaussian_worst
from dpnotebook.strategy.worst_subsets import answer_classes, least_worst, worst_marginals
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Identity,
    Kron,
    Marginals,
    Permuted,
    Prefix,
    Stack,
    Total,
    WidthRange,
    marginals,
    prefix_marginals,
)

NOISES = ["laplace", "gaussian"]
ROUNDED = 1.006  # whole numbers cost at most this factor of the worst variance, 0.3% of the error

SMALL = {
    "marginals": marginals((2, 3, 4), upto=2),
    "pairs": marginals((2, 3, 4), 2),
    "prefix marginals": prefix_marginals((4, 5, 2), 2, prefix=(0, 1)),
    "several kinds": Stack(Kron(AllRange(5), Identity(3)), Kron(Prefix(5), Total(3)), 2 * Kron(Total(5), Identity(3))),
    "identity and total": Stack(Identity(8), Total(8)),
    "one attribute": Stack(Prefix(8), 3 * Total(8)),
    "twice the same": Stack(Identity(6), 2 * Identity(6), Total(6)),
    "ranges": AllRange(9),
    "a product": Kron(Prefix(4), AllRange(3)),
    "deficient": WidthRange(8, 4),
    "permuted": Permuted(AllRange(8), 3),
    "a cell nobody asks of": Explicit([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0]]),
    "one answer": Explicit([[1, 2, 0, 1]]),
    "nothing to choose": Kron(Identity(3), Identity(2)),
}


def worst_by_definition(strategy):
    w, a = strategy.workload.dense().astype(float), strategy.operator.dense().astype(float)
    assert np.allclose(w @ np.linalg.pinv(a) @ a, w, atol=1e-6)
    norm = (np.abs(a).sum(axis=0).max()) ** 2 if strategy.noise == "laplace" else (a**2).sum(axis=0).max()
    return norm * ((w @ np.linalg.pinv(a)) ** 2).sum(axis=1).max()


@pytest.mark.one_in(11)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", SMALL)
def test_the_worst_answer_is_by_definition_and_no_worse_than_with_the_least_total(name, noise):
    w = SMALL[name]
    found, total = select(w, noise, objective="worst"), select(w, noise)
    assert found.worst == pytest.approx(worst_by_definition(found), rel=1e-6)
    assert found.worst <= total.worst * (1 + 1e-9)
    assert found.objective >= total.objective * (1 - 1e-6)
    assert found.worst >= found.worst_bound * (1 - 1e-9)
    assert found.operator.integer
    assert isinstance(found.norm, int)
    assert Strategy.from_json(found.to_json()) == found


def by_a_general_solver(w, tries=4):
    """Return the least worst variance that scipy finds over all square strategies with columns of norm one."""
    queries, n = w.dense().astype(float), w.shape[1]

    def worst(flat, power):
        a = flat.reshape(n, n)
        a = a / np.linalg.norm(a, axis=0)
        try:
            each = ((queries @ np.linalg.inv(a)) ** 2).sum(axis=1)
        except np.linalg.LinAlgError:
            return 1e9
        if not np.isfinite(each).all():
            return 1e9
        top = each.max()
        return float(np.log(top) + np.log(((each / top) ** power).sum()) / power)

    rng = np.random.default_rng(7)
    found = []
    for _ in range(tries):
        flat = (np.eye(n) + 0.2 * rng.standard_normal((n, n))).ravel()
        for power in (4, 32, 256):
            flat = minimize(worst, flat, args=(power,), method="BFGS", options={"maxiter": 150}).x
        found.append(np.exp(worst(flat, 1e6)))
    return min(found)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "w",
    [AllRange(4), Prefix(5), Stack(Identity(4), Total(4)), Stack(Prefix(4), 2 * Total(4)), marginals((2, 3), upto=2)],
    ids=repr,
)
def test_with_gaussian_noise_it_is_the_optimum_that_a_general_solver_finds(w):
    reference = by_a_general_solver(w)
    found = select(w, "gaussian", objective="worst")
    assert found.worst_bound <= reference * (1 + 1e-6)  # what is proved of all strategies holds for that one
    assert found.worst <= reference * ROUNDED
    assert found.worst <= found.worst_bound * ROUNDED


@pytest.mark.parametrize("seed", range(6))
def test_shares_of_subsets_against_a_general_solver(seed):
    from scipy.sparse import csr_array

    rng = np.random.default_rng(seed)
    table = rng.random((4 + seed, 3 + seed)) * (rng.random((4 + seed, 3 + seed)) < 0.7)
    table[0] += 0.01
    shares, worst, lower = least_worst(csr_array(table))
    assert shares.sum() == pytest.approx(1)
    assert worst == pytest.approx((table / shares).sum(axis=1).max(), rel=1e-9)
    n = table.shape[1]
    start = np.append(np.full(n, 1 / n), (table * n).sum(axis=1).max())
    solved = minimize(
        lambda x: x[-1],
        start,
        method="SLSQP",
        bounds=[(1e-9, 1)] * n + [(0, None)],
        constraints=[
            {"type": "ineq", "fun": lambda x: x[-1] - (table / x[:-1]).sum(axis=1)},
            {"type": "eq", "fun": lambda x: x[:-1].sum() - 1},
        ],
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    theirs = solved.x[:-1] / solved.x[:-1].sum()
    reference = (table / theirs).sum(axis=1).max()  # of shares that are possible, however well it converged
    assert lower <= reference * (1 + 1e-9)
    assert worst <= reference * (1 + 1e-3)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("n", [3, 20, 100])
def test_cells_and_their_total_by_two_weights(n, noise):
    def worst(b):  # a = 1: A'A = I + b^2 J
        norm = (1 + b) ** 2 if noise == "laplace" else 1 + b**2
        together = 1 + n * b**2
        return norm * max(n / together, (1 - 1 / n) + 1 / n / together)

    best = min(minimize_scalar(worst, bounds=(low, high), method="bounded").fun for low, high in ((0, 1), (1, 9)))
    found = select(Stack(Identity(n), Total(n)), noise, objective="worst")
    assert found.worst <= best * 1.001
    assert noise == "laplace" or found.worst >= best * 0.999  # these two are all that the optimum needs


SIZES = (100, 2, 8, 40)


@pytest.mark.parametrize("upto", [1, 2, 3])
def test_marginals_are_proved_to_be_the_optimum(upto):
    w = marginals(SIZES, upto=upto)
    found = worst_marginals(w, "gaussian", opt_residual(w).operator.factors)
    assert 1 <= found.optimality < 1.0005
    assert found.worst < opt_residual(w).worst / 3
    variances = found.error_factors() * found.norm
    assert variances.max() == found.worst


@pytest.mark.parametrize("noise", NOISES)
def test_only_answers_that_none_surpasses_count(noise):
    w = Stack(Kron(AllRange(6), Identity(3)), Kron(Total(6), Identity(3)), Kron(AllRange(6), Total(3)))
    operators = opt_residual(w).operator.factors if noise == "gaussian" else [Identity(6), Identity(3)]
    classes = answer_classes(w, noise, operators)
    assert classes.coefficients.shape[0] < w.shape[0] / 4
    shares = np.arange(1.0, classes.coefficients.shape[1] + 1)
    operator = Marginals(operators, list(zip(classes.found.subsets, [1, 2, 3, 2], strict=True)))
    strategy = Strategy(w, operator, noise, "some weights")
    # By hand: what is told of each subset, from the dense normal matrix, against the largest of the classes.
    power = 2 if noise == "laplace" else 1
    products = np.where(classes.subsets, classes.norms, 1.0).prod(axis=1)
    units = np.array([1, 2, 3, 2]) ** 2 * products**power
    inside = np.array([[set(s) <= set(b) for b in classes.found.subsets] for s in classes.found.subsets])
    left = np.array(
        [
            [np.prod([classes.information[i] for i in set(b) - set(s)]) for b in classes.found.subsets]
            for s in classes.found.subsets
        ]
    )
    told = (inside * left) @ units
    assert (classes.coefficients @ (1 / told)).max() == pytest.approx(strategy.error_factors().max(), rel=1e-9)
    assert shares.size == len(classes.found.subsets)


def test_the_certificate_of_explicit_workloads_holds_and_closes():
    for w in (AllRange(40), Prefix(64), Stack(AllRange(16), 5 * Identity(16))):
        answers = WeighedAnswers(w)
        found = gaussian_worst(answers)
        q = found.weights
        assert q.min() >= 0
        assert q.sum() == pytest.approx(1)
        dense = w.dense().astype(float)
        assert answers.gram(q) == pytest.approx(dense.T @ (q[:, None] * dense), abs=1e-12)
        inverse = np.linalg.inv(found.gram)
        assert answers.variances(inverse) == pytest.approx(np.einsum("ij,jk,ik->i", dense, inverse, dense))
        assert answers.variances(inverse).max() == pytest.approx(found.worst)
        assert np.diagonal(found.gram).max() <= 1 + 1e-9
        assert found.lower <= found.worst <= found.lower * 1.001


@pytest.mark.parametrize("noise", NOISES)
def test_what_is_all_alike_is_measured_as_ever(noise):
    for w in (Identity(12), Total(5), Kron(Identity(3), Identity(4)), Kron(Identity(3), Total(4))):
        assert all_alike(w)
        assert select(w, noise, "quick", objective="worst") is select(w, noise, "quick")
    assert not all_alike(Prefix(4))
    assert not all_alike(Stack(Identity(3), Total(3)))


@pytest.mark.parametrize("noise", NOISES)
def test_weights_count(noise):
    plain = select(Stack(Identity(8), Total(8)), noise, objective="worst").error_factors()
    heavy = select(Stack(Identity(8), 4 * Total(8)), noise, objective="worst")
    factors = heavy.error_factors()
    assert factors[8] / factors[:8].max() == pytest.approx(1, rel=0.02)  # four times as accurate as each cell
    assert plain[8] / plain[:8].max() == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("objective", ["best", None, 3, "Worst"])
def test_objectives_that_there_are_not(objective):
    with pytest.raises(AccuracyError, match=r'"total".*"worst"'):
        select(Identity(3), objective=objective)


def test_operators_that_do_not_tell_all_that_is_asked():
    with pytest.raises(WorkloadError, match="tell"):
        worst_marginals(marginals((3, 4), 2), "laplace", [Explicit([[1, -1, 0]]), Identity(4)])
    with pytest.raises(WorkloadError, match="one operator for each"):
        worst_marginals(marginals((3, 4), 2), "laplace", [Identity(3)])


def several(rng, wide):
    """Return a union over three attributes, the first a wide one that is asked in several ways."""
    first = [Prefix(wide), Identity(wide), Total(wide), Explicit([(np.arange(wide) >= wide // 3).astype(int)])]
    others = [[Identity(4), Total(4)], [Identity(7), Prefix(7), Total(7)]]
    parts = [Kron(first[0], Total(4), Total(7)), Kron(first[3], Identity(4), Total(7))]
    for _ in range(3):
        parts.append(Kron(first[rng.integers(4)], *(kinds[rng.integers(len(kinds))] for kinds in others)))
    return lambda: Stack(*(int(rng.integers(1, 6)) * part for part in parts))


def weighted_subsets(workload, noise):
    """Return a strategy of weighted subsets of the attributes, whose operators are looked for."""
    if noise == "gaussian":
        return worst_marginals(workload, noise, opt_residual(workload).operator.factors)
    return opt_marginals(workload, noise, objective="worst")


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("seed", range(4))
def test_operators_do_for_weights_that_differ_a_little(noise, seed):
    first, *others = several(np.random.default_rng(seed), 24)().parts
    like = weighted_subsets(Stack(20 * first, *(20 * part for part in others)), noise)
    heavier = Stack(21 * first, *(20 * part for part in others))
    again = weighed_again(heavier, like)
    assert again.workload is heavier
    assert again.worst == pytest.approx(worst_by_definition(again), rel=1e-6)
    assert again.worst <= 1.05**2 * ROUNDED * like.worst  # what the very measurements of before would do


def test_nothing_is_weighed_again_where_there_are_no_subsets():
    like = select_own(Prefix(12), "gaussian", "quick", "worst")
    assert weighed_again(Prefix(12), like) is None


@pytest.mark.parametrize("seed", range(3))
def test_nearly_is_near(seed):
    workload = several(np.random.default_rng(seed), 150)()
    precise = worst_marginals(workload, "gaussian", opt_residual(workload).operator.factors)
    nearly = worst_marginals(workload, "gaussian", opt_residual(workload, quick=True).operator.factors)
    assert nearly.worst <= 1.1 * precise.worst


def test_wide_attributes_are_not_searched_while_somebody_waits(monkeypatch):
    asked = []
    monkeypatch.setattr(worst_case, "opt_residual", lambda workload, **_: asked.append(workload))
    workload = Stack(Kron(Prefix(2_000), Total(3)), Kron(Total(2_000), Identity(3)))
    found = select_own(workload, "gaussian", "quick", "worst")
    assert np.isfinite(found.worst)
    assert not asked
