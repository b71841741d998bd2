"""Whole sessions on neighbouring databases: what a person sees before a charge is equal, and what the recorded answers
differ by is within what was paid.

The sessions are without noise, with one secret, and everything is read from outside: the cards, the texts of refusals,
the ledger's records. So it holds for whatever path a question takes, on any engine.
"""

import contextlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

import dpnotebook as dpn
from dpnotebook.ledger import writing
from dpnotebook.privacy import randomness
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.testing import exact_session

LEEWAY = Fraction(1, 10**6)  # prices are rounded to units of 10^-12


@dataclass
class Step:
    """What one question told: before it was charged, how it ended, and the columns of an answer."""

    before: str
    after: str = ""
    columns: dict = field(default_factory=dict)
    groups: list = field(default_factory=list)
    asked: str = ""


@dataclass
class Played:
    """What a session told, step by step, and what its ledger holds in the end."""

    steps: list[Step] = field(default_factory=list)
    tables: str = ""
    records: tuple = ()
    total: int = 0
    power: int = 1


def play(declare: Callable, asked: list[Callable], budget: dpn.Budget) -> Played:
    """Ask questions of a session without noise.

    Parameters
    ----------
    declare
        Protects the tables of the session that it is given.
    asked
        Each makes a lazy question of the session.
    budget
        The budget; what is over it is refused like anything else.
    """
    played = Played(power=1 if budget.noise == "laplace" else 2)
    with _one_secret(), contextlib.closing(exact_session(budget)) as session:
        declare(session)
        played.tables = session.tables().to_string()
        for question in asked:
            played.steps.append(_asked(session, question))
        found = [record for name in session.tables()["table"] for record in session.ledger.records(name)]
        played.records = tuple({record.number: record for record in found}.values())
        played.total = session.ledger.spent
    return played


def told_apart(one: Played, other: Played) -> str | None:
    """Return what tells two sessions apart but for their answers; None where nothing does."""
    if one.tables != other.tables:
        return f"the list of tables:\n{one.tables}\n{other.tables}"
    for first, second in zip(one.steps, other.steps, strict=True):
        for what in ("before", "after", "columns"):
            mine, its = getattr(first, what), getattr(second, what)
            # What groups are there is part of an answer, and what their columns hold follows from it.
            if mine != its and (what != "columns" or first.groups == second.groups):
                return f"{what} of {first.asked}:\n{mine}\n--- and without somebody:\n{its}"
    return None


def loss(one: Played, other: Played) -> Fraction:
    """Return what the answers of two sessions lose together, as a share of what was charged: at most 1 is right.

    A measurement that a later one refines is part of it, and counts once, with the least noise.
    """
    assert [record.number for record in one.records] == [record.number for record in other.records]
    refined = {place for record in one.records for place in record.refines}
    lost = Fraction(0)
    for mine, its in zip(one.records, other.records, strict=True):
        lost += sum(
            (share for place, share in _losses(mine, its, one.power) if (mine.number, place) not in refined),
            Fraction(0),
        )
    paid = Fraction(one.total, UNITS)
    if not paid:
        assert not lost
        return Fraction(0)
    return lost / (paid * (1 + LEEWAY))


@contextlib.contextmanager
def _one_secret():
    """Let all that samples rows draw from one secret: whom it keeps is independent of who else is there."""
    known = {"writing.secrets": (writing, "secrets", SimpleNamespace(token_bytes=lambda size: bytes(range(size))))}
    known["random_bytes"] = (randomness, "random_bytes", lambda size: bytes(range(size)))
    before = {name: getattr(module, attribute) for name, (module, attribute, _) in known.items()}
    try:
        for module, attribute, drawn in known.values():
            setattr(module, attribute, drawn)
        yield
    finally:
        for name, (module, attribute, _) in known.items():
            setattr(module, attribute, before[name])


def _asked(session, question) -> Step:
    try:
        query = question(session)
        plan = query.plan
        step = Step(f"{query!r}\n{plan.cost}\n{plan!r}", asked=getattr(question, "text", ""))
    except Exception as error:  # a refusal: nothing is spent
        return Step(_told(error), asked=getattr(question, "text", ""))
    try:
        release = query.run()
    except Exception as error:
        step.after = _told(error)
        return step
    frame = release.frame
    step.columns = {name: str(kind) for name, kind in frame.dtypes.items()}
    step.groups = sorted(map(repr, frame.iloc[:, 0]))
    return step


def _told(error) -> str:
    """Return all that an error says, whichever way it is looked at."""
    return "".join(traceback.format_exception_only(error)) + repr((error.__cause__, error.__context__))


def _losses(mine, its, power):
    """Yield, of each measurement of a record, its place and what two neighbours' answers lose of privacy."""
    if "measures" in mine.plan:
        planned = [*mine.plan["measures"], *mine.plan.get("items", ())]
        for place, (item, a, b) in enumerate(zip(planned, mine.answers, its.answers, strict=True)):
            scale = Fraction(item["scale"]) * 2 ** item["bits"]
            yield place, _loss(_differences(a, b), [scale] * a.size, power)
        return
    pairs = zip(mine.details["selects"], its.details["selects"], mine.answers, its.answers, strict=True)
    for place, (about, same, a, b) in enumerate(pairs):
        measuring = Measuring.from_json(about["measuring"])
        if about["measuring"] != same["measuring"]:
            continue  # bounds that were found differ; their price is tested where they are found
        first = {tuple(map(repr, key)): row for key, row in zip(about["keys"], a, strict=True)}
        second = {tuple(map(repr, key)): row for key, row in zip(same["keys"], b, strict=True)}
        assert len(first) == len(a)
        assert len(second) == len(b)
        nothing = np.zeros(measuring.measured, dtype=object)
        for key in first.keys() | second.keys():
            yield place, _loss(_differences(first.get(key, nothing), second.get(key, nothing)), measuring.scales, power)


def _differences(a, b):
    return [int(x) - int(y) for x, y in zip(np.ravel(a).tolist(), np.ravel(b).tolist(), strict=True)]


def _loss(differences, scales, power):
    return sum((Fraction(abs(d)) / s) ** power for d, s in zip(differences, scales, strict=True) if d)
