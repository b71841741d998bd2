"""What reuse has spared a session, from the plans that the ledger keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dpnotebook.privacy.accountant import Accountant
from dpnotebook.session.charges import ChargeSummary


@dataclass(frozen=True)
class Saving:
    """What reuse has spared a session.

    Parameters
    ----------
    paid, alone
        What was spent, and what it would have been had every question been measured alone, each as epsilon.
    share
        How much less was spent, as a fraction of what measuring alone would have taken; 0 where it was not less.
    how
        For every release with a part in it: "free", "refined", "reuse" or "purchase", by its number.
    """

    paid: float
    alone: float
    share: float
    how: Mapping[int, str]


def saving(charges: Iterable[ChargeSummary], accountant: Accountant) -> Saving:
    """Return what reuse has spared, from the charges of a ledger.

    A question that was asked again is not counted: it was no charge.
    """
    paid, whole, words = 0, 0, {}
    for charge in charges:
        paid += charge.units
        whole += charge.alone
        if charge.how:
            words[charge.number] = charge.how
    epsilon = accountant.epsilon
    return Saving(epsilon(paid), epsilon(whole), max(0.0, 1 - paid / whole) if whole else 0.0, words)
