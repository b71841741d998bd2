"""Cards, each as text and as HTML that untrusted notebooks keep: a plan, a release, an offer, a strategy, a budget."""

from dpnotebook.notebook.budget_card import budget_html, budget_text
from dpnotebook.notebook.offer_card import offer_html, offer_text
from dpnotebook.notebook.plan_card import plan_html, plan_text
from dpnotebook.notebook.release_card import release_html, release_text
from dpnotebook.notebook.strategy_card import strategy_html, strategy_text

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
