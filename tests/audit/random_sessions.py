"""Random sessions over two tables of nasty values, on any engine, and whom they lose when somebody leaves."""

import re
from dataclasses import dataclass, replace

import everywhere
import numpy as np

import dpnotebook as dpn

DOMAIN = {
    "ward": dpn.Categories(["north", "east", "so'uth"], other="elsewhere", nullable=True),
    "stay": dpn.Range(0, 30, nullable=True),
    "fee": dpn.Bins(-200, 400, width=50, nullable=True),
    "urgent": dpn.Boolean(nullable=True),
}
WHERE = ["stay >= 10", "ward == 'north' or urgent", "fee.isna()", "fee < 100 and stay != 3", "not (ward == 'east')"]
KEYS = [
    "ward", "ward", "stay", "urgent", "note", "since", "seen", "price", "fee", "UPPER(note)", "note || ward",
    "stay % 3", "CAST(fee AS VARCHAR)", "EXTRACT(year FROM since)", "COALESCE(ward, note)", "stay / 2",
    "CASE WHEN fee > 0 THEN ward END", "CAST(stay AS DOUBLE)", "TRIM(note)", "LENGTH(note)", "CAST(note AS DOUBLE)",
    "-fee", "REPLACE(note, 'a', ward)", "CAST(seen AS DATE)", "SUBSTRING(note, 2, 3)", "price * stay",
]  # fmt: skip
VALUES = ["stay", "stay", "fee", "price", "stay * 2", "fee * fee", "-stay", "fee / stay", "CAST(note AS DOUBLE)"]
CONDITIONS = [
    "", "", " WHERE stay > 3", " WHERE NOT urgent", " WHERE ward <> 'north' OR fee > 0",
    " WHERE note IN ('a', 'A', '')",
    " WHERE since >= DATE '2020-06-01'", " WHERE fee > stay", " WHERE 1 / stay > 0", " WHERE price IS NULL",
]  # fmt: skip


@dataclass(frozen=True)
class Data:
    """Rows of two tables, and how they are declared.

    Parameters
    ----------
    rows
        Of each table, as dictionaries.
    units
        Of each table: the unit's column, None where each row is one.
    together
        Whether equal units of both tables are the same one, by what is declared.
    """

    rows: dict
    units: dict
    together: bool
    max_rows: int

    def without(self, rng):
        """Return the database without one unit: of one population, or of both where tables are joined on it."""
        leaving = ["stays", "people"] if self.together or rng.random() < 0.5 else [rng.choice(["stays", "people"])]
        there = {row["who"] for name in leaving for row in self.rows[name]} - {None}
        gone = sorted(there)[rng.integers(len(there))]
        rows = dict(self.rows)
        for name in leaving:
            if self.units[name] is None:
                place = rng.integers(len(rows[name]))
                rows[name] = rows[name][:place] + rows[name][place + 1 :]
            else:
                rows[name] = [row for row in rows[name] if row["who"] != gone]
        return replace(self, rows=rows)

    def declare(self, put):
        """Return what protects both tables of a session, put into an engine by `put(name, rows)`."""
        sources = {name: put(name, rows) for name, rows in self.rows.items()}

        def protect(session):
            for name, source in sources.items():
                unit = self.units[name]
                if unit and self.together:
                    unit = dpn.Unit("patient", column=unit)
                more = {"max_rows": self.max_rows} if unit else {}
                session.protect(source, name, unit=unit, domain=DOMAIN, **more)

        return protect


def random_data(rng, most=40):
    """Return random rows of both tables."""
    rows = {
        name: everywhere.made(int(rng.integers(8, most)), int(rng.integers(1 << 30))) for name in ("stays", "people")
    }
    for row in (*rows["stays"], *rows["people"]):
        if row["who"] is not None:
            row["who"] %= 7  # some have many rows, and many are in both
    alone = rng.random() < 0.2
    units = {"stays": None if alone else "who", "people": "who"}
    return Data(rows, units, bool(not alone and rng.random() < 0.6), int(rng.integers(1, 4)))


def random_question(rng):
    """Return a function that asks a session something; its attribute `text` says what."""
    question = _verb(rng) if rng.random() < 0.4 else _statement(rng)
    question.text = question.__doc__
    return question


def random_budget(rng):
    """Return a budget of one of the kinds, which is hardly ever used up."""
    return [dpn.Budget(500.0), dpn.Budget(500.0, 1e-4), dpn.Budget(500.0, 1e-4, noise="laplace")][rng.integers(3)]


def _choose(rng, values):
    return values[rng.integers(len(values))]


def _accuracy(rng):
    if rng.random() < 0.3:
        return {"error": float(rng.integers(2, 40))}
    return {"epsilon": float(_choose(rng, [0.05, 0.2, 1.0, 3.0]))}


def _verb(rng):
    table, accuracy = _choose(rng, ["stays", "people"]), _accuracy(rng)
    where = {"where": _choose(rng, WHERE)} if rng.random() < 0.5 else {}
    name, *args = _choose(
        rng,
        [
            ["count"], ["histogram", "stay"], ["histogram", "fee"], ["crosstab", "ward", "urgent"], ["sum", "stay"],
            ["mean", "fee"], ["quantile", "stay", 0.5], ["cdf", "fee"], ["answer", dpn.marginals(1)],
            ["answer", dpn.ranges("stay")], ["crosstab", "ward", "fee"],
        ],
    )  # fmt: skip
    keys = _choose(rng, ["ward", "urgent"]) if name in ("count", "sum", "mean") and rng.random() < 0.5 else None
    if name == "answer":
        where = {}
    if keys and where:
        where = {}

    def ask(session):
        asked = session.table(table)
        if keys:
            asked = asked.groupby(keys)
        return getattr(asked, name)(*args, **where, **accuracy)

    ask.__doc__ = f"{table}.{name}({args}, {keys}, {where}, {accuracy})"
    return ask


def _statement(rng):
    def source(depth):
        table = _choose(rng, ["stays", "people"])
        kind = rng.random()
        if depth == 0 or kind < 0.5:
            return table, ""
        if kind < 0.75:
            word = _choose(rng, ["JOIN", "JOIN", "LEFT JOIN", "FULL JOIN"])
            return f"stays AS s {word} people AS p ON s.who = p.who", _choose(rng, ["s.", "p."])
        inner, of = source(depth - 1)
        where = _choose(rng, CONDITIONS) if not of else ""
        columns = [c for c in everywhere.KINDS if c != "who"]
        if kind < 0.9:
            folded = ", ".join(
                f"{_choose(rng, ['MAX', 'MIN', 'SUM', 'AVG', 'COUNT'] if c in ('stay', 'fee') else ['MAX', 'MIN'])}"
                f"({of}{c}) AS {c}"
                for c in columns
                if c != "urgent"
            )
            return f"(SELECT {of}who, TRUE AS urgent, {folded} FROM {inner}{where} GROUP BY {of}who) AS q", ""
        word = _choose(rng, ["UNION ALL", "UNION", "EXCEPT"])
        listed = ", ".join(["who", *columns])
        return f"(SELECT {listed} FROM stays {word} SELECT {listed} FROM people) AS q", ""

    text, of = source(2)

    def named(expression):
        if not of:
            return expression
        for column in sorted(everywhere.KINDS, key=len, reverse=True):
            expression = _prefixed(expression, column, of)
        return expression

    key = named(_choose(rng, KEYS))
    value = named(_choose(rng, VALUES))
    calls = _choose(
        rng,
        [
            "COUNT(*) AS n", "COUNT(*) AS n", f"COUNT({value}) AS n", f"SUM({value}) AS s, COUNT(*) AS n",
            f"AVG({value}) AS a", f"COUNT(DISTINCT {of}who) AS d", f"VAR_POP({value}) AS v, COUNT(*) AS n",
            f"MEDIAN({value}) AS m", f"SUM({value}) AS s", f"CORR({of}stay, {value}) AS r, COUNT(*) AS n",
            f"COVAR_POP({value}, {of}fee) AS c",
        ],
    )  # fmt: skip
    where = named(_choose(rng, CONDITIONS))
    group = rng.random() < 0.85
    shown = f"{key} AS g, {calls}" if group else calls
    head = ""
    if rng.random() < 0.3:
        limit = _choose(rng, ["max_groups_contributed = 1", "max_groups_contributed = 3", "max_rows_contributed = 2"])
        head = f"WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, {limit}) "
    statement = f"SELECT {head}{shown} FROM {text}{where}" + (f" GROUP BY {key}" if group else "")
    accuracy = {} if head else {"epsilon": float(_choose(rng, [0.1, 1.0, 4.0]))}
    if rng.random() < 0.15 and not head:
        accuracy["contribution"] = "l2"

    def ask(session):
        return session.sql(statement, **accuracy)

    ask.__doc__ = f"{statement} {accuracy}"
    return ask


def _prefixed(expression, column, of):
    """Return an expression with a column's name said to be of a table, but not inside of quotes."""
    parts = re.split(r"('[^']*')", expression)
    return "".join(
        part if part.startswith("'") else re.sub(rf"(?<![\w.]){column}(?!\w)", f"{of}{column}", part) for part in parts
    )


def random_session(seed, questions=6):
    """Return a database, one without somebody, a budget and questions."""
    rng = np.random.default_rng(seed)
    data = random_data(rng)
    return data, data.without(rng), random_budget(rng), [random_question(rng) for _ in range(questions)]
