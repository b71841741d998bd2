"""What workloads that are said by names need to know of a domain; `schema.Domain` is that."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from dpnotebook.domain.attribute import Attribute


@runtime_checkable
class NamedAttributes(Protocol):
    """Attributes in order, each under its name."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""

    def __contains__(self, name: object) -> bool:
        """Whether there is one of that name."""

    def __getitem__(self, name: str) -> Attribute:
        """Return the one of that name."""

    def __len__(self) -> int:
        """Return how many there are."""

    def unknown(self, name: str) -> str:
        """Return what to say of a name that none has."""
