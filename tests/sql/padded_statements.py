"""Random statements in which public tables are on the kept side of outer joins, and what DuckDB says of them."""

import duckdb

from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.statement import Relation

COLUMNS = {"id": "BIGINT", "k": "VARCHAR", "x": "DOUBLE"}
KINDS = {"id": "integer", "k": "text", "x": "number"}
IDS = [1, 1, 2, 2, 3, 4, None]
TEXTS = ["a", "b", "c", "", None]
REALS = [None, 0.0, 1.0, -2.5, 2.0, 0.75]
RELATIONS = {
    **{name: Relation(name, KINDS, unit="id", population="person", max_rows=2) for name in ("a", "b")},
    **{name: Relation(name, KINDS, private=False) for name in ("p", "q")},
}
OF_ROWS = {  # what an aggregate is, of the rows that are measured
    "count": "COUNT({})",
    "units": "COUNT(DISTINCT CASE WHEN {} IS NOT NULL THEN u END)",
    "sum": "SUM({})",
    "average": "AVG({})",
    "different values": "COUNT(DISTINCT {})",
}


def connect(rng, most=7):
    """Return a connection with random tables; protected rows of nobody, which take no part, are not there."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for name, relation in RELATIONS.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(f'{c} {t}' for c, t in COLUMNS.items())})")
        for _ in range(rng.integers(0, most + 1)):
            row = [values[rng.integers(len(values))] for values in (IDS, TEXTS, REALS)]
            if not relation.private or row[0] is not None:
                connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?)", row)
    return connection


def groups(rows):
    """Return what is in each group, without groups in which there is nothing."""
    found = {row[:1]: tuple(round(float(value or 0), 6) for value in row[1:]) for row in rows}
    return {key: values for key, values in found.items() if any(values)}


def of_rows(select):
    """Return SQL of what would be released without noise, of the rows that are measured."""
    items = [OF_ROWS[one.kind].format("1" if one.input is None else f"x{one.input}") for one in select.aggregates]
    key = "k0" if select.keys else "1"
    return f"SELECT {key}, {', '.join(items)} FROM ({select.rows}) {'GROUP BY 1' if select.keys else ''}"


def check(connection, statement, means=None):
    """Assert that a statement means what DuckDB says, of itself or of another; groups of nothing may be there or not.

    Returns whether it is one of rows: False of one above what is released.
    """
    found = analyse(statement, RELATIONS, rates=False)
    if found.outer is not None:
        return False
    (select,) = found.selects
    mine = groups(connection.execute(of_rows(select)).fetchall())
    theirs = connection.execute(means or statement).fetchall()
    theirs = groups(theirs if select.keys else [(1, *row) for row in theirs])
    assert mine == theirs, statement
    return True


class Padded:
    """Writes statements."""

    def __init__(self, rng):
        self.rng = rng

    def choose(self, *values):
        return values[self.rng.integers(len(values))]

    def chance(self, share):
        return self.rng.random() < share

    def statement(self):
        source, names = self.source()
        key = f"{self.choose(*names)}.k"
        key = self.choose(key, key, f"COALESCE({key}, {self.choose(*names)}.k)")
        if self.chance(0.3):
            return self.of_query(source, names, key)
        calls = ", ".join(f"{self.call(names)} AS n{place}" for place in range(self.choose(1, 1, 2)))
        if self.chance(0.2):
            return f"SELECT {calls} FROM {source}{self.where(names)}"
        return f"SELECT {key} AS g, {calls} FROM {source}{self.where(names)} GROUP BY 1"

    def of_query(self, source, names, key):
        if self.chance(0.4):
            below = f"SELECT s.id, {key} AS k, {self.choose('COUNT(*)', 'COUNT(s.k)', 'MAX(s.x)', 'SUM(m.x)')} AS x"
            below += f" FROM {source}{self.where(names)} GROUP BY 1, 2"
        else:
            below = f"SELECT {self.choose('', 'DISTINCT ')}s.id, {key} AS k, {self.number(names, 2)} AS x FROM {source}"
            below += self.where(names)
            if self.chance(0.2):
                below += " UNION ALL SELECT id, k, x FROM b"
        alone = ("w",)
        return f"SELECT w.k AS g, {self.call(alone)} AS n FROM ({below}) w{self.where(alone)} GROUP BY 1"

    def source(self):
        ours = self.choose("p m LEFT JOIN a s ON {}", "a s RIGHT JOIN p m ON {}").format(self.on("m", "s"))
        if self.chance(0.4):
            return ours, ("m", "s")
        if self.chance(0.2):
            return f"p m LEFT JOIN q n ON {self.on('m', 'n')} LEFT JOIN a s ON {self.on('n', 's')}", ("m", "n", "s")
        if self.chance(0.2):
            below = f"(SELECT s.id, m.k, s.x FROM {ours}{self.where(('m', 's'))}) s"
            return self.choose(f"p m LEFT JOIN {below}", f"{below} RIGHT JOIN p m") + f" ON {self.on('m', 's')}", (
                "m",
                "s",
            )
        if self.chance(0.5):
            word = self.choose("JOIN", "LEFT JOIN", "RIGHT JOIN")
            return f"{ours} {word} q n ON {self.condition(('m', 's', 'n'), 1)}", ("m", "s", "n")
        word = self.choose("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
        more = self.choose("", f" AND {self.condition(('m', 't'), 1)}")
        return f"{ours} {word} b t ON s.id = t.id{more}", ("m", "s", "t")

    def on(self, first, second):
        equal = f"{first}.k = {second}.k"
        return self.choose(equal, f"{first}.x <= {second}.x", f"{equal} AND {self.condition((first, second), 1)}")

    def where(self, names):
        if self.chance(0.1):
            return f" WHERE {self.text(names, 1)} IN (SELECT k FROM q)"
        return f" WHERE {self.condition(names, 2)}" if self.chance(0.4) else ""

    def call(self, names):
        unit = "w.id" if names == ("w",) else "s.id"
        return self.choose(
            "COUNT(*)",
            f"COUNT({unit})",
            f"COUNT(DISTINCT {unit})",
            f"COUNT({self.text(names, 2)})",
            f"COUNT({self.number(names, 2)})",
            f"SUM({self.number(names, 3)})",
            f"AVG({self.number(names, 2)})",
            f"COUNTIF({self.condition(names, 2)})",
            f"COUNT(DISTINCT {self.text(names, 1)})",
            f"SUM({self.number(names, 1)}) FILTER (WHERE {self.condition(names, 1)})",
        )

    def number(self, names, depth):
        column = f"{self.choose(*names)}.x"
        if depth <= 0 or self.chance(0.3):
            return self.choose(column, column, "1", "0", "NULL::DOUBLE")
        one, two = self.number(names, depth - 1), self.number(names, depth - 1)
        return self.choose(
            f"({one} + {two})",
            f"{one} * {two}",
            f"-({one})",
            f"ABS({one})",
            f"COALESCE({one}, {two})",
            f"NULLIF({one}, {two})",
            f"GREATEST({one}, {two})",
            f"LEAST({one}, {two})",
            f"LENGTH({self.text(names, depth - 1)})",
            f"CASE WHEN {self.condition(names, depth - 1)} THEN {one} END",
            f"CASE WHEN {self.condition(names, depth - 1)} THEN {one} ELSE {two} END",
            f"CASE {self.text(names, 0)} WHEN {self.text(names, 0)} THEN {one} ELSE {two} END",
            f"CAST({one} AS INTEGER)",
        )

    def text(self, names, depth):
        column = f"{self.choose(*names)}.k"
        if depth <= 0 or self.chance(0.4):
            return self.choose(column, column, column, "'a'")
        one, two = self.text(names, depth - 1), self.text(names, depth - 1)
        return self.choose(f"{one} || {two}", f"UPPER({one})", f"COALESCE({one}, {two})", f"NULLIF({one}, {two})")

    def condition(self, names, depth):
        if depth > 1 and self.chance(0.6):
            one, two = self.condition(names, depth - 1), self.condition(names, depth - 1)
            return self.choose(f"({one} AND {two})", f"({one} OR {two})", f"NOT ({one})")
        text, number = self.text(names, depth - 1), self.number(names, depth - 1)
        other = self.number(names, 0)
        return self.choose(
            f"{text} = {self.text(names, 0)}",
            f"{number} > {other}",
            f"{text} IS NULL",
            f"{number} IS NOT NULL",
            f"{text} IN ('a', 'b')",
            f"{text} NOT IN ('a', 'b')",
            f"{number} BETWEEN -1 AND {other}",
            f"{text} IS DISTINCT FROM 'a'",
            f"{number} IS NOT DISTINCT FROM {other}",
            f"({number} > 0) IS TRUE",
            f"({number} > 0) IS NOT FALSE",
            f"{text} LIKE 'a%'",
        )
