"""What a statement asks is what DuckDB answers to the same text, nulls and all, whatever the text."""

import functools
import math
import random
import re

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlglot

from dpnotebook.domain import Bins, Categories, Range
from dpnotebook.errors import NotProtected, SQLError
from dpnotebook.privacy.budget import Budget
from dpnotebook.session.answer_frame import column_name
from dpnotebook.sql.statement import Statement
from dpnotebook.testing import exact_session

DOMAIN = {
    "age": Range(0, 9, nullable=True),
    "sex": ["F", "M"],
    "region": Categories(["N", "S", "E"], nullable=True),
    "income": Bins(0, 100, width=10, nullable=True),
    "smoker": Categories([False, True], nullable=True),
    "grade": Categories(["a", "b", "c"], ordered=True),
    "visit no": [1, 2, 3],
}
SOLVED = 2e-5  # of a standard error: how exactly least squares over many releases is solved
VALUES = {"lo": 3, "hi": 6, "who": "F", "yes": True}


def frame():
    random = np.random.default_rng(7)
    rows = 400

    def some(values, missing):
        chosen = np.array(values, dtype=object)[random.integers(len(values), size=rows)]
        chosen[random.random(rows) < missing] = None
        return chosen

    return pd.DataFrame(
        {
            "age": pd.array(some(range(10), 0.1), dtype="Int64"),
            "sex": pd.array(some(["F", "M"], 0), dtype="str"),
            "region": pd.array(some(["N", "S", "E"], 0.2), dtype="str"),
            "income": pd.array(some([*range(0, 101, 5), 12.5, 99.75], 0.1), dtype="Float64"),
            "smoker": pd.array(some([True, False], 0.2), dtype="boolean"),
            "grade": pd.array(some(["a", "b", "c"], 0), dtype="str"),
            "visit no": pd.array(some([1, 2, 3], 0), dtype="Int64"),
        }
    )


@pytest.fixture(scope="module")
def asked():
    """Return two functions of a statement: the exact answer of its question, and DuckDB's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPNOTEBOOK_UNSAFE", "1")
        session = exact_session(Budget(epsilon=10**6))
    rows = frame()
    session.protect(rows, "visits", domain=DOMAIN)
    connection = duckdb.connect()
    connection.register("visits", rows)
    connection.execute("SET enable_external_access = false; SET lock_configuration = true")

    def ours(statement):
        return session.sql(statement, epsilon=20, parameters=VALUES).run()

    def theirs(statement):
        names = {name: value for name, value in VALUES.items() if re.search(rf":\s*{name}\b", statement)}
        text = re.sub(r":\s*(lo|hi|who|yes)\b", r"$\1", statement)
        return connection.execute(text, names).df()

    yield ours, theirs, session
    session.close()


def answers(table, keys, names):
    """Return the answers by key, missing keys as None."""
    found = {}
    for row in table.to_dict("records"):
        key = tuple(None if pd.isna(row[name]) else row[name] for name in keys)
        found[key] = [float(row[name]) for name in names]
    return found


def same(statement, session, release, their_frame):
    """Compare by key; a group that DuckDB does not have must be one without rows, where sums and counts are 0."""
    query = session.sql(statement, epsilon=20, parameters=VALUES)
    if isinstance(query.question, Statement) or query.statement.outer is not None:
        return same_rows(statement, query, release.frame, their_frame)
    question, mine = query.question, answers(release.frame, release.keys, release.names)
    errors = answers(release.frame, release.keys, [column_name(name, "std_error") for name in release.names])
    kinds = [measure.kind for measure in question.measures]
    places = {name.casefold(): place for place, name in enumerate(their_frame.columns)}
    shown = [key for key in question.keys if key.casefold() in places]
    if len(shown) < len(question.keys) or "income" in question.keys:
        return True  # DuckDB's rows cannot be told apart, or are by value and not by bin
    aggregates = [name for name in their_frame.columns if name.casefold() not in {key.casefold() for key in shown}]
    if len(aggregates) != len(kinds):
        return False
    renamed = their_frame.set_axis([str(place) for place in range(their_frame.shape[1])], axis=1)
    theirs = answers(
        renamed,
        [str(places[key.casefold()]) for key in question.keys],
        [str(list(their_frame.columns).index(name)) for name in aggregates],
    )
    if not set(theirs) <= set(mine):
        # COUNT(column) leaves out the group of missing values, where the count is 0
        if any(np.nansum(np.abs(value)) for key, value in theirs.items() if key not in mine):
            return False
        theirs = {key: value for key, value in theirs.items() if key in mine}
    for key, values in mine.items():
        expected = theirs.get(key)
        for place, (kind, value, error) in enumerate(zip(kinds, values, errors[key], strict=True)):
            truth = math.nan if expected is None else expected[place]
            if math.isnan(truth):
                if kind != "mean" and abs(value) > SOLVED * error:
                    return False
            elif not math.isclose(value, truth, rel_tol=1e-9, abs_tol=1e-6 + SOLVED * error):
                return False
    return True


def same_rows(statement, query, mine, theirs):
    """Compare the rows of what is worked out, or measured by itself; groups without rows may be there as zeros."""
    found = query.question if isinstance(query.question, Statement) else query.statement
    exact = all(aggregate.kind in ("count", "sum") for select in found.selects for aggregate in select.aggregates)
    if not exact or re.search(r"(?i)limit|offset|sample|income|fetch", statement):
        return True  # clamped, rounded to bins, or some rows of several
    if len(mine.columns) < theirs.shape[1]:
        return False
    mine = mine[[name for name in mine.columns if not name.endswith(("std_error", "lower", "upper"))]]
    if mine.shape[1] != theirs.shape[1]:
        return True  # keys that are not selected are shown all the same
    ours, wanted = ({row_of(row) for row in frame.itertuples(index=False)} for frame in (mine, theirs))
    more = [row for row in ours - wanted if any(isinstance(value, float) and value for value in row)]
    nothing = [row for row in wanted - ours if any(isinstance(value, float) and value for value in row)]
    return not more and not nothing


def row_of(row):
    """Return the values of a row in no order, numbers rounded, missing ones and sums of nothing alike."""
    values = []
    for value in row:
        if pd.isna(value):
            values.append(0.0)
        elif isinstance(value, (bool, np.bool_)):
            values.append(str(bool(value)))
        elif isinstance(value, (int, float, np.number)):
            values.append(round(float(value), 6))
        else:
            values.append(str(value))
    return tuple(sorted(values, key=str))


class Writer:
    """Writes random statements of the language."""

    aggregates = "COUNT(*)", "SUM(age)", "AVG(income)", "SUM(income) AS total", "count(sex)", "avg(Age) a", "COUNT(age)"

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *options):
        return self.random.choice(options)

    def statement(self):
        keys = self.random.sample(["sex", "region", "age", "smoker", '"visit no"'], self.pick(0, 0, 1, 1, 2))
        aggregates = self.random.sample(self.aggregates, self.pick(1, 1, 2, 3))
        items = [*keys, *aggregates]
        self.random.shuffle(items)
        text = f"SELECT {', '.join(items)} FROM visits"
        if self.random.random() < 0.9:
            text += f" WHERE {self.condition(3)}"
        if keys:
            grouped = [self.pick(key, str(items.index(key) + 1)) for key in keys]
            self.random.shuffle(grouped)
            text += f" GROUP BY {', '.join(grouped)}"
        return text + self.pick("", ";", " -- done")

    def condition(self, depth):
        if depth and self.random.random() < 0.7:
            form = self.pick("{} AND {}", "{} OR {}", "NOT {}", "({})", "NOT ({} OR {})", "({} AND {})")
            return form.format(*(self.condition(depth - 1) for _ in range(form.count("{}"))))
        op = self.pick("=", "<>", "!=", "<", "<=", ">", ">=", "==")
        no, equal = self.pick("", "NOT "), self.pick("=", "<>")
        return self.pick(
            f"age {op} {self.number()}",
            f"{self.number()} {op} age",
            f"visits.age {no}BETWEEN {self.pick('0', '1', ':lo')} AND {self.pick('5', ':hi', '7')}",
            f"age {no}IN ({self.number()}, {self.number()})",
            f"age {no}IN ({self.number()}, NULL)",
            f"region {no}IN ('N', 'S')",
            f"region {equal} 'N'",
            f"region IS {no}NULL",
            f"income IS {no}NULL",
            f"income {self.pick('<', '>=')} {self.pick('10', '30', '5e1', '70.0')}",
            f"sex {equal} {self.pick(':who', chr(39) + 'M' + chr(39))}",
            f"grade {op} '{self.pick('a', 'b', 'c')}'",
            "smoker",
            "NOT smoker",
            f"smoker {equal} {self.pick('TRUE', 'false', ':yes')}",
            f"smoker IS {no}{self.pick('TRUE', 'FALSE')}",
            f'"visit no" {op} {self.pick("1", "2", "3")}',
            f"{self.pick('1', '2')} = 1",
            self.pick("TRUE", "FALSE"),
        )

    def number(self):
        return self.pick("0", "3", "5", "9", "+4", ":lo", "2.0", "(6)", "- -1")


class WriterOfParts(Writer):
    """Writes statements with aggregates of fewer rows beside those of all."""

    aggregates = (
        *Writer.aggregates,
        "COUNT(*) FILTER (WHERE smoker) AS s",
        "SUM(CASE WHEN age > 4 THEN 1 ELSE 0 END) AS f",
        "AVG(age) FILTER (WHERE region = 'N') AS r",
        "SUM(income) FILTER (WHERE sex = 'F' AND age > 2) AS w",
        "COUNT(income) AS i",
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        (0, Writer),
        (4, WriterOfParts),
        *(pytest.param(seed, Writer, marks=pytest.mark.slow) for seed in range(1, 4)),
        *(pytest.param(seed, WriterOfParts, marks=pytest.mark.slow) for seed in range(5, 8)),
    ],
)
def test_random_statements_mean_what_duckdb_says(asked, seed, kind):
    ours, theirs, session = asked
    writer = kind(seed)
    compared = 0
    for _ in range(20):
        statement = writer.statement()
        try:
            mine = ours(statement)
        except SQLError as error:
            if "no row of the declared domain" not in str(error):
                raise
            truth = theirs(statement)
            assert truth.empty or not np.nansum(truth.select_dtypes("number").to_numpy(dtype=float, na_value=0)), (
                statement
            )
            continue
        assert same(statement, session, mine, theirs(statement)), statement
        compared += 1
    assert compared > 10


WORDS = re.findall(
    r"\S+",
    "SELECT FROM WHERE GROUP BY AND OR NOT IN IS NULL TRUE BETWEEN AS COUNT SUM AVG DISTINCT ALL HAVING ORDER "
    "LIMIT JOIN ON USING UNION EXCEPT CASE WHEN THEN ELSE END CAST LIKE EXISTS OVER FILTER QUALIFY SAMPLE ANY "
    "VALUES WITH LATERAL FINAL ONLY ISNULL NOTNULL COLLATE ASC DESC OFFSET WINDOW ROLLUP CUBE ( ) , * . : ; = <> "
    "< >= + - / % || :: [ ] { } 1 2.5 'N' 'F' \"age\" age sex region smoker visits n COUNT(*) SUM(age) :lo ",
)


def mutated(statement, random):
    tokens = [statement[token.start : token.end + 1] for token in sqlglot.tokenize(statement, read="duckdb")]
    for _ in range(random.choice((1, 1, 2, 3))):
        place = random.randrange(len(tokens))
        match random.randrange(5):
            case 0:
                del tokens[place]
            case 1:
                tokens.insert(place, random.choice(WORDS))
            case 2:
                tokens[place] = random.choice(WORDS)
            case 3:
                tokens.insert(place, tokens[place])
            case 4:
                other = random.randrange(len(tokens))
                tokens[place], tokens[other] = tokens[other], tokens[place]
        if not tokens:
            return ""
    return " ".join(tokens)


def check_strange(statement, ours, theirs, session):
    """Return whether a statement is accepted; it is then read as DuckDB reads it. Nothing but SQLError is raised."""
    try:
        mine = ours(statement)
    except (SQLError, NotProtected):
        return False
    try:
        truth = theirs(statement)
    except duckdb.Error:  # a word that DuckDB takes as a name in quotes only, and the like
        truth = theirs(sqlglot.parse_one(statement, read="duckdb").sql("duckdb", identify=True).replace("$", ":"))
    assert same(statement, session, mine, truth), statement
    return True


@pytest.mark.one_in(10)
@pytest.mark.parametrize("seed", range(4))
def test_spoilt_statements_are_refused_or_mean_what_duckdb_says(asked, seed):
    ours, theirs, session = asked
    writer, accepted = Writer(100 + seed), 0
    for _ in range(200):
        accepted += check_strange(mutated(writer.statement(), writer.random), ours, theirs, session)
    assert accepted >= 3


@functools.cache
def keywords():
    from sqlglot.dialects.duckdb import DuckDB

    words = {word for word in DuckDB.Tokenizer.KEYWORDS if re.fullmatch(r"[A-Z_ ]+", word)}
    assert len(words) > 200
    return sorted(words)


BASE = "SELECT sex , COUNT ( * ) AS n FROM visits WHERE age > 3 AND region IN ( 'N' ) GROUP BY sex"


@pytest.mark.one_in(11)
@pytest.mark.parametrize("place", range(len(BASE.split()) + 1))
def test_no_keyword_at_any_place_changes_the_meaning(asked, place):
    ours, theirs, session = asked
    words = BASE.split()
    for keyword in keywords()[place % 3 :: 3]:
        check_strange(" ".join([*words[:place], keyword, *words[place:]]), ours, theirs, session)
