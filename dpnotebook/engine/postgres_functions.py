"""Functions that our PostgreSQL connections bring along: arithmetic that gives NULL or infinity instead of stopping.

They live in the connection's temporary schema, so they leave nothing behind in the database.
"""

from __future__ import annotations

from dpnotebook.dialect.types import LONGEST_TEXT

_CAUGHT = "EXCEPTION WHEN others THEN RETURN"  # a canceled query is not among them


def _checked(signature: str, returns: str, body: str, otherwise: str = "NULL") -> str:
    return (
        f"CREATE FUNCTION pg_temp.dp_{signature} RETURNS {returns} LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL UNSAFE "
        f"AS $$ BEGIN RETURN {body}; {_CAUGHT} {otherwise}; END $$"
    )


def _plain(signature: str, returns: str, body: str) -> str:
    return f"CREATE FUNCTION pg_temp.dp_{signature} RETURNS {returns} LANGUAGE sql IMMUTABLE AS $$ SELECT {body} $$"


_FLOATS, _INTEGERS = "(a float8, b float8)", "(a bigint, b bigint)"
_DAY = r"a ~ '^\s*[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}(\s|T|$)'"  # not 'today', nor 1/2/3, which nobody can tell
_INFINITE = "CASE WHEN {0} THEN '{1}'::float8 ELSE '{2}'::float8 END"

FUNCTIONS = (
    # What a type writes for a value: a few bytes of numeric[] can be more than a text can hold.
    "CREATE FUNCTION pg_temp.dp_text(a anyelement) RETURNS text LANGUAGE plpgsql STABLE PARALLEL UNSAFE AS $$ "
    "DECLARE found text; BEGIN IF num_nonnulls(a) = 0 THEN RETURN NULL; END IF; found := concat(a); "
    f"RETURN CASE WHEN octet_length(found) <= {LONGEST_TEXT} THEN found END; {_CAUGHT} NULL; END $$",
    # TRY_CAST
    _plain("double(a float8)", "float8", "a"),
    _checked(
        "double(a text)",
        "float8",
        "a::float8",
        r"CASE WHEN a !~ '^\s*[-+]?[0-9]*\.?[0-9]*(e[-+]?[0-9]+)?\s*$' OR a !~ '[0-9]' THEN NULL "
        r"WHEN a ~ 'e-' OR a ~ '^\s*[-+]?0*\.0{100}' THEN 0 WHEN a ~ '^\s*-' THEN '-inf' ELSE 'inf'::float8 END",
    ),
    _plain("double(a boolean)", "float8", "CASE WHEN a THEN 1 WHEN NOT a THEN 0 END::float8"),
    _plain("bigint(a bigint)", "bigint", "a"),
    _checked("bigint(a float8)", "bigint", "a::bigint"),
    _checked("bigint(a text)", "bigint", "round(a::numeric)::bigint"),
    _plain("bigint(a boolean)", "bigint", "CASE WHEN a THEN 1 WHEN NOT a THEN 0 END::bigint"),
    _plain("boolean(a boolean)", "boolean", "a"),
    _plain("boolean(a float8)", "boolean", "a <> 0"),
    _checked("boolean(a text)", "boolean", "a::boolean"),
    _plain("date(a date)", "date", "a"),
    _checked("date(a timestamp)", "date", "a::date"),
    _checked("date(a text)", "date", f"CASE WHEN {_DAY} THEN a::date END"),
    _plain("timestamp(a timestamp)", "timestamp", "a"),
    _checked("timestamp(a text)", "timestamp", f"CASE WHEN {_DAY} THEN a::timestamptz AT TIME ZONE 'UTC' END"),
    _checked(
        "number(a numeric)",
        "float8",
        "nullif(a, 'NaN')::float8",
        "CASE WHEN abs(a) < 1 THEN 0 WHEN a > 0 THEN 'inf'::float8 ELSE '-inf'::float8 END",
    ),
    # Arithmetic: what is too large is infinite, what is too small is 0.
    _checked(f"add{_FLOATS}", "float8", "a + b", _INFINITE.format("a > 0", "inf", "-inf")),
    _checked(f"sub{_FLOATS}", "float8", "a - b", _INFINITE.format("a > b", "inf", "-inf")),
    _checked(
        f"mul{_FLOATS}",
        "float8",
        "a * b",
        "CASE WHEN ln(abs(a)) + ln(abs(b)) < 0 THEN 0 ELSE sign(a) * sign(b) * 'inf'::float8 END",
    ),
    _checked(
        f"div{_FLOATS}",
        "float8",
        "a / b",
        "CASE WHEN b = 0 THEN NULL WHEN ln(abs(a)) < ln(abs(b)) THEN 0 ELSE sign(a) * sign(b) * 'inf'::float8 END",
    ),
    _checked(f"mod{_FLOATS}", "float8", "a - b * trunc(a / b)"),
    _checked(f"add{_INTEGERS}", "bigint", "a + b"),
    _checked(f"sub{_INTEGERS}", "bigint", "a - b"),
    _checked(f"mul{_INTEGERS}", "bigint", "a * b"),
    _checked(f"mod{_INTEGERS}", "bigint", "a % b"),
    _checked(f"div{_INTEGERS}", "float8", "a::float8 / b::float8"),
    _checked(
        f"pow{_FLOATS}",
        "float8",
        "power(a, b)",
        "CASE WHEN a = 0 THEN 'inf' WHEN a < 0 AND b <> trunc(b) THEN NULL WHEN sign(b) * sign(ln(abs(a))) < 0 THEN 0 "
        "WHEN a < 0 AND b / 2 <> trunc(b / 2) THEN '-inf' ELSE 'inf'::float8 END",
    ),
    _checked("exp(a float8)", "float8", "exp(a)", _INFINITE.format("a > 0", "inf", "0")),
    _plain("sqrt(a float8)", "float8", "CASE WHEN a >= 0 THEN sqrt(a) END"),
    _checked(
        "round(a float8, digits integer)",
        "float8",
        "CASE WHEN digits <> 0 AND abs(a) < 1e15 THEN round(a::numeric, digits)::float8 "
        "WHEN abs(a) < 4503599627370496 THEN sign(a) * floor(abs(a) + 0.5) ELSE a END",
    ),
    # Letters of all languages; texts are told apart by their bytes, and of those "C" knows ASCII's alone.
    """DO $$ DECLARE known text := (SELECT quote_ident(collname) FROM pg_collation
    WHERE collname = 'und-x-icu' AND collnamespace = 'pg_catalog'::regnamespace); BEGIN
    EXECUTE format('CREATE FUNCTION pg_temp.dp_lower(a text) RETURNS text LANGUAGE sql IMMUTABLE AS '
    '$body$ SELECT lower(a COLLATE %1$s) COLLATE "C" $body$; '
    'CREATE FUNCTION pg_temp.dp_upper(a text) RETURNS text LANGUAGE sql IMMUTABLE AS '
    '$body$ SELECT upper(a COLLATE %1$s) COLLATE "C" $body$', coalesce(known, '"default"')); END $$""",
    # Sums
    "CREATE FUNCTION pg_temp.dp_plus(a float8, b float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN "
    "IF abs(a) < 8e307 AND abs(b) < 8e307 THEN RETURN a + b; END IF; RETURN pg_temp.dp_add(a, b); END $$",
    "CREATE AGGREGATE pg_temp.dp_sum(float8) (sfunc = pg_temp.dp_plus, stype = float8)",
    "CREATE AGGREGATE pg_temp.dp_sum(bigint) (sfunc = int8_sum, stype = numeric)",
    "CREATE AGGREGATE pg_temp.dp_sum(integer) (sfunc = int4_sum, stype = bigint)",
    "CREATE AGGREGATE pg_temp.dp_sum(numeric) (sfunc = numeric_add, stype = numeric)",
)
