"""Plans, releases, cards, ledgers and errors as JSON values, by public names only."""

import base64
import contextlib
import hashlib
import json
import math
import re
import sqlite3
import zlib
from datetime import date, datetime
from fractions import Fraction
from numbers import Integral, Real

import numpy as np
import pandas as pd
import sqlglot

from dpnotebook.ledger.releases import unpack

LONG = 40  # numbers in a row; of longer ones the first, the sum and a digest are kept
LONG_SQL = 1_800
LINES = 14  # of HTML; what is between the first and the last is the rows of a table
ROWS = 8
CONSTANT = "…"
SQL_KEYS = ("rows", "outer")  # of statements as the ledger keeps them


def values(found):
    """Return anything as JSON values: fractions as text, long rows of numbers cut, floats as they are."""
    if found is None or isinstance(found, str | bool):
        return found
    if isinstance(found, np.bool_):
        return bool(found)
    if isinstance(found, Fraction):
        return str(found)
    if isinstance(found, Integral):
        return int(found)
    if isinstance(found, Real):
        return float(found)
    if isinstance(found, datetime | date):
        return found.isoformat()
    if isinstance(found, pd.DataFrame):
        return frame(found)
    if isinstance(found, dict):
        return {str(key): values(value) for key, value in found.items()}
    if isinstance(found, np.ndarray):
        found = found.tolist()
    if isinstance(found, list | tuple):
        return _listed([values(value) for value in found])
    return None if pd.isna(found) else repr(found)


def _listed(found):
    if len(found) <= LONG:
        return found
    if all(type(value) is int for value in found):
        first = found[:ROWS]
        return {"integers": len(found), "first": first, "sum": sum(found), "digest": _digest(json.dumps(found))}
    if all(type(value) in (int, float) for value in found):
        squares = math.fsum(value * value for value in found)
        return {"numbers": len(found), "first": found[:ROWS], "sum": math.fsum(found), "of squares": squares}
    if all(isinstance(value, list | dict) for value in found) and len(json.dumps(found)) > 4_000:
        return {"listed": len(found), "first": found[:ROWS], "last": found[-1]}
    return found


def frame(found):
    """Return a frame: its columns and types, its first rows, and what its numbers add up to."""
    shown = {
        "columns": {str(name): str(kind) for name, kind in found.dtypes.items()},
        "length": len(found),
        "rows": [[values(value) for value in row] for row in found.head(ROWS).itertuples(index=False)],
    }
    if len(found) > ROWS:
        numbers = found.select_dtypes("number")
        shown["sums"] = {str(name): float(numbers[name].astype(float).sum()) for name in numbers}
    return shown


def plan(found):
    """Return a plan."""
    names = (
        *("title", "where", "unit", "table", "answers", "epsilon", "delta", "units", "std_errors", "error"),
        *("confidence", "reused", "affordable", "assumption", "warnings", "steps", "code", "noise", "recorded"),
        *("combined", "own", "target", "known", "alone_before", "bought", "free", "std_error"),
    )
    shown = {name: values(getattr(found, name)) for name in names}
    shown["accuracy"] = found.accuracy.text
    shown["cost"] = _parts(found.cost, "epsilon", "delta", "units")
    if found.without_reuse is not None:
        shown["without_reuse"] = _parts(found.without_reuse, "epsilon", "delta", "units")
    shown["budget"] = _parts(found.budget, "total", "spent", "left_after", "spent_fraction", "cost_fraction", "delta")
    shown["alternatives"] = [
        _parts(one, "epsilon", "error", "left_after", "chosen", "affordable") for one in found.alternatives
    ]
    shown["actions"] = [_parts(one, "kind", "text", "releases", "epsilon") for one in found.actions]
    shown["measurements"] = [
        _parts(one, "scale", "bits", "refines", "before", "group")
        | {"answers": one.measurement.answers, "strategy": None if one.strategy is None else one.strategy.name}
        for one in found.measurements
    ]
    if found.parts:
        shown["parts"] = [
            _parts(one, "name", "words", "unit", "std_error", "half_width", "note") for one in found.parts
        ]
    if hasattr(found, "shares"):  # of a statement that is bounded and measured by itself
        shown |= _parts(found, "shares", "deltas", "delta_left", "threshold_delta")
    return shown


def release(found):
    """Return a release."""
    names = ("number", "title", "table", "where", "epsilon", "delta", "paid", "confidence", "unit", "ordered")
    shown = {name: values(getattr(found, name)) for name in (*names, "sources", "notes", "keys", "names")}
    return shown | {"frame": frame(found.frame)}


def strategy(found):
    """Return what is measured for a workload."""
    shown = _parts(found, "name", "norm", "objective", "optimality")
    return shown | {"json": ledger_values(found.to_json()), "rmse": float(found.rmse(1.0, *_delta(found)))}


def _delta(found):
    return (1e-6,) if found.noise == "gaussian" else ()


def _parts(found, *names):
    return {name: values(getattr(found, name)) for name in names}


_RAISED = re.compile(r"(?<=[·;] )\d{4}-\d\d-\d\d(?= to ε)")


def card(found, html=True):
    """Return how something shows itself: as text and as HTML, or a digest of that."""
    # The day on which a budget was raised is that of the run.
    shown = {
        kind: _RAISED.sub("DAY", told) for kind, told in found._repr_mimebundle_().items() if isinstance(told, str)
    }
    return _card(shown, html)


def _card(bundle, html):
    if not html:
        return {"text": bundle["text/plain"].split("\n"), "html": _digest(bundle["text/html"])}
    # Of pictures and styles a digest is enough: what a picture shows stands in its alt text as well.
    told = re.sub(r"(?<=base64,)[A-Za-z0-9+/=]{16,}", lambda image: _digest(image[0]), bundle["text/html"])
    told = re.sub(r'(?<=style=")[^"]{16,}', lambda style: _digest(style[0])[:6], told)
    told = re.sub(r"(?<=</div>)|(?<=</tr>)", "\n", told)
    lines = told.split("\n")
    if len(lines) > LINES:
        lines[LINES - 4 : -3] = [f"{len(lines) - LINES + 1} lines, {_digest(''.join(lines[LINES - 4 : -3]))}"]
    return {"text": bundle["text/plain"].split("\n"), "html": lines}


def error(found, folder):
    """Return an error: its class and what it says."""
    return {"error": type(found).__name__, "says": str(found).replace(folder, "FOLDER")}


def entries(path, after=0):
    """Return the entries of a ledger's file after a number: kind and payload, without times and hashes."""
    query = "SELECT kind, payload, answers FROM entry WHERE number > ? ORDER BY number"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(query, (after,)).fetchall()
    return [_entry(kind, json.loads(payload), answers) for kind, payload, answers in rows]


def refusals(path):
    """Return the log of refused charges in a ledger's file, without times."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, question, requested, remaining FROM refusal ORDER BY rowid").fetchall()
    return [[part.decode() if isinstance(part, bytes) else part for part in row] for row in rows]


def _entry(kind, payload, answers):
    shown = {"kind": kind, "payload": ledger_values(payload)}
    if "answers" in payload:  # what is compressed differs between versions of the library that compresses
        told = shown["payload"]["answers"] | {"bytes": CONSTANT, "sha256": CONSTANT}
        shown["payload"]["answers"] = {name: told[name] for name in told if name not in ("width", "compressed")}
        integers = [numbers.astype("<i8").ravel() for numbers in unpack(answers, payload["answers"])]
        shown["answers"] = values(np.concatenate([np.empty(0, dtype="<i8"), *integers]))
    for name in ("key", "random_state"):
        if name in payload:
            shown["payload"][name] = CONSTANT
    return shown


def ledger_values(found, name=None):
    """Return values of a ledger's JSON: SQL marked as such, packed numbers unpacked, long texts cut."""
    if isinstance(found, dict):
        return {key: ledger_values(value, key) for key, value in found.items()}
    if isinstance(found, list):
        return _listed([ledger_values(value) for value in found])
    if isinstance(found, str) and len(found) > 20:
        if name in SQL_KEYS:
            return sql(found)
        if name in ("value", "std_error", "lower", "upper"):
            with contextlib.suppress(ValueError, zlib.error):
                return values(np.frombuffer(zlib.decompress(base64.b64decode(found, validate=True)), dtype="<f8"))
    if isinstance(found, str) and len(found) > 300 and " " not in found:
        return _packed(found)
    return found


def _packed(text):
    """Return a text that no person reads: bytes that may be compressed, base64."""
    held = text.encode()
    with contextlib.suppress(ValueError):
        held = base64.b64decode(text, validate=True)
    with contextlib.suppress(zlib.error):
        held = zlib.decompress(held)
    return {"packed": len(held), "digest": _digest(held)}


def _digest(held):
    return hashlib.sha256(held.encode() if isinstance(held, str) else held).hexdigest()[:16]


def sql(text, dialect="duckdb"):
    """Return SQL, marked so that it is compared as a tree; of a long one a digest of the tree."""
    if len(text) <= LONG_SQL:
        return {"sql": text, "dialect": dialect}
    written = sqlglot.parse_one(text, read=dialect).sql(dialect)
    return {"begins": written[:200], "dialect": dialect, "digest of the tree": _digest(written)}
