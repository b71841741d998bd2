"""The samplers' own laws, exactly: from their thresholds, and on the paths that chance takes once in 2^64 draws."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from noise_laws import gaussian_mass

from dpnotebook.privacy.noise import laplace_mass
from dpnotebook.privacy.randomness import LazyUniform
from dpnotebook.privacy.sampler import Coin, DiscreteLaplace, Geometric, RoundedGaussian

SCALES = [Fraction(1, 50), Fraction(1, 3), Fraction(1), Fraction(10, 3), Fraction(10), Fraction(12345, 7)]


def exact(x, digits=120):
    with localcontext() as context:
        context.prec = digits
        return Decimal(x.numerator) / Decimal(x.denominator)


def chance(coin):
    return Fraction(coin.leading, 1 << 80)


def word(number, size=8):
    return int(number).to_bytes(size, "little")


def law_of(sampler, reach):
    """The mass function at 0 .. reach of a discrete Laplace sampler, from its coins."""
    digits, beyond = [float(chance(coin)) for coin in sampler.geometric.digits], float(chance(sampler.geometric.beyond))
    zero, mass = float(chance(sampler.zero)), []
    for k in range(reach):
        value = 1 - beyond
        for place, heads in enumerate(digits):
            value *= heads if k >> place & 1 else 1 - heads
        mass.append((1 - zero) / 2 * value * beyond ** (k >> len(digits)))
    return np.array([zero, *mass])


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_thresholds_are_the_first_80_bits(scale):
    sampler = DiscreteLaplace(scale)
    with localcontext() as context:
        context.prec = 120
        context.Emin = -(10**6)
        a = (-exact(1 / scale)).exp()
        expected = [(1 - a) / (1 + a)]
        for j in range(len(sampler.geometric.digits)):
            e = (exact(2**j / scale)).exp()
            expected.append(1 / (1 + e))
        expected.append((-exact(2 ** len(sampler.geometric.digits) / scale)).exp())
        bits = [int(value * 2**80) for value in expected]
    coins = [sampler.zero, *sampler.geometric.digits, sampler.geometric.beyond]
    assert [coin.leading for coin in coins] == [min(b, 2**80 - 1) for b in bits]


@pytest.mark.parametrize("scale", SCALES[1:])
def test_the_coins_make_the_law(scale):
    reach = min(600, int(30 * scale) + 4)
    np.testing.assert_allclose(law_of(DiscreteLaplace(scale), reach), laplace_mass(np.arange(reach + 1), scale), 1e-9)


@pytest.mark.parametrize("scale", SCALES[1:])
def test_laplace_is_private_by_its_coins(scale, pure_loss):
    reach = min(600, int(30 * scale) + 4)
    logs = np.log(law_of(DiscreteLaplace(scale), reach))
    loss = pure_loss(lambda k: logs[np.abs(k)], reach)
    assert loss == pytest.approx(float(1 / scale), rel=1e-9)
    short = np.log(law_of(DiscreteLaplace(scale * Fraction(9, 10)), reach))
    assert pure_loss(lambda k: short[np.abs(k)], reach) > 1.05 * float(1 / scale)


def test_ties_of_a_coin_are_settled_by_further_bits(script):
    bounds = Geometric(Fraction(1, 10)).digits[2]._bounds
    coin = Coin(bounds)
    first, second = coin.leading >> 64, coin.leading & (2**64 - 1)
    low = bounds(60)[0]
    third = int(low * 2**144) & (2**64 - 1)

    def toss(*pieces):
        source = script(*pieces)
        heads = coin.toss(3, source)
        assert not source.pieces
        return heads.tolist()

    lead = np.array([first - 1, first, first + 1], np.uint16)
    assert toss(np.array([first - 1, first + 1, 0], np.uint16)) == [True, False, True]
    assert toss(lead, word(second - 1)) == [True, True, False]
    assert toss(lead, word(second + 1)) == [True, False, False]
    assert toss(lead, word(second), word(third - 1)) == [True, True, False]
    assert toss(lead, word(second), word(third + 1)) == [True, False, False]
    fourth = int(bounds(90)[0] * 2**208) & (2**64 - 1)
    assert toss(lead, word(second), word(third), word(fourth - 1)) == [True, True, False]
    assert toss(lead, word(second), word(third), word(fourth + 1)) == [True, False, False]


def test_ties_of_a_coin_have_the_right_chance():
    coin = Coin(Geometric(Fraction(1, 10)).digits[0]._bounds)
    random = np.random.default_rng(1)

    def source(count):
        return random.bytes(count) if count % 8 == 0 else np.full(count // 2, coin.leading >> 64, np.uint16).tobytes()

    n = 100_001
    heads = coin.toss(n, source).mean()
    expected = (coin.leading & (2**64 - 1)) / 2**64
    assert abs(heads - expected) < 5.5 * (expected * (1 - expected) / n) ** 0.5
    assert abs(heads - 0.9 * expected) > 5.5 * (expected * (1 - expected) / n) ** 0.5


@pytest.mark.parametrize("nearly", [Fraction(1, 10**6), Fraction(1, 10**300), Fraction(1000)])
def test_extreme_chances(nearly):
    sampler = DiscreteLaplace(nearly)
    drawn = sampler.draw(1000, np.random.default_rng(2).bytes)
    assert not drawn.any() if nearly < 1 else drawn.any()


def test_digits_beyond_the_last_are_drawn_again(script):
    geometric = Geometric(Fraction(12))  # no digits: beyond, beyond, then not
    source = script(bytes(2), bytes(8), bytes(2), bytes(8), b"\xff\xff")
    assert geometric.places == 0
    assert geometric.draw(1, source).tolist() == [2]


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(10), Fraction(500)])
def test_own_laplace_fits_its_mass_function(scale, fits):
    draws = DiscreteLaplace(scale).draw(300_000, np.random.default_rng(3).bytes)
    assert fits(draws, lambda k: laplace_mass(k, scale))
    short = DiscreteLaplace(scale * Fraction(9, 10)).draw(300_000, np.random.default_rng(3).bytes)
    assert not fits(short, lambda k: laplace_mass(k, scale))


@pytest.mark.parametrize("sigma", [Fraction(3, 10), Fraction(1), Fraction(10), Fraction(1000, 3)])
def test_gaussian_fits_its_mass_function(sigma, fits):
    draws = RoundedGaussian(sigma).draw(300_000, np.random.default_rng(4).bytes)
    assert fits(draws, lambda k: gaussian_mass(k, sigma))
    short = RoundedGaussian(sigma * Fraction(9, 10)).draw(300_000, np.random.default_rng(4).bytes)
    assert not fits(short, lambda k: gaussian_mass(k, sigma))


@pytest.mark.parametrize("shift", [1, 4, 6])
def test_gaussian_in_blocks_fits_its_mass_function(shift, fits):
    """Blocks are used for sigma above 2^20; here they are made as wide as sigma itself, where rejections are common."""
    sampler = RoundedGaussian(Fraction(40))
    assert sampler.shift == 0
    sampler.shift, sampler.block = shift, 1 << shift
    draws = sampler.draw(300_000, np.random.default_rng(5).bytes)
    assert fits(draws, lambda k: gaussian_mass(k, 40))
    assert not fits(draws, lambda k: gaussian_mass(k, 44))


@pytest.mark.parametrize("exponent", [20, 21, 33, 53])
def test_wide_gaussians_are_normal_and_fill_every_integer(exponent):
    sigma = Fraction(2**exponent)
    sampler = RoundedGaussian(sigma)
    assert sampler.shift == exponent - 20
    draws = sampler.draw(200_000, np.random.default_rng(6).bytes)
    from scipy import stats

    assert stats.kstest(draws / float(sigma), "norm").pvalue > 1e-7
    assert stats.chisquare(np.bincount(draws % 16, minlength=16)).pvalue > 1e-7
    assert stats.chisquare(np.bincount((draws >> (exponent - 10)) % 16, minlength=16)).pvalue > 1e-7


def test_fast_and_exact_inversion_agree():
    random = np.random.default_rng(7)
    for sigma in (Fraction(3, 10), Fraction(10), Fraction(10**6), Fraction(2**40)):
        sampler = RoundedGaussian(sigma)
        bits = np.frombuffer(random.bytes(8 * 500), np.uint64) >> np.uint64(1)
        fast = sampler.blocks(bits, random.bytes)
        assert fast.tolist() == [sampler._decide(LazyUniform(int(b), 63, random.bytes)) for b in bits]


@pytest.mark.parametrize(
    ("sigma", "k"), [(Fraction(10), 1), (Fraction(10), 7), (Fraction(10), 55), (Fraction(1, 2), 3)]
)
def test_gaussian_boundaries_are_decided_by_further_bits(sigma, k, phi, script):
    sampler = RoundedGaussian(sigma)
    with localcontext() as context:
        context.prec = 150
        beyond = Fraction(2 * phi(-(k - Fraction(1, 2)) / sigma))  # P(|sigma Z| > k - 1/2)
    lead, second = int(beyond * 2**63), int(beyond * 2**127) & (2**64 - 1)
    third = int(beyond * 2**191) & (2**64 - 1)

    def drawn(lead, *more, sign=0):
        source = script(np.array([lead << 1 | sign], np.uint64), *map(word, more))
        value = sampler.draw(1, source)[0]
        assert not source.pieces
        return value

    guessed = [0] if lead < 1 << 60 else []  # a small number: one word more is drawn for the first guess
    assert drawn(lead - 1, *guessed) == k
    assert drawn(lead + 1, *guessed) == k - 1
    assert drawn(lead, second - 1) == k
    assert drawn(lead, second + 1) == k - 1
    assert drawn(lead, second - 1, sign=1) == -k
    assert drawn(lead, second, third - 1) == k
    assert drawn(lead, second, third + 1) == k - 1


def test_the_far_tail_is_drawn_from_further_bits(phi, script):
    sampler = RoundedGaussian(Fraction(10))
    # 126 zero bits, then something: |Z| near 13.
    drawn = sampler.draw(1, script(bytes(8), bytes(8), word(2**63)))[0]
    u = Fraction(1, 2) / 2**127
    with localcontext() as context:
        context.prec = 150
        q = [Fraction(2 * phi(-(Fraction(int(drawn) + d) - Fraction(1, 2)) / 10)) for d in (0, 1)]
    assert q[1] < u < q[0]
    assert 120 < drawn < 140


@pytest.mark.parametrize(
    ("block", "place"),
    [(0, 2**63 + 12345), (0, 2**55), (1, 2**50), (12345, 2**64 - 1), (3 << 20, 987654321 << 33), (9 << 20, 2**62)],
)
def test_places_within_a_block_are_rejected_exactly(script, block, place):
    sigma = Fraction(2**40)
    sampler = RoundedGaussian(sigma)

    def drop(place, bits):  # 1 - the density there, relative to that of the block's near edge, in units of 2^-128
        x = block * sampler.block - Fraction(1, 2) + Fraction(place * sampler.block, 1 << bits)
        edge = max(block * sampler.block - Fraction(1, 2), Fraction(0))
        with localcontext() as context:
            context.prec = 150
            return int((1 - (-exact((x * x - edge * edge) / (2 * sigma**2))).exp()) * 2**128)

    further = 0x123456789ABCDEF0
    lead, second = divmod(drop(place << 64 | further, 128), 2**64)
    again = [np.array([1 << 63], np.uint64), np.array([2**64 - 1], np.uint64)]
    for coin, more, rejected in [
        (lead - 2, (), True),
        (lead + 2, (), False),
        (lead, (second - 10**6,), True),
        (lead, (second + 10**6,), False),
    ]:
        pieces = [np.array([place], np.uint64), np.array([coin], np.uint64), word(further)]
        # A longer coin is compared with the density at a longer place.
        pieces += [piece for m in more for piece in (word(m), bytes(8))] + (again if rejected else [])
        source = script(*pieces)
        found = sampler._within(np.array([block]), source)[0]
        kept = 1 << 63 if rejected else place
        assert found == block * sampler.block + (kept >> (64 - sampler.shift))
        assert not source.pieces


def test_the_first_block_begins_at_minus_one_half(script):
    sampler = RoundedGaussian(Fraction(2**40))
    half = 1 << (63 - sampler.shift)
    for place, tries in ((half - 1, 2), (half, 1)):
        pieces = [np.array([place], np.uint64), np.array([2**64 - 1], np.uint64)]
        pieces += [np.array([2**63], np.uint64), np.array([2**64 - 1], np.uint64)] * (tries - 1)
        source = script(*pieces)
        assert sampler._within(np.array([0]), source)[0] == (0 if tries == 1 else sampler.block // 2)
        assert not source.pieces


def test_draws_of_any_size():
    for size in (0, 1, 7, (1 << 16) + 1):
        assert DiscreteLaplace(Fraction(3)).draw(size, np.random.default_rng(8).bytes).shape == (size,)
        assert RoundedGaussian(Fraction(3)).draw(size, np.random.default_rng(8).bytes).shape == (size,)
