"""What a card says of an answer that may have been picked for what it showed, which its interval knows nothing of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnotebook.notebook import currency, formatting
from dpnotebook.notebook.cards.model import Line, line, strong

if TYPE_CHECKING:
    from dpnotebook.planner.picked import Picked
    from dpnotebook.planner.plan import Plan
    from dpnotebook.session.release import Release


def picked_lines(plan: Plan) -> list[Line]:
    """Return the lines of a plan card; none where there is nothing to pick from."""
    if plan.picked is None:
        return []
    found = [
        line(f"{_sentence(plan)}.", name="picked?", mark="⚠"),
        line(f"In {_joint(plan.picked)} {_holds(plan.picked)}.", name="joint"),
    ]
    if plan.afresh is not None:
        again = plan.afresh
        price = currency.price(again.budget.cost_fraction, again.cost.epsilon)
        found.append(line(strong("Measured afresh"), f"it costs {price}: {code_afresh(again)}", name="afresh"))
    return found


def picked_note(release: Release) -> str:
    """Return what a release card says; empty where there is nothing to pick from."""
    if release.picked is None:
        return ""
    return (
        f"If you asked because it stood out among the {release.picked.rows:,} rows of release "
        f"#{release.picked.release}, this interval is too narrow: fresh=True measures anew, and in "
        f"{_joint(release.picked)} {_holds(release.picked)}"
    )


def code_afresh(plan: Plan) -> str:
    """Return the question as code that measures it anew."""
    return f"{plan.code.removesuffix(')')}, fresh=True)"


def _sentence(plan: Plan) -> str:
    assert plan.picked is not None
    return (
        f"If you ask because this stood out among the {plan.picked.rows:,} rows of release #{plan.picked.release}, "
        f"±{formatting.error(plan.error)} is too narrow"
    )


def _joint(picked: Picked) -> str:
    return f"session.release({picked.release}).simultaneous()"


def _holds(picked: Picked) -> str:
    return f"intervals hold for all {picked.rows:,} rows at once, for nothing"
