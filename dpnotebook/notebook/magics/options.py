"""The first line of `%%dpsql`: who is asked, how accurately, and what becomes of the answer.

    %%dpsql [NAME <<] [-e E | --error N|P%] [--confidence C] [-n] [-y | --ask] [-o NAME] [-s SESSION] [--fresh] [-q]
          [--contribution l2|rows] [--bounds auto|declared]
    SELECT ...

Options stand on the first line only and SQL below it; in the line form, `%dpsql ... SELECT ...`, the SQL begins at the
first word that is no option.
"""

from __future__ import annotations

import argparse
import keyword
import math
import re
import shlex
from argparse import Namespace
from functools import cache

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

MOST_SHOWN = 40  # characters of what was typed that an error shows
EPILOG = """
:name in the SQL is the value of a notebook variable: a number, a text, True or False.
Without -e or --error, OPTIONS(epsilon = ...) in the SQL applies, else %config DPMagics.epsilon.

The SQL: any SELECT whose aggregates are over people, in DuckDB's dialect, joins, CTEs and subqueries included, or
BigQuery's SELECT WITH DIFFERENTIAL_PRIVACY as it is. COUNT and SUM over the declared columns of one table are planned
together with everything that was answered before. Groups that are not declared need a budget with delta: those of few
people stay hidden. What is worked out from the answers (HAVING, ORDER BY, LIMIT, an outer query) costs nothing.
"""


@cache
def parser() -> MagicArgumentParser:
    """Return the parser of the options; it raises UsageError."""
    made = MagicArgumentParser(
        prog="%%dpsql",
        usage="%%%%dpsql [NAME <<] [-e E | --error N|P%%] [--confidence C] [-n] [-y | --ask] [-o NAME] [-s SESSION] "
        "[--fresh] [-q] [--contribution l2|rows] [--bounds auto|declared]",
        description="Ask protected tables in SQL: see what the answer costs and how wrong it will be, then run it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    accuracy = made.add_mutually_exclusive_group()
    accuracy.add_argument("-e", "--epsilon", metavar="E", type=_positive, help="what the query may spend")
    accuracy.add_argument(
        "--error",
        metavar="N|P%",
        type=_error,
        help="or: the error you accept of every answer, in its own units; or P%% of it, as past answers tell it",
    )
    made.add_argument(
        "--confidence", metavar="C", type=_confidence, default=0.95, help="of the error and the intervals (0.95)"
    )
    made.add_argument("-n", "--dry-run", action="store_true", help="show cost and error, spend nothing")
    consent = made.add_mutually_exclusive_group()
    consent.add_argument("-y", "--yes", action="store_true", help="do not ask before spending")
    consent.add_argument("--ask", action="store_true", help="ask, however little it costs")
    made.add_argument("-o", "--output", metavar="NAME", type=_name, help="same as NAME <<: keep the release as NAME")
    made.add_argument("-s", "--session", metavar="SESSION", help="variable of the session that pays (the latest made)")
    made.add_argument("--fresh", action="store_true", help="measure anew although a release answers this")
    made.add_argument(
        "--contribution",
        metavar="l2|rows",
        choices=("l2", "rows"),
        help="bound all that a person adds, over all groups together, by one L2 norm instead of sampling their groups: "
        "less noise where people are in many groups; needs Gaussian noise",
    )
    made.add_argument(
        "--bounds",
        metavar="auto|declared",
        choices=("auto", "declared"),
        help="auto: find privately where the values of declared columns lie, for noise is in proportion to that; "
        "declared: clamp them to what is declared",
    )
    made.add_argument("-q", "--quiet", action="store_true", help="no card, only the table")
    made.add_argument("-h", "--help", action="store_true", help="show this")
    return made


def read(line: str, cell: str | None) -> tuple[Namespace, str]:
    """Return the options and the SQL of a line or cell.

    Parameters
    ----------
    line
        What stands behind `%dpsql` or `%%dpsql`.
    cell
        The lines below it; None for the line form.

    Raises
    ------
    UsageError
        If the options are not as `parser` says.
    """
    head, sql = split(line)
    name, rest = target(head)
    try:
        words = shlex.split(rest)
    except ValueError:
        raise UsageError(f"%dpsql: a quotation mark in the options has no partner: {_cut(rest)}") from None
    options = parser().parse_args(words)
    if cell is not None and sql:
        raise UsageError(f"%%dpsql: only options stand on the first line, and the SQL below it; not {_cut(sql)}")
    if name is not None and options.output not in (None, name):
        raise UsageError(f"%dpsql: {name} << and -o {options.output} are two names for one release")
    if name is not None:
        options.output = parser_name(name)
    return options, (sql if cell is None else cell).strip()


def says_epsilon(sql: str) -> bool:
    """Return whether a statement names its epsilon in OPTIONS."""
    return bool(re.search(r"\bOPTIONS\s*\([^()]*\bepsilon\s*=", sql, re.IGNORECASE))


def split(line: str) -> tuple[str, str]:
    """Return a line's options and what follows them, which is SQL in the line form."""
    name, rest = target(line)
    start = 0 if name is None else len(line) - len(rest)
    value_follows = False
    for found in re.finditer(r"\S+", line[start:]):
        word = found.group()
        if value_follows:
            value_follows = False
        elif word.startswith("-") and word not in ("-", "--"):
            value_follows = _long_takes(word) if word.startswith("--") else _short_takes(word[1:])
        else:
            return line[: start + found.start()], line[start + found.start() :]
    return line, ""


def target(head: str) -> tuple[str | None, str]:
    """Return the name before `<<`, if there is one, and the rest."""
    found = re.match(r"\s*([^\W\d]\w*)\s*<<", head)
    return (found.group(1), head[found.end() :]) if found else (None, head)


def parser_name(text: str) -> str:
    """Return a name that a variable can have; UsageError if it is none."""
    try:
        return _name(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"%dpsql: {error}") from None


def names() -> list[str]:
    """Return the long options."""
    return [name for action in parser()._actions for name in action.option_strings if name.startswith("--")]


def _long_takes(word: str) -> bool:
    """Whether a long option, perhaps shortened as argparse allows, takes the next word as its value."""
    actions = [a for a in parser()._actions for name in a.option_strings if name.startswith(word)]
    return "=" not in word and bool(actions) and all(action.nargs != 0 for action in actions)


def _short_takes(letters: str) -> bool:
    """Whether the last of some short options takes the next word as its value."""
    takes = {name[1]: a.nargs != 0 for a in parser()._actions for name in a.option_strings if name[1] != "-"}
    for place, letter in enumerate(letters):
        if takes.get(letter, False):
            return place == len(letters) - 1
    return False


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"a number above 0 such as 0.1, not {text}")
    return value


def _error(text: str) -> float | str:
    """Return a number, or a percentage as it was written."""
    try:
        number = _positive(text.removesuffix("%"))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"a number above 0 such as 25, or 5%, not {text}") from None
    return text if text.endswith("%") else number


def _confidence(text: str) -> float:
    value = _positive(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"a number between 0 and 1 such as 0.95, not {text}")
    return value


def _name(text: str) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text} cannot be the name of a variable")
    return text


def _cut(text: str) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= MOST_SHOWN else shown[: MOST_SHOWN - 1] + "…"
