"""Refinement: its law from its coins, privacy loss of both answers together, draws, ties, bad input."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from clocks import processor_time
from scipy import stats

from dpnotebook.errors import AccuracyError
from dpnotebook.privacy.noise import laplace_log_mass, laplace_mass
from dpnotebook.privacy.noise_down import Refinement, refined_laplace
from dpnotebook.privacy.sampler import DiscreteLaplace, Geometric

LESS = Fraction(9, 10)  # a mechanism with 10% too little noise
PAIRS = [
    (Fraction(10), Fraction(5)),
    (Fraction(10), Fraction(99, 10)),
    (Fraction(2), Fraction(1, 2)),
    (Fraction(1), Fraction(1, 5)),
    (Fraction(17, 3), Fraction(17, 3) - Fraction(1, 10**9)),
    (Fraction(22, 7), Fraction(13, 9)),
    (Fraction(15), Fraction(1)),
]


def chance(coin):
    return float(Fraction(coin.leading, 1 << 80))


def geometric_law(geometric, reach):
    """The mass function at 0 .. reach - 1 of a geometric sampler, from its coins."""
    heads, beyond = [chance(coin) for coin in geometric.digits], chance(geometric.beyond)
    k = np.arange(reach)
    mass = (1 - beyond) * beyond ** (k >> len(heads)).astype(float)
    for place, p in enumerate(heads):
        mass *= np.where(k >> place & 1, p, 1 - p)
    return mass


def given_first(refinement, v, reach):
    """P(V2 = u | V1 = v) for |u| <= reach, as the coins make it."""
    side, beyond = chance(refinement.other_side), chance(refinement.beyond)
    between, outside = geometric_law(refinement.between, reach + 1), geometric_law(refinement.outside, 2 * reach + 1)
    size, law = abs(v), np.zeros(2 * reach + 1)
    law[reach - 1 :: -1] = side * outside[:reach]
    law[reach : reach + size + 1] = (1 - side) * between[: size + 1]
    past = (1 - side) * between[size] * (1 - between[0]) / between[0]  # the geometric law has no memory
    law[reach + size] += past * (1 - beyond)
    law[reach + size + 1 :] += past * beyond * outside[: reach - size]
    return law if v >= 0 else law[::-1]


def joint_law(before, after, inner, reach):
    """P(V1 = v, V2 = u) for |v| <= inner, |u| <= reach, from the coins."""
    refinement = Refinement(before, after)
    first = laplace_mass(np.arange(-inner, inner + 1), before)
    return np.array(
        [p * given_first(refinement, v, reach) for p, v in zip(first, range(-inner, inner + 1), strict=True)]
    )


def closed_form(before, after, reach):
    """P(V1 = v, V2 = u) for |v|, |u| <= reach, from V1 = V2 + W with W independent of V2."""
    a1, a2 = math.exp(-1 / before), math.exp(-1 / after)
    none = a2 / a1 * ((1 - a1) / (1 - a2)) ** 2
    k = np.arange(-reach, reach + 1)
    w = k[:, None] - k[None, :]
    return laplace_mass(k, after)[None, :] * (none * (w == 0) + (1 - none) * laplace_mass(w, before))


def fits_joint(first, second, before, after):
    """Whether pairs of draws fit the joint law: chi-square, failing a right sampler less than once in 10^7."""
    reach = min(12, math.ceil(4 * before))
    expected = closed_form(before, after, reach) * first.size
    inside = (np.abs(first) <= reach) & (np.abs(second) <= reach)
    place = (first[inside] + reach) * (2 * reach + 1) + second[inside] + reach
    observed = np.bincount(place, minlength=expected.size).reshape(expected.shape)
    kept = expected >= 20
    observed, expected = (np.append(x[kept], first.size - x[kept].sum()) for x in (observed, expected))
    often = expected > 5
    statistic = ((observed[often] - expected[often]) ** 2 / expected[often]).sum()
    return stats.chi2.sf(statistic, often.sum() - 1) > 1e-7


def independent(one, other, reach=4):
    """The p-value of a test of independence of two samples of pairs of integers."""
    one, other = (np.clip(x, -reach, reach) + reach for x in (one, other))
    table = np.bincount(one * (2 * reach + 1) + other, minlength=(2 * reach + 1) ** 2).reshape(2 * reach + 1, -1)
    table = table[table.sum(axis=1) >= 500][:, table.sum(axis=0) >= 500]
    return stats.chi2_contingency(table).pvalue


# -- the law, exactly ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"), [*PAIRS, (Fraction(2**53), Fraction(2**52)), (Fraction(1, 30), Fraction(1, 31))]
)
def test_thresholds_are_the_first_80_bits(before, after):
    refinement = Refinement(before, after)
    with localcontext() as context:
        context.prec = 150
        a1, a2 = ((-Decimal(b.denominator) / Decimal(b.numerator)).exp() for b in (before, after))
        side = a2 * (a1 - a2) / (1 - a2 * a2)
        beyond = a1 * (a1 - a2) / (1 - a1 * a2)
        assert refinement.other_side.leading == int(side * 2**80)
        assert refinement.beyond.leading == int(beyond * 2**80)
        for geometric, ratio in ((refinement.between, a2 / a1), (refinement.outside, a1 * a2)):
            if geometric.places < 60:  # the power would cost too many digits
                assert geometric.beyond.leading == int(ratio ** (1 << geometric.places) * 2**80)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_marginals_are_discrete_laplace(before, after):
    inner, reach = math.ceil(32 * before) + 2, math.ceil(64 * before) + 4
    refinement = Refinement(before, after)
    for v in (0, 1, -1, 2, -7, inner):
        assert given_first(refinement, v, reach).sum() == pytest.approx(1, abs=1e-12)
    joint = joint_law(before, after, inner, reach)
    second = laplace_mass(np.arange(-reach, reach + 1), after)
    np.testing.assert_allclose(joint.sum(axis=0), second, rtol=0, atol=1e-12)
    first = laplace_mass(np.arange(-inner, inner + 1), before)
    np.testing.assert_allclose(joint.sum(axis=1), first, rtol=0, atol=1e-12)
    assert np.abs(joint.sum(axis=0) - laplace_mass(np.arange(-reach, reach + 1), after * LESS)).max() > 1e-3


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_both_answers_together_cost_what_the_second_costs(before, after):
    reach = min(100, math.ceil(12 * before) + 2)

    def loss(joint):  # of the outcome (x + v, x + u) under x and under x + 1
        with np.errstate(divide="ignore"):
            logs = np.log(joint)
        return np.abs(logs[1:, 1:] - logs[:-1, :-1]).max()

    assert loss(joint_law(before, after, reach, reach)) == pytest.approx(float(1 / after), abs=1e-12)
    # Too little noise in the second answer, the wrong scale of the first, and a second answer of its own cost more.
    assert loss(joint_law(before, after * LESS, reach, reach)) > 1.1 * float(1 / after)
    k = np.arange(-reach, reach + 1)
    wrong = joint_law(before, after, reach, reach) * np.exp(
        laplace_log_mass(k, before * LESS) - laplace_log_mass(k, before)
    ).reshape(-1, 1)
    assert loss(wrong) > float(1 / after) + 0.1 / float(before)
    fresh = np.multiply.outer(laplace_mass(k, before), laplace_mass(k, after))
    assert loss(fresh) == pytest.approx(float(1 / before + 1 / after), abs=1e-12)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_the_first_answer_is_the_second_with_independent_noise(before, after):
    reach = min(60, math.ceil(12 * before) + 2)
    np.testing.assert_allclose(joint_law(before, after, reach, reach), closed_form(before, after, reach), 1e-7, 1e-15)


# -- draws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), PAIRS[:4] + PAIRS[5:])
def test_draws_fit_the_joint_law(before, after):
    source = np.random.default_rng(1).bytes
    first = DiscreteLaplace(before).draw(300_000, source)
    second = refined_laplace(first, before, after, source)
    assert fits_joint(first, second, before, after)
    assert not fits_joint(first, refined_laplace(first, before, after * LESS, source), before, after)
    if before < 10 * after:  # else the two are nearly independent
        assert not fits_joint(DiscreteLaplace(before).draw(300_000, source), second, before, after)


@pytest.mark.parametrize(("before", "after"), [(Fraction(6), Fraction(2)), (Fraction(3, 2), Fraction(11, 10))])
def test_what_is_taken_away_is_independent_of_what_remains(before, after):
    source = np.random.default_rng(2).bytes
    first = DiscreteLaplace(before).draw(400_000, source)
    second = refined_laplace(first, before, after, source)
    assert independent(first - second, second) > 1e-7
    assert independent(first, second) < 1e-7
    assert independent(first - second, refined_laplace(first, before, after * LESS, source)) < 1e-7


def test_refined_again_and_again():
    source, scales = np.random.default_rng(3).bytes, [Fraction(8), Fraction(5), Fraction(3, 2), Fraction(7, 5)]
    draws = [DiscreteLaplace(scales[0]).draw(300_000, source)]
    for before, after in itertools.pairwise(scales):
        draws.append(refined_laplace(draws[-1], before, after, source))
    # Each answer is the next one with independent noise, so the last tells all that any of them tell.
    for i in range(3):
        for j in range(i + 1, 4):
            assert fits_joint(draws[i], draws[j], scales[i], scales[j])
            assert independent(draws[i] - draws[i + 1], draws[j]) > 1e-7
    together = 3 * np.clip(draws[0] - draws[1], -1, 1) + np.clip(draws[1] - draws[2], -1, 1)
    assert independent(together, draws[3]) > 1e-7


def test_many_small_steps_end_where_they_should(fits):
    source = np.random.default_rng(4).bytes
    noise = DiscreteLaplace(Fraction(5)).draw(20_000, source)
    steps = [Fraction(5) - Fraction(i, 100) for i in range(201)]
    for before, after in itertools.pairwise(steps):
        noise = refined_laplace(noise, before, after, source)
    assert fits(noise, lambda k: laplace_mass(k, 3))
    assert not fits(noise, lambda k: laplace_mass(k, 3 * LESS))


def test_wide_noise_has_the_right_sizes():
    """Scales at which a mass function cannot be listed: |V2| / b2 and |W| / b1 are exponential, W = 0 a quarter."""
    source, before, after = np.random.default_rng(5).bytes, Fraction(2**53), Fraction(2**52)
    first = DiscreteLaplace(before).draw(200_000, source)
    second = refined_laplace(first, before, after, source)
    away = first - second
    assert stats.kstest(np.abs(second) / float(after), "expon").pvalue > 1e-7
    assert stats.kstest(np.abs(away[away != 0]) / float(before), "expon").pvalue > 1e-7
    assert abs(np.mean(away == 0) - 0.25) < 5.5 * math.sqrt(0.25 * 0.75 / first.size)
    assert stats.kstest(np.abs(second) / float(after * LESS), "expon").pvalue < 1e-7


def test_scales_that_hardly_differ_change_nothing():
    noise = DiscreteLaplace(Fraction(10)).draw(50_000, np.random.default_rng(6).bytes)
    for part in (10**20, 10**60, 10**400):
        assert np.array_equal(refined_laplace(noise, Fraction(10), Fraction(10) - Fraction(1, part)), noise)
    assert Geometric(Fraction(1, 10**60)).draw(1000, np.random.default_rng(6).bytes).min() >= 0


# -- ties ------------------------------------------------------------------------------------------


def test_every_coin_is_settled_by_further_bits_when_it_ties(script):
    before, after = Fraction(3, 4), Fraction(1, 20)
    refinement = Refinement(before, after)
    assert refinement.between.places == refinement.outside.places == 0  # one coin a toss, which makes a script short
    tails, heads_at_once = b"\xff\xff", (bytes(2), bytes(8))  # the second where the leading bits are 0, and tie
    assert refinement.between.beyond.leading >> 64 == refinement.other_side.leading >> 64 == 0

    def word(number):
        return int(number).to_bytes(8, "little")

    def ways(coin):
        lead, second = np.uint16(coin.leading >> 64), coin.leading & (2**64 - 1)
        third = int(coin._bounds(80)[0] * 2**144) & (2**64 - 1)
        for further, heads in [
            ((second - 1,), True),
            ((second + 1,), False),
            ((second, third - 1), True),
            ((second, third + 1), False),
        ]:
            yield [lead.tobytes(), *map(word, further)], heads

    def drawn(v, side, between, beyond, outside):
        source = script(*side, *between, *beyond, *outside)  # coins that decide nothing are tossed no times
        (value,) = refinement.draw(np.array([v]), source)
        assert not source.pieces
        return value

    never = [b""]
    for tied, heads in ways(refinement.other_side):
        rest = (never, never, [tails]) if heads else ([tails], never, never)
        assert drawn(2, tied, *rest) == (-1 if heads else 0)
        assert drawn(-2, tied, *rest) == (1 if heads else 0)
    for tied, heads in ways(refinement.between.beyond):
        assert drawn(2, [tails], [*tied, tails] if heads else tied, never, never) == (1 if heads else 0)
    for tied, heads in ways(refinement.beyond):
        three = [*heads_at_once * 3, tails]  # where two lead to V1
        assert drawn(-2, [tails], three, tied, [tails] if heads else never) == (-3 if heads else -2)
    for tied, heads in ways(refinement.outside.beyond):
        last = [*tied, tails] if heads else tied
        assert drawn(2, heads_at_once, never, never, last) == (-2 if heads else -1)
        assert drawn(0, [tails], [*heads_at_once, tails], [bytes(2)], last) == (2 if heads else 1)


# -- use -------------------------------------------------------------------------------------------


def test_shapes_kinds_and_sources():
    for first in (np.zeros((2, 3), np.int32), np.array(7), [], np.arange(5, dtype=np.uint8), [1, -2]):
        again = refined_laplace(np.array(first, dtype=getattr(first, "dtype", np.int64)), 4, 2)
        assert again.shape == np.shape(first)
        assert again.dtype == np.int64
    noise = np.arange(-500, 500)
    one, other = (refined_laplace(noise, 9, Fraction(5, 2), np.random.default_rng(7).bytes) for _ in range(2))
    assert np.array_equal(one, other)
    assert not np.array_equal(refined_laplace(noise, 9, 2.5), refined_laplace(noise, 9, 2.5))
    assert np.array_equal(noise, np.arange(-500, 500))


def test_a_hundred_thousand_take_a_moment():
    noise = DiscreteLaplace(Fraction(1000)).draw(100_000, np.random.default_rng(8).bytes)
    refined_laplace(noise[:1], 1000, 400)
    assert processor_time(lambda: refined_laplace(noise, 1000, 400), 3) < 0.1  # 0.02 s measured


@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 3), (Fraction(1, 3), Fraction(1, 3) + Fraction(1, 10**30))])
def test_noise_cannot_be_refined_to_more(before, after):
    with pytest.raises(AccuracyError, match="at least as accurate"):
        refined_laplace(np.array([1]), before, after)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, 2**54, "1", None, True])
def test_bad_scales(bad):
    for before, after in ((bad, Fraction(1, 2)), (10, bad)):
        with pytest.raises(AccuracyError):
            refined_laplace(np.array([1]), before, after)


@pytest.mark.parametrize("bad", [[1.0, 2.0], [True], ["1"], [None], [math.nan]])
def test_noise_is_of_whole_numbers(bad):
    with pytest.raises(ValueError, match="whole numbers"):
        refined_laplace(np.array(bad), 3, 2)


@pytest.mark.parametrize("bad", [2**61, -(2**61), -(2**63)])
def test_noise_that_no_scale_makes(bad):
    with pytest.raises(ValueError, match="another answer"):
        refined_laplace(np.array([0, bad]), 3, 2)
    assert refined_laplace(np.array([2**61 - 1]), 2**53, 2**52).shape == (1,)
