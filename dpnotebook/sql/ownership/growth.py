"""How much longer the texts of a statement can be than those of its tables: bounded, whatever a row holds.

A query that runs out of memory for a row tells of that row. What is put together of texts is as long as they are
together, and a query in FROM can put it together again; so their number is counted, and limited, before anything is
charged.
"""

from __future__ import annotations

from sqlglot import exp

from dpnotebook.dialect.text import Text

MOST = 100  # times
GROWING = (exp.Concat, exp.DPipe, exp.Replace)


def growth_of(node: exp.Expr) -> int:
    """Return how many times as long as the longest text of a table or of the statement an expression can be.

    Parameters
    ----------
    node
        Its columns have their own growth noted.
    """
    if isinstance(node, exp.Concat):
        return sum(map(growth_of, node.expressions))
    if isinstance(node, exp.DPipe):
        return growth_of(node.this) + growth_of(node.expression)
    if isinstance(node, exp.Replace):
        return growth_of(node.this) * _longer(node)
    # Not by recursion: conditions can be deep.
    found = 1
    for part in node.walk(prune=lambda part: isinstance(part, (*GROWING, exp.Query))):
        if isinstance(part, GROWING):
            found = max(found, growth_of(part))
        else:
            found = max(found, int(part.meta.get("growth", 1)))
    return found


def check_growth(node: exp.Expr, written: exp.Expr, text: Text) -> None:
    """Refuse an expression whose texts can grow too much.

    Raises
    ------
    SQLError
        If they can, or nobody can tell.
    """
    for part in node.find_all(exp.Replace):
        if not all(isinstance(part.args.get(name), exp.Literal | None) for name in ("expression", "replacement")):
            raise text.error("REPLACE takes texts that are written out: REPLACE(column, 'old', 'new')", written)
    if growth_of(node) > MOST:
        raise text.error(f"this puts texts together to more than {MOST} times their length; take less of them", written)


def _longer(node: exp.Replace) -> int:
    """Return how many times longer replacing can make a text."""
    old, new = (len(node.args[name].name) if node.args.get(name) else 0 for name in ("expression", "replacement"))
    return max(1, -(-new // max(old, 1)))
