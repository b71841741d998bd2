"""DuckDB's SQL in the words of PostgreSQL and of Spark, meaning the same, and failing for no row.

Statements are made of few functions. Those that mean something else in another database, or stop there at values that
DuckDB gives NULL or infinity for, are written in another way; a function that is in no list is refused beforehand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import sqlglot
from sqlglot import exp

from dpnotebook.dialect.attributes import HIDDEN
from dpnotebook.dialect.builders import Rule
from dpnotebook.dialect.postgres import POSTGRES
from dpnotebook.dialect.spark import SPARK
from dpnotebook.errors import EngineError

Dialect = Literal["postgres", "spark"]

NAMES: Mapping[Dialect, str] = {"postgres": "PostgreSQL", "spark": "Spark"}

# Functions and operators that mean the same once sqlglot has written them.
ALIKE = (
    exp.Abs,
    exp.And,
    exp.Case,
    exp.Cast,
    exp.Ceil,
    exp.Coalesce,
    exp.Concat,
    exp.Count,
    exp.DateDiff,
    exp.DenseRank,
    exp.Exists,
    exp.Exp,
    exp.FirstValue,
    exp.Floor,
    exp.Greatest,
    exp.Grouping,
    exp.If,
    exp.Lag,
    exp.Lead,
    exp.Least,
    exp.Left,
    exp.Length,
    exp.Ln,
    exp.LogicalAnd,
    exp.LogicalOr,
    exp.Lower,
    exp.MD5,
    exp.Max,
    exp.Min,
    exp.Nullif,
    exp.Or,
    exp.Rank,
    exp.Replace,
    exp.Right,
    exp.RowNumber,
    exp.Sign,
    exp.SplitPart,
    exp.StddevPop,
    exp.StddevSamp,
    exp.StrPosition,
    exp.Substring,
    exp.Sum,
    exp.TimestampTrunc,
    exp.Trim,
    exp.Trunc,
    exp.Upper,
    exp.Variance,
    exp.VariancePop,
)


def translated(
    query: str,
    dialect: Dialect,
    tables: Mapping[str, str] | None = None,
    hide: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> str:
    """Return a query of DuckDB's SQL in another dialect.

    Parameters
    ----------
    query
        What is asked.
    dialect
        Of the database that answers.
    tables
        What tables are called there, by their names here.
    hide
        Takes secrets out of the query (see `sql.secret`), and gives SQL of that database to stand in their places.

    Raises
    ------
    EngineError
        If it uses what the database does not have.
    """
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        tree: Any = sqlglot.parse_one(query, read="duckdb")
        holder = exp.Paren(this=tree)
        rules = RULES[dialect]
        for node in reversed(list(holder.walk())):
            rule = rules.get(type(node))
            if rule is not None and node is not holder:
                above, key, index = node.parent, node.arg_key, node.index
                made = rule(node)
                if made is not node and above is not None and key is not None:
                    above.set(key, made, index)
            elif isinstance(node, REFUSED) or (isinstance(node, exp.Func) and not isinstance(node, ALIKE)):
                name = node.sql_name() if isinstance(node, exp.Func) else type(node).__name__.upper()
                raise EngineError(
                    f"{name} is not available on {NAMES[dialect]}: write the statement without it, or bring the table "
                    "to DuckDB (a frame, a Parquet file)"
                )
        tree = holder.this
        _rename(tree, tables or {})
        if hide is not None:
            _hide(tree, dialect, hide)
        return str(tree.sql(dialect, identify=True))
    except sqlglot.errors.SqlglotError:
        raise EngineError(f"this statement cannot be put in the words of {NAMES[dialect]}") from None
    finally:
        logger.disabled = before


def _hide(tree: exp.Expr, dialect: Dialect, hide: Callable[[Sequence[str]], Sequence[str]]) -> None:
    places = [node for node in tree.find_all(exp.Substring) if _is_secret(node)]
    values = list(dict.fromkeys(node.this.name[len(HIDDEN) :] for node in places))
    shown = dict(zip(values, hide(values), strict=True))
    for node in places:
        node.replace(sqlglot.parse_one(shown[node.this.name[len(HIDDEN) :]], read=dialect))


def _is_secret(node: exp.Expr) -> bool:
    return isinstance(node.this, exp.Literal) and node.this.is_string and node.this.name.startswith(HIDDEN)


REFUSED = (exp.TableSample, exp.Unnest, exp.Lateral, exp.Array, exp.Bracket, exp.Lambda)


def _rename(tree: exp.Expr, tables: Mapping[str, str]) -> None:
    parts = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if table.name in tables and table.name not in parts and not table.db:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
            table.set("this", exp.to_identifier(tables[table.name], quoted=True))


RULES: Mapping[Dialect, Mapping[type[exp.Expr], Rule]] = {"postgres": POSTGRES, "spark": SPARK}
