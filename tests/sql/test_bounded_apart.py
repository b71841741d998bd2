"""Vectors are clipped for averages and counts, beside medians for which rows are drawn: in one statement."""

import math
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError
from dpnotebook.planner.plan import KEPT
from dpnotebook.privacy.accountant import accountant_for
from dpnotebook.sql.aggregates.budget_split import shares
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.noising import exact
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.analysis.contributions import Contributions
from dpnotebook.sql.rewrite.bounded_aggregation import totals
from dpnotebook.sql.select import Apart, Contribution
from dpnotebook.sql.statement import Relation
from dpnotebook.sql.statement_json import statement_from_json, statement_to_json

GAUSSIAN = accountant_for(dpn.Budget(1.0, 1e-6))
KINDS = ["a", "b", "c"]
SECRET = "0123456789abcdef0123456789abcdef"
BOTH = "SELECT kind, COUNT(*) AS n, AVG(x) AS mean, MEDIAN(x) AS middle FROM visits GROUP BY kind"
DELTA = Fraction(1, 10**6)


def visits(people=3_000, seed=3):
    """Return rows of people: a few mostly, up to 60, of values that are far apart."""
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), np.clip(random.geometric(0.12, people), 1, 60))
    values = np.exp(random.normal(4, 1, who.size))
    return pd.DataFrame({"who": who, "kind": random.choice(KINDS, who.size), "x": values})


FRAME = visits()


def opened(frame=FRAME, domain=None, ledger=":memory:", **options):
    """Return a session that protects rows of people."""
    session = dpn.Session(dpn.Budget(6.0, 1e-6), ledger, confirm="never")
    declared = {"kind": KINDS} if domain is None else domain
    session.protect(frame, "visits", unit="who", **({"domain": declared} if declared else {}), **options)
    return session


def read(asked, keys=tuple(KINDS)):
    """Return the private aggregation of a statement of a table about which nothing else is declared."""
    domain = dpn.Domain({"kind": list(keys)}) if keys else None
    columns = {"who": "text", "kind": "text", "x": "number", "w": "number"}
    relation = Relation("visits", columns, unit="who", max_rows=None, domain=domain)
    (select,) = analyse(asked, {"visits": relation}, {}, "planned").selects
    return select


@pytest.mark.parametrize(
    ("asked", "apart"),
    [
        ("COUNT(*), AVG(x), MEDIAN(x)", (0, 1)),
        ("MEDIAN(x), MAX(x), STDDEV(x), SUM(x)", (2, 3)),
        ("AVG(x) - MEDIAN(x) AS skew, AVG(x)", (0,)),
        ("COUNT(DISTINCT who), MIN(x)", (0,)),
        ("COUNT(*), AVG(x)", None),
        ("MEDIAN(x), MAX(x)", None),
    ],
)
def test_what_vectors_suit_is_bounded_by_their_length(asked, apart):
    with closing(opened()) as session:
        query = session.sql(f"SELECT kind, {asked} FROM visits GROUP BY kind", epsilon=0.5)
        (select,) = query.question.selects
    assert (None if select.apart is None else select.apart.aggregates) == apart
    if apart is None:
        return
    assert select.apart.contribution.kind == "l2"
    assert select.contribution.kind == "rows"
    assert [select.clips(i) for i in range(len(select.aggregates))] == [
        i in apart for i in range(len(select.aggregates))
    ]
    ways = select.ways
    assert [numbers for _, numbers in ways] == [
        apart,
        tuple(i for i in range(len(select.aggregates)) if i not in apart),
    ]
    assert [one.contribution.kind for one, _ in ways] == ["l2", "rows"]
    assert statement_from_json(statement_to_json(query.question)).selects == (select,)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"contribution": "rows"}, {"max_rows": 20}),
        ({}, {"max_rows": 1}),
    ],
)
def test_who_says_how_a_unit_is_bounded_is_heard(given, options):
    frame = FRAME.drop_duplicates("who") if options["max_rows"] == 1 else FRAME
    with closing(opened(frame, **options)) as session:
        question = session.sql(BOTH, epsilon=0.5, **given).question
    assert all(select.apart is None for select in getattr(question, "selects", ()))


def test_without_gaussian_noise_nothing_is_clipped():
    with closing(dpn.Session(dpn.Budget(6.0), ":memory:", confirm="never")) as session:
        session.protect(FRAME, "visits", unit="who", domain={"kind": KINDS})
        (select,) = session.sql(BOTH, epsilon=0.5).question.selects
    assert select.apart is None
    assert select.contribution.kind == "rows"


def rows_of(who, size, random):
    """Return rows of one unit, in many groups and with values far out."""
    values = random.choice([1e9, -1e9, 0.0, math.nan, math.inf, 3.0, None], size)
    kinds, weights = random.choice([*KINDS, "d", None], size), random.choice([0.0, 2.5, 1e6, math.nan], size)
    return pd.DataFrame({"who": who, "kind": kinds, "x": values.astype(float), "w": weights})


def measured(select, accountant, total):
    """Return what is measured, with bounds and rows that might have been found."""
    select = select.with_rows(7) if select.rows_if_hidden else select
    share = shares(select, total, accountant)
    found = {}
    for i, one in enumerate(select.aggregates):
        if one.kind in ("average", "variance", "weighted"):
            found[i] = (
                (Fraction(-20), Fraction(180), Fraction(11)) if select.clips(i) else (Fraction(-20), Fraction(180))
            )
        elif select.clips(i):  # who is in one group counts once there
            found[i] = (Fraction(0), Fraction(1 if one.kind == "units" else 300))
        else:
            found[i] = (Fraction(-50), Fraction(250))
    return select, share, measuring(select, share, accountant, DELTA, found)


STATEMENTS = [
    "COUNT(*), AVG(x), MEDIAN(x)",
    "SUM(x), MEDIAN(x)",
    "SUM(w * x) / SUM(w), MEDIAN(x)",
    "VAR_POP(x), MAX(x), COUNT(*), COUNT(DISTINCT who)",
]


@pytest.mark.parametrize("keys", [KINDS, ()], ids=["declared", "hidden by a threshold"])
@pytest.mark.parametrize("asked", STATEMENTS)
def test_one_unit_changes_all_numbers_together_by_what_the_noise_is_paid_for(asked, keys):
    """In both ways, whatever it has: never more, and where it has very much hardly less."""
    select = read(f"SELECT kind, {asked} FROM visits GROUP BY kind", keys)
    assert select.apart is not None
    total = GAUSSIAN.units(Fraction(1, 2))
    select, share, planned = measured(select, GAUSSIAN, total)
    assert share.total <= total
    paid = sum(share.main) + share.selection
    random, most = np.random.default_rng(11), 0.0
    for size in (1, 40, 900):
        for _ in range(2):
            many = rows_of("out", size, random)
            if size == 900:  # as much as counts, of everything
                many["x"], many["kind"], many["w"] = 1e9, "a", 1e6
            others = rows_of(random.choice(["p", "q"], 60), 60, random)
            spent = Fraction(0)
            both = []
            for frame in (pd.concat([others, many], ignore_index=True), others):
                connection = duckdb.connect()
                connection.register("visits", frame)
                run = lambda query, connection=connection: connection.execute(query).fetchnumpy()  # noqa: E731
                found = totals(select, planned.components, run, SECRET)
                both.append(dict(zip(found.keys, exact(planned, found), strict=True)))
            nothing = np.zeros(planned.measured, dtype=np.int64)
            changed = [both[0].get(key, nothing) - both[1].get(key, nothing) for key in {*both[0], *both[1]}]
            for i, block in enumerate(planned.blocks):
                squares = sum(int((one[planned.place(i)].astype(object) ** 2).sum()) for one in changed)
                spent += squares * GAUSSIAN.rate(block.scale)
            assert spent <= paid
            most = max(most, float(spent / paid))
    assert most > 0.83  # noise a tenth too small is paid for by 1.23 times as much


def test_each_function_pays_an_even_share_and_each_way_finds_its_own_bounds():
    select = read(BOTH)
    total = GAUSSIAN.units(Fraction(1, 2))
    share = shares(select, total, GAUSSIAN)
    assert share.total <= total
    given = [main + finding for main, finding in zip(share.main, share.finding, strict=True)]
    assert max(given) - min(given) <= 1
    assert all(share.auto)  # the norms of both, and where values lie for the median
    assert sum(share.auto) <= sum(share.finding)
    assert share.rows > 0


def test_components_say_how_they_are_bounded_and_are_read_again():
    _, _, planned = measured(read(BOTH), GAUSSIAN, GAUSSIAN.units(Fraction(1, 2)))
    told = Measuring.from_json(planned.to_json())
    assert told.components == planned.components
    assert [told.contribution_of(part).kind for part in told.parts] == ["l2", "l2", "rows"]
    assert told.contribution == Contribution("rows", 7)


def alike(patch):
    """Bound all aggregates of a statement in one way, as versions before did."""
    clipped = Contributions.clipped

    def in_one_way(self, calls):
        found = clipped(self, calls)
        return found if all(found) else [False] * len(calls)

    patch.setattr(Contributions, "clipped", in_one_way)


def test_an_average_beside_a_median_is_about_as_close_as_by_itself(same_noise, monkeypatch):
    """Rows were drawn for both; medians are no worse. No clip moves these values.

    One of eight norms is found twice too long, whichever way: medians of seven sessions.
    """
    frame = FRAME.assign(x=np.random.default_rng(8).normal(100, 15, len(FRAME)))
    asked = "SELECT kind, AVG(x) AS mean, MEDIAN(x) AS middle FROM visits GROUP BY kind"

    def errors(text, epsilon):
        frames = []
        for _ in range(7):
            with closing(opened(frame)) as session:
                frames.append(session.sql(text, epsilon=epsilon).run().frame)
        return pd.DataFrame([one.filter(like="std_error").median() for one in frames]).median()

    apart, alone = errors(asked, 0.6), errors(asked.replace(", MEDIAN(x) AS middle", ""), 0.4)
    alike(monkeypatch)
    drawn = errors(asked, 0.6)
    assert apart["mean_std_error"] < 1.4 * alone["mean_std_error"]
    assert apart["mean_std_error"] < 1.1 * drawn["mean_std_error"]
    assert apart["middle_std_error"] < 1.3 * drawn["middle_std_error"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("domain", [{"kind": KINDS}, {}], ids=["declared", "hidden by a threshold"])
def test_errors_are_those_that_are_told(domain, same_noise):
    """Of averages and counts over sessions; the values are not skewed, which clipping would move averages by."""
    frame = visits(1_500).assign(x=np.random.default_rng(8).normal(100, 15, len(visits(1_500))))
    exact_answers = frame.groupby("kind")["x"].agg(["size", "mean"])
    off = []
    for _ in range(12):
        with closing(opened(frame, domain)) as session:
            answers = session.sql(BOTH, epsilon=1.0).run().frame.set_index("kind")
        real = exact_answers.loc[answers.index]
        off += list((answers["mean"] - real["mean"]) / answers["mean_std_error"])
    assert len(off) == 36
    assert 0.6 < np.sqrt(np.mean(np.square(off))) < 1.5  # of 36 by chance alone .65 to 1.35


def test_what_follows_from_both_ways_has_an_interval_that_holds(same_noise):
    """An average less a median is redrawn with the noise of both, which is independent."""
    frame = visits(1_500)
    asked = BOTH.replace("COUNT(*) AS n", "COUNT(*) AS n, AVG(x) - MEDIAN(x) AS skew")
    groups = frame.groupby("kind")["x"]
    real = groups.mean() - groups.median()
    with closing(opened(frame)) as session:
        answers = session.sql(asked, epsilon=1.5).run().frame.set_index("kind")
    assert (answers["skew_lower"] < real).all()
    assert (real < answers["skew_upper"]).all()
    wide = answers["skew_upper"] - answers["skew_lower"]
    assert (wide > answers["mean_upper"] - answers["mean_lower"]).all()
    both = (answers[f"{name}_upper"] - answers[f"{name}_lower"] for name in ("mean", "middle"))
    assert (wide < 1.2 * sum(both)).all()


def test_each_part_is_known_by_itself_afterwards():
    with closing(opened()) as session:
        first = session.sql(BOTH, epsilon=0.5).run()
        for asked, epsilon in (
            ("AVG(x) AS mean", 0.15),
            ("COUNT(*) AS n", 0.15),
            ("MEDIAN(x) AS middle", 0.15),
            ("MEDIAN(x) AS middle, AVG(x) AS mean", 0.3),
        ):
            query = session.sql(f"SELECT kind, {asked} FROM visits GROUP BY kind", epsilon=epsilon)
            assert query.plan.free, asked
            answers = query.run().frame.sort_values("kind")
            for name in asked.split(" AS ")[1:]:
                column = name.split(",")[0]
                np.testing.assert_array_equal(answers[column], first.frame.sort_values("kind")[column])
        counts = session.sql("SELECT COUNT(*) AS n FROM visits WHERE kind IN ('b', 'c')", epsilon=0.1)
        assert counts.plan.free  # sums of vectors add up; medians do not
        assert not session.sql("SELECT MEDIAN(x) AS middle FROM visits WHERE kind IN ('b', 'c')", epsilon=0.1).plan.free


def test_notes_of_rows_that_are_drawn_are_not_of_averages():
    with closing(opened()) as session:
        notes = session.sql(BOTH, epsilon=0.5).run().notes
        assert any(note.startswith("MEDIAN(x): up to") for note in notes)
        notes = session.sql("SELECT kind, AVG(x) AS mean FROM visits GROUP BY kind", epsilon=0.1).run().notes
        assert not any("rows of each unit count" in note for note in notes)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("asked", [BOTH, BOTH.replace("COUNT(*) AS n, ", "")])
def test_a_sharper_repeat_pays_what_is_missing(asked):
    less = 0
    for _ in range(6):  # in about two of three bounds of the first still suit
        with closing(opened()) as session:
            session.sql(asked, epsilon=0.5).run()
            again = session.sql(asked, epsilon=0.8)
            assert 0 < again.plan.cost.units <= again.plan.units
            less += again.plan.cost.units < again.plan.units
            release = again.run()
            assert session.sql(asked, epsilon=0.8).plan.free
            assert release.frame.notna().all(axis=None)
    assert less > 0


def test_what_was_paid_for_in_one_way_stays_free(tmp_path, monkeypatch):
    """By an earlier version, with other bounds for all."""
    path = tmp_path / "ledger.db"
    with monkeypatch.context() as patch:
        alike(patch)
        with closing(opened(ledger=path)) as session:
            first = session.sql(BOTH, epsilon=0.5).run().frame
    with closing(opened(ledger=path)) as session:
        query = session.sql(BOTH, epsilon=0.5)
        assert query.plan.free
        pd.testing.assert_frame_equal(query.run().frame, first)
        (select,) = session.sql(BOTH, epsilon=0.6).question.selects
        assert select.apart is not None


def test_a_restart_shows_the_same(tmp_path):
    path = tmp_path / "ledger.db"
    with closing(opened(ledger=path)) as session:
        first = session.sql(BOTH, epsilon=0.5).run()
    with closing(opened(ledger=path)) as session:
        pd.testing.assert_frame_equal(session.release(first.number).frame, first.frame)
        query = session.sql(BOTH, epsilon=0.5)
        assert query.plan.free
        pd.testing.assert_frame_equal(query.run().frame, first.frame)


def test_an_error_holds_for_averages_and_quantiles_at_once():
    """Both are in what the column is counted in: an error of quantiles was one of ranks, and no error was planned."""
    with closing(opened()) as session:
        query = session.sql(BOTH.replace("COUNT(*) AS n, ", ""), error=30)
        assert query.plan.rest is not None
        frame = query.run().frame
        widths = [(frame[f"{name}_upper"] - frame[f"{name}_lower"]).max() / 2 for name in ("mean", "middle")]
        assert max(widths) <= KEPT * 30


def test_no_error_holds_for_counts_and_quantiles_at_once():
    with closing(opened()) as session:
        asked = session.sql("SELECT COUNT(*) AS n, MEDIAN(x) AS middle FROM visits", error=500)
        with pytest.raises(AccuracyError, match="cannot hold for rows and x at once; give epsilon=, or ask them apart"):
            asked.plan  # noqa: B018
        assert session.ledger.spent == 0


def test_no_error_holds_for_a_greatest_value_whose_bounds_are_found():
    with closing(opened()) as session:
        with pytest.raises(AccuracyError, match="their intervals have no end"):
            session.sql("SELECT MAX(x) AS most FROM visits", error=5).plan  # noqa: B018
        assert session.ledger.spent == 0


def test_small_groups_stay_hidden(tmp_path):
    """Where groups are not declared, one threshold hides them, whatever both ways add up."""
    frame = pd.concat([visits(2_000), pd.DataFrame({"who": [7_001, 7_002], "kind": ["rare", "rare"], "x": [1.0, 2.0]})])
    with closing(opened(frame.reset_index(drop=True), {})) as session:
        query = session.sql(BOTH, epsilon=0.8)
        assert sum("a group needs about" in warning for warning in query.plan.warnings) == 1
        answers = query.run().frame
    assert sorted(answers["kind"]) == KINDS
    assert answers["middle"].between(20, 150).all()


def test_apart_is_a_part_of_what_is_measured():
    select = read(BOTH)
    assert replace(select, apart=None).canonical != select.canonical
    other = replace(select, apart=Apart(Contribution("l2", 2), select.apart.aggregates))
    assert other.canonical != select.canonical
