"""What the ledger gives back: charges, and the records of noisy answers that belong to them."""

from __future__ import annotations

import hashlib
import itertools
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.ledger.chain import Broken
from dpnotebook.privacy.accountant import DELTA_UNITS
from dpnotebook.privacy.spend import CellCost

Integers = NDArray[np.signedinteger[Any]]

SMALLER = 0.75  # of the bytes: numbers are compressed if no more are left, since reading them back takes far longer
WHOLE = 8  # bytes of a number
NO_DELTA = Fraction(0)


@dataclass(eq=False)  # never changed, but a frozen one takes three times as long to make
class Charge:
    """A price that was paid: from now on the question may be asked of the data, and its answer recorded once.

    Parameters
    ----------
    number
        1, 2, 3, ... in the order in which charges were made.
    table
        The protected table that is asked.
    question
        The question in its canonical form.
    plan
        What the planner wants to find again, as JSON values.
    terms
        The cost in each cell of the table, as `CellCost.to_json` gives it.
    units
        By how much the session's total rose.
    time
        When it was charged, ISO 8601 in UTC.
    refines
        The measurements whose noisy answers those of this charge refine: of each, the number of its release and its
        place in it, from 0. Each is refined once, by one charge.
    delta
        What its thresholds cost beside the units.
    random_state
        The token of what is random about its answer; see `RandomStates`. None for what is free, and for charges of
        versions that kept none.
    since
        The number of the entry that said the domain of the table which it was charged under.
    """

    number: int
    table: str
    question: str
    plan: dict[str, Any]
    terms: list[dict[str, Any]] = field(repr=False)
    units: int
    time: str
    refines: tuple[tuple[int, int], ...]
    delta: Fraction = field(default=Fraction(0), kw_only=True)
    random_state: str | None = field(default=None, kw_only=True, repr=False)
    since: int = field(default=0, kw_only=True)

    @cached_property
    def cost(self) -> CellCost:
        """The cost in each cell of the table."""
        return CellCost.from_json(self.terms)  # when it is asked for: thousands of records are read for their answers


@dataclass(eq=False)
class Record(Charge):
    """A charge and the noisy answers it paid for: all that may ever be shown of them.

    Parameters
    ----------
    numbers
        The noisy answers of the strategy queries, as integers of as few bytes as hold them; read-only, one array a
        measurement.
    details
        What belongs to the answers, as JSON values.
    """

    numbers: tuple[Integers, ...] = field(repr=False)
    details: dict[str, Any]

    @cached_property
    def answers(self) -> tuple[NDArray[np.int64], ...]:
        """The noisy answers of the strategy queries; int64, read-only, one array a measurement."""
        return tuple(map(_whole, self.numbers))


def charge_from(values: dict[str, Any], time: str, since: int) -> Charge:
    """Return the charge that an entry's payload holds, of a table whose domain another entry said."""
    return Charge(*_charged(values, time), **_more(values, since))


def recorded_from(
    values: dict[str, Any], time: str, since: int, numbers: tuple[Integers, ...], details: dict[str, Any]
) -> Record:
    """Return the record of the charge that an entry's payload holds, as for `charge_from`."""
    return Record(*_charged(values, time), numbers=numbers, details=details, **_more(values, since))


def _charged(
    values: dict[str, Any], time: str
) -> tuple[int, str, str, dict[str, Any], list[dict[str, Any]], int, str, tuple[tuple[int, int], ...]]:
    return (
        values["number"],
        values["table"],
        values["question"],
        values["plan"],
        values["cost"],
        values["units"],
        time,
        tuple((number, place) for number, place in values.get("refines", ())),
    )


def _more(values: dict[str, Any], since: int) -> dict[str, Any]:
    delta = Fraction(values["delta"], DELTA_UNITS) if values.get("delta") else NO_DELTA
    return {"delta": delta, "random_state": values.get("random_state"), "since": since}


def record_from(charge: Charge, numbers: tuple[Integers, ...], details: dict[str, Any]) -> Record:
    """Return the record that belongs to a charge."""
    return Record(
        charge.number,
        charge.table,
        charge.question,
        charge.plan,
        charge.terms,
        charge.units,
        charge.time,
        charge.refines,
        numbers,
        details,
        delta=charge.delta,
        random_state=charge.random_state,
        since=charge.since,
    )


def pack(answers: Sequence[Any]) -> tuple[bytes, dict[str, Any]]:
    """Return integer arrays as one blob, and the JSON values that describe it.

    Of every number the lowest bytes are kept that hold all of them: what is left of noise is next to no shorter
    compressed, and ten thousand releases are read in a fraction of the time.

    Raises
    ------
    TypeError
        If an array is not of integers that fit 64 bits: noise is integer noise, and nothing else is ever recorded.
    """
    arrays = [np.asarray(answer) for answer in answers]
    for array in arrays:
        if not (np.issubdtype(array.dtype, np.integer) and np.can_cast(array.dtype, np.int64, "safe")):
            raise TypeError(f"recorded answers must be 64-bit integers, not {array.dtype}")
    values = np.concatenate([np.empty(0, dtype="<i8"), *(array.astype("<i8").ravel() for array in arrays)])
    # One bit more than the number farthest from 0 has, for the sign.
    width = max(int(values.max(initial=0)), ~int(values.min(initial=0))).bit_length() // WHOLE + 1
    raw = values.view(np.uint8).reshape(-1, WHOLE)[:, :width].tobytes()
    small = zlib.compress(raw, 6)
    compressed = not raw or len(small) <= SMALLER * len(raw)
    blob = small if compressed else raw
    about = {"bytes": len(blob), "sha256": hashlib.sha256(blob).hexdigest(), "width": width, "compressed": compressed}
    return blob, {"shapes": [list(array.shape) for array in arrays], **about}


def _whole(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return integers of 64 bits; what is no integer of fewer is left as it is: not every record is of a ledger."""
    if numbers.dtype.kind != "i" or numbers.dtype.itemsize == WHOLE:
        return numbers
    found = numbers.astype(np.int64)
    found.setflags(write=False)
    return found


def unpack(blob: object, about: object) -> tuple[Integers, ...]:
    """Return the arrays that `pack` wrote, read-only, of integers of as few bytes as hold all.

    Raises
    ------
    Broken
        If the blob is not the one that `about` describes.
    """
    try:
        digest, shapes = about["sha256"], [tuple(shape) for shape in about["shapes"]]  # type: ignore[index]
    except (KeyError, TypeError):
        raise Broken("what is said of its recorded answers cannot be read") from None
    if not isinstance(blob, bytes) or hashlib.sha256(blob).hexdigest() != digest:
        raise Broken("recorded answers were changed after they were written")
    try:
        # Ledgers of earlier versions say neither.
        width, compressed = about.get("width", WHOLE), about.get("compressed", True)  # type: ignore[attr-defined]
        values = _integers(zlib.decompress(blob) if compressed else blob, width)
        values.flags.writeable = False
        ends = [0, *itertools.accumulate(math.prod(shape) for shape in shapes)]
        if ends[-1] != values.size:
            raise Broken("recorded answers are not of the recorded shape")
        return tuple(
            values[start:end].reshape(shape) for start, end, shape in zip(ends, ends[1:], shapes, strict=False)
        )
    except (zlib.error, AttributeError, StopIteration, TypeError, ValueError):
        raise Broken("recorded answers are not of the recorded shape") from None


def _integers(raw: bytes, width: int) -> Integers:
    """Return the integers of which so many lowest bytes each were kept, shape (integers,)."""
    size = next(size for size in (1, 2, 4, WHOLE) if size >= width)
    if size == width:
        return np.frombuffer(raw, dtype=f"<i{width}")
    kept = np.frombuffer(raw, dtype=np.uint8).reshape(-1, width)
    whole = np.empty((len(kept), size), dtype=np.uint8)
    whole[:, :width] = kept
    whole[:, width:] = np.where(kept[:, -1:] > 127, 255, 0)  # the sign
    return whole.view(f"<i{size}").ravel()
