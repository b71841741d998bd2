"""The card of an offer: what a strategy for a whole workload costs at each error, and the code that buys it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpnotebook.notebook import svg, words
from dpnotebook.notebook.html import box, details, escape, line, quiet, table

if TYPE_CHECKING:
    from dpnotebook.offer import Offer

NOTHING = "nothing is spent by looking"


@dataclass(frozen=True)
class Price:
    """One line of the list: half-width of the worst answer's interval, what it costs, what would be left."""

    error: float
    epsilon: float
    left: float
    affordable: bool


def prices(offer: Offer) -> Iterator[Price]:
    """Yield the lines of an offer's price list, as it has them."""
    for row in offer.prices.itertuples(index=False):
        values: Any = row
        yield Price(float(values.error), float(values.epsilon), float(values.remaining), bool(values.affordable))


def offer_html(offer: Offer) -> str:
    """Return the price list as HTML that untrusted notebooks keep."""
    listed = list(prices(offer))
    parts = [
        f"<div><b>For sale</b> {quiet(f'· {NOTHING}')}</div>",
        line(f"<b>{escape(offer.title)}</b> {quiet(escape(scope(offer)))}"),
        line(escape(meaning(offer))),
    ]
    if listed:
        parts += [_list(offer, listed), *map(line, _advice(offer, listed))]
    rows = "\n".join(buying(offer, each) for each in listed if each.affordable)
    if rows:
        parts.append(details("The code that buys it", f'<pre style="margin:4px 0">{escape(rows)}</pre>'))
    return box(*parts)


def offer_text(offer: Offer) -> str:
    """Return the price list as aligned text."""
    rows = [f"For sale ({NOTHING})  {offer.title} {scope(offer)}", f"  {meaning(offer)}"]
    for each in prices(offer):
        error = f"±{words.error(each.error)} {offer.unit}"
        after = f"leaves ε {words.left(each.left)}" if each.affordable else "not enough budget"
        code = buying(offer, each) if each.affordable else ""
        rows.append(f"  {error:<16} ε {words.cost(each.epsilon):<9} {after:<18} {code}".rstrip())
    return "\n".join([*rows, *(f"  {text}" for text in _advice(offer, list(prices(offer))))])


def scope(offer: Offer) -> str:
    """Return the table, the rows and the number of answers of an offer."""
    where = f" where {offer.where}" if offer.where else ""
    return f"in {offer.table}{where} · {words.plural(offer.answers, 'answer')}"


def meaning(offer: Offer) -> str:
    """Return what is bought."""
    return (
        "Bought once, each of these answers costs nothing after that, within the error that was bought "
        f"({words.percent(offer.confidence)}); so does what follows from them."
    )


def buying(offer: Offer, price: Price) -> str:
    """Return the code that buys at a price."""
    return f"{offer.code}.buy(error={written(price.error)})"


def written(number: float) -> str:
    """Return a number as people write it in code: 25, 0.1."""
    return repr(float(number)).removesuffix(".0")


def _list(offer: Offer, listed: list[Price]) -> str:
    high = max(each.error for each in listed)
    rows, styles = [], []
    for each in listed:
        error = words.error(each.error)
        picture = svg.interval(-each.error, 0.0, each.error, -high, high, f"plus or minus {error}")
        after = words.left(each.left) if each.affordable else "not enough budget"
        rows.append((f"±{error} {escape(offer.unit)}", picture, words.cost(each.epsilon), after))
        styles.append("" if each.affordable else "opacity:0.55")
    return table((f"error, {words.percent(offer.confidence)}", "", "ε, once", "left after"), rows, "llrr", styles)


def _advice(offer: Offer, listed: list[Price]) -> Iterator[str]:
    if any(each.epsilon == 0 for each in listed):
        yield "What costs nothing is answered by what is recorded already."
    if listed and not any(each.affordable for each in listed):
        least = min(listed, key=lambda each: each.epsilon)
        if math.isfinite(least.epsilon):
            yield f"None of these fits what is left; the least needs ε {words.cost(least.epsilon)}."
