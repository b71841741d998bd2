"""Cards: a plan, a release, a strategy and a budget, each as text and as HTML that survives untrusted notebooks."""

from dpnotebook.notebook.budget_card import budget_html, budget_text
from dpnotebook.notebook.plan_card import plan_html, plan_text
from dpnotebook.notebook.release_card import release_html, release_text
from dpnotebook.notebook.strategy_card import strategy_html, strategy_text

__all__ = [
    "budget_html",
    "budget_text",
    "plan_html",
    "plan_text",
    "release_html",
    "release_text",
    "strategy_html",
    "strategy_text",
]
