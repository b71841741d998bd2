"""Charges are replayed without the plans of questions: what is known of the ledger is the same."""

import json
from pathlib import Path

import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.ledger.chain import GENESIS, Broken, entry_after, to_bytes
from dpnotebook.ledger.reading import snapshots
from dpnotebook.ledger.replay import Replay
from dpnotebook.ledger.without_plans import values_without_plan

EARLIER = sorted(path for path in (Path(__file__).parents[1] / "data").glob("*.sqlite"))
NASTY = ("cost", "columns", "plan", 'a "quoted", "cost":[', "units", "back\\slash")
PLAN = {
    "words": 'COUNT by a where b == "},\\"cost\\":["',
    "accuracy": "epsilon=0.01",
    "question": {"table": "t", "measures": [], "keys": ["cost"], "where": {"root": 1, "nodes": []}},
    "noise": "laplace",
    "units": 5,
    "measures": [],
    "instead": {"bound": 1, "cost": [1], "paid": [{"rate": "1", "norms": {"a": [[0, 1]], "cost": [[0, 1]]}}]},
}
CHARGE = {
    "number": 1,
    "table": "t",
    "question": "q",
    "plan": PLAN,
    "cost": [{"rate": "5", "norms": {"a": [[1, 0]], "cost": [[0, 2]]}}],
    "units": 5,
    "spent": 5,
    "cells": "00",
}


def charged(values):
    return entry_after(0, GENESIS, "charge", to_bytes(values))


def entries_of(connection):
    from dpnotebook.ledger.chain import entry_from_row
    from dpnotebook.ledger.reading import COLUMNS

    return [entry_from_row(row) for row in connection.execute(f"SELECT {COLUMNS} FROM entry ORDER BY number")]


def told(view):
    """Return all that a view says of its ledger."""
    tables = {
        name: [
            *(one.registered, one.digest, one.maximum, one.version, one.since),
            *(one.outside_of, one.units, one.charges, one.pending, one.measured),
        ]
        for name, one in view.tables.items()
    }
    lines = [(one.table, one.units, one.entry, one.since, one.record, one.measurements) for one in view.lines]
    return tables, lines, view.spent, view.delta, view.refined, view.random_states, view._read, view._questions


def test_only_the_plan_is_left_out():
    found = values_without_plan(charged(CHARGE | {"refines": [[1, 0]], "delta": 7, "random_state": "x"}))
    assert found == CHARGE | {"refines": [[1, 0]], "delta": 7, "random_state": "x", "plan": {"measures": []}}


@pytest.mark.parametrize("name", NASTY)
def test_names_that_look_like_what_is_written_around_them(name):
    plan = json.loads(json.dumps(PLAN).replace('"keys": ["cost"]', f'"keys": [{json.dumps(name)}]'))
    values = CHARGE | {"table": name, "plan": plan, "cost": [{"rate": "5", "norms": {"a": [[1, 0]], name: [[0, 2]]}}]}
    found = values_without_plan(charged(values))
    assert found in (values, values | {"plan": {"measures": []}})


@pytest.mark.parametrize("said", ["fingerprints", "columns", "profiles", "relations"])
def test_what_statements_say_is_read(said):
    values = CHARGE | {"plan": PLAN | {said: {"t": "u"}}}
    assert values_without_plan(charged(values)) == values
    values = CHARGE | {"plan": {"words": "x", said: ["t"]}}  # and measures nothing that the planner knows
    assert values_without_plan(charged(values)) == values


def test_what_is_written_otherwise_is_read_whole():
    values = {name: CHARGE[name] for name in reversed(CHARGE)}
    assert values_without_plan(charged(values)) == values
    assert values_without_plan(charged(CHARGE | {"plan": {}})) == CHARGE | {"plan": {}}


@pytest.mark.parametrize("cut", [1, 3, 60])
def test_what_is_cut_off_cannot_be_read(cut):
    entry = charged(CHARGE)
    entry.payload = entry.payload[:-cut]
    with pytest.raises(Broken, match="cannot be read"):
        values_without_plan(entry)


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: path.stem)
def test_ledgers_of_every_age_say_the_same(path):
    from dpnotebook.ledger.journals import as_it_lies

    with as_it_lies(str(path)) as connection:
        entries, kept = entries_of(connection), snapshots(connection)
    views = Replay(kept), Replay(kept)
    for entry in entries:
        views[0].apply(entry)
        views[1].take(entry)
    assert told(views[0]) == told(views[1])


def test_a_session_of_all_kinds_says_the_same(tmp_path):
    rows = pd.DataFrame({"cost": [n % 7 for n in range(90)], "columns": ["F", "M", "M"] * 30})
    session = dpn.Session(dpn.Budget(20.0, 1e-6), ledger=tmp_path / "one.ledger")
    table = session.protect(rows, "plan", domain={"cost": dpn.Range(0, 6), "columns": ["F", "M"]})
    table.histogram("cost", error=8.0).run()
    table.count(where="cost <= 3 and columns == 'F'", error=4.0).run()
    table.groupby(["cost", "columns"]).count(epsilon=0.5).run()
    table.sum("cost", epsilon=0.2).run()
    session.sql("SELECT columns, AVG(cost), COUNT(*) FROM plan GROUP BY columns", epsilon=0.5).run()
    session.sql("SELECT MEDIAN(cost) FROM plan WHERE cost * 2 > 3", epsilon=0.5).run()
    with session.ledger._reading() as (connection, _):
        entries = entries_of(connection)
    short = [entry for entry in entries if entry.kind == "charge" and values_without_plan(entry) != entry.values]
    assert len(short) >= 3
    views = Replay(), Replay()
    for entry in entries:
        views[0].apply(entry)
        views[1].take(entry)
    assert told(views[0]) == told(views[1])
    session.close()
