"""A policy file: what the owner of a table allows, in TOML, read once and enforced in every route to an answer.

It says the budget, the most that one question and all questions together may take, and the smallest noisy count of a
group that is shown. It says nothing of who asks: a kernel on somebody's own machine can prove no identity. A mistake in
the file is told by its key and its line, before anything is opened.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dpnotebook.errors import AccuracyError, LedgerMismatch, PolicyError, shorten
from dpnotebook.ledger import Ledger
from dpnotebook.ledger.policies import RecordedPolicy, digest_of
from dpnotebook.ledger.store import MEMORY
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.laws import LAWS
from dpnotebook.query.question import Question

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan

KEYS: dict[str, tuple[str, ...]] = {
    "": ("ledger",),
    "budget": ("epsilon", "delta", "noise", "threshold_delta"),
    "limits": ("question", "all"),
    "groups": ("minimum",),
}
EXAMPLE = "[budget]\nepsilon = 1.0"
LARGEST_FILE = 100_000  # bytes: a policy is a few lines, and what is larger is another file
MOST_UNITS = 10**9  # of a smallest group
OWN_COUNT = ("count", "cdf", "workload")  # measures whose answers are counts of rows themselves

_TABLE = re.compile(r"\s*\[\s*([A-Za-z0-9_-]+)\s*\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_\"'-]+(?:\s*\.\s*[A-Za-z0-9_\"'-]+)*)\s*=")


@dataclass(frozen=True)
class Policy:
    """What the owner of a table allows. `Session.from_policy` reads one from a file and enforces it.

    Parameters
    ----------
    budget
        Of all answers together.
    question
        Most epsilon that one question may be measured with; None for no limit but the budget.
    together
        Most epsilon that all answers together may take of the budget; None for all of it.
    minimum
        The smallest noisy count of a group that is shown; None to show all.
    ledger
        Path of the ledger, where the file names it.
    path
        Of the file.
    lines
        Where each key stands in it.
    reason
        Why it is another than the one that the ledger is under.
    """

    budget: Budget
    question: float | None = None
    together: float | None = None
    minimum: int | None = None
    ledger: str | None = None
    path: str = field(default="", compare=False)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    reason: str = field(default="", compare=False)

    @property
    def said(self) -> dict[str, Any]:
        """What it says, as the ledger keeps it: the same, however the file is laid out and wherever the ledger is."""
        values: dict[str, Any] = {"budget": self.budget.to_json()}
        limits = {"question": self.question, "all": self.together}
        if limits := {name: value for name, value in limits.items() if value is not None}:
            values["limits"] = limits
        return values | ({} if self.minimum is None else {"groups": {"minimum": self.minimum}})

    @property
    def digest(self) -> str:
        """SHA-256 of what it says, as hex digits."""
        return digest_of(self.said)

    @property
    def name(self) -> str:
        """What the file is called."""
        return Path(self.path).name or "the policy"

    @property
    def words(self) -> tuple[str, ...]:
        """What it allows, in sentences."""
        found = [f"all answers together: {self.budget}"]
        if self.together is not None:
            found.append(f"of which ε = {self.together:g} may be spent")
        if self.question is not None:
            found.append(f"one question: at most ε = {self.question:g}")
        if self.minimum is not None:
            found.append(f"groups with a noisy count below {self.minimum:,} are withheld")
        return tuple(found)

    def __str__(self) -> str:
        return f"policy {self.name} ({self.digest[:12]}): {'; '.join(self.words)}"

    def place(self, key: str) -> str:
        """Return where a key stands: `limits.question, line 6 of clinic.toml`; of one that is missing, its table."""
        line = self.lines.get(key, self.lines.get(key.partition(".")[0]))
        return f"{key}, line {line} of {self.name}" if line else f"{key} of {self.name}"

    def refusal(self, plan: Plan, ledger: Ledger) -> str:
        """Return why a plan is not allowed, in words; empty where it is.

        Parameters
        ----------
        plan
            Of a question that is not answered yet.
        ledger
            Who would pay; read, not changed.
        """
        if self.minimum is not None and not counts_of(plan.question):
            return (
                f"groups with a noisy count below {self.minimum:,} are withheld ({self.place('groups.minimum')}), and "
                "this asks for no count that tells: ask for it in the same question, as "
                f"{_with_count(plan.question)} does"
            )
        if plan.free:
            return ""
        if self.question is not None and plan.units > ledger.accountant.units(self.question):
            return self._above(plan.epsilon)
        left = ledger.remaining
        if self.together is not None and left < plan.cost.units <= ledger.total - ledger.spent:
            return (
                f"this question needs ε = {plan.cost.epsilon:.4g}, and ε = {ledger.accountant.epsilon(left):.4g} is "
                f"left of what all questions together may take ({self.place('limits.all')})"
            )
        return ""

    def refusal_of_price(self, epsilon: float) -> str:
        """Return why a question of several steps is not allowed, of what they cost in the end; empty where it is."""
        return self._above(epsilon) if self.question is not None and epsilon > self.question else ""

    def _above(self, epsilon: float) -> str:
        return (
            f"this question needs ε = {epsilon:.4g}, and one may take ε = {self.question:g} at most "
            f"({self.place('limits.question')})"
        )


def minimum_of(policies: Sequence[RecordedPolicy]) -> int | None:
    """Return the smallest noisy count of a group that the last of a ledger's policies shows; None where any is."""
    found = policies[-1].said.get("groups", {}).get("minimum") if policies else None
    return None if found is None else int(found)


def counts_of(question: Any) -> tuple[str, ...]:
    """Return the names of the answers of a question, or of the first release of a statement, that are counts."""
    if isinstance(question, Question):
        return tuple(one.name for one in question.measures if one.kind in OWN_COUNT)
    if any(not any(_counts(one) for one in select.aggregates) for select in question.selects):
        return ()
    return tuple(one.name for one in question.selects[0].aggregates if _counts(one))


def _with_count(question: Any) -> str:
    """Return how a question is asked with a count beside its answers."""
    statement = "SELECT COUNT(*) beside the other columns"
    asked = question.measures[0] if isinstance(question, Question) else None
    if asked is None or asked.column is None or asked.kind not in ("sum", "mean"):
        return statement
    return f'agg({{{shorten(asked.column, 120)}: ["count", "{asked.kind}"]}}) or {statement}'


def _counts(aggregate: Any) -> bool:
    """Whether an aggregate of a statement counts rows or units."""
    return aggregate.kind in ("count", "units")


def read_policy(path: str | PathLike[str]) -> Policy:
    """Return the policy that a file says.

    Parameters
    ----------
    path
        Of a TOML file.

    Raises
    ------
    PolicyError
        If it cannot be read, has a key that there is not, a value of another kind, or contradicts itself; the text
        names the key and its line.
    """
    try:
        place = Path(fspath(path))
        large = place.stat().st_size > LARGEST_FILE
        text = "" if large else place.read_text(encoding="utf-8")
    except TypeError:
        raise PolicyError(f"a policy is the path of a TOML file, such as 'clinic.toml', not {shorten(path)}") from None
    except UnicodeDecodeError:
        raise PolicyError(f"{place.name} is no text in UTF-8, as a policy is") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no path"
        raise PolicyError(f"the policy {shorten(str(path), 200)} cannot be read: {why}") from None
    if large:
        raise PolicyError(f"{place.name} is too large to be a policy, which is a few lines such as\n{EXAMPLE}")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{place.name} is not written in TOML: {error}") from None
    return _PolicyReader(place, values, _lines_of(text)).policy()


def _lines_of(text: str) -> dict[str, int]:
    """Return the line of every key: `budget` for a table, `budget.epsilon` for what is in it."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if opened := _TABLE.match(line):
            table = opened[1]
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            parts = [part.strip(" \t\"'") for part in key[1].split(".")]
            named = ".".join([table, *parts] if table else parts)
            found.setdefault(named, number)
            found.setdefault(named.partition(".")[0], number)
    return found


class _PolicyReader:
    """Reads the values of a file, and says of what is wrong where it stands."""

    def __init__(self, path: Path, values: dict[str, Any], lines: Mapping[str, int]) -> None:
        self.path, self.values, self.lines = path, values, lines

    def policy(self) -> Policy:
        self._check_keys()
        if "budget" not in self.values:
            raise PolicyError(f"{self.path.name} has no budget: a policy begins with\n{EXAMPLE}")
        budget = self._budget()
        question, together = self._number("limits.question"), self._number("limits.all")
        if together is not None and together > budget.epsilon:
            self._fail("limits.all", f"allows ε = {together:g}, more than the budget's {budget.epsilon:g}")
        if question is not None and question > budget.epsilon:
            self._fail("limits.question", f"allows ε = {question:g}, more than the budget's {budget.epsilon:g}")
        if question is not None and together is not None and question > together:
            self._fail("limits.question", f"allows ε = {question:g}, more than limits.all does, which is {together:g}")
        minimum, ledger = self._get("groups.minimum"), self._get("ledger")
        whole = isinstance(minimum, int) and not isinstance(minimum, bool)
        if minimum is not None and not (whole and 1 <= minimum <= MOST_UNITS):
            self._fail("groups.minimum", f"is a whole number from 1, not {shorten(minimum)}")
        if ledger is not None and not (isinstance(ledger, str) and ledger):
            self._fail("ledger", f'is the path of a file, such as "clinic.ledger", not {shorten(ledger)}')
        return Policy(budget, question, together, minimum, ledger, str(self.path), self.lines)

    def _budget(self) -> Budget:
        epsilon = self._number("budget.epsilon")
        if epsilon is None:
            self._fail("budget", "has no epsilon: write epsilon = 1.0")
        delta, kept = self._number("budget.delta", zero=True), self._number("budget.threshold_delta", zero=True)
        noise = self._get("budget.noise")
        if noise is not None and noise not in tuple(LAWS):
            self._fail("budget.noise", f'is "laplace" or "gaussian", not {shorten(noise)}')
        if delta is not None and delta >= 1:
            self._fail("budget.delta", f"is a probability below 1, not {delta:g}")
        needs_delta = None if noise is None else LAWS[noise].needs_delta
        if needs_delta and not delta:
            self._fail("budget.noise", "is gaussian, which needs a delta: write delta = 1e-6 below epsilon")
        if needs_delta is False and delta and kept is None:
            self._fail(
                "budget.delta",
                f"is {delta:g}, and Laplace noise needs none: leave delta out, leave noise out for Gaussian noise, or "
                f"write threshold_delta = {delta:g} too, if it is to hide small groups of SQL alone",
            )
        if kept is not None and not delta:
            self._fail("budget.threshold_delta", "is a part of delta, and there is none: write delta = 1e-6")
        try:
            return Budget(epsilon, delta or 0.0, noise, kept)
        except AccuracyError as error:
            wrong = "threshold_delta" if kept is not None else "delta" if delta else "epsilon"
            self._fail(f"budget.{wrong}", f"cannot be: {error}")

    def _check_keys(self) -> None:
        for name, value in self.values.items():
            if name not in KEYS and name not in KEYS[""]:
                self._unknown(name, [*KEYS, *KEYS[""]])
            if name in KEYS and not isinstance(value, dict):
                self._fail(name, f"is a table: write [{name}] on a line of its own, and its keys below")
            for key in value if name in KEYS else ():
                if key not in KEYS[name]:
                    self._unknown(f"{name}.{key}", [f"{name}.{known}" for known in KEYS[name]])

    def _unknown(self, key: str, known: list[str]) -> NoReturn:
        close = get_close_matches(key, known, n=1, cutoff=0.6)
        there = ", ".join(name for name in known if name)
        self._fail(key, f"is no key of a policy; {f'did you mean {close[0]}?' if close else f'there are {there}'}")

    def _get(self, key: str) -> Any:
        table, _, name = key.rpartition(".")
        return (self.values.get(table, {}) if table else self.values).get(name)

    def _number(self, key: str, *, zero: bool = False) -> float | None:
        value = self._get(key)
        if value is None:
            return None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and (0 < value < float("inf") or (zero and value == 0))):
            self._fail(key, f"is a number {'from 0' if zero else 'above 0'}, not {shorten(value)}")
        return float(value)

    def _fail(self, key: str, what: str) -> NoReturn:
        line = self.lines.get(key, self.lines.get(key.partition(".")[0], 1))
        raise PolicyError(f"{self.path.name}, line {line}: {key} {what}")


def ledger_of(policy: Policy, given: str | Path | None) -> str:
    """Return the path of the ledger: the one that the file says, beside it, or the one that is given.

    Raises
    ------
    PolicyError
        If these are two different ones.
    """
    if policy.ledger is None:
        return MEMORY if given is None else fspath(given)
    said = policy.ledger if policy.ledger == MEMORY else str(Path(policy.path).parent / policy.ledger)
    if given is not None and _whole(fspath(given)) != _whole(said):
        raise PolicyError(
            f"{policy.place('ledger')} says {shorten(policy.ledger)}: leave ledger= out, or write the same"
        )
    return said


def opened_under(policy: Policy | None, path: str | Path, budget: Budget, timeout: float) -> Ledger:
    """Return an open ledger that is under a policy, or under none.

    Raises
    ------
    LedgerMismatch
        If its budget is another, or it is under another policy and no reason is given why that changes.
    """
    try:
        ledger = Ledger(path, budget, timeout=timeout)
    except LedgerMismatch as error:
        if policy is None:
            raise
        raise LedgerMismatch(f"{policy.place('budget.epsilon')}: {error}") from None
    try:
        _put_under(ledger, policy)
    except BaseException:
        ledger.close()
        raise
    return ledger


def _put_under(ledger: Ledger, policy: Policy | None) -> None:
    known = ledger.policies()
    if policy is None:
        if known:
            raise LedgerMismatch(
                f"{ledger.path} is under a policy ({known[-1].digest[:12]}): open it with "
                "dpn.Session.from_policy(...) and the file that says it"
            )
        return
    if not policy.budget.agrees(ledger.budget):
        raise LedgerMismatch(
            f"{policy.place('budget.epsilon')}: it says {policy.budget}, and the budget of {ledger.path} has been "
            f"raised to {ledger.budget}: write that, and the reason= for it"
        )
    if known and known[-1].digest != policy.digest and not policy.reason:
        key = _first_difference(policy, known[-1].said)
        raise LedgerMismatch(
            f"{policy.place(key)}: it says {_written(policy.said, key)}, and the policy that {ledger.path} is under "
            f"says {_written(known[-1].said, key)}. Write it back, or say why it changes, for every kernel: "
            f'dpn.Session.from_policy({policy.name!r}, reason="...")'
        )
    most = None if policy.together is None else ledger.accountant.units(policy.together)
    ledger.follow_policy(policy.said, most, before=len(known), reason=policy.reason)


def _whole(path: str) -> str:
    return path if path == MEMORY else str(Path(path).resolve())


def _first_difference(policy: Policy, before: Mapping[str, Any]) -> str:
    """Return the first key in which a policy is another than the one that a ledger has."""
    named = [f"{table}.{key}" for one in (policy.said, before) for table in one for key in one[table]]
    return next(key for key in named if _at(policy.said, key) != _at(before, key))


def _written(values: Mapping[str, Any], key: str) -> str:
    found = _at(values, key)
    return "nothing" if found is None else shorten(found)


def _at(values: Mapping[str, Any], key: str) -> Any:
    table, _, name = key.partition(".")
    return values.get(table, {}).get(name)
