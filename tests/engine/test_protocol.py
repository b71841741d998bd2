"""Engines by their protocol: one that is added is used everywhere, and no other room asks which engine it is."""

import ast
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.engine import source as engines
from dpnotebook.engine.base import Source
from dpnotebook.engine.parts import PartsSource
from dpnotebook.engine.source import ENGINES, Engine, InDuckDB, engine_of, source_of
from dpnotebook.errors import DomainError
from dpnotebook.testing import exact_session

PACKAGE = Path(__file__).parents[2] / "dpnotebook"
DOMAIN = {"ward": dpn.Categories(["a", "b", "c"]), "age": dpn.Range(0, 99)}


class Columns:
    """Rows as some library might keep them, which no engine knows."""

    def __init__(self, **columns):
        self.columns = columns


class ColumnsEngine(InDuckDB):
    """An engine of somebody else's, which hands them on as a frame."""

    def source(self, data):
        return ENGINES[0].source(pd.DataFrame(data.columns)) if isinstance(data, Columns) else None


def people():
    rng = np.random.default_rng(3)
    return {"ward": rng.choice(["a", "b", "c"], 300), "age": rng.integers(0, 100, 300)}


def test_an_engine_that_is_added_answers_questions_and_statements(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    given = Columns(**people())
    with exact_session(dpn.Budget(epsilon=1.0)) as session:
        with pytest.raises(DomainError, match="cannot protect a Columns"):
            session.protect(given, "people", domain=DOMAIN)
        monkeypatch.setattr(engines, "ENGINES", (*ENGINES, ColumnsEngine()))
        table = session.protect(given, "people", domain=DOMAIN)
        exact = int(((given.columns["ward"] == "b") & (given.columns["age"] >= 50)).sum())
        assert table.count(where="ward == 'b' and age >= 50", epsilon=0.1).run().value == exact
        told = session.sql("SELECT COUNT(*) AS n FROM people WHERE ward = 'b' AND age >= 50", epsilon=0.1).run()
        assert told.value == exact


def test_every_place_has_an_engine_with_a_title():
    assert {engine.place: engine.title for engine in ENGINES} == {
        "duckdb": "DuckDB",
        "postgres": "PostgreSQL",
        "spark": "Spark",
    }
    assert engine_of(source_of(pd.DataFrame(people())).place).title == "DuckDB"


def test_no_other_room_asks_which_engine_it_is():
    folder = PACKAGE / "engine"
    defined = {
        node.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Source", "Engine", "Home", "Executor"))
    }
    assert {Source.__name__, Engine.__name__, PartsSource.__name__, "SparkSource", "PostgresHome"} <= defined
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if folder in path.parents:
            continue
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if any(name in source for name in defined) else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                named = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
                if named & defined:
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert found == []
