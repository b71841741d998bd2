"""The card of an offer: what a strategy for a whole workload costs at each error, and the code that buys it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpnotebook.notebook import formatting, svg
from dpnotebook.notebook.html import box, details, escape, line, quiet, table

if TYPE_CHECKING:
    from dpnotebook.session.offer import Offer

NOTHING = "nothing is spent by looking"


@dataclass(frozen=True)
class PriceLine:
    """One line of the list: half-width of the worst answer's interval, what it costs, what would be left."""

    error: float
    epsilon: float
    left: float
    affordable: bool


@dataclass(frozen=True)
class Listing:
    """An offer as it stands now: every price of it is a plan, so they are worked out once for text and picture.

    Parameters
    ----------
    title, scope, unit
        What is offered; of which table, which rows and how many answers; what they are counted in.
    confidence
        Probability that an interval holds the exact answer.
    code
        The Python that makes the offer.
    prices
        The list.
    """

    title: str
    scope: str
    unit: str
    confidence: float
    code: str
    prices: tuple[PriceLine, ...]


def listed(offer: Offer) -> Listing:
    """Return an offer with its prices as the ledger stands now."""
    where = f" where {offer.where}" if offer.where else ""
    scope = f"in {offer.table}{where} · {formatting.plural(offer.answers, 'answer')}"
    found = []
    for row in offer.prices.itertuples(index=False):
        values: Any = row
        price = PriceLine(float(values.error), float(values.epsilon), float(values.remaining), bool(values.affordable))
        found.append(price)
    return Listing(offer.title, scope, offer.unit, offer.confidence, offer.code, tuple(found))


def offer_html(offer: Listing) -> str:
    """Return the price list as HTML that untrusted notebooks keep."""
    parts = [
        f"<div><b>For sale</b> {quiet(f'· {NOTHING}')}</div>",
        line(f"<b>{escape(offer.title)}</b> {quiet(escape(offer.scope))}"),
        line(escape(meaning(offer))),
    ]
    if offer.prices:
        parts += [_table(offer), *map(line, _advice(offer))]
    rows = "\n".join(buying(offer, each) for each in offer.prices if each.affordable)
    if rows:
        parts.append(details("The code that buys it", f'<pre style="margin:4px 0">{escape(rows)}</pre>'))
    return box(*parts)


def offer_text(offer: Listing) -> str:
    """Return the price list as aligned text."""
    rows = [f"For sale ({NOTHING})  {offer.title} {offer.scope}", f"  {meaning(offer)}"]
    for each in offer.prices:
        error = f"±{formatting.error(each.error)} {offer.unit}"
        after = f"leaves ε {formatting.left(each.left)}" if each.affordable else "not enough budget"
        code = buying(offer, each) if each.affordable else ""
        rows.append(f"  {error:<16} {_price(each):<11} {after:<18} {code}".rstrip())
    return "\n".join([*rows, *(f"  {text}" for text in _advice(offer))])


def meaning(offer: Listing) -> str:
    """Return what is bought."""
    return (
        "Bought once, each of these answers costs nothing after that, within the error that was bought "
        f"({formatting.percent(offer.confidence)}). "
        "What follows from them costs nothing either, at an error of its own."
    )


def buying(offer: Listing, price: PriceLine) -> str:
    """Return the code that buys at a price."""
    return f"{offer.code}.buy(error={written(price.error)})"


def written(number: float) -> str:
    """Return a number as people write it in code: 25, 0.1."""
    return repr(float(number)).removesuffix(".0")


def _price(price: PriceLine) -> str:
    return f"ε {formatting.cost(price.epsilon)}" if price.epsilon else "free"


def _table(offer: Listing) -> str:
    high = max(each.error for each in offer.prices)
    rows, styles = [], []
    for each in offer.prices:
        error = formatting.error(each.error)
        picture = svg.interval(-each.error, 0.0, each.error, -high, high, f"plus or minus {error}")
        after = formatting.left(each.left) if each.affordable else "not enough budget"
        rows.append((f"±{error} {escape(offer.unit)}", picture, _price(each).removeprefix("ε "), after))
        styles.append("" if each.affordable else "opacity:0.55")
    return table((f"error, {formatting.percent(offer.confidence)}", "", "ε, once", "left after"), rows, "llrr", styles)


def _advice(offer: Listing) -> Iterator[str]:
    if any(each.epsilon == 0 for each in offer.prices):
        yield "What is free is answered by what is recorded already."
    if offer.prices and not any(each.affordable for each in offer.prices):
        least = min(each.epsilon for each in offer.prices)
        if math.isfinite(least):
            yield f"None of these fits what is left; the least needs ε {formatting.cost(least)}."
