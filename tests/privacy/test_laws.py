"""The objects of the two laws: each formula against exact arithmetic or brute force; nothing compares their names."""

import ast
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_laws import gaussian_mass
from scipy.optimize import minimize

from dpnotebook.inference.redraws import REDRAWS
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.laws import GAUSSIAN, LAPLACE, LAWS, law_of
from dpnotebook.privacy.noise import laplace_mass

PACKAGE = Path(__file__).parents[2] / "dpnotebook"
MASS = {"laplace": laplace_mass, "gaussian": gaussian_mass}
BUDGETS = {"laplace": Budget(1.0), "gaussian": Budget(1.0, 1e-6)}
laws = pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
scales = st.fractions(Fraction(1, 5), 500)


def names_in(node):
    """Return the names of laws that an expression writes."""
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)} & set(LAWS)


def test_no_module_compares_the_name_of_a_law():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if any(name in source for name in LAWS) else ():
            if isinstance(node, (ast.Compare, ast.MatchValue)) and names_in(node):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert found == []


@laws
def test_accountants_and_budgets_have_their_law(law):
    assert law_of(law.name) is law
    budget = BUDGETS[law.name]
    assert budget.law is accountant_for(budget).law is law
    assert law.needs_delta == (budget.delta > 0)


@laws
@given(rows=st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_sensitivity_is_the_norm_of_the_widest_column(law, rows):
    matrix = np.array(rows)
    order = {"laplace": 1, "gaussian": 2}[law.name]
    exact = np.linalg.norm(matrix, order, axis=0).max()
    norm = int(law.powers(matrix).sum(axis=0).max())
    assert law.sensitivity(norm) == pytest.approx(exact, rel=1e-14)
    assert law.squared_sensitivity(norm) == {"laplace": norm**2, "gaussian": norm}[law.name] == round(exact**2)
    assert law.roots(law.powers(matrix).astype(float)) == pytest.approx(np.abs(matrix), rel=1e-14)


@laws
@given(errors=st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=6))
@settings(max_examples=20, deadline=None)
def test_no_weights_are_better_than_the_best(law, errors):
    errors = np.array(errors)

    def error(logs):  # of measuring parts of sensitivity one with these weights
        weights = np.exp(logs)
        return float(law.squared_sensitivity(law.powers(weights).sum()) * (errors / weights**2).sum())

    mine = error(np.log(law.best_weights(errors)))
    found = minimize(lambda logs: math.log(error(logs)), np.zeros(errors.size), method="BFGS")
    assert mine == pytest.approx(math.exp(found.fun), rel=1e-6)
    assert mine <= math.exp(found.fun) * (1 + 1e-12)


@laws
@given(scale=scales)
def test_a_precision_costs_what_the_accountant_charges_for_its_scale(law, scale):
    # The continuous laws have variance 2 b^2 and sigma^2; the accountant's rates are exact fractions.
    variance = {"laplace": 2 * scale**2, "gaussian": scale**2}[law.name]
    charged = accountant_for(BUDGETS[law.name]).rate(scale) / UNITS
    assert law.cost(float(1 / variance)) == pytest.approx(float(charged), rel=1e-14)
    assert law.precision(float(charged)) == pytest.approx(float(1 / variance), rel=1e-14)
    assert law.variance_of_rate(float(1 / charged)) == pytest.approx(float(variance), rel=1e-14)


@given(scale=scales)
def test_variances_of_counts_against_100_digits(scale):
    with localcontext() as context:
        context.prec = 100
        b = Decimal(scale.numerator) / Decimal(scale.denominator)
        a = (-1 / b).exp()
        laplace = 2 * a / (1 - a) ** 2
        bits = GAUSSIAN.grid_bits(scale)
        gaussian = b * b + Decimal(4) ** -bits / 12
    assert scale * 2**bits >= 2**10 > scale * 2 ** (bits - 1) or bits == 0
    for law, exact in ((LAPLACE, laplace), (GAUSSIAN, gaussian)):
        assert law.count_variance(scale) == pytest.approx(float(exact), rel=1e-12)
    assert LAPLACE.grid_bits(scale) == 0
    assert LAPLACE.scale_of_variance(float(laplace)) == pytest.approx(float(scale), rel=1e-12)
    assert GAUSSIAN.scale_of_variance(float(scale) ** 2) == pytest.approx(float(scale), rel=1e-15)


@laws
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(9, 2), Fraction(40)])
def test_what_integer_noise_reaches_by_adding_up_its_masses(law, scale):
    k = np.arange(-3000, 3001)
    mass = MASS[law.name](k, scale)
    assert law.variance(scale) == pytest.approx(float(mass @ k.astype(float) ** 2), rel=1e-9)
    inside = np.cumsum(np.where(k[3000:] > 0, 2, 1) * mass[3000:])
    beyond = np.cumsum(mass[::-1])[::-1]
    for confidence in (0.3, 0.5, 0.9, 0.95, 0.999):
        assert law.half_width(scale, confidence) == np.flatnonzero(inside >= confidence)[0]
    for probability in (0.8, 0.3, 0.05, 1e-4):
        assert law.least_beyond(scale, math.log(probability)) == k[np.flatnonzero(beyond <= probability)[0]]
    for m in (-2, 0, 1, 5):
        assert law.log_tail(scale, m) == pytest.approx(math.log(beyond[m + 3000]), abs=1e-9)
    together = mass
    for width in (2, 3):
        together = np.convolve(together, mass, mode="same")
        tail = np.cumsum(together[::-1])[::-1]
        for m in range(1, int(12 * scale) + 2):
            assert math.log(tail[m + 3000]) <= law.log_tail_of_run(scale, m, width) + 1e-9


@laws
@pytest.mark.parametrize("scale", [0.7, 6.5])
def test_redraws_fit_the_law(law, scale, fits):
    draws = REDRAWS[law.name](np.random.default_rng(7), scale, (1000, 300)).ravel().astype(np.int64)
    assert fits(draws, lambda k: MASS[law.name](k, scale))


@laws
def test_draws_fit_the_law(law, fits):
    assert fits(law.draw(Fraction(13, 2), 200_000), lambda k: MASS[law.name](k, Fraction(13, 2)))
