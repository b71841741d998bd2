"""What the person who publishes says of what is published."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, fields

from dpnotebook.errors import ArgumentError, shorten

LONGEST = 5_000  # characters of a text
DATE = "published"


@dataclass(frozen=True)
class About:
    """Texts for the report and for the registry; what is empty is left to be filled in.

    Parameters
    ----------
    title
        Of the report, and of the data product.
    curator, curator_type
        Who publishes it, and what that is: "Government", "Nonprofit", ...
    description, intended_use
        What is published, and what it is for.
    region, sector
        What the data is about: "France", "Healthcare".
    justification
        Why the budget and the bounds are what they are.
    published
        The day, as "2025-03-01".
    """

    title: str
    curator: str = ""
    curator_type: str = ""
    description: str = ""
    intended_use: str = ""
    region: str = ""
    sector: str = ""
    justification: str = ""
    published: str = ""

    def __post_init__(self) -> None:
        for one in fields(self):
            text = getattr(self, one.name)
            if not isinstance(text, str) or len(text) > LONGEST:
                raise ArgumentError(f"publish() takes {one.name}= as a text, not {shorten(text)}")
            object.__setattr__(self, one.name, " ".join(text.split()))
        try:
            datetime.date.fromisoformat(self.published)
        except ValueError:
            raise ArgumentError(f'{DATE}= is a day such as "2025-03-01", not {shorten(self.published)}') from None
        if not self.title:
            raise ArgumentError("a report needs a title=, such as 'Visits to the clinic'")
