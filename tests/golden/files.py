"""Golden files: read, and written so that a difference is a line."""

import json
from pathlib import Path

DATA = Path(__file__).parent / "data"
LINE, DEPTH = 200, 4


def read(name):
    """Return a golden file."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def write(name, found):
    """Write a golden file: a case an entry, keys sorted."""
    DATA.mkdir(exist_ok=True)
    (DATA / f"{name}.json").write_text(_written(found, 0) + "\n", encoding="utf-8")


def _written(found, depth):
    """Return JSON: what fits into a line stands on one, and anything longer is taken apart."""
    short = json.dumps(found, sort_keys=True, ensure_ascii=False)
    if not found or not isinstance(found, dict | list) or (len(short) <= LINE and depth > 1):
        return short
    if isinstance(found, dict):
        parts = [f"{json.dumps(key)}: {_written(found[key], depth + 1)}" for key in sorted(found)]
    else:
        parts = [_written(value, depth + 1) for value in found]
    start, end = "{}" if isinstance(found, dict) else "[]"
    inside = ",\n".join(" " * min(depth + 1, DEPTH) + part for part in parts)
    return f"{start}\n{inside}\n{' ' * min(depth, DEPTH)}{end}"


def as_read(found):
    """Return JSON values as they are after having been written and read."""
    return json.loads(json.dumps(found, sort_keys=True))
