"""What private aggregations add up to, read literally and slowly, with exact arithmetic; and hand-made tables."""

import hashlib
import itertools
import math
from collections import defaultdict
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cache

import duckdb
import pandas as pd

from dpnotebook.engine.source import source_of
from dpnotebook.engine.workspace import Workspace
from dpnotebook.sql.bounded_sums import ROWS_SAMPLED, Component, Partner
from dpnotebook.sql.select import Contribution, Key, PrivateSelect

SECRET = "0123456789abcdef0123456789abcdef"


def component(statistic, low=0, high=1, step=1, largest=None, column=0, edges=(), other=None):
    """Return a component of the first input; the largest that fits one row or one value when not given."""
    low, high, step = Fraction(low), Fraction(high), Fraction(step)
    if largest is None:
        half = math.ceil((high - low) / 2 / step)
        most = max(abs(low), abs(high))
        largest = {"average": half, "centred": ROWS_SAMPLED * half, "bins": ROWS_SAMPLED}.get(
            statistic, max(1, math.floor(most / step))
        )
    return Component(statistic, column, low, high, step, largest, edges, other)


def every(contribution, low=-10, high=10, step=Fraction(1, 4), column=0, edges=(-10.0, -2.5, 0.0, 4.0, 10.0)):
    """Return components of all statistics that have a meaning."""
    low, high, step = Fraction(low), Fraction(high), Fraction(step)
    half = (high - low) / 2
    if contribution.kind == "l2":
        return [
            component("units", 0, 1, Fraction(1, 64), 64, None),
            component("count", 0, 3, Fraction(1, 2**20), 3 * 2**20, None),
            component("count", 0, 3, Fraction(1, 2**20), 3 * 2**20, column),
            component("sum", 0, high, step, math.floor(high / step), column),
            component("groups", 0, Fraction(5, 4), Fraction(1, 2**20), 5 * 2**18, None),
            replace(component("count", 0, 5, Fraction(1, 2**20), 3 * 2**20, None), beyond=2 * 2**20),
            replace(
                component("sum", 0, 2 * high, step, math.floor(high / step), column), beyond=math.ceil(high / step)
            ),
            *together(low, high, column),
            *centred_elsewhere(low, high, column),
        ]
    rows = 1 if contribution.kind == "rows" else ROWS_SAMPLED
    found = [
        component("units", column=None),
        component("count", 0, 3, column=None) if contribution.kind == "groups" else component("count", column=None),
        component("count", 0, 3, column=column) if contribution.kind == "groups" else component("count", column=column),
        component("sum", low, high, step, column=column),
        component("values", low, high, 1, rows, column),
        component("centred", low, high, step, rows * math.ceil(half / step), column),
        component("square", low, high, step, rows * math.ceil(half * half / step), column),
        component("bins", low, high, 1, rows, column, edges),
    ]
    if contribution.kind == "groups":
        found += [component("average", low, high, step, column=column), component("values", low, high, 1, 1, column)]
    return found


def together(low, high, column=0, norm=3, steps=2**20):
    """Return the parts of one vector: number of values, their centred sum and that of their squares, in half-widths."""
    half, step = (high - low) / 2, Fraction(norm, steps)
    parts = {"values": step, "centred": step * half, "square": step * half * half}
    return [Component(name, column, low, high, each, steps, together=7) for name, each in parts.items()]


def centred_elsewhere(low, high, column=0, norm=3, steps=2**20):
    """Return parts of one vector: how many values, how far from a quarter of the way, in eighths, and their squares."""
    centre, length = low + (high - low) / 4, (high - low) / 8
    step = Fraction(norm, steps)
    spread, usual = 8 * length * length, {"usual": length * length}
    parts = {"values": (1, None, {}), "centred": (length, centre, {}), "square": (spread, centre, usual)}
    return [
        Component(name, column, low, high, step * each, steps, together=8, centre=middle, **more)
        for name, (each, middle, more) in parts.items()
    ]


def pairs(contribution, half=64):
    """Return components of pairs of the first two inputs, whose steps are dyadic; a factor has at most `half` steps."""
    rows = 1 if contribution.kind == "rows" else ROWS_SAMPLED
    x, y = (Fraction(-10), Fraction(10)), (Fraction(0), Fraction(4))
    step_x, step_y = Fraction(10, half), Fraction(2, half)
    of_x, of_y = {"column": 0, "other": Partner(1, *y)}, {"column": 1, "other": Partner(0, *x)}
    return [
        component("values", *x, 1, rows, **of_x),
        component("centred", *x, step_x, rows * half, **of_x),
        component("centred", *y, step_y, rows * half, **of_y),
        component("product", *x, step_x * step_y * half, rows * half, **of_x),
        component("square", *y, step_y * step_y * half, rows * half, **of_y),
        component("values", *x, 1, rows),  # of values, with a partner or without
    ]


def select(keys=1, inputs=1, kind="groups", most=1, **more):
    """Return a private aggregation of the table of `connect`; its keys are texts unless given."""
    keys = tuple(Key(f"g{i}") for i in range(keys)) if isinstance(keys, int) else tuple(keys)
    columns = ["u", *(f"k{i}" for i in range(len(keys))), *(f"x{i}" for i in range(inputs))]
    given = {
        "rows": f'SELECT {", ".join(columns)} FROM "the table" WHERE u IS NOT NULL',
        "tables": ("the table",),
        "public": (),
        "keys": keys,
        "aggregates": (),
        "inputs": inputs,
        "contribution": Contribution(kind, most),
        "selection": "threshold" if keys else "all",
    }
    return PrivateSelect(**(given | more))


@cache
def _database(threads):
    """Return an empty database: opening one takes longer than what most tests ask of it."""
    database = duckdb.connect()
    database.execute(f"SET threads = {threads}")
    return database


def connect(table, types=None, threads=1):
    """Return a function that runs SQL over rows, a list of tuples or a frame: columns `u`, `k0`, ..., `x0`, ....

    Parameters
    ----------
    table
        The rows, by column.
    types
        DuckDB's types of columns; text for keys and units, DOUBLE for inputs when not given.
    """
    connection = _database(threads).cursor()  # which sees its own temporary tables alone
    if isinstance(table, pd.DataFrame):
        connection.register("the table", table)
    else:
        usual = {name: "DOUBLE" if name.startswith("x") else "VARCHAR" for name in table}
        kinds = usual | (types or {})
        connection.execute(f'CREATE TEMP TABLE "the table" ({", ".join(f"{name} {kinds[name]}" for name in table)})')
        rows = [list(row) for row in zip(*table.values(), strict=True)]
        if rows:
            marks = ", ".join(f"({', '.join('?' for _ in table)})" for _ in rows)
            connection.execute(f'INSERT INTO "the table" VALUES {marks}', [value for row in rows for value in row])
    return lambda query: connection.execute(query).fetchnumpy()


@contextmanager
def connect_postgres(address, name, kinds, rows):
    """Give a function that runs SQL over rows that stand in a table of PostgreSQL, whose unit is `u`.

    Parameters
    ----------
    address, name
        Of the database, and of the table.
    kinds
        Types of its columns, by name.
    rows
        Tuples.
    """
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in kinds.items())})")
        for row in rows:
            connection.execute(f"INSERT INTO {name} VALUES ({', '.join('%s' for _ in kinds)})", row)
    with closing(Workspace()) as workspace:
        workspace.add(name, source_of((address, name)), "u", private=True)
        yield lambda query: workspace.run(query, [name])


def digest(key, *parts):
    """Return what decides which rows and groups of a unit are drawn."""
    return hashlib.md5("|".join([key, *parts]).encode()).hexdigest()


def text(value, plain=False):
    """Return the text of one key of a group, as digests have it."""
    if value is None:
        return ""
    return str(value) if plain else hashlib.md5(str(value).encode()).hexdigest()


def number(value):
    """Return an input as a number: None where it is missing; far beyond all bounds there is no further."""
    if value is None or math.isnan(value):
        return None
    return Fraction(min(max(value, -1e30), 1e30))


def nearest(value, least=None, most=None):
    """Return the nearest whole number, halves up, clamped."""
    whole = math.floor(value + Fraction(1, 2))
    whole = whole if least is None else max(whole, least)
    return whole if most is None else min(whole, most)


def clamp(value, component):
    """Return a value within the bounds of a component."""
    return min(max(value, component.low), component.high)


def added(component, values, drawn, rows):
    """Return what a unit adds to a group where groups are bounded: integers, one a bin.

    Parameters
    ----------
    values
        Its values there.
    drawn
        Those that were drawn.
    rows
        How many rows it has there.
    """
    c, middle = component, (component.low + component.high) / 2
    ends = math.ceil(c.low / c.step), math.floor(c.high / c.step)
    match c.statistic:
        case "units":
            return [1]
        case "count":
            return [nearest(clamp(Fraction(rows if c.input is None else len(values)), c) / c.step, *ends)]
        case "sum":
            return [nearest(clamp(sum(values, Fraction(0)), c) / c.step, *ends) if values else 0]
        case "average":
            return [nearest((clamp(sum(values) / len(values), c) - middle) / c.step) if values else 0]
        case "values":
            return [min(1, len(values)) if c.largest == 1 else len(drawn)]
        case "centred":
            return [sum(nearest((clamp(x, c) - middle) / c.step) for x in drawn)]
        case "square":
            return [sum(nearest((clamp(x, c) - middle) ** 2 / c.step) for x in drawn)]
        case "bins":
            return [sum(bin_of(clamp(x, c), c.edges) == i for x in drawn) for i in range(c.width)]
    raise AssertionError(c.statistic)


def added_by_row(component, value, present):
    """Return what one row adds where rows are bounded."""
    c = component
    if c.statistic == "count":
        return [1 if c.input is None or present else 0]
    if c.statistic == "values":
        return [int(value is not None)]
    if value is None:
        return [0] * c.width
    if c.statistic == "sum":
        return [nearest(clamp(value, c) / c.step, math.ceil(c.low / c.step), math.floor(c.high / c.step))]
    return added(c, [value], [value], 1)


def pairs_of(component, rows):
    """Return the pairs of numbers that rows have for a component, in order, without those that lack one."""
    first, last = sorted((component.input, component.other.input))
    both = [(row[first], row[last]) for row in rows]
    return sorted(pair for pair in both if None not in (number(pair[0]), number(pair[1])))


def of_pairs(component, pairs, half):
    """Return what pairs that were drawn add, factors having at most `half` steps."""
    c, other, total = component, component.other, 0
    if c.statistic == "values":
        return [len(pairs)]
    place = int(c.input > other.input)
    if c.statistic != "product":
        return added(replace(c, other=None), [], [number(pair[place]) for pair in pairs], 0)
    for pair in pairs:
        x, y = clamp(number(pair[place]), c), clamp(number(pair[1 - place]), other)
        a, b = (nearest((2 * z - of.low - of.high) / (of.high - of.low) * half) for z, of in ((x, c), (y, other)))
        total += nearest(Fraction(a * b, half))
    return [total]


def bin_of(value, edges):
    """Return the number of a value's bin."""
    return min(sum(value >= edge for edge in edges[1:]), len(edges) - 2)


def totals(rows, select, components, key=SECRET, plain=False):
    """Return integers by group, as a dictionary of lists.

    Parameters
    ----------
    rows
        Tuples of a unit, a tuple of keys and a tuple of inputs.
    plain
        Whether the texts of keys stand as they are.
    """
    by_unit = defaultdict(list)
    for u, keys, inputs in rows:
        by_unit[u].append((keys, inputs))
    found = defaultdict(lambda: [0] * sum(c.width for c in components))
    for u, mine in by_unit.items():
        for group, numbers in of_unit(u, mine, select, components, key, plain).items():
            found[group] = [a + b for a, b in zip(found[group], numbers, strict=True)]
    return dict(found)


def of_unit(u, mine, select, components, key, plain):
    """Return what one unit adds, by group."""
    kind, most = select.contribution.kind, select.contribution.most
    if kind == "rows":
        return of_rows(u, mine, select, components, key)
    groups = defaultdict(list)
    for keys, inputs in mine:
        groups[keys].append(inputs)
    if kind == "l2":
        return of_vector(groups, components)
    marks = {group: "".join(text(value, plain) + "|" for value in group) for group in groups}
    kept = sorted(groups, key=lambda group: digest(key, marks[group] + str(u)))[:most]
    result = {}
    for group in kept if select.keys else groups:
        numbers = []
        for c in components:
            if c.other is not None:
                found = pairs_of(c, groups[group])
                name = "_".join(map(str, sorted((c.input, c.other.input))))
                places = range(1, len(found) + 1)
                drawn = sorted(places, key=lambda p, g=group, n=name: digest(key, f"{marks[g]}{p}|{n}|{u}"))
                numbers += of_pairs(c, [found[p - 1] for p in drawn[:ROWS_SAMPLED]], c.largest // ROWS_SAMPLED)
                continue
            values = [number(row[c.input]) for row in groups[group]] if c.input is not None else []
            present = sum(row[c.input] is not None for row in groups[group]) if c.input is not None else 0
            values = sorted(value for value in values if value is not None)
            places = range(1, len(values) + 1)
            drawn = sorted(places, key=lambda p, g=group, c=c: digest(key, f"{marks[g]}{p}|{c.input}|{u}"))
            drawn = [values[p - 1] for p in drawn[:ROWS_SAMPLED]]
            counted = [None] * present if c.statistic == "count" else values
            numbers += added(c, counted, drawn, len(groups[group]))
        result[group] = numbers
    return result


def of_rows(u, mine, select, components, key):
    """Return what one unit adds where rows are bounded."""

    def order(row):
        keys, inputs = row
        paired = sorted({i for c in components if c.other is not None for i in (c.inputs, c.inputs[::-1])})
        values = [None if number(x) is None else x for x in inputs]
        plain = values if not paired else [values[i] for i in sorted({c.input for c in components if not c.other})]
        both = [None if values[j] is None else values[i] for i, j in paired]
        # As the engine sorts: keys, numbers, then whether there is anything, numbers of pairs, NULL last.
        numbers = [[(v is None, v or 0) for v in some] for some in (plain, both)]
        return [*((k is None, k) for k in keys), *numbers[0], *(x is None for x in inputs), *numbers[1]]

    ordered = sorted(mine, key=order)
    places = sorted(range(1, len(ordered) + 1), key=lambda p: digest(key, str(p), str(u)))
    result = defaultdict(lambda: [0] * sum(c.width for c in components))
    kept = [ordered[p - 1] for p in places[: select.contribution.most]]
    for keys, inputs in kept:
        numbers = []
        for c in components:
            if c.other is not None:
                numbers += of_pairs(c, pairs_of(c, [inputs]), c.largest)
                continue
            raw = None if c.input is None else inputs[c.input]
            value = None if raw is None else number(raw)
            numbers += [0] if c.statistic == "units" else added_by_row(c, value, raw is not None)
        result[keys] = [a + b for a, b in zip(result[keys], numbers, strict=True)]
    start = 0
    for c in components:
        if c.statistic == "units":
            for numbers in result.values():
                numbers[start] = 1
        start += c.width
    return dict(result)


def of_vector(groups, components):
    """Return what one unit adds where its vector over groups is scaled down to a norm."""
    result, vectors = {group: [] for group in groups}, []
    for c in components:
        vector = {}
        for group, rows in groups.items():
            values = [] if c.input is None else [number(row[c.input]) for row in rows]
            values = [value for value in values if value is not None]
            present = len(rows) if c.input is None else sum(row[c.input] is not None for row in rows)
            middle = (c.low + c.high) / 2 if c.centre is None else c.centre
            away = [min(max(value, c.low), c.high) - middle for value in values]
            exact = {
                "units": Fraction(1), "groups": Fraction(1), "count": Fraction(present),
                "values": Fraction(len(values)), "sum": sum(values, Fraction(0)),
                "centred": sum(away, Fraction(0)), "square": sum((x * x - c.usual for x in away), Fraction(0)),
            }  # fmt: skip
            vector[group] = exact[c.statistic] / c.step
        vectors.append(vector)
    for c, vector in zip(components, vectors, strict=True):
        parts = [
            other
            for other, of in zip(vectors, components, strict=True)
            if other is vector or (c.together is not None and of.together == c.together)
        ]
        squared = sum(value * value for part in parts for value in part.values())
        most = c.largest if c.together is not None else c.high / c.step
        factor = 1.0 if squared <= most**2 else float(most) / math.sqrt(squared)
        if c.beyond:  # what is longer than that, up to so much more, and a little less
            length = math.sqrt(squared)
            factor = (1 - 2.0**-40) * min(max(length - c.beyond, 0.0), c.largest) / max(length, 1e-300)
        for group, value in vector.items():
            result[group].append(math.trunc(float(value) * factor * (1 + 1e-15)))
    return result


def product(*levels):
    """Return all groups of declared levels."""
    return list(itertools.product(*levels))
