"""What pandas has and a private table has not: why, in a word, and what to write instead.

Everything said here runs as it is written, over a column of the table that was declared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from dpnotebook.dialect.attributes import identifier
from dpnotebook.domain import Bins, Categories, Dates
from dpnotebook.errors import UnknownVerb, holds_data, shorten, some_of
from dpnotebook.planner.table import TableSchema

MOST_LISTED = 20  # verbs that a message names
MOST_NAMED = 60  # characters of an expression that a message repeats

ENDS = "idxmin idxmax nlargest nsmallest cummin cummax ptp range first last nth"
ROWS = (
    "head tail sample iloc loc at iat iterrows itertuples items values to_numpy to_dict to_records to_string "
    "to_markdown get take xs show collect display squeeze get_group groups indices to_pandas to_polars toPandas "
    "fetchall limit"
)
FILES = "to_csv to_excel to_parquet to_json to_html to_latex to_sql to_feather to_pickle to_clipboard to_stata"
ROW_FUNCTIONS = "apply transform map applymap pipe assign eval combine"
JOINS = "merge join concat append combine_first update merge_asof"
SHAPES = "pivot pivot_table melt stack unstack wide_to_long explode transpose T swaplevel"
MISSING = "isna isnull notna notnull dropna"
CONDITIONS = "query filter where mask isin between drop_duplicates duplicated select"
ORDERED = (
    "rolling resample expanding ewm shift diff cumsum cumprod cumcount pct_change interpolate asfreq ffill bfill rank"
)
CHANGES = (
    "fillna replace astype rename drop copy set_index reset_index clip round sort_values sort_index insert pop reindex "
    "convert_dtypes infer_objects add_prefix add_suffix set_axis truncate"
)
STATEMENTS = ["query", "execute", "ask", "run_sql", "cursor", "select", "read_sql", "answer"]
PUBLIC = ["public", "add_public", "public_table", "register_public", "add", "add_table", "load", "table_public"]
LEFT = [
    "budget_left",
    "left",
    "epsilon",
    "epsilon_left",
    "remaining_budget",
    "balance",
    "epsilon_spent",
    "privacy_budget",
]
VERBS = [
    "count",
    "sum",
    "mean",
    "median",
    "quantile",
    "cdf",
    "histogram",
    "value_counts",
    "crosstab",
    "groupby",
    "agg",
    "std",
    "var",
    "sem",
    "corr",
    "cov",
    "min",
    "max",
    "nunique",
    "describe",
    "dp",
]
PLOTS = "plot hist boxplot bar scatter pie barh line"
SIZES = "size shape ngroups len ndim empty info memory_usage"
NAMES = "columns dtypes index keys axes select_dtypes"


def instead(name: str, table: TableSchema | None, keys: Sequence[str] = (), picked: Sequence[str] = ()) -> str:
    """Return why a method of pandas is none here, and what to write; empty where there is nothing to say.

    Parameters
    ----------
    name
        What was called.
    table
        What is public of the table that it was asked of; None where it is not protected.
    keys
        By what it was grouped.
    picked
        Columns that were picked before, of which examples speak.
    """
    said = _SAID.get(name)
    return "" if said is None else said(name, _Example(table, keys, picked))


def declared_columns(table: TableSchema, name: object = "age") -> str:
    """Return which columns are declared; where none is, how that is done.

    Parameters
    ----------
    table
        The table.
    name
        The column that was asked about.
    """
    if table.domain.names:
        return f"declared are {some_of(table.domain.names)}"
    column = name if isinstance(name, str) and name.isidentifier() else "age"
    return (
        f"nothing is declared of {shorten(table.name)} yet. Say what is publicly known of its columns, "
        f"session.protect(..., domain={{{column!r}: dpn.Range(0, 99)}}), or a list of texts, dpn.Boolean(), or "
        "dpn.Dates('2024-01-01', '2024-12-31'); dpn.protect_guide(...) helps, and session.sql(...) asks of columns "
        "that are not declared"
    )


def undeclared(table: TableSchema, name: object) -> str:
    """Return how a column that is not declared, or an expression, is asked about; empty for what is neither.

    Parameters
    ----------
    table, name
        As for `declared_columns`.
    """
    if not isinstance(name, str) or not table.domain.names or name == table.unit or len(name) > MOST_NAMED:
        return ""
    if name.isidentifier():
        return "; session.sql(...) asks about columns that are not declared"
    if not any(sign in name for sign in "+-*/"):
        return ""
    return f". Expressions are SQL: session.sql({f'SELECT AVG({name}) FROM {_plain(table.name)}'!r}, epsilon=0.1)"


def refuse(
    what: str,
    name: str,
    there: Collection[str],
    table: TableSchema | None = None,
    keys: Sequence[str] = (),
    picked: Sequence[str] = (),
) -> NoReturn:
    """Raise UnknownVerb for a name that something has not got.

    Parameters
    ----------
    what, name
        What was asked for what.
    there
        The names that it has.
    table, keys, picked
        As for `instead`.

    Raises
    ------
    UnknownVerb
        Always; AttributeError for names that begin with an underscore, which are no person's.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    said = instead(name, table, keys, picked)
    if table is not None and name == table.unit:
        said = f"{shorten(name)} is who is protected: nunique({name!r}, epsilon=0.1) says about how many there are"
    if not said:
        public = [one for one in there if not one.startswith("_")]
        close = get_close_matches(name.lower(), public, n=1, cutoff=0.7)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(public)[:MOST_LISTED])}"
        columns = "" if close or table is None else f". Of columns, {declared_columns(table, name)}"
        said = f"{what} has no {shorten(name)[1:-1]}; {hint}{columns}"
    raise UnknownVerb(said) from None


def refuse_item(key: object, table: TableSchema | None) -> NoReturn:
    """Raise UnknownVerb for square brackets behind what answers questions, such as df.dp["age"].

    Parameters
    ----------
    key
        What stands in the brackets.
    table
        As for `instead`.

    Raises
    ------
    UnknownVerb
        Always.
    """
    if holds_data(key):
        raise UnknownVerb(_conditions("a condition in brackets", _Example(table, ())))
    raise UnknownVerb(_rows("what stands in brackets", _Example(table, ())))


def refuse_of_session(name: str, tables: Collection[str], there: Collection[str]) -> NoReturn:
    """Raise UnknownVerb for a name that a session has not got.

    Parameters
    ----------
    name
        What was asked for.
    tables, there
        The tables that are protected in it, and the names that it has.

    Raises
    ------
    UnknownVerb
        Always; AttributeError for names that begin with an underscore, which are no person's.
    """
    table = next(iter(tables), "visits")
    if name in tables:
        raise UnknownVerb(f"a table of a session is session.table({name!r})")
    if name in VERBS:
        raise UnknownVerb(f"{name} is asked of a table: session.table({table!r}).{name}(...)")
    if name in STATEMENTS:
        text = f"SELECT COUNT(*) FROM {_plain(table)}"
        raise UnknownVerb(f"a session has no {name}; SQL is asked by session.sql({text!r}, epsilon=0.1)")
    if name in PUBLIC:
        raise UnknownVerb(
            f"a session has no {name}; session.register(wards, 'wards', public=True) adds a table about nobody, and "
            "session.protect(visits, 'visits', unit='patient') one about people"
        )
    if name in LEFT:
        raise UnknownVerb(
            f"a session has no {name}; session.remaining and session.spent say what is left of the budget"
        )
    refuse("a session", name, there)


class _Example:
    """What examples speak of: the table and columns of its that were declared, those first that were picked."""

    def __init__(self, table: TableSchema | None, keys: Sequence[str], picked: Sequence[str] = ()) -> None:
        declared = {} if table is None else dict(table.columns)
        columns = {name: declared[name] for name in (*picked, *declared) if name in declared}
        self.numbers = [name for name, attribute in columns.items() if attribute.bounds is not None] or ["age", "cost"]
        others = [name for name in columns if name not in self.numbers]
        self.level = ([name for name in picked if name in columns] or others or list(columns) or ["sex"])[0]
        self.dates = next((name for name, attribute in columns.items() if isinstance(attribute, Dates)), "")
        self.columns = columns
        self.table, self.unit = ("my_table", None) if table is None else (table.name, table.unit)
        self.keys = keys

    @property
    def begins(self) -> list[float]:
        """Three numbers from which bands of the first column of numbers can begin: between bins, where it has bins."""
        attribute = self.columns.get(self.number)
        if attribute is None or attribute.bounds is None:
            return [0, 18, 65]
        low, high = attribute.bounds
        inside = (
            attribute.edges[:-1] if isinstance(attribute, Bins) else [low + (high - low) * i // 3 for i in range(3)]
        )
        picked = [inside[len(inside) * i // 3] for i in range(3)]
        return list(dict.fromkeys(int(each) if float(each).is_integer() else float(each) for each in picked))

    @property
    def number(self) -> str:
        """A column of numbers."""
        return self.numbers[0]

    def listed(self) -> tuple[str, list[Any]]:
        """Return a column that another table can be joined on, and some of its declared values."""
        for name, attribute in self.columns.items():
            if isinstance(attribute, Categories) and (short := [one for one in attribute.levels if len(str(one)) < 20]):
                return name, short[:2]
        bounded = ((name, attribute.bounds) for name, attribute in self.columns.items() if attribute.bounds is not None)
        return next(((name, list(bounds)) for name, bounds in bounded), (self.level, ["F", "M"]))

    def statement(self, aggregate: str, *columns: str, distinct: bool = False) -> str:
        """Return how to ask for an aggregate in SQL."""
        by, of = (", ".join(map(_plain, names)) for names in (self.keys, columns))
        call = f"{aggregate}({'DISTINCT ' * distinct}{of})"
        text = f"SELECT {by}{', ' * bool(by)}{call} FROM {_plain(self.table)}"
        text += f" GROUP BY {by}" * bool(by)
        return f"session.sql({text!r}, epsilon=0.1)"


def _plain(name: str) -> str:
    """Return a name as SQL has it: as it is, where it needs no quotes."""
    return name if name.isidentifier() and name.isascii() else identifier(name)


def _ends(name: str, by: _Example) -> str:
    return (
        f"{name} is the value of one person, which no noise hides. Near the ends is "
        f"quantile({by.number!r}, [0.05, 0.95], epsilon=0.1)"
    )


def _rows(name: str, by: _Example) -> str:
    return (
        f"{name} shows rows, and those of people are never shown. Ask of all rows, or of some: "
        f"count(where=..., epsilon=0.1), value_counts({by.level!r}, epsilon=0.1), describe({by.number!r}, epsilon=0.1)"
    )


def _files(name: str, by: _Example) -> str:
    return (
        f"{name} writes rows, and those of people stay here. An answer can be written: {_asked(by)}.run().to_csv(path)"
    )


def _functions(name: str, by: _Example) -> str:
    return (
        f"{name} runs a function of rows, which may add anything. Expressions in SQL are bounded: "
        f"{by.statement('SUM', by.number)}, with {by.number} * 2 for example"
    )


def _joins(name: str, by: _Example) -> str:
    key, values = by.listed()
    text = f"SELECT COUNT(*) FROM {_plain(by.table)} JOIN other USING ({_plain(key)})"
    return (
        f"{name} is a JOIN in SQL, as with a public table: session.register(pd.DataFrame({{{key!r}: {values!r}}}), "
        f"'other', public=True), then session.sql({text!r}, epsilon=0.1)"
    )


def _shapes(name: str, by: _Example) -> str:
    two = list(dict.fromkeys([by.level, *by.numbers]))[:2]
    counts = f"{'crosstab' if two[1:] else 'histogram'}({', '.join(map(repr, two))}, epsilon=0.1)"
    return (
        f"{name} arranges answers: {counts} counts, and groupby({by.level!r})"
        f".mean({by.numbers[-1]!r}, epsilon=0.1) averages; then reshape release.frame"
    )


def _conditions(name: str, by: _Example) -> str:
    part = f"{_spoken(by.number)} >= 10"
    return f'{name} chooses rows; here every verb has where=, a text: count(where="{part}", epsilon=0.1)'


def _missing(name: str, by: _Example) -> str:
    part = f"{_spoken(by.number)}.isna()"
    return (
        f"{name} looks at each row; of a column that is declared nullable=True, a condition counts those without a "
        f'value: count(where="{part}", epsilon=0.1)'
    )


def _accessors(name: str, by: _Example) -> str:
    days = f"{_spoken(by.dates or 'day')}.dt.day_name() in ['Saturday', 'Sunday']"
    part = days if name == "dt" else f"{_spoken(by.level)}.str.startswith('A')"
    return f'{name} is of a condition, and that is a text here: count(where="{part}", epsilon=0.1)'


def _spoken(name: str) -> str:
    """Return a name as a condition has it."""
    return name if name.isidentifier() else f"`{name}`"


def _ordered(name: str, by: _Example) -> str:
    spans = name in ("resample", "asfreq")
    if spans and by.dates:
        return f'{name} makes spans of dates: groupby({{{by.dates!r}: "month"}}).count(epsilon=0.1) counts them'
    said = (
        f"{name} goes from row to row; an answer has an order: cdf({by.number!r}, epsilon=0.1) adds up, and "
        "release.frame of a histogram can be smoothed or shifted"
    )
    return f'{said}; of a column declared as dpn.Dates, groupby({{"day": "month"}}) makes spans' if spans else said


def _changes(name: str, by: _Example) -> str:
    return f"{name} changes a frame: do so before it is protected, or with an answer: release.frame.{name}(...)"


def _plots(name: str, by: _Example) -> str:
    return f"{name} draws rows; draw an answer: {_asked(by)}.run().plot()"


def _sizes(name: str, by: _Example) -> str:
    return (
        f"{name} tells the exact number of rows, which is not public; count(epsilon=0.1) tells about how many there are"
    )


def _names(name: str, by: _Example) -> str:
    return f"what was declared of the columns is in .domain; {name} of the frame itself needs no dp"


def _more_keys(name: str, by: _Example) -> str:
    keys = [*by.keys, by.level if by.level not in by.keys else by.number]
    return f"{name} within groups is a count by more keys: groupby({keys}).count(epsilon=0.1)"


def _mean(name: str, by: _Example) -> str:
    return f"{name} is called mean here: mean({by.number!r}, epsilon=0.1)"


def _mode(name: str, by: _Example) -> str:
    return f"mode is the first row of value_counts({by.level!r}, epsilon=0.1), as far as noise lets one tell"


def _unique(name: str, by: _Example) -> str:
    return (
        f"the values that a column can have are those declared: .domain[{by.level!r}].labels; value_counts counts them"
    )


def _spelt(name: str, by: _Example) -> str:
    verb = {"stddev": "std", "variance": "var"}[name]
    return f"{name} is called {verb} here: {verb}({by.number!r}, epsilon=0.1)"


def _pairs(name: str, by: _Example) -> str:
    two = ", ".join(map(repr, (by.numbers * 2)[:2]))
    return f"{name} is of two columns here, which are named: corr({two}, epsilon=0.1), cov({two}, epsilon=0.1)"


def _moments(name: str, by: _Example) -> str:
    near = f"std({by.number!r}, epsilon=0.1)"
    return f"{name} is not answered; near it are describe({by.number!r}, epsilon=0.1) and {near}"


def _cuts(name: str, by: _Example) -> str:
    keys = "".join(f"{key!r}: None, " for key in by.keys if key != by.number)
    quantiles = f"; where to cut for equal numbers says quantile({by.number!r}, [0.25, 0.5, 0.75], epsilon=0.1)"
    return (
        f"{name} makes bands of numbers, here from some on: groupby({{{keys}{by.number!r}: {by.begins}}})"
        f".count(epsilon=0.1); one number in place of the list is their width{quantiles * (name == 'qcut')}"
    )


def _truths(name: str, by: _Example) -> str:
    return f"{name} may hang on one person; mean of a bool is the share of True, and sum their number"


def _asked(by: _Example) -> str:
    return f"histogram({by.level!r}, epsilon=0.1)"


_SAID: dict[str, Callable[[str, _Example], str]] = {
    **dict.fromkeys(ENDS.split(), _ends),
    **dict.fromkeys(ROWS.split(), _rows),
    **dict.fromkeys(FILES.split(), _files),
    **dict.fromkeys(ROW_FUNCTIONS.split(), _functions),
    **dict.fromkeys(JOINS.split(), _joins),
    **dict.fromkeys(SHAPES.split(), _shapes),
    **dict.fromkeys(CONDITIONS.split(), _conditions),
    **dict.fromkeys(MISSING.split(), _missing),
    **dict.fromkeys(("dt", "str"), _accessors),
    **dict.fromkeys(ORDERED.split(), _ordered),
    **dict.fromkeys(CHANGES.split(), _changes),
    **dict.fromkeys(PLOTS.split(), _plots),
    **dict.fromkeys(SIZES.split(), _sizes),
    **dict.fromkeys(NAMES.split(), _names),
    **dict.fromkeys(("average", "avg"), _mean),
    **dict.fromkeys(("stddev", "variance"), _spelt),
    "corrwith": _pairs,
    **dict.fromkeys(("skew", "kurt", "kurtosis", "prod", "product", "mad"), _moments),
    **dict.fromkeys(("any", "all"), _truths),
    **dict.fromkeys(("cut", "qcut"), _cuts),
    "arithmetic": lambda name, by: (
        f"what is worked out of each row is SQL: {by.statement('AVG', by.number)}, with {by.number} * 2 for example"
    ),
    "aggregate": lambda name, by: f'aggregate is called agg here: agg({{{by.number!r}: ["mean"]}}, epsilon=0.1)',
    "mode": _mode,
    "unique": _unique,
    **dict.fromkeys(("value_counts", "histogram", "crosstab", "groupby"), _more_keys),  # which groups have not
}
