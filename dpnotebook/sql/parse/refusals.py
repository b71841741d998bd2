"""Why something cannot be in a statement, and what to write instead."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.errors import SQLError, shorten
from dpnotebook.sql.aggregates.catalogue import names

SEVERAL_GROUPINGS = "write GROUP BY ROLLUP (a, b), CUBE (a, b) or GROUPING SETS ((a, b), (a), ())"
WINDOWS_ARE = "its window is missing: write OVER (PARTITION BY column ORDER BY column) behind it"
VALUES_HINT = "register the rows as a public table, session.register(df, 'name', public=True)"
AGGREGATES_ARE = f"the aggregates are {', '.join(names()[:-1])} and {names()[-1]}"

PARTS = {
    "laterals": "LATERAL is not supported; write a join, or UNNEST(column) after a comma",
    "unpivot": "UNPIVOT is not supported; write a UNION ALL of one query for each column",
    "into": "INTO is not supported: keep the release under a name, r << on the first line of the cell",
    "sample": "write the sample after the table: FROM t TABLESAMPLE SYSTEM (10 PERCENT)",
    "kind": "SELECT AS STRUCT and SELECT AS VALUE are not supported; write plain columns",
    "all": "after GROUP BY stand columns, without DISTINCT",
    "rollup": SEVERAL_GROUPINGS,
    "cube": SEVERAL_GROUPINGS,
    "totals": SEVERAL_GROUPINGS,
    "recursive": "WITH RECURSIVE is not supported",
    "materialized": "write AS (SELECT ...), without MATERIALIZED",
    "method": "NATURAL, ASOF and POSITIONAL joins are not supported; write JOIN ... USING (column)",
    "version": "old versions of a table are not kept; ask of the table as it is",
    "joins": "write joins without parentheses around them",
    "only": "ONLY is not supported",
    "replace": "REPLACE in a list of columns is not supported; name the columns",
    "rename": "RENAME in a list of columns is not supported; name the columns",
    "catalog": "a column is written table.column",
    "by_name": "BY NAME is not supported; write the columns of both sides in the same order",
    "symmetric": "SYMMETRIC is not supported; write the smaller bound first",
    "limit_options": "LIMIT takes a number of rows",
    "offset": "WITH OFFSET is not supported",
    "field": "after IN stands a list in parentheses or a query",
    "bytes": "one argument is too much",
    "columns": "name the columns",
    "seed": "a sample takes no seed",
    "hints": "leave WITH (...) behind a table out: nothing waits for anybody here",
}
EACH_VALUE = "write SELECT column, COUNT(*) AS n FROM t GROUP BY column"
FILES = "read files beforehand: session.protect(path, 'name') or session.register(path, 'name', public=True)"
SERIES = (
    "register what it lists as a public table: session.register(pd.DataFrame({'day': pd.date_range('2024-01-01', "
    "'2024-12-01', freq='MS')}), 'days', public=True)"
)
NO_CHANCE = "what is random is not supported; a sample is written TABLESAMPLE SYSTEM (10 PERCENT)"
NO_CLOCK = "what changes by itself is not supported; bind the value as a parameter, :today"
HERE = (
    "moments are told by the clocks of their own place already, as Dates(..., timezone='Europe/Paris') in domain= or "
    "the column of a frame says; write the column alone"
)
NODES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("WithinGroup",), "write PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY column)"),
    (("RowNumber", "Rank", "Lag", "Lead", "Ntile", "CumeDist", "FirstValue", "LastValue", "NthValue"), WINDOWS_ARE),
    (("Rollup", "Cube", "GroupingSets"), SEVERAL_GROUPINGS),
    (("Tuple",), "a list of columns in parentheses is not supported; write them one by one"),
    (("Values",), f"VALUES is not supported; {VALUES_HINT}"),
    (("Lateral",), PARTS["laterals"]),
    (("Explode",), "UNNEST stands in FROM: FROM t, UNNEST(t.tags) AS tag"),
    (("Fetch",), "write LIMIT for FETCH"),
    (("Any", "All"), "ANY and ALL are not supported; write IN (SELECT ...), or compare with MIN or MAX"),
    (("RegexpLike", "SimilarTo", "Glob", "Escape"), "write LIKE 'text%', STARTS_WITH or CONTAINS for patterns"),
    (
        ("Bracket", "Dot", "Struct"),
        "parts of arrays and structs are not supported; UNNEST an array in FROM, SUBSTRING a text",
    ),
    (("RawString", "ByteString", "HexString", "BitString", "National", "UnicodeString"), "write texts as 'text'"),
    (("Collate",), "compare LOWER(column)"),
    (("Lambda", "Kwarg", "PropertyEQ", "Slice"), "functions as arguments are not supported"),
    (("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitwiseLeftShift"), "bits are not supported"),
    (("AtTimeZone", "ConvertTimezone"), HERE),
    (("Xor",), "write a <> b for XOR"),
    (("Filter",), "write SUM(CASE WHEN condition THEN column END)"),
    (("GroupConcat", "ArrayAgg", "ArrayConcatAgg"), f"it would show rows; {AGGREGATES_ARE}"),
    (("First", "Last"), "which row comes first is not said; of the rows of one unit, ARG_MIN(column, day) says it"),
    (("Mode",), f"it would show a value of somebody; {EACH_VALUE} ORDER BY n DESC"),
    (("CountIf",), "write COUNTIF(condition)"),
    (("Quantile", "PercentileDisc", "Median"), "write PERCENTILE_CONT(column, 0.5)"),
    (("Rand", "Uuid"), NO_CHANCE),
    (("CurrentDate", "CurrentTime", "CurrentTimestamp", "CurrentDatetime", "CurrentUser"), NO_CLOCK),
    (
        ("Initcap", "Repeat", "Pad", "Split"),
        "the functions of text are LOWER, UPPER, TRIM, SUBSTR, SPLIT_PART, REPLACE, CONCAT",
    ),
    (
        ("RegexpExtract", "RegexpReplace", "RegexpSplit"),
        "engines read patterns differently: write SPLIT_PART(column, '@', 2), SUBSTR, or LIKE in a CASE",
    ),
    (("ReadCSV", "ReadParquet"), FILES),
    (("GenerateSeries",), SERIES),
    (("Placeholder", "Parameter", "SessionParameter"), "parameters are written :name"),
)
A_TEXT = "write STRFTIME(column, '%Y-%m') for a day as a text"
A_DAY = "write STRPTIME(column, '%Y-%m-%d') for a text as a day, CAST(column AS DATE), or DATE '2024-05-31'"
A_PART = "write EXTRACT(MONTH FROM column), or MONTHNAME(column) and DAYNAME(column) for names"
LAST_DAY = "write DATE_TRUNC('month', column) + INTERVAL 1 MONTH - INTERVAL 1 DAY"
SECONDS = "write DATE_DIFF('second', TIMESTAMP '1970-01-01', column)"
SHIFTED = "write column + INTERVAL 3 DAY, or column - INTERVAL 6 MONTH"
BY_CASES = "write CASE column WHEN 'A' THEN 'first' WHEN 'B' THEN 'second' ELSE 'other' END"
SPREADS = "write STDDEV(column) or STDDEV_POP(column), VAR_SAMP(column) or VAR_POP(column)"
FULL_YEARS = "EXTRACT(YEAR FROM AGE(DATE '2025-01-01', born))"
NAMES = {
    "ISNULL": "write column IS NULL, or COALESCE(column, 0) for ISNULL(column, 0)",
    "NOTNULL": "write column IS NOT NULL",
    "PREFIX": "write STARTS_WITH(column, 'text')",
    "DATE_SUB": "write column - INTERVAL 3 DAY, or DATE_DIFF('day', from, to)",
    "AGE": f"{FULL_YEARS} is how many full years these are",
    **dict.fromkeys(("TO_CHAR", "DATE_FORMAT", "FORMAT_DATE", "FORMAT_DATETIME", "FORMAT_TIMESTAMP", "FORMAT"), A_TEXT),
    **dict.fromkeys(("TO_DATE", "UNIX_TO_TIME", "PARSE_TIMESTAMP", "PARSE_DATETIME"), A_DAY),
    **dict.fromkeys(("DATEPART", "DATENAME"), A_PART),
    **dict.fromkeys(("EOMONTH", "LAST_DAY"), LAST_DAY),
    **dict.fromkeys(("UNIX_TIMESTAMP", "TIME_TO_UNIX", "UNIX_SECONDS"), SECONDS),
    "DATE_FROM_PARTS": "write DATE '2024-01-31'",
    "DATESUB": f"write {FULL_YEARS} for full years",
    **dict.fromkeys(("TIMEZONE", "CONVERT_TIMEZONE", "FROM_UTC_TIMESTAMP"), HERE),
    **dict.fromkeys(("NOW", "TODAY", "GETDATE", "GETUTCDATE", "SYSDATETIME", "CURRENT_SETTING", "GETENV"), NO_CLOCK),
    **dict.fromkeys(("CURDATE", "SYSDATE", "SYSTIMESTAMP", "LOCALTIMESTAMP", "UTC_TIMESTAMP"), NO_CLOCK),
    **dict.fromkeys(("DATEADD", "ADDDATE", "SUBDATE", "TIMESTAMPADD", "ADD_MONTHS", "DATE_ADD"), SHIFTED),
    **dict.fromkeys(("DECODE", "CHOOSE", "ELT", "FIELD", "SWITCH"), BY_CASES),
    "ZEROIFNULL": "write COALESCE(column, 0)",
    "NULLIFZERO": "write NULLIF(column, 0)",
    "NVL2": "write IF(column IS NOT NULL, a, b)",
    "IFF": "write IF(condition, a, b)",
    "COUNT_BIG": "write COUNT(*)",
    "SUM_BIG": "write SUM(column)",
    **dict.fromkeys(("DIV0", "DIV0NULL"), "write SAFE_DIVIDE(a, b)"),
    "SQUARE": "write POWER(column, 2)",
    "MONTHS_BETWEEN": "write DATE_DIFF('month', from, to)",
    "DAYS_BETWEEN": "write DATE_DIFF('day', from, to)",
    "SUBSTRING_INDEX": "write SPLIT_PART(column, '@', 2)",
    **dict.fromkeys(("TO_NUMBER", "TO_DECIMAL", "VAL"), "write CAST(column AS DOUBLE)"),
    **dict.fromkeys(("STDEV", "STDEVP", "VARP"), SPREADS),
    **dict.fromkeys(("APPROX_PERCENTILE", "PERCENTILE_APPROX"), "write PERCENTILE_CONT(column, 0.9)"),
    **dict.fromkeys(("BITAND", "BITOR", "BITXOR"), "bits are not supported"),
    **dict.fromkeys(("RANDOM", "SETSEED", "GEN_RANDOM_UUID", "NEXTVAL", "HASH"), NO_CHANCE),
    **dict.fromkeys(("READ_TEXT", "READ_BLOB", "READ_JSON", "GLOB", "PARQUET_SCAN", "SNIFF_CSV"), FILES),
    **dict.fromkeys(("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD"), WINDOWS_ARE),
    **dict.fromkeys(("WIDTH_BUCKET", "EQUI_WIDTH_BINS"), "write FLOOR((column - least) / width)"),
    **dict.fromkeys(("TIME_BUCKET", "DATE_BIN"), "write DATE_TRUNC('month', column)"),
    **dict.fromkeys(("HISTOGRAM", "APPROX_TOP_K", "APPROX_TOP_COUNT"), EACH_VALUE),
    **dict.fromkeys(("GEOMEAN", "GEOMETRIC_MEAN"), "write EXP(AVG(LN(column)))"),
    **dict.fromkeys(("ENTROPY", "KURTOSIS", "KURTOSIS_POP", "SKEWNESS", "MAD", "PRODUCT"), AGGREGATES_ARE),
}
ABOUT_TABLES = (
    "session.table('t').domain is what is public of it, and session.table('t').describe('column', epsilon=0.1) "
    "measures a column"
)
STARTS = {
    "PIVOT": "write SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b, and give its answer a shape with "
    "release.frame.pivot(index='a', columns='b', values='n')",
    "UNPIVOT": "write a UNION ALL of one query for each column",
    **dict.fromkeys(("SUMMARIZE", "DESCRIBE", "SHOW"), ABOUT_TABLES),
}
PIVOT_OF_GROUPS = (
    "PIVOT is over groups: aggregate with GROUP BY in a query in FROM, and pivot that, as in FROM (SELECT a, b, "
    "COUNT(*) AS n FROM t GROUP BY a, b) PIVOT (SUM(n) FOR b IN (1, 2))"
)
SCALARS = re.findall(
    r"\w+",
    "ABS CASE CAST CEIL COALESCE CONCAT CONTAINS DATE_ADD DATE_DIFF DATE_SUB DATE_TRUNC ENDS_WITH EXP EXTRACT FLOOR "
    "GREATEST IF IFNULL LEAST LEFT LENGTH LN LOG LOWER LTRIM MOD MONTH NULLIF POWER REPLACE RIGHT ROUND RTRIM "
    "SAFE_CAST SAFE_DIVIDE SIGN SPLIT_PART SQRT STARTS_WITH STRPOS SUBSTR TRIM TRUNC UPPER YEAR",
)


def refused_part(node: exp.Expr, part: str, value: Any, text: Text) -> SQLError:
    """Return the error of a part of a node that may not be filled."""
    first = value[0] if isinstance(value, list) and value else value
    at = first if isinstance(first, exp.Expression) else "GROUP" if isinstance(node, exp.Group) else node
    if isinstance(node, exp.Trunc) and isinstance(first, exp.Literal) and first.is_string:
        return text.error("write DATE_TRUNC('month', column) to truncate times", node)
    if isinstance(node, exp.Func):
        return text.error(f"{_called(node)} has an argument too many", at)
    return text.error(PARTS.get(part, f"{part.upper().replace('_', ' ')} is not supported"), at)


def refused_node(node: exp.Expr, text: Text) -> SQLError:
    """Return the error of a node that may not be there."""
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) and isinstance(node.this, exp.Func):
        node = node.this  # DuckDB's ANY_VALUE is read as if the words were there
    name = type(node).__name__
    hint = next((hint for names, hint in NODES if name in names), None)
    if not isinstance(node, exp.Func):
        return text.error(hint or f"{shorten(text.words(node))} is not supported", node)
    called = _called(node, text)
    hint = NAMES.get(called) or hint or NAMES.get(_called(node))
    if hint is None and isinstance(node, exp.AggFunc):
        hint = AGGREGATES_ARE
    if hint is None:
        close = get_close_matches(called, SCALARS, 1, 0.8)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(SCALARS)}"
    return text.error(f"{called} is not supported: {hint}", node)


def _called(node: exp.Func, text: Text | None = None) -> str:
    """Return the name of a function, as it is written where there is a text: the parser has one for several."""
    written = None if text is None else re.match(r"(\w+) ?\(", text.words(node))
    if written is not None:
        return written.group(1).upper()
    return str(node.this).upper() if isinstance(node, exp.Anonymous) else node.sql_name()
