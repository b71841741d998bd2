"""By what is multiplied what units have in groups of unlike size, before their vectors over groups are clipped.

Clipped to one norm, all groups have the same noise, which is little beside a large group and hides a small one. Where
units are in small groups with a small part of their rows, these are multiplied first, and the noisy number is divided
in the end: its noise is less by as much, and vectors are hardly longer. If all units were spread as all rows are, the
squared errors of all groups together would be least with the root of how much smaller a group is than the largest; a
little less than the root is hardly worse. Where units are in one group each, their vectors would be as much longer, and
those of small groups would be clipped: how much longer vectors are is told, and for little gain nothing is multiplied.

Both are noisy numbers that were paid for. Whatever they are, all vectors are clipped to one norm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.dialect.attributes import literal

Code = tuple[int | str | bool | None, ...]
Levels = Sequence[tuple[Any, ...] | None]  # of each key, as declared; None where none are

POWER = 0.4  # of how many times smaller a group is than the largest: what it is multiplied by, about
WEIGHTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # whole numbers, which keep whole numbers whole
HIDDEN = 3.0  # standard deviations of noise, up to which groups are taken to be alike
MOST_LISTED = 200  # groups that a query lists: all others are multiplied by the same


@dataclass(frozen=True)
class GroupWeights:
    """By what is multiplied what units have in groups.

    Parameters
    ----------
    listed
        Groups, by the numbers of their declared levels or by their values, each with its weight.
    others
        The weight of all other groups, which is no smaller.
    longer
        About how many times as long the vectors of units are by that.
    error
        About how many times as wrong all groups together are, root mean square, where vectors are clipped likewise.
    """

    listed: tuple[tuple[Code, int], ...] = ()
    others: int = 1
    longer: float = 1.0
    error: float = 1.0

    @property
    def unlike(self) -> bool:
        """Whether any group is multiplied at all."""
        return self.others > 1

    @cached_property
    def _found(self) -> Mapping[Code, int]:
        return dict(self.listed)

    def of(self, levels: Levels, groups: Sequence[tuple[Any, ...]]) -> tuple[int, ...]:
        """Return the weights of groups, as they are shown."""
        return tuple(self._found.get(code, self.others) for code in codes_of(levels, groups))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "listed": [[list(code), weight] for code, weight in self.listed],
            "others": self.others,
            "longer": self.longer,
            "error": self.error,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> GroupWeights:
        """Return what `to_json` wrote."""
        listed = tuple((tuple(code), weight) for code, weight in told["listed"])
        return cls(listed, told["others"], told["longer"], told["error"])


def weights_by_size(levels: Levels, groups: Sequence[tuple[Any, ...]], sizes: ArrayLike, noise: float) -> GroupWeights:
    """Return by what groups of such sizes are multiplied.

    Parameters
    ----------
    levels, groups
        What is declared of their keys, and the groups as they are shown.
    sizes
        How large they are, noisy, shape (groups,).
    noise
        Standard deviation of the noise on each.
    """
    if len(groups) < 2:
        return GroupWeights()
    told = np.maximum(np.asarray(sizes, dtype=float), max(HIDDEN * noise, 1.0))
    wanted, known = (told.max() / told) ** POWER, np.array(WEIGHTS)
    each = known[np.abs(np.log(wanted[:, None] / known)).argmin(axis=1)]
    few = [weight for weight in WEIGHTS if int((each < weight).sum()) <= MOST_LISTED]
    others = min(int(each.max()), few[-1])
    codes = codes_of(levels, groups)
    if not all(_is_plain(part) for code in codes for part in code):
        return GroupWeights()
    listed = zip(codes, map(int, each), strict=True)
    return GroupWeights(tuple((code, weight) for code, weight in listed if weight < others), others)


def codes_of(levels: Levels, groups: Sequence[tuple[Any, ...]]) -> list[Code]:
    """Return groups by the numbers of their declared levels, -1 of others, and by values where none are declared."""
    places = [None if known is None else {_told(level): i for i, level in enumerate(known)} for known in levels]
    return [
        tuple(
            value if place is None else place.get(_told(value), -1) for value, place in zip(group, places, strict=True)
        )
        for group in groups
    ]


def weight_sql(weights: GroupWeights, names: Sequence[str]) -> str:
    """Return SQL of the weight of a group, given the names of the columns of its keys."""
    by_weight: dict[int, list[str]] = {}
    for code, weight in weights.listed:
        same = (f"{n} IS NULL" if v is None else f"{n} = {literal(v)}" for n, v in zip(names, code, strict=True))
        by_weight.setdefault(weight, []).append(f"({' AND '.join(same)})")
    cases = " ".join(f"WHEN {' OR '.join(same)} THEN {weight}" for weight, same in sorted(by_weight.items()))
    return f"CASE {cases} ELSE {weights.others} END" if cases else str(weights.others)


def of_equal_size(sizes: NDArray[np.float64]) -> float:
    """Return how many groups of equal size would have as much noise on their means as these have, on average."""
    return float(sizes.sum() * (1.0 / sizes).mean()) if sizes.size else 1.0


def _is_plain(part: Any) -> bool:
    """Return whether a value of a key is the same in every database's SQL: whole numbers are, and most texts."""
    return part is None or isinstance(part, int) or (isinstance(part, str) and part.isprintable() and "\\" not in part)


def _told(value: Any) -> tuple[str, str]:
    return type(value).__name__, repr(value)
