"""A query in parts, each over the part before: which rows take part in a private aggregation, and in which groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.bounded_sums import value_column
from dpnotebook.sql.group_weights import weight_sql
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.select import Key, PrivateSelect


class Parts:
    """A query that is being put together.

    Parameters
    ----------
    select
        The private aggregation.
    key
        The secret of this query.
    """

    def __init__(self, select: PrivateSelect, key: str) -> None:
        self.select, self.key = select, key
        self.keys = ["k"] if select.coded else key_names(select)
        self.last = ""
        self._parts: dict[str, str] = {}
        self._held: set[str] = set()
        self._inputs: Mapping[str, str] = {}
        self._taken = {name.casefold() for name in (*select.tables, *select.public)}

    def add(self, label: str, query: str) -> None:
        """Add a part; a name that is no table's is made of the label."""
        name = label
        while name.casefold() in self._taken:
            name += "_"
        self._taken.add(name.casefold())
        self._parts[name] = query
        self.last = name

    def hold(self) -> str:
        """Return the name of the last part, which is worked out once although others read it more than once.

        What it holds must be the same for all of them: were the number of a unit's rows to change in between, as sums
        in another order may change who passes a condition, more of them than count could be kept.
        """
        self._held.add(self.last)
        return self.last

    def choose(self, label: str, columns: Iterable[str], where: str = "", unit: bool = True) -> None:
        """Add a part that selects the unit, the keys and columns of the last one."""
        chosen = ", ".join([*(["u"] if unit else []), *self.keys, *columns])
        self.add(label, f"SELECT {chosen} FROM {self.last}" + (f" WHERE {where}" if where else ""))

    def group(self, columns: Mapping[str, str]) -> None:
        """Add a part with a row for each unit and group of the last one, without groups that are not listed.

        Parameters
        ----------
        columns
            Aggregates by name; plain expressions where no unit has more than one row.
        """
        listed = [f"{column} AS {name}" for name, column in columns.items()]
        if self.select.single:
            self.choose("added", listed)
            self.keep_listed(list(columns))
            return
        if self.select.grouped:
            del self._parts[self.last]  # of rows, which were not kept
            kept = {name: of_kept(self.select, column) for name, column in columns.items()}
            if None not in kept.values():
                chosen = ["u", *self.keys, *(f"{column} AS {name}" for name, column in kept.items())]
                self.add("added", f"SELECT {', '.join(chosen)} FROM {self.select.kept}")
                return
            self.select = self.select.from_rows
            self.keys = key_names(self.select)
            self._take(self._inputs)
        by = ", ".join(["u", *self.keys])
        self.add("added", f"SELECT {', '.join([by, *listed])} FROM {self.last} GROUP BY {by}")
        self.keep_listed(list(columns))

    def code(self, codes: str, columns: Sequence[str]) -> None:
        """Add a part that has the number of a group in the place of its keys: numbers are grouped by sooner than texts.

        Parameters
        ----------
        codes
            Where each group has a number, `k`, beside its keys.
        columns
            What else it has of the last part, beside the unit.
        """
        same = " AND ".join(f"r.{key} IS NOT DISTINCT FROM g.{key}" for key in self.keys)
        chosen = ", ".join(["r.u AS u", "g.k AS k", *(f"r.{column} AS {column}" for column in columns)])
        self.add("coded", f"SELECT {chosen} FROM {self.last} AS r JOIN {codes} AS g ON {same}")
        self.keys = ["k"]

    def weigh(self) -> bool:
        """Add by what is multiplied what a unit has in a group, `w`, where anything is; return whether it is."""
        weights = self.select.weights
        if weights is None:
            return False
        if coded := self.select.coded:
            weight = weight_sql(weights, [f"g.{name}" for name in key_names(self.select)])
            self.add("weighed", f"SELECT r.*, {weight} AS w FROM {self.last} AS r JOIN {coded} AS g ON r.k = g.k")
        else:
            self.add("weighed", f"SELECT *, {weight_sql(weights, self.keys)} AS w FROM {self.last}")
        return True

    def read_sample(self, columns: Sequence[str]) -> bool:
        """Take the rows that were drawn before, where they have these columns of the rows that were taken.

        Rows are drawn by their places in the order of their keys and columns: those that come first in it are the same
        whatever else the order goes by.
        """
        select = self.select
        if not select.sampled or select.inputs_sampled[: len(columns)] != tuple(columns):
            return False
        del self._parts[self.last]
        self.add("kept", f"SELECT {', '.join(['u', *self.keys, *columns])} FROM {select.sampled}")
        return True

    def finished(self, sums: Sequence[str], more: Sequence[str] = (), keys: bool = True) -> str:
        """Return the query that adds up the last part by group, and by columns of its own."""
        by = [*(self.keys if keys else ()), *more]
        grouped = f" GROUP BY {', '.join(by)}" if by else ""
        query = f"SELECT {', '.join([*by, *sums])} FROM {self.last}{grouped}"
        columns = [*more, *(sum.rpartition(" AS ")[2] for sum in sums)]
        if keys and self.select.coded:
            chosen = ", ".join(f"g.{name} AS {name}" for name in key_names(self.select))
            chosen = ", ".join([chosen, *(f"r.{column} AS {column}" for column in columns)])
            query = f"SELECT {chosen} FROM ({query}) AS r JOIN {self.select.coded} AS g ON r.k = g.k"
        return f"{self._written()} {shown(query, self.select.keys if keys else (), columns)}"

    def as_it_is(self) -> str:
        """Return the query of the last part."""
        return f"{self._written()} SELECT * FROM {self.last}"

    def shown_as_it_is(self, columns: Sequence[str]) -> str:
        """Return the query of the last part, whose keys and columns leave the engine."""
        return f"{self._written()} {shown(f'SELECT * FROM {self.last}', self.select.keys, columns)}"

    def _written(self) -> str:
        parts = [
            f"{name} AS {'MATERIALIZED ' if name in self._held else ''}({query})" for name, query in self._parts.items()
        ]
        return f"WITH {', '.join(parts)}"

    def keep_listed(self, columns: Sequence[str]) -> None:
        """Where groups are public, drop what is in none of them."""
        if self.select.selection != "public":
            return
        same = " AND ".join(f"r.{key} IS NOT DISTINCT FROM g.{key}" for key in self.keys)
        chosen = ["r.u AS u", *(f"g.{key} AS {key}" for key in self.keys)]
        chosen += [f"r.{column} AS {column}" for column in columns]
        joined = f"{self.last} AS r JOIN {self._listed} AS g ON {same}"
        self.add("listed_only", f"SELECT {', '.join(chosen)} FROM {joined}")

    @property
    def draws_groups(self) -> bool:
        """Whether some unit may have more groups than count."""
        select = self.select
        if select.contribution.kind != "groups" or not select.keys or select.single:
            return False
        return None in select.levels or select.contribution.most < select.groups_of(select.levels)

    def take(self, numbers: Iterable[int], counted: Iterable[int], pairs: Iterable[tuple[int, int]] = ()) -> list[str]:
        """Begin with the rows that take part, and return the columns of their inputs: `y{i}`, `p{i}` and `y{i}_{j}`.

        Parameters
        ----------
        numbers, counted
            Inputs whose numbers are needed, and those of which only matters whether there is anything.
        pairs
            Inputs whose numbers count where another input has one too.
        """
        inputs = {f"y{i}": steps.real(f"x{i}") for i in numbers}
        inputs |= {f"p{i}": f"CASE WHEN x{i} IS NOT NULL THEN 1 END" for i in counted}
        inputs |= {
            value_column(i, j): f"CASE WHEN {steps.real(f'x{j}')} IS NOT NULL THEN {steps.real(f'x{i}')} END"
            for i, j in pairs
        }
        return self._take(inputs)

    def take_values(self, *columns: int) -> list[str]:
        """Begin with the rows that take part, and return the columns of the values of inputs as they are."""
        return self._take({f"x{column}": f"x{column}" for column in columns})

    def _take(self, inputs: Mapping[str, str]) -> list[str]:
        select, self._inputs = self.select, inputs
        names = key_names(select)
        keys = {name: key_value(name, key) for name, key in zip(names, select.keys, strict=True)}
        if select.coded:
            names, keys = [], {"k": "k"}
        chosen = ["u", *(f"{value} AS {name}" for name, value in (keys | dict(inputs)).items())]
        known = [
            f"{name} BETWEEN 0 AND {len(key.levels) - 1}"
            for name, key in zip(names, select.keys, strict=False)
            if key.levels is not None
        ]
        where = f" WHERE {' AND '.join(known)}" if known else ""
        if select.selection == "public":
            self.add("listed", listed_sql(select))
            self._listed = self.last
        self.add("taken", f"SELECT {', '.join(chosen)} FROM {select.source} AS r{where}")
        return list(inputs)


def of_kept(select: PrivateSelect, column: str) -> str | None:
    """Return SQL of what was kept of a unit and group: an aggregate that was, or else what its list of values says.

    None where no list has that.
    """
    names = {kept: f"s{i}" for i, kept in enumerate(select.grouped)}
    if column in names:
        return names[column]
    if column == "count(*)":
        return next((f"len({name})" for kept, name in names.items() if kept.startswith("list(")), None)
    counted = column.startswith("count(")
    added = column.removeprefix("count(" if counted else "sum(").removesuffix(")")
    (value,) = {added} if counted else set(re.findall(r"\by\d+\b", added))
    listed = names.get(values_of(value))
    if listed is None:
        return None
    return f"list_count({listed})" if counted else f"list_sum(list_transform({listed}, lambda {value}: {added}))"


def values_of(column: str) -> str:
    """Return the aggregate that keeps the values of a unit and group in a list, of each of its rows."""
    return f"list({column})"


def key_names(select: PrivateSelect) -> list[str]:
    """Return the names of the columns of keys."""
    return [f"k{i}" for i in range(len(select.keys))]


def inputs_sql(select: PrivateSelect) -> str:
    """Return a query of all that a private aggregation begins with, for the engine to say whether it can run it."""
    parts = Parts(select, "")
    asked = (one for aggregate in select.aggregates for one in (aggregate, aggregate.other) if one is not None)
    numbers = {one.input for one in asked if one.input is not None and function_of(one.kind).of == "numbers"}
    parts.take(sorted(numbers), range(select.inputs))  # times are counted, and no engine has numbers of them
    return parts.finished(["count(*) AS n"])


def listed_sql(select: PrivateSelect) -> str:
    """Return the query of all public groups, each once: columns `k0`, ...."""
    keys = [f"{key_value(f'k{i}', key)} AS k{i}" for i, key in enumerate(select.keys)]
    return shown(f"SELECT DISTINCT {', '.join(keys)} FROM ({select.groups}) AS g", select.keys, ())


def shown(query: str, keys: Sequence[Key], columns: Sequence[str]) -> str:
    """Return a query of groups in which numbers leave the engine as texts, which are exact whatever their type.

    Parameters
    ----------
    query
        Gives the keys as `k0`, ..., and other columns.
    keys
        What they are.
    columns
        Names of the others.
    """
    if not any(_is_numeric(key) for key in keys):
        return query
    values = [f"CAST(k{i} AS VARCHAR) AS k{i}" if _is_numeric(key) else f"k{i}" for i, key in enumerate(keys)]
    return f"SELECT {', '.join([*values, *columns])} FROM ({query}) AS shown"


def key_value(column: str, key: Key) -> str:
    """Return a key as groups are told apart by it: values that could not be told apart later are one group."""
    if _is_numeric(key):  # NaN is NULL, and -0.0 is 0.0
        return f"CASE WHEN {column} = 0 THEN abs({column}) WHEN {column} <= {steps.INFINITY} THEN {column} END"
    return column


def _is_numeric(key: Key) -> bool:
    return key.levels is None and key.kind in ("integer", "number")
