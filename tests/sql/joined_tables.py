"""Tables of several populations, random statements that join them, and what it changes when somebody leaves.

A population is a set of tables whose equal units leave at once; it is what `Relation.population` says, written down a
second time: a table without a name in it is alone.
"""

import itertools
from collections import Counter

import duckdb
import numpy as np
from added_up import SECRET, every

from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.rewrite.bounded_aggregation import totals
from dpnotebook.sql.statement import Relation

COLUMNS = {"id": "BIGINT", "k": "VARCHAR", "x": "DOUBLE"}
KINDS = {"id": "integer", "k": "text", "x": "number"}
IDS = [1, 1, 2, 2, 3, 4, 5, None]
TEXTS = ["a", "b", "c", "", None]
REALS = [None, 0.0, 1.0, -2.5, 2.0, 1e300, float("inf"), float("nan"), 0.75]
PRIVATE = ("a", "b", "c", "d")


def relations(populations, max_rows=2):
    """Return what is declared: four tables of populations (None: alone; "row": units are rows), and a public one."""
    found = {}
    for name, population in zip(PRIVATE, populations, strict=True):
        if population == "row":
            found[name] = Relation(name, KINDS, unit=None)
        else:
            found[name] = Relation(name, KINDS, unit="id", max_rows=max_rows, population=population)
    found["p"] = Relation("p", KINDS, private=False)
    return found


def leaving(known):
    """Return populations, each as the tables that somebody leaves at once: those of a name, and tables alone."""
    found = {}
    for name, relation in known.items():
        if relation.private:
            found.setdefault(relation.population or ("alone", name), []).append(name)
    return list(found.values())


def unit_of(relation):
    return relation.unit or "__row__"


def connect(known, rng, most=9):
    """Return a connection with random rows in every table."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for name, relation in known.items():
        numbered = relation.private and relation.unit is None
        columns = ({"__row__": "BIGINT"} if numbered else {}) | COLUMNS
        connection.execute(f"CREATE TABLE {name} ({', '.join(f'{c} {t}' for c, t in columns.items())})")
        rows = [
            [number] * numbered + [values[rng.integers(len(values))] for values in (IDS, TEXTS, REALS)]
            for number in range(rng.integers(0, most + 1))
        ]
        if rows:
            marks = ", ".join(f"({', '.join('?' for _ in columns)})" for _ in rows)
            connection.execute(f"INSERT INTO {name} VALUES {marks}", list(itertools.chain(*rows)))
    return connection


def departures(connection, known, tables):
    """Yield whoever can leave: (what leaves, of which tables), with the tables as they are then.

    Somebody leaves one population of those that are read, or several at once: two may be the same people after all.
    """
    populations = [names for names in leaving(known) if {*names} & {*tables}]
    for count in range(1, len(populations) + 1):
        for chosen in itertools.combinations(populations, count):
            names = list(itertools.chain(*chosen))
            units = {
                unit
                for name in names
                for (unit,) in connection.execute(f"SELECT DISTINCT {unit_of(known[name])} FROM {name}").fetchall()
                if unit is not None
            }
            for unit in sorted(units):
                connection.execute("BEGIN")
                for name in names:
                    connection.execute(f"DELETE FROM {name} WHERE {unit_of(known[name])} = ?", [unit])
                try:
                    yield unit, names
                finally:
                    connection.execute("ROLLBACK")


def bag(connection, query):
    """Return the rows of a query: how often there is each (unit, all of the row)."""
    return Counter((row[0], repr(row)) for row in connection.execute(query).fetchall())


def owned(connection, select, known):
    """Return whether whoever leaves takes all of their rows along, and no others: None if so, else who did not."""
    before = bag(connection, select.rows)
    for unit, names in departures(connection, known, select.tables):
        if bag(connection, select.rows) != {key: n for key, n in before.items() if key[0] != unit}:
            return unit, names
    return None


def influence(connection, select, known, components):
    """Return the most that anybody who leaves changes the totals of each component, as a share of what is paid for.

    Shape (components, 2): in L1 and in squared L2; what is paid for is `Component.norm`.
    """

    def run(query):
        return connection.execute(query).fetchnumpy()

    def found():
        all_of = totals(select, components, run, SECRET)
        return dict(zip(all_of.keys, all_of.numbers.astype(object), strict=True))

    before, worst = found(), np.zeros((len(components), 2))
    nothing = np.zeros(sum(c.width for c in components), dtype=object)
    for _ in departures(connection, known, select.tables):
        after = found()
        changed = np.array([before.get(k, nothing) - after.get(k, nothing) for k in {*before, *after}] or [nothing])
        start = 0
        for i, c in enumerate(components):
            mine = np.abs(changed[:, start : start + c.width])
            for power in (1, 2) if select.contribution.kind != "l2" else (2,):
                worst[i, power - 1] = max(
                    worst[i, power - 1], float((mine**power).sum() / c.norm(select.contribution, power))
                )
            start += c.width
    return worst


def components_of(select):
    """Return components of everything that can be measured of a select."""
    if select.inputs:
        return every(select.contribution, -3, 5)
    return [c for c in every(select.contribution, -3, 5) if c.input is None]


class Joins:
    """Writes random statements whose queries all give id, k and x; many are refused.

    Parameters
    ----------
    rng
        The numpy generator of choices.
    """

    def __init__(self, rng):
        self.rng, self.aliases = rng, 0

    def choose(self, *values):
        return values[self.rng.integers(len(values))]

    def chance(self, share):
        return self.rng.random() < share

    def statement(self):
        """Return an aggregation over joined tables."""
        self.aliases = 0
        common = f"WITH w AS ({self.query(1)}) " if self.chance(0.2) else ""
        self.names = [*PRIVATE, *PRIVATE, "p", *(["w", "w"] if common else [])]
        source, unit, aliases = self.joined(2)
        where = self.where(aliases)
        if self.chance(0.3):  # of groups
            limit = self.choose("max_groups_contributed = 1", "max_groups_contributed = 2", "max_rows_contributed = 2")
            head = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, {limit}) "
        else:
            head = "SELECT "
        key = self.value("k", aliases)
        asked = self.choose(
            "COUNT(*) AS n", f"SUM({self.value('x', aliases)}) AS s, COUNT(*) AS n", f"COUNT(DISTINCT {unit}) AS n"
        )
        return f"{common}{head}{key} AS g, {asked} FROM {source}{where} GROUP BY {key}"

    def query(self, depth):
        """Return a query that gives id, k and x."""
        if not hasattr(self, "names"):
            self.names = [*PRIVATE, "p"]
        if self.chance(0.25):
            word = self.choose("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL")
            return f"{self.select(depth)} {word} {self.select(depth)}"
        return self.select(depth)

    def select(self, depth):
        source, unit, aliases = self.joined(depth)
        k, x = self.value("k", aliases), self.value("x", aliases)
        where = self.where(aliases)
        if self.chance(0.2):
            return f"SELECT {unit} AS id, MAX({k}) AS k, SUM({x}) AS x FROM {source}{where} GROUP BY {unit}"
        distinct = "DISTINCT " if self.chance(0.15) else ""
        return f"SELECT {distinct}{unit} AS id, {k} AS k, {x} AS x FROM {source}{where}"

    def joined(self, depth):
        """Return sources that are joined, what their unit is, and what they are called."""
        text, first = self.source(depth)
        aliases, unit = [first], f"{first}.id"
        using = self.chance(0.4)
        for _ in range(self.choose(0, 1, 1, 2) if depth > 0 else 0):
            right, alias = self.source(depth - 1)
            how = self.choose("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
            if using:
                text, unit = f"{text} {how} {right} USING (id)", "id"
            else:
                before = self.choose(unit, unit, unit, f"{self.choose(*aliases)}.id")
                more = self.choose(
                    "", "", f" AND {alias}.x > 0", f" AND {self.choose(*aliases)}.k = {alias}.k", f" AND {unit} > 2"
                )
                text = f"{text} {how} {right} ON {before} = {alias}.id{more}"
                unit = (
                    f"{alias}.id"
                    if how == "RIGHT JOIN"
                    else self.choose(unit, f"{alias}.id")
                    if how == "JOIN"
                    else unit
                )
            aliases.append(alias)
        return text, unit, aliases

    def source(self, depth):
        self.aliases += 1
        alias = f"t{self.aliases}"
        if depth > 0 and self.chance(0.35):
            return f"({self.query(depth - 1)}) AS {alias}", alias
        name = self.choose(*self.names)
        return f"{name} AS {alias}", alias

    def value(self, name, aliases):
        first, last = (f"{self.choose(*aliases)}.{name}" for _ in range(2))
        return self.choose(first, last, last, f"COALESCE({first}, {last})")

    def where(self, aliases):
        if not self.chance(0.3):
            return ""
        column = self.choose(*aliases)
        return self.choose(
            f" WHERE {column}.k IS NULL",
            f" WHERE {column}.x > 0 OR {column}.k = 'a'",
            f" WHERE {column}.id IS NOT NULL",
            f" WHERE EXISTS (SELECT 1 FROM p WHERE p.k = {column}.k)",
        )


def accepted(statement, known):
    """Return the private selects of a statement; None where it is refused."""
    from dpnotebook.errors import DPError

    try:
        return analyse(statement, known).selects
    except DPError:
        return None
