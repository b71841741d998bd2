"""What a histogram of values would tell with less noise: what is found stays, noise of its own foretells nothing."""

import numpy as np

from dpnotebook.sql.value_histogram import ValueHistogram

EDGES = np.concatenate([np.linspace(-4, 4, 33), 4 * 2.0 ** np.arange(1, 9)])


def histogram(random, scale):
    values = random.normal(size=20_000)
    counts = np.histogram(values, EDGES)[0] + np.rint(random.normal(0, scale, EDGES.size - 1))
    return ValueHistogram((-4, 4), tuple(EDGES), tuple(map(int, counts)), 1, scale)


def test_far_bins_that_only_noise_fills_are_empty_in_the_next_one():
    random = np.random.default_rng(1)
    for _ in range(20):
        now = histogram(random, 60.0)
        then = now.anew(0.25)
        assert then.scale == 15.0
        assert np.array(then.counts)[35:].sum() <= 60
        assert np.array(then.counts)[10:20].tolist() == np.array(now.counts)[10:20].tolist()


def test_one_that_noise_hides_is_foretold_by_itself():
    hidden = ValueHistogram(None)
    assert hidden.anew(0.5) is hidden
