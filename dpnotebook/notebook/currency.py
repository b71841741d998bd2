"""The one currency of all that is shown: percent of the budget, with epsilon after it; and what a budget means.

With delta, epsilons do not add up and percents do. What is spent is rounded up and what is left is the rest, so that
the percents of a page add up to 100 as they are written.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from dpnotebook.notebook import formatting

if TYPE_CHECKING:
    from dpnotebook.planner.plan import BudgetState, Rest

WHOLE = Decimal(100)
FEWEST, MOST = 1, 6  # decimals of a percentage: one, and more where a part is so small that it would not be seen
LEAST_OTHERS = Decimal("0.001")  # of 100: fewer who do not think so are as good as none
HALF = 50  # of 100: what somebody thinks before; where the odds move most


def percents(spent: float, this: float) -> tuple[str, str, str]:
    """Return what is spent, what this takes and what is left as percentages that add up to 100.

    Parameters
    ----------
    spent, this
        Fractions of the budget; where they are more than it all, nothing is left.
    """
    decimals = max(_decimals(part) for part in (spent, this))
    before, taken = (_rounded_up(part, decimals) for part in (spent, this))
    left = WHOLE - before - taken
    if left < 0 and spent + this <= 1 + 1e-9:  # both were rounded up
        before, left = WHOLE - taken, Decimal(0)
    return _written(before), _written(taken), _written(max(left, Decimal(0)))


def percent(fraction: float) -> str:
    """Return a part of the budget that is paid, rounded up to two digits and more where they are above the point."""
    return _written(_rounded_up(fraction, _decimals(fraction)))


def price(fraction: float, epsilon: float) -> str:
    """Return what something costs: `10% of the budget (ε 0.1)`; `nothing` where it is free."""
    return f"{percent(fraction)} of the budget (ε {formatting.cost(epsilon)})" if fraction > 0 else "nothing"


def short_price(fraction: float, epsilon: float) -> str:
    """Return what something costs, where it is said of what: `10% (ε 0.1)`; `nothing` where it is free."""
    return f"{percent(fraction)} (ε {formatting.cost(epsilon)})" if fraction > 0 else "nothing"


def price_known(rest: Rest) -> str:
    """Return what is known of the price of an error before a first look tells it, in words."""
    if rest.sure is None:
        return f"what {rest.asked} takes is not known yet"
    price = f"{rest.asked} takes {percent(rest.sure)} of the budget"
    return f"for as many rows as one unit may have {price}, and mostly far less for those that there are"


def cost_in(state: BudgetState, epsilon: float) -> str:
    """Return an epsilon as a part of a budget: `10% (ε 0.1)`."""
    return short_price(state.share(epsilon), epsilon)


def meaning(epsilon: float, delta: float = 0.0) -> str:
    """Return what the whole budget means, in odds, about everything that is ever answered from it.

    Parameters
    ----------
    epsilon, delta
        The budget. Odds change by a factor of e^epsilon at most, so of 100 who think alike 50 become at most
        100 / (1 + e^-epsilon); all but a part delta of the answers' probability keeps to that.
    """
    most = _of_hundred(epsilon)
    thought = f"someone who thinks {HALF} of 100 that a person is in the data"
    said = f"{thought} could think at most {most} after everything here"
    return f"{said}, but for a chance of 1 in {formatting.left(1 / delta)} (δ)" if delta else said


def _of_hundred(epsilon: float) -> str:
    """Return how many of 100 could think so, rounded up: 73.2, and not 100 where it is 99.97."""
    others = Decimal(100 / (1 + math.exp(min(epsilon, 100.0))))
    if not LEAST_OTHERS <= others < 1:
        return formatting.rounded(100 / (1 + math.exp(-epsilon)), rounding=ROUND_CEILING)
    return f"{100 - others.quantize(Decimal(1).scaleb(others.adjusted()), rounding=ROUND_FLOOR):f}"


def written(epsilon: float, delta: float = 0.0) -> str:
    """Return a whole budget: `ε 1`, `ε 1, δ 1e-6`."""
    return f"ε {formatting.rounded(epsilon)}" + (f", δ {formatting.rounded(delta)}" if delta else "")


def _decimals(fraction: float) -> int:
    """Return the decimals with which two digits of a percentage are seen."""
    if not 0 < fraction < math.inf:
        return FEWEST
    return min(MOST, max(FEWEST, 1 - math.floor(math.log10(100 * fraction))))


def _rounded_up(fraction: float, decimals: int) -> Decimal:
    # Nine digits first: what is 10% to the person who asked is not 10.1% after rounding up.
    exact = 100 * Decimal(f"{max(fraction, 0.0):.9g}") if math.isfinite(fraction) else Decimal("Infinity")
    return exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_CEILING) if exact.is_finite() else exact


def _written(number: Decimal) -> str:
    text = f"{number:,f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "%"
