"""Cards as a reader gets them: made, then rendered as HTML or as text."""

from dpnotebook.notebook import cards


def plan_html(*shown, **options):
    return cards.as_html(cards.plan_card(*shown, **options))


def plan_text(*shown, **options):
    return cards.as_text(cards.plan_card(*shown, **options))


def release_html(*shown):
    return cards.as_html(cards.release_card(*shown))


def release_text(*shown):
    return cards.as_text(cards.release_card(*shown))


def budget_html(session):
    return cards.as_html(cards.budget_card(session))


def budget_text(session):
    return cards.as_text(cards.budget_card(session))


def offer_html(offer):
    return cards.as_html(cards.offer_card(offer))


def offer_text(offer):
    return cards.as_text(cards.offer_card(offer))
