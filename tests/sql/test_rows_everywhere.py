"""The rows of statements are the same in PostgreSQL, whose names, types and joins are its own."""

import importlib.util
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from ownership_data import RELATIONS, TYPES, connect, selects, tables

from dpnotebook.engine.source import source_of
from dpnotebook.engine.workspace import Workspace

_spec = importlib.util.spec_from_file_location("ownership_statements", Path(__file__).parent / "test_ownership.py")
_statements = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_statements)

POSTGRES = {"VARCHAR": "text", "DOUBLE": "double precision"}
NAMES = ("visits", "users", "clients", "regions", "days")


@pytest.fixture(scope="module")
def both(postgres):
    """Return a connection to DuckDB and a workspace in PostgreSQL, with the same rows."""
    import psycopg

    data = tables(np.random.default_rng(4))
    workspace = Workspace()
    with psycopg.connect(postgres, autocommit=True) as connection:
        for name in NAMES:
            columns = re.sub(r"\b(VARCHAR|DOUBLE)\b", lambda found: POSTGRES[found.group()], TYPES[name])
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(f"CREATE TABLE {name} ({columns})")
            for row in data[name]:
                connection.execute(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(row))})", row)
            relation = RELATIONS[name]
            workspace.add(name, source_of((postgres, name)), relation.unit, private=relation.private)
    with connect(data) as here:
        yield here, workspace
    workspace.close()


def rows(columns):
    """Return the rows of a query as a multiset."""

    def plain(value):
        if value is np.ma.masked or value is None:
            return None
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, int | float):
            return float(f"{float(value):.9g}") + 0.0
        return str(value)[:10] if hasattr(value, "year") else value

    return Counter(tuple(map(repr, map(plain, row))) for row in zip(*columns.values(), strict=True))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("statement", [*_statements.SOUND, *_statements.AWKWARD])
def test_the_same_rows(statement, both):
    here, there = both
    for select in selects(statement):
        if "UNNEST" in select.rows or "people" in select.tables:
            continue
        found = there.run(select.rows, [*select.tables, *select.public])
        assert rows(found) == rows(here.execute(select.rows).fetchnumpy())
