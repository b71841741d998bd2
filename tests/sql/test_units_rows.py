"""Without delta it is found privately how many rows of a unit should count: what that costs, tells and chooses."""

import itertools
import math
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from added_up import connect, connect_postgres
from private_selects import aggregate, select

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, FrameChanged
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.sql.aggregates.budget_split import shares
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.counted_rows import CountedRows
from dpnotebook.sql.aggregates.row_histogram import RowHistogram, row_edges
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.aggregates.units_rows import Addend, nearly_best, rows_to_count
from dpnotebook.sql.rewrite.profiles import rows_of_units
from dpnotebook.sql.rows_profile import measured_rows
from dpnotebook.sql.select import Key
from dpnotebook.sql.statement_json import statement_from_json

LAPLACE, GAUSSIAN = accountant_for(Budget(1.0)), accountant_for(Budget(1.0, 1e-6))
CITIES = [str(i) for i in range(20)]
BY_CITY = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
MANY = 1_000


def sought(*aggregates, most=MANY, hidden=None, levels=CITIES):
    """Return a private aggregation that looks for how many rows of a unit count."""
    chosen = select(*aggregates, kind="rows", most=most, selection="all", rows_if_hidden=hidden or most)
    return replace(chosen, keys=(Key("k", tuple(levels)),), rows='SELECT u, k0, x0 FROM "the table"')


def table(sizes, seed=1):
    """Return rows of units with so many each."""
    random, unit = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
    return pd.DataFrame({"u": unit.astype(str), "k0": random.integers(20, size=unit.size), "x0": 1.0})


def skewed(units=20_000, seed=3):
    """Return how many rows units have: mostly a few, some more than a hundred."""
    random = np.random.default_rng(seed)
    return np.clip(np.round(random.lognormal(1.5, 1.0, units)), 1, 126).astype(int)


def visits(units=6_000):
    """Return rows of people, each in any city."""
    unit, random = np.repeat(np.arange(units), skewed(units)), np.random.default_rng(5)
    cost = np.clip(random.gamma(4, 10, unit.size), 0, 200)
    return pd.DataFrame({"who": unit, "city": random.choice(CITIES, unit.size), "cost": cost})


@pytest.fixture(scope="module")
def frame():
    """Return such rows."""
    return visits()


def opened(frame, most=MANY):
    """Return a session without delta."""
    session = dpn.Session(Budget(20.0), ":memory:", confirm="never")
    session.protect(frame, "visits", unit="who", max_rows=most, domain={"city": CITIES})
    return session


def told(session, number):
    """Return what is recorded of a statement."""
    return session.ledger.get(number).details["selects"][0]


@pytest.mark.parametrize("most", [1, 2, 3, 30, 1 << 16])
def test_bins_are_of_whole_numbers_up_to_the_most(most):
    edges = row_edges(most)
    assert (edges[0], edges[-1]) == (1, most + 1)
    assert all(high <= max(low + 1, math.ceil(1.5 * low)) for low, high in itertools.pairwise(edges))
    assert list(edges) == sorted(set(edges))


@pytest.mark.parametrize("seed", range(4))
def test_each_unit_is_counted_once_by_its_rows(seed):
    """Exactly, whatever the rows hold; who leaves takes one from one bin."""
    random, edges = np.random.default_rng(seed), row_edges(12)
    sizes = random.choice([1, 1, 2, 3, 7, 12, 13, 500], 40)
    rows = table(sizes, seed)
    rows.loc[random.random(len(rows)) < 0.1, "x0"] = math.nan
    rows.loc[random.random(len(rows)) < 0.1, "k0"] = 99  # of no declared level: these rows count nowhere
    inside = rows[rows.k0 < 20].groupby("u").size()
    chosen = sought(aggregate("count"), most=12)
    found = rows_of_units(chosen, edges, connect(rows))
    np.testing.assert_array_equal(found, np.histogram(np.minimum(inside, 12), edges)[0])
    for unit in inside.index[:8]:
        less = found - rows_of_units(chosen, edges, connect(rows[rows.u != unit].reset_index(drop=True)))
        assert (less.min(), less.sum()) == (0, 1)


def test_postgresql_counts_the_same(postgres):
    rows, edges = table([1, 1, 2, 5, 12, 40]), row_edges(12)
    chosen = replace(
        sought(aggregate("count"), most=12), rows="SELECT u, k0, x0 FROM people_rows", tables=("people_rows",)
    )
    kinds = {"u": "text", "k0": "bigint", "x0": "double precision"}
    with connect_postgres(postgres, "people_rows", kinds, rows.itertuples(index=False, name=None)) as run:
        found = rows_of_units(chosen, edges, run)
    np.testing.assert_array_equal(found, rows_of_units(sought(aggregate("count"), most=12), edges, connect(rows)))


def test_it_is_read_off_noisy_numbers():
    """A histogram of one unit is that of the noise: for one unit, at its cost."""
    chosen, run = sought(aggregate("count")), connect(table([1]))
    costs = shares(chosen, UNITS, LAPLACE)
    found = [next(iter(measured_rows(chosen, costs, LAPLACE, run, draw_integers)[1].values())) for _ in range(300)]
    scale = Fraction(found[0]["scale"])
    assert scale == Fraction(UNITS, costs.rows)
    counts = np.array([one["counts"] for one in found], dtype=float)
    counts[:, 0] -= 1
    spread = counts.std() / math.sqrt(LAPLACE.law.variance(scale))
    assert spread == pytest.approx(1, abs=5.5 * math.sqrt(5 / 4 / counts.size))  # the kurtosis of Laplace noise is 6
    assert 5.5 * math.sqrt(5 / 4 / counts.size) < 0.09  # a tenth too little is told


KINDS_ASKED = [
    *[("count",), ("sum",), ("count", "sum", "units"), ("count", "quantiles"), ("quantiles",), ("average",)],
    ("average", "count"),
]


@pytest.mark.parametrize("accountant", [LAPLACE, GAUSSIAN], ids=["Laplace", "Gaussian"])
@pytest.mark.parametrize("kinds", KINDS_ASKED)
@pytest.mark.parametrize("levels", [CITIES, CITIES[:1]])
def test_a_statement_and_what_it_finds_cost_what_it_costs(kinds, levels, accountant):
    """By the noise that is drawn: what is fixed before is never passed, whatever is found, and hardly missed."""
    more = {"quantiles": {"fractions": (0.5,), "edges": (0.0, 1.0, 2.0, 3.0)}}
    chosen = sought(*(aggregate(kind, 0, 3, name=kind, **more.get(kind, {})) for kind in kinds), levels=levels)
    total, power = accountant.units(Fraction(7, 10)), 2 if accountant.law.euclidean else 1
    for sizes in ([2] * 4_000, skewed(3_000), [1] * 3):
        drawn = []

        def draw(noise, scale, size, drawn=drawn):
            drawn.append(scale)
            return np.zeros(size, dtype=np.int64)

        costs = shares(chosen, total, accountant)
        rows, _ = measured_rows(chosen, costs, accountant, connect(table(sizes)), draw)
        measured = measuring(chosen.with_rows(rows.most), costs, accountant)
        (scale,) = drawn
        spent = accountant.rate(scale)
        for block in measured.blocks:
            spent += influence(measured, block, power, len(levels)) * accountant.rate(block.scale)
        assert 0.998 * total < spent <= total


def influence(measured, block, power, groups):
    """Return the most that one unit changes a block, to that power: by all of its rows, alike and in one group.

    Where it counts once in a group, they are in all groups that there are.
    """
    parts = [measured.component(column) for column in block.columns]
    if any(part.once for part in parts):
        (part,), ((times,),) = parts, block.combine
        return min(part.norm(measured.contribution, power), groups) * times**power
    if not isinstance(block.combine, tuple):  # a row is in one bin
        most = int((np.abs(block.combine.operator.dense()) ** power).sum(axis=0).max())
    else:  # a row has a value, between both ends, or none
        only = {"rows": (1,), "values": (1,), "missing": (0,)}
        ends = [only.get(part.statistic, (-part.largest, part.largest)) for part in parts]
        without = [part.statistic == "missing" for part in parts]
        most = max(
            sum(abs(sum(a * x for a, x in zip(line, values, strict=True))) ** power for line in block.combine)
            for values in (*itertools.product(*ends), *([without] if any(without) else []))
        )
    return most * measured.contribution.most**power


TABLES = {
    "lognormal": skewed(),
    "two kinds": np.where(np.arange(20_000) % 10 == 0, 60, 2),
    "all alike": np.full(20_000, 12),
    "heavy": np.ceil(np.random.default_rng(1).pareto(1.5, 20_000)).astype(int).clip(1, 900),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("most", [30, MANY, 1 << 16])
def test_what_is_chosen_is_nearly_the_best_in_hindsight(name, epsilon, most):
    """Where rows are spread over groups evenly; by expected squared errors, which need no noise to be drawn."""
    sizes, random = TABLES[name], np.random.default_rng(7)
    edges = row_edges(most)
    exact = np.histogram(np.minimum(sizes, most), edges)[0]
    scale = Fraction(10) / Fraction(str(epsilon))
    spread = math.sqrt(2) / (0.9 * epsilon)

    def error(rows):
        return math.hypot(np.maximum(sizes - rows, 0).sum() / 20, spread * rows)

    best = min(error(rows) * 0.9 for rows in range(1, min(most, 1_000) + 1))
    found = []
    for _ in range(9):
        noisy = exact + np.round(random.laplace(0, float(scale), exact.size)).astype(int)
        chosen = rows_to_count(
            RowHistogram(most, tuple(map(int, noisy)), scale, "laplace", 1), [Addend(spread)], 20, most
        )
        found.append(error(chosen.most) / best)
    assert np.median(found) < 1.9
    assert np.median(found) < 0.2 * error(most) / best or most == 30 or name == "heavy"


def test_other_noise_is_told_from_nearly_the_same():
    exact = np.histogram(TABLES["lognormal"], row_edges(200))[0]
    told = RowHistogram(200, tuple(map(int, exact)), Fraction(10), "laplace", 1)
    chosen = rows_to_count(told, [Addend(14.0)], 20, 200).most
    assert nearly_best(told, [Addend(14.0)], 20, 200, chosen)
    assert nearly_best(told, [Addend(15.0)], 20, 200, chosen)
    assert not nearly_best(told, [Addend(1_400.0)], 20, 200, chosen)
    assert not nearly_best(told, [Addend(0.1)], 20, 200, chosen)


def test_where_noise_hides_all_nothing_is_chosen():
    told = RowHistogram(30, (3, -5, 4, 2, 0, 1, -2, 3, 1, 0), Fraction(50), "laplace", 1)
    assert rows_to_count(told, [Addend(1.0)], 20, 30) is None
    assert all(math.isnan(number) for number in told.described)


def test_what_was_found_is_kept_and_read_again():
    told = RowHistogram(3, (5, 2, 1), Fraction(7, 3), "laplace", 11)
    assert RowHistogram.from_json(told.to_json()) == told
    hidden, counted = CountedRows(5, hidden=True), CountedRows(1, Taken(0.0, 0.0), of_units=True)
    for rows in (CountedRows(7, Taken(1.5, 3.0)), hidden, counted):
        assert str(CountedRows.from_json(rows.to_json())) == str(rows)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("most", [130, MANY, None])
def test_counts_err_less_than_with_all_rows(frame, most, same_noise):
    """People have up to 126 rows, and most a few."""
    exact = frame.groupby("city").size()
    with closing(opened(frame, most)) as session:
        release = session.sql(BY_CITY, epsilon=0.5).run()
        error = np.sqrt(((release.frame.set_index("city")["n"] - exact) ** 2).mean())
        assert error < math.sqrt(2) * 126 / 0.5
        assert release.frame["n_std_error"].max() < 0.7 * math.sqrt(2) * 126 / 0.5
        (said,) = [note for note in release.notes if "as was found" in note]
        assert f"up to {told(session, release.number)['rows']['most']:,} rows of each unit count" in said


@pytest.mark.parametrize("known", [False, True])
def test_as_many_rows_count_as_noise_is_for(frame, known, same_noise):
    """By what is added up when noise is none: of each unit as many rows as were found, and the noise is theirs."""
    sizes = frame.groupby("who").size()
    with closing(opened(frame)) as session:
        if known:
            session.sql(BY_CITY, epsilon=0.5).run()
        session._statements.draw = lambda noise, scale, size: np.zeros(size, dtype=np.int64)
        release = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.5).run()
        record = told(session, release.number)
        rows = record["rows"]["most"]
        assert record["measuring"]["contribution"] == ["rows", rows]
        assert int(release.frame["n"][0]) == np.minimum(sizes, rows).sum()
        share = 1 if known else 1 - 0.25
        assert Fraction(record["measuring"]["blocks"][0]["scale"]) == pytest.approx(rows / (0.5 * share))


def test_the_first_statement_finds_and_later_ones_use_it_for_nothing(frame, same_noise):
    with closing(opened(frame)) as session:
        assert "find first how many rows" in " ".join(session.sql(BY_CITY, epsilon=0.5).plan.steps)
        assert session.spent.epsilon == 0  # looking buys nothing
        first = session.sql(BY_CITY, epsilon=0.5).run()
        assert session.spent.epsilon == pytest.approx(0.5)
        assert "profile" in told(session, first.number)
        assert session.sql(BY_CITY, epsilon=0.5).plan.free
        later = session.sql("SELECT COUNT(cost) AS n FROM visits", epsilon=0.5)
        assert "find first how many rows" not in " ".join(later.plan.steps)
        (said,) = [one for one in later.plan.warnings if "as was found" in one]
        assert f"contribution='rows' lets {MANY:,} count" in said
        (row,) = session.profile().itertuples()
        assert (row.release, row.of, row.groups) == (first.number, "rows of one unit", 20)
        sizes = frame.groupby("who").size()
        assert row.units == pytest.approx(len(sizes), rel=0.3)
        assert sizes.quantile(0.5) <= row.half <= 2 * sizes.quantile(0.5)
        release = later.run()
        assert session.spent.epsilon == pytest.approx(1.0)
        assert "profile" not in told(session, release.number)
        (width,) = (release.frame["n_upper"] - release.frame["n_lower"]) / 2
        assert width == pytest.approx(later.plan.error)


def test_an_error_can_be_asked_for_once_it_is_known(frame, same_noise):
    with closing(opened(frame)) as session:
        before = session.sql(BY_CITY, error=200, fresh=True).plan.cost.epsilon  # of all rows that are declared
        session.sql(BY_CITY, epsilon=0.5).run()
        query = session.sql(BY_CITY, error=200, fresh=True)
        assert query.plan.cost.epsilon < before / 4
        frame = query.run().frame
        assert (frame["n"] - frame["n_lower"]).max() <= 200  # of noise: rows that do not count are above


def test_a_sharper_answer_pays_what_is_missing(frame, same_noise):
    with closing(opened(frame)) as session:
        rows = told(session, session.sql(BY_CITY, epsilon=0.5).run().number)["rows"]
        query = session.sql(BY_CITY, epsilon=0.6)
        assert query.plan.cost.epsilon < 0.3
        assert told(session, query.run().number)["rows"] == rows


def test_whoever_says_how_many_rows_count_is_heard(frame, same_noise):
    with closing(opened(frame, 30)) as session:
        session.sql(BY_CITY, epsilon=0.5).run()
        forced = session.sql(BY_CITY, epsilon=0.5, contribution="rows")
        assert not forced.plan.free
        clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5, max_rows_contributed = 4) city, COUNT(*) AS n"
        written = session.sql(f"{clause} FROM visits GROUP BY city").run()
        record = told(session, written.number)
        assert record["measuring"]["contribution"] == ["rows", 4]
        assert "rows" not in record


def test_of_people_nothing_is_found(frame, same_noise):
    with closing(opened(frame)) as session:
        alone = session.sql("SELECT COUNT(DISTINCT who) AS n FROM visits", epsilon=0.5)
        assert alone.plan.error == pytest.approx(math.log(20) / 0.5, rel=0.2)  # a unit is one unit: nothing is found


@pytest.mark.parametrize("most", [30, None])
def test_few_people_are_answered_with_the_rows_that_are_declared(most, same_noise):
    few = visits(40)
    with closing(opened(few, most)) as session:
        release = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.5).run()
        assert told(session, release.number)["rows"]["hidden"]
        assert told(session, release.number)["measuring"]["contribution"] == ["rows", most or 5]
        assert any("noise hides how many rows" in note for note in release.notes)


def ends(release, name):
    """Return the value and the ends of each row's interval."""
    return [release.frame[f"{name}{part}"].to_numpy(dtype=float) for part in ("", "_lower", "_upper")]


def test_where_noise_hides_how_many_rows_count_intervals_have_no_end():
    """Of people with more rows than count if nobody knows: the rest may be any number of rows."""
    few = visits(300).assign(debt=lambda rows: -rows["cost"], change=lambda rows: rows["cost"] - 40)
    session = dpn.Session(Budget(20.0), ":memory:", confirm="never")
    domain = {"city": CITIES, "debt": dpn.Range(-200, 0), "cost": dpn.Range(0, 200), "change": dpn.Range(-200, 200)}
    table = session.protect(few, "visits", unit="who", domain=domain)
    asked = "COUNT(*) AS n, SUM(debt) AS d, SUM(cost) AS c, SUM(change) AS x, COUNT(DISTINCT who) AS w"
    release = session.sql(f"SELECT {asked} FROM visits", epsilon=0.2).run()
    rows = told(session, release.number)["rows"]
    assert (rows["most"], rows["hidden"], rows["unbounded"]) == (5, True, True)
    assert any("no end where more would be" in note for note in release.notes)
    for name, open_ends in {"n": (0, 1), "d": (1, 0), "c": (0, 1), "x": (1, 1), "w": (0, 0)}.items():
        value, lower, upper = ends(release, name)
        assert (np.isinf(lower[0]), np.isinf(upper[0])) == open_ends, name
        assert lower[0] < value[0] < upper[0]
    value, lower, _ = ends(release, "n")
    assert lower[0] < 2 * value[0] - lower[0] < len(few)  # where it would end for the noise alone
    by_city = table.groupby("city").count(epsilon=0.2).run()
    assert np.isinf(by_city.frame["upper"]).all()
    assert np.isfinite(by_city.frame["lower"]).all()
    every = by_city.sum().frame
    assert (np.isinf(every["upper"]).all(), np.isfinite(every["lower"]).all()) == (True, True)
    session.close()


def test_what_is_worked_out_where_rows_are_hidden_has_no_end_either():
    session = dpn.Session(Budget(20.0), ":memory:", confirm="never")
    session.protect(visits(300), "visits", unit="who", domain={"city": CITIES, "cost": dpn.Range(0, 200)})
    release = session.sql("SELECT 2 * COUNT(*) AS n, 100 - COUNT(*) AS m FROM visits", epsilon=0.2).run()
    assert [np.isinf(end[0]) for end in ends(release, "n")] == [False, False, True]
    assert [np.isinf(end[0]) for end in ends(release, "m")] == [False, True, False]
    whole = session.sql("SELECT COUNT(*) AS n, SUM(cost) / COUNT(DISTINCT who) AS each FROM visits", epsilon=0.3).run()
    _, lower, upper = ends(whole, "each")
    assert (np.isfinite(lower[0]) and np.isinf(upper[0])) or np.isinf([lower[0], upper[0]]).all()
    asked = "SELECT city, COUNT(*) / SUM(COUNT(*)) OVER () AS share, ROUND(COUNT(*)) AS n FROM visits GROUP BY city"
    shares = session.sql(asked, epsilon=5.0).run()
    assert np.isfinite(np.concatenate(ends(shares, "share"))).all()  # so dear that noise hides nothing
    session.close()


@pytest.mark.parametrize("most", [30, MANY])
def test_hidden_rows_that_are_declared_leave_nobody_out(most):
    with closing(opened(visits(40), most)) as session:
        release = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.5).run()
        assert told(session, release.number)["rows"]["hidden"]
        assert np.isfinite(np.concatenate(ends(release, "n"))).all()


def test_what_was_found_in_other_rows_is_not_gone_by(frame, tmp_path):
    """Of a table whose columns were changed meanwhile, and whose ledger is the same."""
    asked = "SELECT city, {} AS n FROM visits WHERE cost > 20 GROUP BY city"
    for rows in (frame, frame.assign(cost=frame["cost"] + 1)):
        with closing(dpn.Session(Budget(20.0), tmp_path / "ledger.db", confirm="never")) as session:
            session.protect(rows, "visits", unit="who", max_rows=MANY, domain={"city": CITIES})
            if rows is frame:
                session.sql(asked.format("COUNT(*)"), epsilon=0.5).run()
                continue
            with pytest.raises(FrameChanged):
                session.sql(asked.format("COUNT(cost)"), epsilon=0.5).run()
            assert session.spent.epsilon == pytest.approx(0.5)


def test_a_statement_is_recorded_with_what_it_looks_for(frame):
    with closing(opened(frame)) as session:
        release = session.sql(BY_CITY, epsilon=0.5).run()
        (recorded,) = statement_from_json(session.ledger.get(release.number).plan["statement"]).selects
        assert (recorded.rows_if_hidden, recorded.contribution.most) == (MANY, MANY)
        assert session.release(release.number).frame.equals(release.frame)


def test_without_declared_rows_an_error_needs_a_first_statement(frame):
    with closing(opened(frame, None)) as session:
        with pytest.raises(AccuracyError, match="not known beforehand"):
            _ = session.sql(BY_CITY, error=200, fresh=True).plan
        assert session.sql(BY_CITY, error=200).plan.rest is not None  # a first look


def test_a_few_people_with_far_more_rows_are_found_or_told_without_delta():
    """Of 20,000 people with few visits, 300 with 20 to 100: which rows count errs as little as it would in hindsight.

    What is told as the most is hardly ever passed. A rule that only follows the tail of the others errs by 8 times as
    much, and tells a tenth of it.
    """
    random, most = np.random.default_rng(3), 4_096
    rows = random.geometric(0.45, 20_000)
    rows[:300] = random.integers(20, 101, 300)
    exact, _ = np.histogram(rows, np.array(row_edges(most), dtype=float))
    noise, tried = 2.0, np.arange(1, 101)
    best = min(math.hypot(np.maximum(rows - k, 0).sum(), noise * k) for k in tried)
    ratios, kept = [], []
    for _ in range(60):
        noisy = exact + np.rint(random.laplace(0, 14.0, exact.size)).astype(int)
        told = RowHistogram(most, tuple(map(int, noisy)), Fraction(14), "laplace", 1)
        found = rows_to_count(told, [Addend(noise)], 1, most)
        lost = np.maximum(rows - found.most, 0).sum()
        ratios.append(math.hypot(lost, noise * found.most) / best)
        kept.append(lost <= max(found.lost.most, found.lost.apart) + noise * found.most)
    assert np.median(ratios) < 3
    assert np.mean(kept) > 0.85


def test_what_lies_apart_is_recorded_and_said():
    found = CountedRows(5, Taken(10.0, 20.0, apart=300.0, looked=4_096.0))
    assert CountedRows.from_json(found.to_json()).words == found.words
    assert "at most about 20 (300 if noise hides a few that reach 4,100)" in found.words
