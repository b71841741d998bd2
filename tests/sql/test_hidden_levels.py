"""Columns of few levels, of which noise shows some, as answers to a question: these are not taken for all there is."""

import contextlib

import numpy as np
import pandas as pd

import dpnotebook as dpn


def means_of(values, delta, sessions):
    """Return means of a column, and their standard errors, of people with one to five rows that nobody declared."""
    told = []
    for _ in range(sessions):
        with contextlib.closing(dpn.Session(dpn.Budget(3.0, delta), ":memory:")) as session:
            session.protect(values, "answers", unit="who")
            frame = session.sql("SELECT AVG(given) AS given FROM answers", epsilon=1.0).run().frame
            told.append((frame.given[0], frame.given_std_error[0]))
    return np.array(told, dtype=float)


def answers_of(people, levels, shares, random):
    rows = np.repeat(np.arange(people), random.choice([1, 2, 3, 5], people, p=[0.6, 0.2, 0.15, 0.05]))
    return pd.DataFrame({"who": rows, "given": random.choice(levels, rows.size, p=shares)})


def test_one_answer_of_five_is_not_taken_for_all():
    """Noise hid four of five answers, and the mean was 4 with an interval of a thousandth: one time in six."""
    frame = answers_of(320, [1, 2, 3, 4, 5], [0.1, 0.15, 0.3, 0.3, 0.15], np.random.default_rng(11))
    means, errors = means_of(frame, 1e-6, 24).T
    found = ~np.isnan(means)
    assert found.any()
    assert (errors[found] > 0.003).all()
    assert (np.abs(means - frame.given.mean())[found] < 1.2).all()


def test_small_answers_that_noise_hides_are_not_taken_for_larger_ones():
    """A score from 0 to 10 was taken to be from 4 to 16, and its mean told as 5.9 in place of 5."""
    frame = answers_of(500, list(range(11)), None, np.random.default_rng(5))
    means, errors = means_of(frame, 0.0, 16).T
    assert abs(np.nanmean(means) - frame.given.mean()) < 0.15 + 5 * np.nanmean(errors) / 4
