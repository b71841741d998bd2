"""Private aggregations written by hand for tests, and what an engine would add up for them."""

from fractions import Fraction

import numpy as np

from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.privacy.randomness import KEY_BYTES, Randomness
from dpnotebook.sql.aggregates.budget_split import shares
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.bounded_sums import ROWS_SAMPLED, Totals
from dpnotebook.sql.select import Aggregate, Contribution, Key, PrivateSelect


def select(*aggregates, kind="groups", most=1, selection="threshold", **more):
    """Return a private aggregation by one unknown key."""
    keys = more.pop("keys", (Key("g"),) if selection == "threshold" else ())
    return PrivateSelect(
        rows="SELECT u, k0, x0 FROM t",
        tables=("t",),
        public=(),
        keys=keys,
        aggregates=aggregates,
        inputs=1,
        contribution=Contribution(kind, most),
        selection=selection,
        **more,
    )


def pair(kind, *bounds, **more):
    """Return an aggregate of the first two inputs; their bounds stand one behind the other."""
    ends = [tuple(map(Fraction, some)) or None for some in (bounds[:2], bounds[2:])]
    other = Aggregate(kind, "", 1, ends[1], words="y", integer=more.get("integer", False))
    return Aggregate(kind, **({"name": kind, "input": 0, "bounds": ends[0], "words": kind, "other": other} | more))


def aggregate(kind, low=None, high=None, **more):
    """Return an aggregate of the first input."""
    bounds = None if low is None else (Fraction(low), Fraction(high))
    column = None if kind in ("count", "units") else 0
    usual = {"name": kind, "input": column, "bounds": bounds, "words": kind.upper()}
    return Aggregate(kind, **(usual | more))


def plan(chosen, accountant, units=UNITS, delta=Fraction(1, 10**6), found=None):
    """Return what is measured of a private aggregation at a cost in units."""
    return measuring(chosen, shares(chosen, units, accountant), accountant, delta, found)


def added(component, contribution, values):
    """Return what the rows of one unit in one group add to one component, as floats to be rounded; shape (width,).

    A slow and literal reading of what components mean; the rows are those that were sampled, of pairs two numbers each.
    """
    if component.other is not None:
        both = np.asarray(values, dtype=float).reshape(-1, 2)
        values, others = both[:, component.input], both[:, component.other.input]
    x = np.clip(np.asarray(values, dtype=float), float(component.low), float(component.high))
    step, middle = float(component.step), float(component.low + component.high) / 2
    low, high = float(component.low), float(component.high)
    groups = contribution.kind == "groups"
    match component.statistic:
        case "units":
            return np.array([1])
        case "count":
            return np.array([np.rint(np.clip(len(x), low, high) / step) if groups else len(x)])
        case "sum":
            total = np.clip(np.sum(values), low, high)
            return np.array([np.rint(total / step) if groups else np.rint(x / step).sum()])
        case "average":
            return np.array([np.rint((np.clip(np.mean(values), low, high) - middle) / step)])
        case "values":
            return np.array([1 if component.largest == 1 and groups else len(x)])
        case "missing":  # each of these rows has a value
            return np.array([0])
        case "centred":
            return np.array([np.rint((x - middle) / step).sum()])
        case "square":
            return np.array([np.rint((x - middle) ** 2 / step).sum()])
        case "product":
            half = component.largest // (ROWS_SAMPLED if groups else 1)
            ends = float(component.other.low), float(component.other.high)
            a, b = (
                np.rint((z.clip(*of) - sum(of) / 2) * (2 * half / (of[1] - of[0])))
                for z, of in ((x, (low, high)), (others, ends))
            )
            return np.array([np.rint(a * b / half).sum()])
        case "bins":
            return np.histogram(x, bins=np.array(component.edges))[0]


def totals(measured, units):
    """Return what an engine would find.

    Parameters
    ----------
    measured
        What is measured.
    units
        For each unit a mapping of groups to the values of its rows.
    """
    names = sorted({group for unit in units for group in unit})
    numbers = np.zeros((len(names), measured.width), dtype=np.int64)
    for unit in units:
        for group, values in unit.items():
            parts = [added(component, measured.contribution, values) for component in measured.components]
            numbers[names.index(group)] += np.concatenate(parts).astype(np.int64)
    return Totals(tuple((name,) for name in names), numbers)


def fixed_noise():
    """Return what draws noise of the real samplers from a key that is always the same.

    For tests of what is estimated from noise: whether the noise has its law is tested by itself, with fresh draws.
    """
    source = Randomness(bytes(KEY_BYTES)).source("noise")
    return lambda noise, scale, size, *_: draw_integers(noise, scale, size, source)
