"""What a report says of privacy: the guarantee in words and odds, and the method, of what was released alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING
from typing import TYPE_CHECKING

from dpnotebook.domain import Bins, Boolean, Categories, Dates, Range, Times
from dpnotebook.notebook import currency, formatting
from dpnotebook.notebook.cards.budget import budget_state
from dpnotebook.query.question import Question

if TYPE_CHECKING:
    from dpnotebook.domain import Attribute
    from dpnotebook.session.protected import ProtectedTable
    from dpnotebook.session.release import Release
    from dpnotebook.session.session import Session

LAPLACE = (
    "Every number was measured with discrete Laplace noise, drawn exactly on whole numbers, from a fresh key of the "
    "operating system for each question; there is no seed. Costs add up as epsilon."
)
GAUSSIAN = (
    "Every number was measured with rounded Gaussian noise, drawn exactly on whole numbers, from a fresh key of the "
    "operating system for each question; there is no seed. Costs add up as the mu² of Gaussian differential privacy, "
    "and are told as the epsilon that they are at the delta of the budget."
)
COMPOSED = (
    "Costs add up for each cell of the declared domain: questions about disjoint groups share one price, and what "
    "overlaps adds up. The total is that of the cell that was asked most."
)
PLANNED = (
    "What was measured was planned from the declared domain and from earlier answers, never from the data. Answers are "
    "the least-squares combination of all that was measured; that, and what was worked out from it, is post-processing."
)
INTERVALS = (
    "Intervals are of the noise, each by itself. They do not show what bounds, bins and samples of rows leave out, and "
    "the largest of many answers is likely too large."
)
PUBLIC = (
    "Not protected, because it was known without the data: the names of tables and columns, their types, the levels "
    "and bounds that were declared, and what was asked."
)
WORD = r"(?<!\w){}(?!\w)"


@dataclass(frozen=True)
class DeclaredColumn:
    """A declared column that the published answers are about."""

    table: str
    name: str
    words: str


def unit_words(protected: ProtectedTable) -> str:
    """Return what is protected in a table: `a row of 'patients'`, `one patient_id in 'visits', with all its rows`."""
    table = protected.table
    if table.unit is None:
        return f"a row of '{table.name}'"
    most = f", of which up to {table.max_rows:,} count" if table.max_rows is not None else ""
    return f"one {table.one} in '{table.name}', with all its rows{most}"


def guarantee(session: Session, tables: Sequence[ProtectedTable]) -> Iterator[str]:
    """Yield the guarantee in sentences.

    Parameters
    ----------
    session
        Whose answers are published.
    tables
        Those that the published answers are about.
    """
    budget, state = session.budget, budget_state(session)
    units = "; ".join(unit_words(table) for table in tables)
    kind = f"({budget.epsilon:g}, {budget.delta:g})" if budget.delta else f"{budget.epsilon:g}"
    factor = formatting.rounded(math.exp(budget.epsilon), 3, ROUND_CEILING)
    yield (
        f"All answers that have been or will be given from this budget, those of this report and all others, are "
        f"together {kind}-differentially private, with respect to adding or removing one privacy unit: {units}."
    )
    but = f", but for a probability of δ = {budget.delta:g}" if budget.delta else ""
    yield (
        f"Whatever is published would have come out almost as likely without any one of them: the probabilities "
        f"differ by a factor of at most e^ε = {factor}{but}. That holds whatever else a reader knows."
    )
    yield f"In odds: {currency.meaning(budget.epsilon, budget.delta)}."
    spent = session.spent
    if spent.epsilon:
        share = currency.percent(state.spent_fraction)
        at = f", at δ = {spent.delta:.3g}" if spent.delta else ""
        yield (
            f"So far {share} of the budget are spent, ε = {formatting.cost(spent.epsilon)}{at}, on "
            f"{formatting.plural(session.ledger.releases, 'release')}."
        )
    yield PUBLIC


def method(session: Session, tables: Sequence[ProtectedTable]) -> Iterator[str]:
    """Yield how the answers were made, in sentences."""
    yield noise_words(session)
    yield COMPOSED
    yield PLANNED
    for protected in tables:
        table = protected.table
        if table.unit is not None and table.max_rows is not None:
            yield (
                f"Of one {table.one} in '{table.name}' at most {table.max_rows:,} rows were counted, drawn at random "
                "where there were more."
            )
        elif table.unit is not None:
            yield (
                f"What one {table.one} in '{table.name}' adds was bounded for each question by itself: by a sample of "
                "its rows, or by the length of all that it adds."
            )
    yield INTERVALS
    yield from withheld(session)


def noise_words(session: Session) -> str:
    """Return which noise the answers have."""
    return GAUSSIAN if session.budget.law.needs_delta else LAPLACE


def withheld(session: Session) -> Iterator[str]:
    """Yield what is said of groups that a policy withholds, where there is one that does."""
    if session.policy is not None and session.policy.minimum is not None:
        yield (
            f"Groups with a noisy count below {session.policy.minimum:,} were withheld; that follows from what was "
            "released, and costs nothing."
        )


def columns(session: Session, releases: Sequence[Release]) -> list[DeclaredColumn]:
    """Return the declared columns that releases are about, with their bounds; of levels only how many there are."""
    found: dict[tuple[str, str], DeclaredColumn] = {}
    for release in releases:
        for name in tables_of(session, release):
            said = _all_words(release)
            for column, attribute in session.table(name).table.columns.items():
                if re.search(WORD.format(re.escape(column)), said):
                    found[name, column] = DeclaredColumn(name, column, declared(attribute))
    return list(found.values())


def tables_of(session: Session, release: Release) -> tuple[str, ...]:
    """Return the protected tables that a release is about; of a comparison, those of both sides."""
    if release.number:
        return tuple(getattr(release.question, "tables", ())) or (release.table,)
    charges = [session.ledger.charged(number) for number in release.sources]
    return tuple(dict.fromkeys(name for one in charges for name in (one.table, *one.plan.get("columns", ()))))


def declared(attribute: Attribute) -> str:
    """Return how an attribute was declared, without its levels."""
    missing = ", or missing" if attribute.null_index is not None else ""
    match attribute:
        case Boolean():
            return f"true or false{missing}"
        case Dates() | Times():
            return f"{type(attribute).__name__.lower()}, {attribute.size:,} levels{missing}"
        case Categories():
            return f"{attribute.size:,} declared levels{missing}"
        case Range() | Bins() if attribute.bounds is not None:
            low, high = (formatting.rounded(end, formatting.DIGITS) for end in attribute.bounds)
            of = f", {attribute.size:,} bins" if isinstance(attribute, Bins) else ", whole numbers"
            return f"{low} to {high}{of}; what is outside counts as the nearest bound{missing}"
    return f"{attribute.size:,} levels{missing}"


def _all_words(release: Release) -> str:
    question = release.question
    parts = [release.title, release.where, *release.keys, getattr(question, "text", "")]
    if isinstance(question, Question):
        parts += [str(measure.column) for measure in question.measures]
    return "\n".join(parts)
