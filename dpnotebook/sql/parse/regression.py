"""REGR_SLOPE, REGR_INTERCEPT, REGR_R2 and REGR_COUNT: a line through pairs, by the moments that it follows from.

Over released groups, as where a trend is asked of counts by year, that is free. Over protected rows the moments are
what is measured: COVAR_POP and the like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from dpnotebook.dialect.text import DIALECT, Text
from dpnotebook.sql.parse.calls import call_of
from dpnotebook.sql.parse.spellings import put

Y, X = '"the dependent one"', '"the independent one"'
Y_OF_PAIRS, X_OF_PAIRS = f"CASE WHEN {X} IS NOT NULL THEN {Y} END", f"CASE WHEN {Y} IS NOT NULL THEN {X} END"
SLOPE = f"COVAR_POP({Y}, {X}) / NULLIF(VAR_POP({X_OF_PAIRS}), 0)"
MOMENTS: dict[type[exp.Func], str] = {
    exp.RegrSlope: SLOPE,
    exp.RegrIntercept: f"AVG({Y_OF_PAIRS}) - {SLOPE} * AVG({X_OF_PAIRS})",
    exp.RegrR2: f"POWER(CORR({Y}, {X}), 2)",
    exp.RegrCount: f"COUNT({Y_OF_PAIRS})",
}


def with_moments(tree: exp.Expr, read: Callable[[str], exp.Expr], text: Text) -> exp.Expr:
    """Return a tree with moments in the place of lines.

    Parameters
    ----------
    tree
        The statement as it is being read; it is changed in place.
    read
        Gives an item of a list, as it is read.
    text
        The statement.

    Raises
    ------
    SQLError
        If one is of an aggregate, or of one column.
    """
    for node in list(tree.find_all(*MOMENTS)):
        within = (part for part in node.walk() if part is not node)
        if any(call_of(part) is not None or isinstance(part, tuple(MOMENTS)) for part in within):
            raise text.error("an aggregate of an aggregate is not supported; aggregate in a query in FROM first", node)
        kind = next(kind for kind in MOMENTS if isinstance(node, kind))
        if node.expression is None:
            raise text.error(f"this is of two columns, the dependent one first: {kind.sql_name()}(y, x)", node)
        made: exp.Expr = exp.paren(read(MOMENTS[kind]).copy())
        parts = {name.strip('"'): part for name, part in ((Y, node.this), (X, node.expression))}
        for call in [one for one in made.walk() if call_of(one) is not None]:
            words = call.meta["call"].words
            for name, part in parts.items():
                words = words.replace(f'"{name}"', part.sql(DIALECT))
            call.meta["call"] = replace(call.meta["call"], words=words)
        for column in list(made.find_all(exp.Column)):
            column.replace(exp.paren(parts[column.name].copy()))
        if isinstance(node.parent, exp.Select):  # called as DuckDB calls it
            name, arguments = node.sql(DIALECT).split("(", 1)
            made = exp.alias_(made, f"{name.lower()}({arguments}", quoted=True)
        put(made, node)
    return tree
