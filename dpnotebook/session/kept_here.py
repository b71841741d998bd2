"""What must not be written into a file by `pickle`: behind it are private rows, and the key of a ledger."""

from __future__ import annotations

from typing import Any, NoReturn, Self, SupportsIndex

from dpnotebook.errors import ArgumentError


class KeptHere:
    """What belongs to a session: it is not pickled, by whatever means, and a copy of it is the same object.

    Each class says what to write instead, in a sentence without its full stop.
    """

    def _elsewhere(self) -> str:
        """Return what to write instead of pickling it."""
        raise NotImplementedError

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise ArgumentError(
            f"a {type(self).__name__} cannot be pickled, or sent to another process: it leads to private rows. "
            f"{self._elsewhere()}"
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
