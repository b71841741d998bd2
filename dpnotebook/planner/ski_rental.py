"""When a strategy is bought for questions that nobody asked yet: deterministic ski rental, with a bound that holds.

Who asks one question after another rents skis without knowing for how many days. Renting until the rent has come to the
price, and buying then, costs at most twice what was best in hindsight (Karlin, Manasse, Rudolph and Sleator,
"Competitive snoopy caching", Algorithmica 3, 1988). Here rent is what questions of one kind cost by themselves, beside
all that is known; skis are a strategy that answers those which are likely to come.

After every question of a kind, all of that kind have cost at most B times what they would have cost without purchases,
each beside what was known when it was asked. The proof has three lines. Let A be what a cell was charged and N what it
would have been charged without purchases, of at most N* in any cell.

1. A question that buys nothing is charged alike on both sides, to the same cells: A - N changes at purchases alone.
2. A purchase is made only where A - N is at most (B - 1) N* afterwards in every cell (`Replaced`).
3. N* never falls. So the dearest cell comes to max A <= N* + max (A - N) <= B N* then, and whatever is asked later.

Until a second purchase N is just what a session without purchases is charged. After it the account stays one of what
was known when each question was asked: had nothing been bought less would have been known, and questions would have
cost more, but on other levels here and there. Of 90 sequences that see both sessions and were made against purchases
one came to 2.13 times the total of a session without, after its second purchase, and none of the others past 2.

The second line is needed cell by cell, not for the dearest alone: a question that is measured by itself is charged to
some cells only, and others have something to spare. A strategy that uses that up is paid for where somebody asks dear
questions of just these cells afterwards, which would have cost nothing without it. While only the dearest cell was
bounded, totals came to 2.5 to 2.9 times (`tests/planner/test_ski_rental.py` has who asks them). Of ranges of one
attribute A - N is known level by level, so that a strategy may use what levels have to spare up to that; of group-bys
it is bounded by what all purchases cost, less what cells would have been charged at least. Where questions of several
kinds have bought, what the others are ahead by counts as well.

B also decides how much more is paid than by buying at once. Skis of price p that are bought when the rent has come to
r cost r + p: (r + p) / r times what never buying costs and (r + p) / p times what buying at once costs, and of these
two, whenever one buys, the inverses add up to 1. Both are 2 where r is p. That is `BOUND`: a hierarchy of ranges is
bought in one piece, and the rent before it is of little use to it. B = 3/2 would be 3 times what buying at once costs.

Marginals are bought by degrees (`BY_DEGREES`), and what was spent counts towards them: a group-by that was measured
adds to what is known, and less of the marginals is missing. Where a share s of the rent is taken off the price q that
they have at once, p is q - s r, and r + p comes to B r at r = q / (B - 1 + s): what is paid is B / (B - 1 + s) times q.
That is at most 2 where s is at least 1 - B / 2, so with B = 3/2 where a quarter of the rent counts; and a smaller
credit buys less rather than later. `tests/planner/test_bought_at_once.py` buys at first what sessions of drilling down
have bought by some question, and asks the same again: they have paid .94 to 1.6 times that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.spend import CellCost, CostTerm, Spend

Integers = NDArray[np.int64]
Purchases = Literal["auto", "offer", "never"]
PURCHASES: tuple[Purchases, ...] = get_args(Purchases)

GROUP_BYS = "group-bys"  # the kind of question that is not of one attribute
BOUND = Fraction(2)  # times what questions would have cost without purchases, where these are in one piece
BY_DEGREES = Fraction(3, 2)  # the same where any part of what is for sale can be bought
DEAREST = 2**56  # units, more than any budget has: sums of some are 64-bit integers
LEAST_ASKED = 4  # questions of a kind from which it is guessed what comes: nothing is bought before


@dataclass(frozen=True)
class PurchaseForecast:
    """What is expected of a purchase, in units of the session's total or as epsilon.

    Parameters
    ----------
    extra
        What it costs beyond the question that it is made with.
    without, later
        What a question of the kind costs without it, the mean since something was last bought; and, as is expected,
        with it.
    pays_after
        After how many such questions it has saved what it costs; None where it is not expected to.
    """

    extra: float
    without: float
    later: float
    pays_after: int | None

    def in_epsilon(self, epsilon: Callable[[int], float]) -> PurchaseForecast:
        """Return the same as epsilon, from units."""
        extra, without, later = (epsilon(math.ceil(max(units, 0))) for units in (self.extra, self.without, self.later))
        return PurchaseForecast(extra, without, later, self.pays_after)


@dataclass(frozen=True)
class Replaced:
    """What purchases for one kind of question took the place of: in each cell, as cells without it have more to spare.

    Parameters
    ----------
    bought
        What the purchases have cost in the dearest cell, in units.
    terms
        Of what would have been measured without them.
    paid
        Of what was measured, for ranges of one attribute; else none.
    ahead
        By how much the purchases have made any cell dearer, in units: a bound.
    """

    bought: int = 0
    terms: tuple[CostTerm, ...] = ()
    paid: tuple[CostTerm, ...] = ()
    ahead: int = 0

    def after(self, purchase: Mapping[str, Any]) -> Replaced:
        """Return the same after one more purchase, as a recorded plan has it."""
        terms, paid = CellCost.from_json(purchase["cost"]).terms, CellCost.from_json(purchase.get("paid", ())).terms
        bought = int(purchase["bound"])
        if paid:
            name = next((name for term in (*paid, *terms) for name in term.norms), "")
            further = int((_along(paid, name) - _along(terms, name)).max())
        else:
            further = bought - sum(map(_everywhere, terms))
        return Replaced(self.bought + bought, (*self.terms, *terms), (*self.paid, *paid), self.ahead + max(0, further))

    @classmethod
    def unsaid(cls, units: int) -> dict[str, Any]:
        """Return a purchase for ranges as plans have it, where an earlier version recorded only what it cost at most.

        It counts as having taken the place of nothing.
        """
        return {"bound": units, "cost": [], "paid": CellCost((CostTerm(Fraction(units), {}),)).to_json()}

    def credit(self, spend: Spend, instead: CellCost, bound: Fraction, others: int = 0) -> int:
        """Return what a question may cost together with a purchase, for all that follows to stay within the bound.

        Later questions may be charged where least was saved, and cost nothing there without purchases: what purchases
        cost beyond what they replaced in the cell where that is least may never pass `bound` - 1 of the whole.

        Parameters
        ----------
        spend
            What every cell of the table has cost.
        instead
            What the question would cost in each cell without a purchase.
        bound
            How many times what all would have cost without purchases it may have cost.
        others
            By how much purchases for other kinds of questions have made cells dearer, in units.
        """
        terms = *self.terms, *instead.terms
        without = spend.maximum + spend.increase(CellCost(terms)) - self.bought - others
        return math.floor((bound - 1) * without) + sum(map(_everywhere, terms)) - self.bought - others

    def credit_along(self, name: str, spend: Spend, instead: CellCost, bound: Fraction, others: int = 0) -> Integers:
        """Return the same for ranges of one attribute at each of its levels, in units, shape (levels,).

        Parameters
        ----------
        name
            The attribute.
        spend, instead, bound, others
            As for `credit`; of a spend whose levels add up nowhere.
        """
        own = _along(instead.terms, name)
        before = _along(self.paid, name) - _along(self.terms, name)
        without = int((spend.by_attribute(name) - before + own).max()) - others
        return np.asarray(math.floor((bound - 1) * without) - others - before + own)


def cost_along(name: str, cost: CellCost, levels: int) -> Integers:
    """Return what something costs at each level of the one attribute that it depends on, in units, shape (levels,)."""
    return np.broadcast_to(_along(cost.terms, name), (levels,))


def _along(terms: Sequence[CostTerm], name: str) -> Integers:
    """Return what terms that depend on no other attribute cost at each level, or everywhere."""
    total = np.zeros(1, dtype=np.int64)
    for term in terms:
        norms, rate = term.norms.get(name, np.ones(1, dtype=np.int64)), term.rate
        kinds, place = np.unique(norms, return_inverse=True)
        units = np.array([min(math.ceil(rate * int(norm)), DEAREST) for norm in kinds], dtype=np.int64)
        total = total + units[place]
    return total


def _everywhere(term: CostTerm) -> int:
    """Return what every cell is charged at least."""
    return math.ceil(term.rate * math.prod(int(norm.min()) for norm in term.norms.values()))


@dataclass(frozen=True)
class Rent:
    """What questions of one kind have cost by themselves since a strategy was last bought for them.

    Parameters
    ----------
    paid
        In units of the session's total.
    since
        How many questions that was, free ones too.
    asked
        How many there were in all.
    """

    paid: int = 0
    since: int = 0
    asked: int = 0

    def after(self, paid: int, bought: bool) -> Rent:
        """Return the rent after one more question, which cost so much, with a purchase or without."""
        return Rent(0, 0, self.asked + 1) if bought else Rent(self.paid + paid, self.since + 1, self.asked + 1)

    def forecast(self, alone: int, price: int, still: float) -> PurchaseForecast:
        """Return what is expected of a purchase.

        Parameters
        ----------
        alone
            What the question that it is made with would cost without it, in units.
        price
            What both cost, in units.
        still
            Which share of what they cost without it later questions are expected to cost.
        """
        extra, without = price - alone, (self.paid + alone) / (self.since + 1)
        saved = without * (1 - still)
        return PurchaseForecast(
            extra, without, without * still, math.ceil(max(extra, 0) / saved) if saved > 0 else None
        )

    def credit(self, alone: int, bound: Fraction = BOUND) -> int:
        """Return what a question may cost together with a purchase; 0 where nothing may be bought yet.

        Parameters
        ----------
        alone
            What the question would cost without a purchase, in units.
        bound
            How many times what questions would have cost without purchases all of them may have cost.
        """
        return math.floor(bound * (self.paid + alone)) - self.paid if self.asked + 1 >= LEAST_ASKED else 0
