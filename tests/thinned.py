"""Tests with many parameters run with some of them by default, and with the others where slow tests are asked for.

Marked `one_in(5)`, a test of 100 random tables or spellings runs for about 20 of them in CI: each is another chance to
find what the others miss, and together they take the time that a whole run has. Where two laws of noise are all that
differs, a test runs with one of them, about every other one with the second: `one_in(3, first=1)`. Hypothesis tries a
third of its examples in CI, but where privacy is tested.
"""

from math import modf

from hypothesis import settings

GOLDEN_RATIO = (5**0.5 - 1) / 2  # its multiples lie evenly, so that every value of each of two parameters is met


def is_left_out(place, one_in, first=0):
    """Say whether a test is left out by default.

    Parameters
    ----------
    place
        Of its parameters among those of the same function, from 0.
    one_in
        About one in how many is kept.
    first
        The place that is never left out.
    """
    return modf((place - first) * GOLDEN_RATIO)[0] % 1 >= 1 / one_in


def left_out(items):
    """Return the tests that are left out by default, of all that were collected, in their order."""
    places = {}
    found = []
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is not None:
            name = item.nodeid.partition("[")[0]
            place = places[name] = places.get(name, -1) + 1
            if is_left_out(place, *mark.args, **mark.kwargs):
                found.append(item)
    return found


def with_fewer_examples(test, one_in=3, least=10):
    """Let Hypothesis try some of its examples: where all are the same at every run, others would find nothing new.

    Parameters
    ----------
    test
        The function of a test, with `@given`; once it has fewer it is left as it is.
    one_in
        About one in how many examples is tried.
    least
        How many are tried all the same.
    """
    test = getattr(test, "__func__", test)
    if hasattr(test, "hypothesis") and not hasattr(test, "examples_before"):
        asked = test._hypothesis_internal_use_settings  # @settings is refused where there is one already
        test.examples_before = asked.max_examples
        fewer = min(asked.max_examples, max(least, asked.max_examples // one_in))
        test._hypothesis_internal_use_settings = settings(asked, max_examples=fewer)
