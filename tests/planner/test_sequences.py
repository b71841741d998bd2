"""The generators of question sequences draw what they say."""

import numpy as np
import pytest


def test_ranges_have_the_moments_of_table_iii(sequences):
    drawn = sequences.ranges(20_000, np.random.default_rng(0))
    starts, ends, variances = map(np.array, zip(*drawn, strict=True))
    for values, mean, std in ((starts, 5_000, 10), (ends - starts, 320, 10), (variances, 250_000, 25_000)):
        assert values.mean() == pytest.approx(mean, abs=5 * std / np.sqrt(20_000))
        assert values.std() == pytest.approx(std, rel=0.03)


def test_wild_ranges_stay_in_the_domain(sequences):
    drawn = sequences.ranges(5_000, np.random.default_rng(1), 500, (320, 1_250), 200, (250_000, 500_000))
    assert all(0 <= start < end <= 500 and variance >= 2_500 for start, end, variance in drawn)


@pytest.mark.parametrize("seed", range(5))
def test_drilling_down_asks_what_it_says(sequences, seed):
    asked = sequences.drill_down(np.random.default_rng(seed))
    assert len(asked) == 40
    shapes = [(frozenset(q.keys), frozenset(q.where.items())) for q in asked]
    assert len(shapes) - len(set(shapes)) == 8
    for question in asked:
        assert 1 <= len(question.keys) <= 3
        assert len(question.where) <= 2
        assert not set(question.keys) & set(question.where)
        assert 25**2 <= question.variance <= 100**2
        for name, levels in question.where.items():
            assert 0 < len(set(levels)) == len(levels) < sequences.DRILL_SIZES[name]
            assert all(0 <= level < sequences.DRILL_SIZES[name] for level in levels)


def test_drilling_down_repeats_at_the_same_accuracy_and_at_others(sequences):
    same = other = 0
    for seed in range(20):
        asked = sequences.drill_down(np.random.default_rng(seed))
        for turn, question in enumerate(asked):
            earlier = {q.variance for q in asked[:turn] if (q.keys, q.where) == (question.keys, question.where)}
            same += bool(earlier) and question.variance in earlier
            other += bool(earlier) and question.variance not in earlier
    assert same + other == 160
    assert 50 < same < 110
