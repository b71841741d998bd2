"""Cards, each as text and as HTML that untrusted notebooks keep: a plan, a release, an offer, a strategy, a budget."""

from dpnotebook.notebook.cards.budget import budget_html, budget_text
from dpnotebook.notebook.cards.offer import offer_html, offer_text
from dpnotebook.notebook.cards.plan import plan_html, plan_text
from dpnotebook.notebook.cards.release import release_html, release_text
from dpnotebook.notebook.cards.strategy import strategy_html, strategy_text

__all__ = [
    "budget_html",
    "budget_text",
    "offer_html",
    "offer_text",
    "plan_html",
    "plan_text",
    "release_html",
    "release_text",
    "strategy_html",
    "strategy_text",
]
