"""Keys with thousands of levels in them are what they were, and are written in a moment."""

import hashlib
import json

import pytest

import dpnotebook as dpn
from dpnotebook.sql import level_texts as texts
from dpnotebook.sql.level_texts import LevelTexts, dumps, level_texts, rows_in_sql


@pytest.mark.parametrize("levels", [(), (1, 2), ("a", 'b"c', "é\n\x00"), (True, None, 1.5), tuple(range(12))], ids=str)
def test_they_are_what_json_writes(levels):
    plain = list(map(str, levels))
    assert level_texts(levels) == plain
    told, known = (
        ["statement", {"b": [[True, part], [None, part]], "a": ("x", 1.5, None, [part])}, part]
        for part in (plain, level_texts(levels))
    )
    for sort_keys in (False, True):
        assert dumps(known, sort_keys=sort_keys) == json.dumps(told, sort_keys=sort_keys)
    assert json.dumps(known) == json.dumps(told)


def test_as_many_lists_as_one_likes():
    lists = [LevelTexts([str(i)]) for i in range(25)]
    assert dumps(lists) == json.dumps([[str(i)] for i in range(25)])


def test_equal_levels_of_other_types_have_their_own_texts():
    assert [level_texts(levels) for levels in ((1, 2), (1.0, 2.0), (True, 2))] == [
        ["1", "2"],
        ["1.0", "2.0"],
        ["True", "2"],
    ]
    assert level_texts(None) == []


def test_only_so_many_are_kept_and_ids_stay_theirs(monkeypatch):
    monkeypatch.setattr(texts, "KEPT", 3)
    for size in range(50):  # whose tuples have the ids of those that were dropped
        assert level_texts(tuple(range(size))) == [str(i) for i in range(size)]
    assert len(texts._kept) <= 3


def test_they_are_written_once(monkeypatch):
    levels = tuple(range(1_000))
    level_texts(levels)
    first = hashlib.sha256(dumps([level_texts(levels)]).encode()).hexdigest()
    written = []
    monkeypatch.setattr(
        texts.json, "dumps", lambda told, **more: written.append(told) or '[""]'.replace('""', f'"{told[0]}"')
    )
    assert hashlib.sha256(dumps([level_texts(levels)]).encode()).hexdigest() == first
    assert sum(map(len, written)) == 1


def test_long_texts_have_the_json_that_they_have_anyway():
    long = 'it\'s a "text" of é\n\\ ' * 1_000
    told = ["levels", {"rows": long, "of": [long[::-1], long, "short"]}, level_texts(("a", 1))]
    for _ in range(2):
        assert dumps(told) == json.dumps(told)
        assert dumps(long) == json.dumps(long)


def test_levels_in_sql_are_those_of_their_own_attribute():
    for _ in range(2):
        assert rows_in_sql(dpn.Categories([1, 2])) == "(1, 0), (2, 1)"
        assert rows_in_sql(dpn.Categories(["1", "it's"])) == "('1', 0), ('it''s', 1)"
        assert rows_in_sql(dpn.Categories([2, 1.5], other="rest")) == "(2, 0), (CAST('1.5' AS DOUBLE), 1)"
