"""Random bytes: fresh in forks and threads, exactly as many as asked for, and no generator that could be seeded."""

import multiprocessing
import pathlib
import re
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpnotebook.privacy
from dpnotebook.privacy import randomness
from dpnotebook.privacy.noise import discrete_laplace, rounded_gaussian
from dpnotebook.privacy.randomness import LazyUniform, random_bytes, signs, words


def test_bytes_are_uniform_and_differ():
    for count in (0, 1, 100, 1 << 20):
        assert len(random_bytes(count)) == count
    first, second = random_bytes(1 << 20), random_bytes(1 << 20)
    assert first != second
    observed = np.bincount(np.frombuffer(first, np.uint8), minlength=256)
    assert stats.chisquare(observed).pvalue > 1e-7


def test_a_stream_cipher_is_used_for_long_requests_only(monkeypatch):
    asked = []

    def stream(count):
        asked.append(count)
        return bytes(count)

    monkeypatch.setattr(randomness, "_aes", lambda: stream)
    assert random_bytes(1 << 20) == bytes(1 << 20)
    assert random_bytes(64) != bytes(64)
    assert asked == [1 << 20]
    monkeypatch.setattr(randomness, "_aes", lambda: None)
    assert random_bytes(1 << 20) != bytes(1 << 20)


def test_the_stream_cipher_has_a_fresh_key_each_time():
    pytest.importorskip("cryptography", reason="AES is used only where `cryptography` is installed")
    stream = randomness._aes()
    first, second = stream(1 << 16), stream(1 << 16)
    assert len(first) == 1 << 16
    assert first != second
    assert stats.chisquare(np.bincount(np.frombuffer(first, np.uint8), minlength=256)).pvalue > 1e-7


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


def test_no_generator_that_could_be_seeded():
    folder = pathlib.Path(dpnotebook.privacy.__file__).parent
    for file in folder.glob("*.py"):
        assert not re.search(r"np\.random|numpy\.random|import random\b|seed", file.read_text()), file.name
