"""The card of an offer: what a strategy for a whole workload costs at each error, and the code that buys it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpnotebook.notebook import currency, formatting, svg
from dpnotebook.notebook.cards.model import Block, Card, Code, Fold, Heading, Picture, Table, cell, line
from dpnotebook.notebook.cards.plan import NOT_ENOUGH, NOTHING_SPENT

if TYPE_CHECKING:
    from dpnotebook.session.offer import Offer


@dataclass(frozen=True)
class PriceLine:
    """One price: half-width of the worst answer's interval, what it costs, also as a part of the budget."""

    error: float
    epsilon: float
    share: float
    affordable: bool


def offer_card(offer: Offer) -> Card:
    """Return the price list of an offer as the ledger stands now."""
    state, prices = offer.budget, []
    for row in offer.prices.itertuples(index=False):
        values: Any = row
        error, epsilon = float(values.error), float(values.epsilon)
        prices.append(PriceLine(error, epsilon, state.share(epsilon), bool(values.affordable)))
    where = f" where {offer.where}" if offer.where else ""
    scope = f"in {offer.table}{where} · {formatting.plural(offer.answers, 'answer')}"
    return Card(
        (Heading(f"For sale: {offer.title}", scope, NOTHING_SPENT), *_blocks(offer, prices, state.spent_fraction))
    )


def _blocks(offer: Offer, prices: Sequence[PriceLine], spent: float) -> Iterator[Block]:
    yield line(
        "Bought once, each of these answers costs nothing after that, within the error that was bought "
        f"({formatting.percent(offer.confidence)}). "
        "What follows from them costs nothing either, at an error of its own."
    )
    if prices:
        yield _table(offer, prices, spent)
        yield from map(line, _advice(prices))
    rows = "\n".join(buying(offer, each) for each in prices if each.affordable)
    if rows:
        yield Fold("The code that buys it", (Code("", rows, name="code"),))


def buying(offer: Offer, price: PriceLine) -> str:
    """Return the code that buys at a price."""
    return f"{offer.code}.buy(error={written(price.error)})"


def written(number: float) -> str:
    """Return a number as people write it in code: 25, 0.1."""
    return repr(float(number)).removesuffix(".0")


def _table(offer: Offer, prices: Sequence[PriceLine], spent: float) -> Table:
    high = max(each.error for each in prices)
    rows = []
    for each in prices:
        error = formatting.error(each.error)
        picture = svg.interval(-each.error, 0.0, each.error, -high, high, f"plus or minus {error}")
        price = currency.percent(each.share) if each.share else "free"
        epsilon = formatting.cost(each.epsilon) if each.epsilon else "0"
        left = currency.percents(spent, each.share)[2] if each.affordable else NOT_ENOUGH
        rows.append((cell(f"±{error} {offer.unit}"), cell(Picture(picture)), cell(price), cell(epsilon), cell(left)))
    return Table(
        head=(f"error, {formatting.percent(offer.confidence)}", "", "of the budget, once", "ε", "left after"),
        align="llrrr",
        rows=tuple(rows),
        faint=frozenset(place for place, each in enumerate(prices) if not each.affordable),
    )


def _advice(prices: Sequence[PriceLine]) -> Iterator[str]:
    if any(each.share == 0 for each in prices):
        yield "What is free is answered by what is recorded already."
    if not any(each.affordable for each in prices):
        least = min(prices, key=lambda each: each.epsilon)
        if math.isfinite(least.epsilon):
            yield f"None of these fits what is left; the least needs {currency.price(least.share, least.epsilon)}."
