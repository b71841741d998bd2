"""Tests with many parameters run with some of them by default, and with the others where slow tests are asked for.

Marked `one_in(5)`, a test of 100 random tables or spellings runs for about 20 of them in CI: each is another chance to
find what the others miss, and together they take the time that a whole run has.
"""

from math import modf

GOLDEN_RATIO = (5**0.5 - 1) / 2  # its multiples lie evenly, so that every value of each of two parameters is met


def is_left_out(place, one_in):
    """Say whether a test is left out by default.

    Parameters
    ----------
    place
        Of its parameters among those of the same function, from 0. The first is never left out.
    one_in
        About one in how many is kept.
    """
    return modf(place * GOLDEN_RATIO)[0] >= 1 / one_in


def left_out(items):
    """Return the tests that are left out by default, of all that were collected, in their order."""
    places = {}
    found = []
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is not None:
            name = item.nodeid.partition("[")[0]
            place = places[name] = places.get(name, -1) + 1
            if is_left_out(place, *mark.args):
                found.append(item)
    return found
