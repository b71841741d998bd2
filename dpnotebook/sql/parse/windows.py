"""Windows: which functions have one, where it may stand, how its frame is written, and names that WINDOW gives.

They are over what was released only; which select is over that is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.tokens import TokenType

from dpnotebook.dialect.text import Text
from dpnotebook.sql.parse.calls import call_of
from dpnotebook.sql.parse.literals import Tokens, is_bare
from dpnotebook.sql.parse.marking import closing

UNARY = frozenset({"this"})
NONE = frozenset[str]()
RANKED = frozenset({"expressions"})
SHIFTED = frozenset({"this", "offset", "default"})
# What stands before OVER, and the parts of each; as everywhere, without the underscore behind Python's keywords.
FUNCTIONS: dict[type[exp.Expr], frozenset[str]] = {
    exp.RowNumber: NONE,
    exp.Rank: RANKED,
    exp.DenseRank: RANKED,
    exp.PercentRank: RANKED,
    exp.CumeDist: RANKED,
    exp.Ntile: UNARY,
    exp.Lag: SHIFTED,
    exp.Lead: SHIFTED,
    exp.FirstValue: UNARY,
    exp.LastValue: UNARY,
    exp.NthValue: frozenset({"this", "offset"}),
    exp.Count: frozenset({"this", "big_int"}),
    exp.CountIf: UNARY,
    exp.Sum: UNARY,
    exp.Avg: UNARY,
    exp.Min: UNARY,
    exp.Max: UNARY,
    exp.Median: UNARY,
    exp.Variance: UNARY,
    exp.VariancePop: UNARY,
    exp.Stddev: UNARY,
    exp.StddevSamp: UNARY,
    exp.StddevPop: UNARY,
}
AROUND = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)  # what may stand between a function and its window
PARTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "alias", "over"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side", "exclude"}),
    exp.Qualify: UNARY,
}
HAVE_WINDOWS = (
    "ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE, LAG, LEAD, FIRST_VALUE, LAST_VALUE, NTH_VALUE, "
    "COUNT, SUM, AVG, MIN, MAX, MEDIAN, VAR and STDDEV"
)
PLACES = ("expressions", "qualify", "order", "windows")
BOUND = (
    r"(?:UNBOUNDED (?:PRECEDING|FOLLOWING)|CURRENT ROW|\d+(?:\.\d+)? (?:PRECEDING|FOLLOWING)"
    r"|INTERVAL \S+ \w+ (?:PRECEDING|FOLLOWING))"
)
EXCLUDED = r"(?: EXCLUDE (?:CURRENT ROW|GROUP|TIES|NO OTHERS))?"
FRAME = re.compile(rf"(?:ROWS|RANGE|GROUPS) (?:BETWEEN {BOUND} AND {BOUND}|{BOUND}){EXCLUDED}")


def parts_of(node: exp.Expr) -> frozenset[str] | None:
    """Return the parts that a node of a window may have; None where it is none, or stands where it can be none."""
    if type(node) in PARTS:
        return PARTS[type(node)]
    if not _before_window(node):
        return None
    if isinstance(node, AROUND):
        return frozenset({"this", "expression"})
    return FUNCTIONS.get(type(node))


INSTEAD = {
    "RATIO_TO_REPORT": "write COUNT(*) / SUM(COUNT(*)) OVER ()",
    **dict.fromkeys(
        ("PERCENTILE_CONT", "PERCENTILE_DISC"),
        "group by what stands in PARTITION BY: SELECT column, MEDIAN(value) FROM t GROUP BY column",
    ),
}


def check_window(node: exp.Expr, text: Text) -> None:
    """Refuse a window of what has none, or in a place where none can stand.

    Raises
    ------
    SQLError
        Pointing at the window.
    """
    if not isinstance(node, exp.Window) or node.arg_key == "windows":
        return
    function = node.this
    while isinstance(function, AROUND):
        function = function.this
    if type(function) not in FUNCTIONS:
        called = text.words(function).split("(")[0].strip().upper()
        instead = INSTEAD.get(called, f"OVER follows {HAVE_WINDOWS}")
        raise text.error(f"{called} has no window; {instead}", node)
    if isinstance(function, exp.Rank | exp.DenseRank | exp.PercentRank | exp.CumeDist) and function.expressions:
        raise text.error("the parentheses of a rank are empty: RANK() OVER (ORDER BY column)", node)
    below: exp.Expr = node
    while (above := below.parent) is not None and not isinstance(above, exp.Query):
        if isinstance(above, exp.Window | exp.AggFunc) or call_of(above) is not None:
            raise text.error("a window cannot stand in an aggregate or in another window; put it in FROM first", node)
        below = above
    if below.arg_key not in PLACES:
        message = "a window stands in the list, in QUALIFY and in ORDER BY; for a condition on one write QUALIFY"
        raise text.error(message, node)


def check_frames(tokens: Tokens, text: Text) -> None:
    """Refuse frames in which words are missing, which the parser would supply.

    Parameters
    ----------
    tokens
        Of the statement.
    text
        The statement.

    Raises
    ------
    SQLError
        Pointing at the first word of the frame.
    """
    for body in _bodies(tokens):
        start = next((place for place, token in enumerate(body) if is_bare(token, "ROWS", "RANGE", "GROUPS")), None)
        if start is None or (start and body[start - 1].text.upper() in ("BY", "ORDER BY", "PARTITION BY", ",")):
            continue  # a column of that name
        written = " ".join(token.text.upper() for token in body[start:])
        if not FRAME.fullmatch(written):
            example = "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
            raise text.error(f"a frame is written out in full: {example}", body[start])


def write_out_names(tree: exp.Expr, text: Text) -> None:
    """Write windows that WINDOW gives names to in the places where these names stand.

    Raises
    ------
    SQLError
        If a name is that of no window.
    """
    for select in list(tree.find_all(exp.Select)):
        known: dict[str, exp.Window] = {}
        for definition in select.args.get("windows") or []:
            known[definition.name.casefold()] = _completed(definition, known, text)
        select.set("windows", None)
        for node in list(select.find_all(exp.Window)):
            if node.args.get("alias") is not None and node.find_ancestor(exp.Select) is select:
                full = _completed(node, known, text)
                for part in ("alias", "partition_by", "order", "spec"):
                    node.set(part, full.args.get(part))


def _completed(node: exp.Window, known: dict[str, exp.Window], text: Text) -> exp.Window:
    """Return a window with what it takes from the one that it names."""
    name = node.args.get("alias")
    found = node.copy()
    if name is None:
        return found
    base = known.get(name.name.casefold())
    if base is None:
        raise text.error(
            f"there is no window {name.name}; WINDOW {name.name} AS (...) stands after the conditions", name
        )
    if node.args.get("partition_by"):
        raise text.error(f"PARTITION BY stands in the window {name.name} already, or in this one alone", node)
    found.set("alias", None)
    for part in ("partition_by", "order", "spec"):
        if not found.args.get(part) and base.args.get(part):
            value = base.args[part]
            found.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
    return found


def _before_window(node: exp.Expr) -> bool:
    above = node.parent
    if above is None or node.arg_key != "this":
        return False
    return isinstance(above, exp.Window) or (isinstance(above, AROUND) and _before_window(above))


def _bodies(tokens: Tokens) -> Iterator[Tokens]:
    """Return what stands in the parentheses of each window."""
    naming = False
    for place, token in enumerate(tokens):
        opening = token.token_type is TokenType.L_PAREN
        naming = is_bare(token, "WINDOW") or (naming and not is_bare(token, "QUALIFY", "ORDER BY", "LIMIT"))
        if opening and place and (is_bare(tokens[place - 1], "OVER") or (naming and is_bare(tokens[place - 1], "AS"))):
            yield tokens[place + 1 : closing(tokens, place)]
