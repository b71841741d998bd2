"""`%dp`: the budget, what was asked, what can be asked, and the releases as a file."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from dpnotebook.notebook import formatting

if TYPE_CHECKING:
    from dpnotebook.session.release import Release
    from dpnotebook.session.session import Session

HELP = """%dp [-s SESSION] COMMAND

  budget             what is spent and what is left
  history            every query that was charged: what it asked, what it cost
  tables             the tables that are protected
  columns TABLE      what may be asked about a table: its declared columns and their levels, and for SQL all others
  prefetch TABLE WORKLOAD [where CONDITION]
                     what the answers of a whole workload would cost: %dp prefetch patients ranges("age")
  preview ...        cost and error of a query, as %dpsql -n: %dp preview -e 0.1 SELECT COUNT(*) FROM ...
  export FILE.json   all releases as JSON; public values only
  audit              check that nothing in the ledger was removed or changed
  help               this
"""


def read(line: str) -> tuple[str | None, str, str]:
    """Return the name of a session or None, the command, and what follows it.

    Raises
    ------
    UsageError
        If there is no such command.
    """
    found = re.match(r"\s*-s\s+(\S+)\s*", line)
    session, rest = (found.group(1), line[found.end() :]) if found else (None, line)
    command, _, rest = rest.strip().partition(" ")
    command = {"": "help", "-h": "help", "--help": "help"}.get(command, command)
    if command not in COMMANDS:
        near = get_close_matches(command, COMMANDS, 1)
        hint = f"did you mean %dp {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
        raise UsageError(f"%dp has no command {command}; {hint}")
    return session, command, rest.strip()


def budget(session: Session, rest: str) -> Session:
    """Return the session, which shows its budget."""
    _nothing("budget", rest)
    return session


def history(session: Session, rest: str) -> Any:
    """Return every charge as a DataFrame."""
    _nothing("history", rest)
    return session.history()


def tables(session: Session, rest: str) -> Any:
    """Return the protected tables as a DataFrame."""
    _nothing("tables", rest)
    return session.tables()


def columns(session: Session, rest: str) -> Any:
    """Return the columns of a table as a DataFrame; of declared ones the levels, and nothing comes from the data."""
    import pandas as pd

    relations = session.relations
    known = list(relations)
    name = rest.strip().strip('"') or (known[0] if len(known) == 1 else "")
    if not name:
        raise UsageError(f"%dp columns: of which table? There are {', '.join(known) or 'none'}")
    if name in relations and not relations[name].private:
        return pd.DataFrame({"column": list(relations[name].columns), "holds": list(relations[name].columns.values())})
    domain = session.table(name).table.domain
    rows: list[dict[str, Any]] = [
        {
            "column": column,
            "declared": repr(attribute),
            "levels": attribute.size,
            "first": _words(attribute.labels[0]),
            "last": _words(attribute.labels[attribute.regular - 1]),
            "others": "a level" if attribute.other_index is not None else "",
            "missing": "a level" if attribute.null_index is not None else "left out",
        }
        for column, attribute in domain.items()
    ]
    others = [(column, kind) for column, kind in relations[name].columns.items() if column not in domain]
    rows += [
        {
            "column": column,
            "declared": f"no ({kind}; SQL only)",
            "levels": 0,
            "first": "",
            "last": "",
            "others": "",
            "missing": "",
        }
        for column, kind in others
    ]
    return pd.DataFrame(rows)


def export(session: Session, rest: str) -> None:
    """Write every release to a JSON file."""
    try:
        given = shlex.split(rest)
    except ValueError:
        given = []
    if len(given) != 1 or Path(given[0]).suffix != ".json":
        raise UsageError("%dp export takes the name of one file that ends in .json: %dp export releases.json")
    path = Path(given[0]).expanduser()
    known = set(session.tables()["table"])
    recorded: list[dict[Any, Any]] = session.history().query("state == 'recorded'").to_dict("records")
    found = [_as_json(session.release(row["number"]), row["time"]) for row in recorded if row["table"] in known]
    try:
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"%dp export: {path} cannot be written ({error.strerror})") from None
    left_out = len(recorded) - len(found)
    rest = f"; {left_out} of tables that are not protected in this session left out" if left_out else ""
    print(f"{formatting.plural(len(found), 'release')} written to {path}{rest}")


def audit(session: Session, rest: str) -> Any:
    """Return what a check of the whole ledger found; with a digest noted earlier, check up to there as well."""
    return session.audit(rest or None)


COMMANDS: dict[str, Callable[[Session, str], Any]] = {
    "budget": budget,
    "history": history,
    "tables": tables,
    "columns": columns,
    "prefetch": lambda session, rest: None,
    "preview": lambda session, rest: None,
    "export": export,
    "audit": audit,
    "help": lambda session, rest: None,
}


def _nothing(command: str, rest: str) -> None:
    if rest:
        raise UsageError(f"%dp {command} takes nothing behind it, not {rest}")


def _words(level: Any) -> str:
    return str(level)


def _as_json(release: Release, time: Any) -> dict[str, Any]:
    return {
        "number": release.number,
        "time": time.isoformat(),
        "table": release.table,
        "question": release.title,
        "where": release.where,
        "epsilon": release.epsilon,
        "delta": release.delta,
        "sources": list(release.sources),
        "confidence": release.confidence,
        "unit": release.unit,
        "answers": json.loads(release.frame.to_json(orient="records")),
    }
