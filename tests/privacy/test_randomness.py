"""Random bytes: fresh in forks and threads, exactly as many as asked for; streams that only their key decides."""

import hashlib
import itertools
import multiprocessing
import pathlib
import re
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpnotebook.privacy
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.privacy.noise import discrete_laplace, rounded_gaussian
from dpnotebook.privacy.randomness import KEY_BYTES, LazyUniform, Randomness, random_bytes, signs, words

pytestmark = pytest.mark.fresh_noise


def test_bytes_are_uniform_and_differ():
    for count in (0, 1, 100, 1 << 20):
        assert len(random_bytes(count)) == count
    first, second = random_bytes(1 << 20), random_bytes(1 << 20)
    assert first != second
    assert uniform(first)


def uniform(data):
    return stats.chisquare(np.bincount(np.frombuffer(data, np.uint8), minlength=256)).pvalue > 1e-7


def test_every_charge_has_a_key_of_its_own():
    keys = {Randomness().key for _ in range(1000)}
    assert len(keys) == 1000
    assert all(len(key) == KEY_BYTES == 32 for key in keys)
    assert uniform(b"".join(keys))
    with pytest.raises(ValueError, match="32 bytes"):
        Randomness(b"short")


def test_a_key_decides_its_streams_and_nothing_else_does():
    key = random_bytes(KEY_BYTES)
    first = Randomness(key).source("noise", 0)(1 << 20)
    assert uniform(first)
    assert first == Randomness(key).source("noise", 0)(1 << 20)
    others = [Randomness().source("noise", 0), *(Randomness(key).source(*other) for other in PURPOSES)]
    drawn = [first[: 1 << 14], *(other(1 << 14) for other in others)]
    assert len(set(drawn)) == len(drawn)
    for one, other in itertools.combinations(drawn, 2):  # streams that share a part would agree where they do
        assert uniform(bytes(np.bitwise_xor(np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8))))
    blocks = [first[start : start + 64] for start in range(0, len(first), 64)]
    assert len(set(blocks)) == len(blocks)


PURPOSES = [("noise",), ("noise", 1), ("noise", "0"), ("noise0",), ("noise", 0, 0), (0, "noise"), ("sample", 0), ()]


def test_a_stream_does_not_depend_on_how_it_is_read():
    randomness = Randomness()
    whole = randomness.source("noise", 3)(100_000)
    for sizes in ([1] * 20_000, [8191, 1, 8192, 8193, 16_384], [0, 5, 0, 70_000], [13] * 7_000):
        source, pieces = randomness.source("noise", 3), []
        for size in sizes:
            pieces.append(source(size))
            assert len(pieces[-1]) == size
        assert b"".join(pieces) == whole[: sum(sizes)]


def test_a_stream_is_what_the_standard_says():
    """SHAKE-256 by another implementation: what is drawn for a charge does not hang on one library."""
    from cryptography.hazmat.primitives import hashes

    key = bytes(range(32))
    digest = hashlib.blake2b(key=key, digest_size=32)
    for part in (b"'noise'", b"0"):
        digest.update(len(part).to_bytes(8, "big") + part)
    expected = b""
    for counter in range(2):
        shake = hashes.Hash(hashes.SHAKE256(8192))
        shake.update(digest.digest() + counter.to_bytes(8, "big"))
        expected += shake.finalize()
    assert Randomness(key).source("noise", 0)(10_000) == expected[:10_000]


def test_secrets_differ_by_charge_and_by_purpose():
    one, other = Randomness(), Randomness()
    assert one.secret("sample", 0) == one.secret("sample", 0)
    found = {charge.secret("sample", i) for charge in (one, other) for i in range(50)}
    assert len(found) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", secret) for secret in found)


def test_the_same_randomness_draws_the_same_noise():
    key = random_bytes(KEY_BYTES)
    for noise in ("laplace", "gaussian"):
        first, again = (draw_integers(noise, 1000, 70_000, Randomness(key).source("noise", 0)) for _ in range(2))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, draw_integers(noise, 1000, 70_000, Randomness().source("noise", 0)))
        assert not np.array_equal(first, draw_integers(noise, 1000, 70_000))


def test_a_source_must_return_what_it_was_asked_for():
    for draw in (lambda s: words(s, 4, np.uint64), lambda s: signs(s, 9), lambda s: LazyUniform(0, 1, s).extend()):
        with pytest.raises(ValueError, match="were asked for"):
            draw(lambda count: bytes(count + 1))


def test_lazy_uniform_draws_only_what_it_needs(script):
    def third(digits):
        return Fraction(1, 3), Fraction(1, 3)

    top = (1 << 64) // 3
    assert LazyUniform(0, 2, script()).below(third) is True
    assert LazyUniform(2, 2, script()).below(third) is False
    undecided = LazyUniform(0, 0, script((top - 1).to_bytes(8, "little")))
    assert undecided.below(third) is True
    assert undecided.bits == 64
    assert LazyUniform(0, 0, script((top + 1).to_bytes(8, "little"))).below(third) is False
    twice = LazyUniform(0, 0, script(top.to_bytes(8, "little"), b"\xff" * 8))
    assert twice.below(third) is False
    assert twice.bits == 128


def _draw(queue):
    queue.put([discrete_laplace(10**9, 8).tolist(), discrete_laplace(10**9, 100_001)[:8].tolist()])
    queue.put(rounded_gaussian(10**9, 8).tolist())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_children_draw_different_noise():
    discrete_laplace(10**9, 8), discrete_laplace(10**9, 100_001), rounded_gaussian(10**9, 8)  # wake everything up
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_draw, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    _draw(queue)
    drawn = [queue.get(timeout=60) for _ in range(6)]
    for child in children:
        child.join(60)
    flat = [tuple(x) for item in drawn for x in (item if isinstance(item[0], list) else [item])]
    assert len(set(flat)) == len(flat) == 9


def test_threads_draw_different_noise():
    def draw(i):
        return [tuple(discrete_laplace(10**9, 8)), tuple(rounded_gaussian(10**9, 8)), random_bytes(1 << 15)]

    with ThreadPoolExecutor(8) as pool:
        drawn = [item for items in pool.map(draw, range(32)) for item in items]
    assert len(set(drawn)) == len(drawn)


def test_no_generator_of_numbers_that_can_be_guessed():
    folder = pathlib.Path(dpnotebook.privacy.__file__).parent
    for file in folder.glob("*.py"):
        assert not re.search(r"np\.random|numpy\.random|import random\b|\.seed\(", file.read_text()), file.name
