"""A statement asked again sharper pays what is missing of its price, and its noise is what its price says."""

import math
from fractions import Fraction

import card_texts
import numpy as np
import pandas as pd
import pytest
from private_selects import aggregate, plan, select
from scipy import stats

import dpnotebook as dpn
from dpnotebook.errors import EngineError, FrameChanged, LedgerConflict
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.privacy.randomness import random_bytes
from dpnotebook.sql.aggregates import sharpening
from dpnotebook.sql.aggregates.budget_split import needs_bounds
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.sharpening import measured_scale, missing, sharpened, weights, with_scales

DELTAS = pytest.mark.parametrize("delta", [1e-6, 0.0], ids=["gaussian", "laplace"])
ROWS = pytest.mark.parametrize("rows", [1, 4], ids=["one row each", "four rows each"])
SIGMAS = 5.5  # one run in 10^7 fails by chance
DRAWS = 100_000
LAWS = {name: accountant_for(Budget(1.0, 1e-6, noise=name)) for name in ("gaussian", "laplace")}


# The law of the noise.
def drawn_twice(noise, before, after, less=1.0):
    """Return noise of a release and of the sharper one, of scales before and after; drawn with `less` of it."""
    accountant = LAWS[noise]
    first = plan(select(aggregate("count", 0, 1), selection="all"), accountant, UNITS)
    first = with_scales(first, [before])
    exact = np.arange(DRAWS, dtype=np.int64)[:, None] - DRAWS // 2
    known = exact + draw_integers(noise, before, DRAWS)[:, None]

    def law(noise, scale, size):
        return draw_integers(noise, scale * Fraction(less), size)

    draw = None if less == 1 else law
    found = sharpened(first, known, exact, [after], draw, random_bytes)
    return (known - exact).ravel().astype(float), (found - exact).ravel().astype(float), first.law


def away(found, right):
    """Return how many standard errors the mean of numbers is away from what is right."""
    return abs(found.mean() - right) / (found.std() / math.sqrt(found.size))


PAIRS = [(Fraction(40), Fraction(20)), (Fraction(7, 2), Fraction(3)), (Fraction(3), Fraction(3, 4))]


@pytest.mark.parametrize("noise", LAWS)
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_sharper_numbers_have_the_noise_of_their_price(noise, before, after):
    first, second, law = drawn_twice(noise, before, after)
    variance = law.variance(after)
    assert away(second, 0) < SIGMAS
    assert away(second**2, variance) < SIGMAS
    # Both are related as the best estimate and an earlier one are: what was taken off is independent of what is left.
    shared = variance - (1 / 12 if noise == "gaussian" else 0)
    assert away(first * second, shared) < SIGMAS


@pytest.mark.parametrize("noise", LAWS)
@pytest.mark.parametrize(("before", "after"), PAIRS[:2])
def test_a_tenth_less_noise_would_be_seen(noise, before, after):
    _, second, law = drawn_twice(noise, before, after, 0.9)
    assert away(second**2, law.variance(after)) > SIGMAS


@pytest.mark.parametrize(
    ("before", "after"), [*PAIRS, (Fraction(1, 3), Fraction(1, 4)), (Fraction(9), Fraction(8999, 1000))]
)
def test_weights_and_scales_are_those_of_the_best_combination(before, after):
    law = LAWS["gaussian"].law
    known, scale = before**2 + Fraction(1, 12), measured_scale(law, before, after)
    assert 1 / known + 1 / scale**2 <= 1 / after**2  # rounded up
    assert float(1 / known + 1 / scale**2) == pytest.approx(float(1 / after**2), rel=1e-10)
    old, new = weights(law, before, after)
    assert (old, new) == pytest.approx((float(after**2 / known), 1 - float(after**2 / known)))
    assert old**2 * float(known) + new**2 * float(scale**2) == pytest.approx(float(after**2), rel=1e-9)
    assert missing(law, after, before) == 0


# Through a session.
def people(rows, seed=3, count=4_000):
    random = np.random.default_rng(seed)
    return pd.DataFrame({
        "who": np.arange(count) // rows,
        "g": random.choice(list("abc"), count),
        "town": random.choice(["x", "y", "z", "hamlet"], count, p=[0.4, 0.3, 0.299, 0.001]),
        "x": random.gamma(2, 10, count).round(2),
    })  # fmt: skip


def session_of(delta, rows, ledger=":memory:", frame=None, total=40.0):
    session = dpn.Session(dpn.Budget(total, delta), ledger, confirm="never")
    session.protect(people(rows) if frame is None else frame, "t", unit="who", max_rows=rows, domain={"g": list("abc")})
    return session


def price(session, statement, **given):
    return session.sql(statement, fresh=True, **given).plan.cost.units


STATEMENTS = [
    "SELECT g, COUNT(*) AS n FROM t WHERE town <> 'x' GROUP BY g",
    "SELECT g, ANON_SUM(x, 0, 100) AS s, COUNT(*) AS n FROM t WHERE town <> 'x' GROUP BY g",
    "SELECT g, ANON_AVG(x, 0, 100) AS m FROM t WHERE town <> 'x' GROUP BY g",
    "SELECT ANON_VAR_POP(x, 0, 100) AS v FROM t WHERE town = 'x'",
    "SELECT g, MEDIAN(x) AS q FROM t WHERE town <> 'x' GROUP BY g",
]


@pytest.mark.one_in(22)
@DELTAS
@ROWS
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_sharper_repeat_pays_the_difference(delta, rows, statement, same_noise):
    with session_of(delta, rows) as session:
        first = session.sql(statement, epsilon=0.5, contribution="rows").run()
        before = session.ledger.spent
        query = session.sql(statement, epsilon=1.5, contribution="rows")
        asked, whole = query.plan, price(session, statement, epsilon=1.5, contribution="rows")
        text = card_texts.plan_text(asked)
        release = query.run()
        paid = session.ledger.spent - before
        assert paid == asked.cost.units  # the card is what the ledger says
        # AUTO's share of finding bounds is not paid again; a Gaussian count pays for its rounding.
        assert paid <= (whole - before) * 1.01
        (chosen,) = query.question.selects
        found = any(needs_bounds(chosen, i) for i in range(len(chosen.aggregates)))
        assert paid >= (whole - before) * (0.5 if found else 0.999)
        assert "Makes release #1 sharper" in text
        assert "less than" not in text
        assert release.sources == (1, 2)
        assert release.epsilon == pytest.approx(1.5)
        assert (asked.reused, asked.without_reuse.units, session.saved.how) == ((1,), whole, {2: "refined"})
        record = session.ledger.get(2)
        combined = record.details["selects"][0]["combined"]
        assert combined["of"] == [1, 2]
        assert all(sum(pair) == pytest.approx(1) for pair in combined["weights"])
        assert record.units == paid
        # What it is worth by itself is known from now on.
        again = session.sql(statement, epsilon=1.5, contribution="rows").plan
        assert (again.free, again.recorded) == (True, 2)
        name = statement.split(" AS ")[1].split(",")[0].split()[0]
        errors = [one.frame[f"{name}_std_error"].max() for one in (first, release)]
        if name in ("n", "s"):
            assert errors[1] < errors[0] / 1.5
            if not found:  # as precise as by itself
                alone = session.sql(statement, epsilon=1.5, contribution="rows", fresh=True).plan
                assert [part.half_width for part in asked.parts] == [part.half_width for part in alone.parts]


@pytest.mark.one_in(6)
@DELTAS
@ROWS
def test_an_error_is_kept_for_the_least_price_and_then_free(delta, rows, same_noise):
    statement = STATEMENTS[0]
    with session_of(delta, rows) as session:
        session.sql(statement, epsilon=0.5, contribution="rows").run()
        spent = session.ledger.spent
        for error in (5, 2):
            whole = price(session, statement, error=error, contribution="rows")
            query = session.sql(statement, error=error, contribution="rows")
            asked = query.plan
            assert asked.error <= error
            release = query.run()
            delivered = (release.frame["n_upper"] - release.frame["n_lower"]).max() / 2
            assert delivered == asked.error
            assert session.ledger.spent - spent == asked.cost.units
            spent = session.ledger.spent
            assert spent <= whole * 1.02  # all that was paid until now is what the last answer costs
            assert session.sql(statement, error=error, contribution="rows").plan.free
        assert session.sql(statement, epsilon=0.5, contribution="rows").plan.free


@pytest.mark.one_in(3, first=1)
@DELTAS
def test_intervals_of_sharper_answers_cover(delta):
    frame = pd.DataFrame(
        {"who": np.arange(9_000), "g": np.random.default_rng(1).integers(0, 3_000, 9_000), "town": "x"}
    )
    with dpn.Session(dpn.Budget(9.0, delta), confirm="never") as session:
        session.protect(frame, "t", unit="who", max_rows=1, domain={"g": dpn.Range(0, 2_999)})
        statement = "SELECT g, COUNT(*) AS n FROM t WHERE town <> 'y' GROUP BY g"
        session.sql(statement, epsilon=0.5).run()
        found = session.sql(statement, epsilon=1.0).run()
        assert found.sources == (1, 2)
        truth = frame.groupby("g").size().reindex(range(3_000), fill_value=0).to_numpy()
        off = found.frame["n"].to_numpy() - truth
        covered = ((found.frame["n_lower"] <= truth) & (truth <= found.frame["n_upper"])).sum()
        low, high = stats.binom.ppf([1e-8, 1 - 1e-8], 3_000, [0.95, 0.975 if not delta else 0.96])
        assert low <= covered <= high
        assert away(off**2, found.frame["n_std_error"][0] ** 2) < SIGMAS


@pytest.mark.one_in(2)
@DELTAS
def test_the_difference_of_a_release_and_the_sharper_one(delta, same_noise):
    """What they share of their noise is counted once: the variance of the difference is that of the variances."""
    with session_of(delta, 1) as session:
        one = session.sql(STATEMENTS[1], epsilon=0.5).run()
        other = session.sql(STATEMENTS[1], epsilon=1.0).run()
        third = session.sql(STATEMENTS[1], epsilon=2.0).run()
        assert third.sources == (1, 2, 3)
        for first, second in ((one, other), (other, third), (one, third)):
            difference = (first - second).frame
            for name in ("n", "s"):
                errors = [release.frame[f"{name}_std_error"].max() for release in (first, second)]
                assert difference[f"{name}_std_error"].to_numpy() == pytest.approx(
                    np.sqrt(errors[0] ** 2 - errors[1] ** 2), rel=0.12
                )
        drawn = third.samples(4_000).groupby("g", sort=False)["n"].std()
        assert drawn.to_numpy() == pytest.approx(third.frame["n_std_error"].to_numpy(), rel=0.1)


def test_groups_are_those_that_were_released():
    with session_of(1e-6, 1) as session:
        statement = "SELECT town, COUNT(*) AS n FROM t GROUP BY town"
        first = session.sql(statement, epsilon=0.5).run()
        delta = session.ledger.moment("t").delta_remaining
        query = session.sql(statement, epsilon=5.0)
        assert any("fresh=True measures anew, and may show smaller ones" in step for step in query.plan.steps)
        release = query.run()
        assert list(release.frame["town"]) == list(first.frame["town"])
        assert session.ledger.moment("t").delta_remaining == delta
        for again in (statement, "SELECT town, COUNT(*) + 1 AS more FROM t GROUP BY town ORDER BY more"):
            assert session.sql(again, epsilon=5.0).plan.free


# What was asked first, what is asked then, and what that must cost: nothing, the rest of its price, or all of it.
FIRST = "SELECT g, floor, COUNT(*) AS n, SUM(x) AS s FROM t WHERE town <> 'x' GROUP BY g, floor"
COUNTS, SUMS = FIRST.replace(", SUM(x) AS s", ""), FIRST.replace("COUNT(*) AS n, ", "")
MORE = {"epsilon": 1.5}
ASKED_AGAIN = [
    (FIRST, MORE, "rest"),
    (FIRST, {"epsilon": 0.5}, "free"),
    (FIRST, {"epsilon": 0.1}, "free"),
    (FIRST.lower().replace(" as n", " as many").replace("n'", "N'"), MORE, "rest"),
    (FIRST + " HAVING COUNT(*) > 10 ORDER BY n DESC LIMIT 3", MORE, "rest"),
    (FIRST.replace("g, floor", "floor, g"), MORE, "rest"),
    (FIRST.replace("COUNT(*) AS n, SUM(x) AS s", "SUM(x) AS s, COUNT(*) AS n"), MORE, "rest"),
    (COUNTS, MORE, "rest"),
    (COUNTS, {"error": 2.0}, "rest"),
    (COUNTS, {"error": 500.0}, "free"),
    (COUNTS, {"variance": 1.0}, "rest"),
    (SUMS, MORE, "rest"),
    (FIRST.replace("SUM(x) AS s", "SUM(x) AS s, SUM(x) / COUNT(*) AS m"), MORE, "rest"),
    (FIRST.replace("SUM(x) AS s", "SUM(x) / COUNT(*) AS m"), MORE, "anew"),  # a mean is closer than what is known
    (FIRST.replace("SUM(x) AS s", "SUM(x) / COUNT(*) AS m"), {"epsilon": 0.4}, "free"),
    (f"SELECT MAX(n) AS most FROM ({FIRST}) AS counted", MORE, "rest"),
    (FIRST.replace("<> 'x'", "<> 'x' AND floor = 1"), MORE, "rest"),
    ("SELECT floor, COUNT(*) AS n FROM t WHERE town <> 'x' AND g = 'a' GROUP BY floor", MORE, "rest"),
    (FIRST.replace("g, floor", "g"), MORE, "anew"),  # the noise of several groups adds up
    (FIRST.replace("<> 'x'", "= 'y'"), MORE, "anew"),
    (FIRST.replace("COUNT(*)", "COUNT(y)"), MORE, "anew"),
    (FIRST.replace("SUM(x)", "SUM(floor)"), MORE, "anew"),
    (FIRST, {**MORE, "fresh": True}, "anew"),
    (FIRST, {"epsilon": 0.4, "fresh": True}, "anew"),
]
TABLES = [(1e-6, 1, "rows"), (1e-6, 4, "rows"), (0.0, 1, "rows"), (0.0, 4, "rows"), (1e-6, 4, "l2")]


def is_layered(session):
    """Return whether the first release has counts or sums in two layers."""
    (select,) = session.ledger.get(1).details["selects"]
    return any(part.layers for part in Measuring.from_json(select["measuring"]).parts)


@pytest.mark.one_in(60)
@pytest.mark.parametrize("number", range(len(ASKED_AGAIN)))
@pytest.mark.parametrize(("delta", "rows", "contribution"), TABLES)
def test_what_is_asked_again_costs(number, delta, rows, contribution, same_noise):
    then, given, cost = ASKED_AGAIN[number]
    # So little noise that lengths of vectors are told well: otherwise later statements clip to other ones.
    times = 40 if contribution == "l2" else 1
    if times > 1 and "epsilon" in given:
        given = given | {"epsilon": times * min(given["epsilon"], 0.75)}
    how = {"contribution": contribution, "bounds": "declared"}  # so that only norms are found
    frame = people(rows)
    frame["floor"], frame["y"] = np.random.default_rng(2).integers(0, 2, (2, len(frame)))
    domain = {"g": list("abc"), "floor": dpn.Range(0, 1), "x": dpn.Bins(0, 200, width=10)}
    with dpn.Session(dpn.Budget(400.0, delta), confirm="never") as session:
        session.protect(frame, "t", unit="who", max_rows=rows, domain=domain)
        session.sql(FIRST, epsilon=0.5 * times, **how).run()
        spent = session.ledger.spent
        if cost == "rest" and "epsilon" not in given and is_layered(session):
            cost = "anew"  # in two layers no error can be promised
        query = session.sql(then, **how, **given)
        asked = query.plan
        whole = session.sql(then, **how, **(given | {"fresh": True})).plan.cost.units
        query.run()
        assert session.ledger.spent - spent == asked.cost.units
        assert (asked.sharper is not None) == (cost == "rest")
        if cost != "rest":
            assert asked.cost.units == (0 if cost == "free" else whole)
            return
        # What was paid for what is asked counts, but for what found the lengths of vectors: that is known now.
        mine = spent / (2 if then in (COUNTS, SUMS) or "g = 'a'" in then else 1)
        if contribution == "rows":
            assert asked.cost.units == pytest.approx(whole - mine, rel=0.01)
        else:
            # Of lengths that suit another price it counts less: they get less noise than that price would give.
            assert whole - mine - 0.1 * whole <= asked.cost.units <= whole - 0.2 * mine
        assert session.sql(then, **how, **given).plan.free


# What goes wrong in between.
class Stopped(Exception):
    pass


@DELTAS
def test_a_crash_between_charge_and_record_is_paid_once(delta, tmp_path, monkeypatch):
    path, frame, statement = tmp_path / "a.dpledger", people(4), STATEMENTS[0]
    with session_of(delta, 4, path, frame) as session:
        session.sql(statement, epsilon=0.5, contribution="rows").run()
        with monkeypatch.context() as patch:
            patch.setattr("dpnotebook.session.statement_answers.sharpened", lambda *_: (_ for _ in ()).throw(Stopped))
            with pytest.raises(EngineError, match="Run it again"):
                session.sql(statement, epsilon=1.0, contribution="rows").run()
        spent = session.ledger.spent
        drawn = []

        def drawing(*given, own=sharpening.sharpened):
            drawn.append(own(*given))
            return drawn[-1]

        monkeypatch.setattr("dpnotebook.session.statement_answers.sharpened", drawing)
        monkeypatch.setattr(session.ledger, "record", lambda *_: (_ for _ in ()).throw(Stopped))
        with pytest.raises(EngineError, match="Run it again"):
            session.sql(statement, epsilon=1.0, contribution="rows").run()
    with session_of(delta, 4, path, frame) as session:  # another kernel, later
        release = session.sql(statement, epsilon=1.0, contribution="rows").run()
        assert (release.number, session.ledger.spent) == (2, spent)
        np.testing.assert_array_equal(drawn[0], drawn[1])  # the same noise, however often it is tried
        np.testing.assert_array_equal(drawn[1], np.asarray(session.ledger.get(2).answers[0]).reshape(drawn[1].shape))


@DELTAS
def test_another_kernel_was_faster(delta, tmp_path):
    path, frame, statement = tmp_path / "a.dpledger", people(1), STATEMENTS[0]
    with session_of(delta, 1, path, frame) as session, session_of(delta, 1, path, frame) as other:
        session.sql(statement, epsilon=0.5).run()
        query = other.sql(statement, epsilon=1.0)
        assert query.plan.reused == (1,)
        session.sql(statement, epsilon=2.0).run()
        spent = session.ledger.spent
        assert query.run().number == 2  # it is known better by now
        assert other.ledger.spent == spent
        sharper = other.sql(statement, epsilon=3.0)
        assert sharper.plan.reused == (2,)
        if not delta:  # two draws on the same noise are never paid as one
            told, cells = dict(session.ledger.get(2).plan), sharper.plan.cells
            with pytest.raises(LedgerConflict, match="was refined by release 2"):
                other.ledger.charge("t", sharper.question.key, told, cells, [(1, 0)])


def test_rows_that_were_sampled_by_another_secret_are_measured_anew():
    with session_of(1e-6, 4) as session:
        median = "SELECT MEDIAN(x) AS q FROM t WHERE town = 'x'"
        session.sql(median, epsilon=0.5, fresh=True).run()
        assert session.sql(median, epsilon=1.0).plan.sharper is None
        session.sql(median, epsilon=0.8).run()
        assert session.sql(median, epsilon=1.5).plan.reused == (2,)


@DELTAS
def test_releases_of_earlier_versions(delta, monkeypatch):
    """They do not say how rows were sampled: only noise of its own is added to those of which all rows count."""
    with session_of(delta, 4) as session, monkeypatch.context() as patch:
        patch.setattr(
            "dpnotebook.session.statement_answers.SAMPLES",
            "words",  # what is written over it is not said
        )
        session.sql(STATEMENTS[0], epsilon=0.5, contribution="rows").run()
        if delta:
            session.sql("SELECT g, COUNT(*) AS n FROM t GROUP BY g", epsilon=0.5, contribution="l2").run()
        patch.undo()
        assert session.sql(STATEMENTS[0], epsilon=1.0, contribution="rows").plan.sharper is None
        if delta:
            asked = session.sql("SELECT g, COUNT(*) AS n FROM t GROUP BY g", epsilon=0.6, contribution="l2").plan
            assert asked.reused == (2,)


def test_a_column_that_changed_is_not_made_sharper(tmp_path):
    path, frame = tmp_path / "a.dpledger", people(1)
    with session_of(1e-6, 1, path, frame) as session:
        session.sql(STATEMENTS[0], epsilon=0.5).run()
        spent = session.ledger.spent
    with session_of(1e-6, 1, path, frame.assign(town=frame["town"].to_numpy()[::-1])) as session:
        with pytest.raises(FrameChanged, match="fresh=True"):
            session.sql(STATEMENTS[0], epsilon=1.0).run()
        assert session.ledger.spent == spent
        query = session.sql(STATEMENTS[0], epsilon=1.0, fresh=True)
        assert query.plan.sharper is None
        query.run()


def test_laplace_noise_on_what_floating_point_adds_up_is_drawn_anew():
    """Which totals come out depends on the order of rows there, and what noise was drawn would not be known."""
    with session_of(0.0, 4) as session:
        statement = "SELECT ANON_SUM(m, 0, 50) AS s FROM (SELECT who, AVG(x) AS m FROM t GROUP BY who) AS o"
        session.sql(statement, epsilon=0.5).run()
        assert session.sql(statement, epsilon=1.0).plan.sharper is None
