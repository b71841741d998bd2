"""An attribute of a kind that the package does not have: it is counted rightly, or refused."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.domain import schema
from dpnotebook.domain.attribute import UNLISTED, Attribute
from dpnotebook.domain.extension import has_every_value

LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True, repr=False)
class Initials(Attribute):
    """Texts by their first letter."""

    nullable: bool = False
    unit: str | None = field(default=None, compare=False)
    label: str | None = field(default=None, compare=False)
    kind: ClassVar[str] = "initials"
    holds: ClassVar[str] = "text"
    levels: ClassVar[tuple[str, ...]] = LETTERS
    regular: ClassVar[int] = len(LETTERS)
    other_label: ClassVar[None] = None

    def _codes(self, data):
        first = [str(value)[:1] for value in data.tolist()]
        return np.array([LETTERS.index(one) if one in self.levels else UNLISTED for one in first], dtype=np.int64)

    def _find(self, value, name):
        return slice(LETTERS.index(value), LETTERS.index(value) + 1)

    def _ordering(self, op, value, name):
        raise NotImplementedError

    def _regular_words(self, mask):
        return [repr(LETTERS[level]) for level in np.flatnonzero(mask[: self.regular])]

    def to_json(self):
        return {"kind": self.kind, "nullable": self.nullable}


@pytest.fixture
def names(monkeypatch):
    known = schema._levels_from_json
    ours = lambda obj: Initials(obj["nullable"]) if obj["kind"] == "initials" else known(obj)  # noqa: E731
    monkeypatch.setattr(schema, "_levels_from_json", ours)
    return pd.DataFrame({"name": ["Ann", "Abe", "Bob", None] * 100, "age": np.arange(400) % 5})


def test_levels_are_those_that_the_attribute_says(opened, names):
    domain = {"name": Initials(nullable=True), "age": dpn.Range(0, 4)}
    table = opened(exact=True, frame=names, domain=domain).table("people")
    found = table.histogram("name", epsilon=0.1).run().frame
    assert dict(zip(found["name"], found["value"], strict=True)) == dict.fromkeys(LETTERS, 0) | {
        "A": 200,
        "B": 100,
        None: 100,
    }
    sums = table.groupby("name").sum("age", epsilon=0.1).run().frame
    exact = names["age"].groupby(names["name"].str[0]).sum()
    assert sums.set_index("name")["value"][["A", "B"]].to_dict() == exact.to_dict()


def test_a_condition_that_nobody_has_said_in_sql_is_not_taken_for_a_list_of_values(opened, names):
    """As name IN ('A') it would select nobody, where it means Ann and Abe."""
    session = opened(exact=True, frame=names, domain={"name": Initials(nullable=True), "age": dpn.Range(0, 4)})
    with pytest.raises(dpn.EngineError):
        session.table("people").count(where="name == 'A'", epsilon=0.1).run()


def test_a_column_must_hold_what_the_attribute_does(opened, names):
    with pytest.raises(dpn.DomainError, match="which is for text, but the column holds numbers"):
        opened(frame=names, domain={"age": Initials()})


def test_a_kind_is_not_believed_to_have_every_value():
    assert not has_every_value(Initials(nullable=True))
    assert has_every_value(dpn.Categories(["a"], other="else", nullable=True))
    assert has_every_value(dpn.Range(0, 1, nullable=True))
    assert has_every_value(dpn.Times(by="hour", nullable=True))
    assert not has_every_value(dpn.Categories(["a"], nullable=True))
    assert not has_every_value(dpn.Range(0, 1))
    assert has_every_value(dpn.Dates("2020-01-01", "2020-12-31", by="month", outside="clamp", nullable=True))
    assert not has_every_value(dpn.Boolean(nullable=True))
