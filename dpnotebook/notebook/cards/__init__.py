"""Cards of plans, releases, offers, purchases, strategies, budgets: made as data, then rendered as HTML and text."""

from dpnotebook.notebook.cards.budget import budget_card
from dpnotebook.notebook.cards.model import Card
from dpnotebook.notebook.cards.offer import offer_card
from dpnotebook.notebook.cards.plan import plan_card
from dpnotebook.notebook.cards.purchase import purchase_card
from dpnotebook.notebook.cards.release import folded_release, release_card
from dpnotebook.notebook.cards.render import as_bundle, as_html, as_text
from dpnotebook.notebook.cards.strategy import strategy_card

__all__ = [
    "Card",
    "as_bundle",
    "as_html",
    "as_text",
    "budget_card",
    "folded_release",
    "offer_card",
    "plan_card",
    "purchase_card",
    "release_card",
    "strategy_card",
]
