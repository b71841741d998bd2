"""Outputs of a mechanism as columns, and scores that tell two sets of outputs apart: what an audit looks at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Score = Callable[["Outputs"], Floats]

BINS = 50  # of a column of numbers, equally full
FEW = 1000  # different outputs up to which each is looked at by itself
STEADY, LEAST_STEADY = 1e-9, 1e-12  # of the whole spread, and at least, added to each part's: it can be inverted


class ShapesDiffer(ValueError):
    """Outputs of one mechanism do not have the same parts."""


@dataclass(frozen=True)
class Outputs:
    """Outputs part by part.

    Parameters
    ----------
    numbers
        The parts that are numbers, shape (outputs, parts).
    texts
        The parts that are not, as codes of their texts, shape (outputs, parts).
    whole
        A code of each output as a whole, shape (outputs,); all 0 where there are too many different ones.
    """

    numbers: Floats
    texts: Codes
    whole: Codes

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, chosen: slice) -> Outputs:
        return Outputs(self.numbers[chosen], self.texts[chosen], self.whole[chosen])


def read_outputs(*drawn: Sequence[Any]) -> list[Outputs]:
    """Return several sets of outputs part by part; equal texts have equal codes in all of them.

    Parameters
    ----------
    drawn
        Each output a number, a text, None, or something of several parts: an array, a sequence, a mapping, an object of
        pandas.

    Raises
    ------
    ShapesDiffer
        If they do not have the same parts.
    """
    known: dict[str, int] = {}
    tables = [_table(outputs, known) for outputs in drawn]
    shapes = {(numbers.shape[1], texts.shape[1]) for numbers, texts in tables}
    if len(shapes) > 1:
        raise ShapesDiffer
    rows = np.concatenate([np.hstack([numbers, texts.astype(np.float64)]) for numbers, texts in tables])
    whole = np.zeros(len(rows), dtype=np.int64)
    if rows.shape[1] and len(np.unique(rows[: 4 * FEW], axis=0)) <= FEW:
        codes = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        whole = codes if codes.max(initial=0) < FEW else whole
    ends = np.cumsum([0, *(len(numbers) for numbers, _ in tables)])
    return [
        Outputs(numbers, texts, whole[start:end])
        for (numbers, texts), start, end in zip(tables, ends, ends[1:], strict=False)
    ]


def scores(one: Outputs, other: Outputs) -> Iterator[tuple[str, Score]]:
    """Yield scores that are larger the more an output looks like one of the first set, each with its name.

    The best event of a guarantee is a set of outputs whose ratio of probabilities is large; each score estimates that
    ratio, or rises with it.
    """
    parts = one.numbers.shape[1] + one.texts.shape[1]
    if parts > 1 and one.whole.any():
        ratios = _of_codes(one.whole, other.whole)
        yield "which output it is", lambda outputs: ratios(outputs.whole)
    columns = [_of_bins(one.numbers[:, i], other.numbers[:, i]) for i in range(one.numbers.shape[1])]
    texts = [_of_codes(one.texts[:, i], other.texts[:, i]) for i in range(one.texts.shape[1])]
    for i, column in enumerate(columns):
        yield f"how large number {i + 1} is", partial(_number, i, np.positive)
        yield f"how small number {i + 1} is", partial(_number, i, np.negative)
        yield f"where number {i + 1} lies", partial(_number, i, column)
    for i, text in enumerate(texts):
        yield f"what text {i + 1} is", partial(_text, i, text)
    if parts > 1:

        def together(outputs: Outputs) -> Floats:
            found = [_number(i, column, outputs) for i, column in enumerate(columns)]
            found += [_text(i, text, outputs) for i, text in enumerate(texts)]
            return np.asarray(np.sum(found, axis=0))

        yield "all parts together, as if independent", together
    if len(columns) > 1:
        direction = _discriminant(one.numbers, other.numbers)
        yield "a weighted sum of the numbers", lambda outputs: outputs.numbers @ direction


def _number(place: int, score: Callable[[Floats], Floats], outputs: Outputs) -> Floats:
    return score(outputs.numbers[:, place])


def _text(place: int, score: Callable[[Codes], Floats], outputs: Outputs) -> Floats:
    return score(outputs.texts[:, place])


def _table(drawn: Sequence[Any], known: dict[str, int]) -> tuple[Floats, Codes]:
    if isinstance(drawn, np.ndarray) and drawn.dtype.kind in "biuf":
        return drawn.reshape(len(drawn), -1).astype(np.float64), np.empty((len(drawn), 0), dtype=np.int64)
    rows = [list(_parts(output)) for output in drawn]
    kinds = [isinstance(part, float) for part in rows[0]] if rows else []
    if any([isinstance(part, float) for part in row] != kinds for row in rows):
        raise ShapesDiffer
    numbers = [[part for part in row if isinstance(part, float)] for row in rows]
    texts = [[known.setdefault(part, len(known)) for part in row if isinstance(part, str)] for row in rows]
    return (
        np.array(numbers, dtype=np.float64).reshape(len(rows), sum(kinds)),
        np.array(texts, dtype=np.int64).reshape(len(rows), len(kinds) - sum(kinds)),
    )


def _parts(output: Any) -> Iterator[float | str]:
    if isinstance(output, (bool, np.bool_, str, bytes)) or output is None:
        yield repr(output)
    elif isinstance(output, Real):
        try:
            number = float(output)
        except OverflowError:
            number = math.inf if output > 0 else -math.inf  # type: ignore[operator]
        yield number
    elif isinstance(output, Mapping):
        for name, value in output.items():
            yield repr(name)
            yield from _parts(value)
    elif hasattr(output, "to_dict"):  # of pandas: names belong to it
        yield from _parts(output.to_dict())
    elif isinstance(output, np.ndarray):
        yield from _parts(output.tolist())
    elif isinstance(output, (list, tuple)):
        for part in output:
            yield from _parts(part)
    else:
        yield repr(output)


def _ratios(first: Codes, second: Codes) -> Floats:
    """Return the log ratio of two frequencies of each value; half a count more keeps it finite."""
    size = int(max(first.max(initial=0), second.max(initial=0))) + 1
    counts = [np.bincount(codes, minlength=size) + 0.5 for codes in (first, second)]
    return np.asarray(np.log(counts[0] / counts[1]))


def _of_codes(one: Codes, other: Codes) -> Callable[[Codes], Floats]:
    ratios = _ratios(one, other)
    # What was in neither set says nothing.
    return lambda codes: np.where(codes < ratios.size, ratios[np.minimum(codes, ratios.size - 1)], 0.0)


def _of_bins(one: Floats, other: Floats) -> Callable[[Floats], Floats]:
    """Return the log ratio of two densities of numbers, by bins that are equally full."""
    edges = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, BINS + 1)[1:-1]))
    ratios = _ratios(*(np.searchsorted(edges, values, side="right") for values in (one, other)))
    return lambda values: ratios[np.minimum(np.searchsorted(edges, values, side="right"), ratios.size - 1)]


def _discriminant(one: Floats, other: Floats) -> Floats:
    """Return Fisher's linear discriminant, shape (parts,)."""
    spread = np.atleast_2d(np.cov(one.T) + np.cov(other.T))
    steady = spread + np.eye(len(spread)) * max(STEADY * float(np.trace(spread)), LEAST_STEADY)
    return np.asarray(np.linalg.solve(steady, one.mean(axis=0) - other.mean(axis=0)))
