"""Marginals of very many counts: planned, paid and recorded as any others, and read table by table."""

import itertools

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DomainError, WorkloadError
from dpnotebook.planner import answers, partwise
from dpnotebook.session import room

pytestmark = pytest.mark.usefixtures("same_noise")
DELTAS = {"gaussian": 1e-6, "laplace": 0.0}
LEVELS = {"a": 5, "b": 4, "c": 3, "d": 2}
DOMAIN = {name: dpn.Range(0, size - 1) for name, size in LEVELS.items()}
INSTEAD = r"release\.marginal\("
NUMBERS = ["value", "std_error", "lower", "upper"]


def people(rows=500):
    random = np.random.default_rng(3)
    return pd.DataFrame({name: random.integers(0, size, rows) for name, size in LEVELS.items()})


@pytest.fixture(params=DELTAS)
def noise(request):
    return request.param


def residual(workload, noise):
    return dpn.strategy.opt_residual(workload)


def opened(noise, ledger=":memory:"):
    session = dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=DELTAS[noise]), ledger=ledger, confirm="never")
    session.protect(people(), "people", domain=DOMAIN)
    return session


@pytest.fixture
def by_table(monkeypatch):
    """Tables are read one by one from so few answers on."""
    monkeypatch.setattr(partwise, "MAX_ANSWERS", 20)
    monkeypatch.setattr(answers, "POWERS_LIMIT", 0)
    monkeypatch.setattr(answers, "WEIGHTS_LIMIT", 0)  # intervals of Laplace noise as of answers that are many


@pytest.mark.one_in(3)
@pytest.mark.parametrize("accuracy", [{"epsilon": 1.0}, {"error": 30.0}, {"epsilon": 1.0, "simultaneous": True}])
@pytest.mark.parametrize("where", [None, "a >= 1 and b != 2"])
def test_tables_are_those_that_a_frame_would_have(noise, monkeypatch, accuracy, where, tmp_path):
    monkeypatch.setattr(answers, "WEIGHTS_LIMIT", 0)
    monkeypatch.setattr(answers, "POWERS_LIMIT", 0)  # a bound by fourth powers is of answers that are not read lazily
    asked = dpn.marginals(2) + 3 * dpn.marginals(1)
    found = []
    for most in (10**6, 10):  # of the same record, in a session after it
        monkeypatch.setattr(partwise, "MAX_ANSWERS", most)
        with opened(noise, tmp_path / "ledger") as session:
            best = dpn.strategy.opt_marginals if noise == "laplace" else residual
            query = session.table("people").answer(asked, where=where, strategy=best, **accuracy)
            afresh = session.table("people").answer(asked, where=where, strategy=best, fresh=True, **accuracy)
            found.append((afresh.plan, query.run(), session.spent))
    (plan, whole, spent), (lazy_plan, lazy, spent_after) = found
    assert (spent, whole.number, "") == (spent_after, lazy.number, whole.unread)
    assert lazy.paid == 0
    assert lazy.unread
    assert lazy_plan.answers == plan.answers == len(whole.frame)
    assert lazy_plan.cost == plan.cost
    assert lazy_plan.error == pytest.approx(plan.error, rel=1e-9)
    assert list(lazy.tables.names) == list(whole.tables.names)
    monkeypatch.setattr(partwise, "MAX_ANSWERS", 20)  # a table has fewer
    at = 0
    for names in whole.tables.names:
        for order in itertools.permutations(names):
            one, other = whole.marginal(*order), lazy.marginal(*order)
            assert one.keys == other.keys == order
            pd.testing.assert_frame_equal(one.frame, other.frame, rtol=1e-9, atol=1e-9)
            assert (one.together, one.confidence) == (other.together, other.confidence)
        rows = whole.frame.iloc[at : at + len(whole.marginal(*names))]
        at += len(rows)
        assert (rows[NUMBERS].to_numpy() == whole.marginal(*names).frame[NUMBERS].to_numpy()).all()
        for name in names:
            assert rows[name].tolist() == whole.marginal(*names).frame[name].tolist()
    assert at == len(whole.frame)


def test_one_table_at_a_time(noise, by_table, tmp_path):
    with opened(noise, tmp_path / "ledger") as session:
        query = session.table("people").answer(dpn.marginals(3), epsilon=1.0)
        assert query.plan.answers == 5 * 4 * 3 + 5 * 4 * 2 + 5 * 3 * 2 + 4 * 3 * 2
        assert any("4 tables of counts" in step and "release.marginal(" in step for step in query.plan.steps)
        release = query.run()
        assert len(query.plan.steps) == 1  # the ledger has it
        assert "154 answers in 4 tables" in str(release)
        assert repr(release.frame) == release.unread
        for read in (len, list, lambda one: one["value"], lambda one: one.head(3)):
            with pytest.raises(WorkloadError, match=INSTEAD):
                read(release.frame)
        for read in (len, list, lambda one: one["value"], lambda one: one.to_csv("x.csv"), lambda one: one.plot()):
            with pytest.raises(WorkloadError, match=INSTEAD):
                read(release)
        for look in (release.simultaneous, release.nonnegative, release.samples):
            with pytest.raises(WorkloadError, match=INSTEAD):
                look()
        with pytest.raises(WorkloadError, match="'e' is none of its attributes"):
            release.marginal("a", "e")
        with pytest.raises(WorkloadError, match="twice"):
            release.marginal("a", "a")
        with pytest.raises(WorkloadError, match="no table of a x b x c x d; it has a x b x c; a x b x d"):
            release.marginal("a", "b", "c", "d")
        pair = release.marginal("d", "a")  # sums of a table that was asked for
        assert pair.keys == ("d", "a")
        assert pair.paid == 0
        assert pair.frame["std_error"].nunique() == 1
        wider = pair.simultaneous()
        assert (wider.frame["upper"] > pair.frame["upper"]).all()
        with pytest.raises(WorkloadError, match="not redrawn by themselves"):
            pair.samples()
        with pytest.raises(WorkloadError, match="not moved by themselves"):
            pair.nonnegative()
        spent = session.spent
        width = float(pair.frame["upper"][0] - pair.frame["value"][0])
        again = session.table("people").crosstab("d", "a", error=1.01 * width)
        assert again.plan.cost.epsilon == 0
        np.testing.assert_allclose(again.run().frame["value"], pair.frame["value"], atol=1e-3)
        assert session.spent == spent
        assert session.release(release.number).marginal("d", "a").frame.equals(pair.frame)
    with opened(noise, tmp_path / "ledger") as session:
        found = session.table("people").answer(dpn.marginals(3), epsilon=1.0).run()
        assert (found.number, found.paid) == (release.number, 0)
        assert found.marginal("d", "a").frame.equals(pair.frame)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", [2, 3])
def test_errors_are_those_that_are_said(noise, way, monkeypatch):
    monkeypatch.setattr(partwise, "MAX_ANSWERS", 700)
    random = np.random.default_rng(5)
    columns, levels = (14, 8) if way == 2 else (8, 8)
    frame = pd.DataFrame({f"c{i}": random.integers(0, levels, 300) for i in range(columns)})
    with dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=DELTAS[noise]), ledger=":memory:") as session:
        people = session.protect(frame, "people", domain={name: dpn.Range(0, levels - 1) for name in frame})
        release = people.answer(dpn.marginals(way), epsilon=1.0).run()
    away, held = [], []
    for names in release.tables.names:
        table = release.marginal(*names).frame
        exact = np.bincount(
            np.ravel_multi_index([frame[name] for name in names], [levels] * way), minlength=levels**way
        )
        away.append((table["value"] - exact) / table["std_error"])
        held.append((table["lower"] <= exact) & (exact <= table["upper"]))
    away, held = np.concatenate(away), np.concatenate(held)
    assert away.size > 5000
    # The same noise at every run. Were it drawn anew: 5.5 standard deviations are 5% for normal noise and some 6,000
    # numbers, and noise that is 10% too small is below.
    assert 0.95 < np.sqrt((away**2).mean()) < 1.06
    assert held.mean() > 0.935


def test_what_cannot_be_read_by_table_is_refused(noise, by_table, monkeypatch):
    with opened(noise) as session:
        people = session.table("people")
        with pytest.raises(DomainError, match=r"30 answers; at most 20 .* unless they are of marginals"):
            str(people.answer(dpn.identity("a", "b") + dpn.ranges("b"), epsilon=1.0).plan)
        with pytest.raises(DomainError, match="leave strategy= out"):
            str(people.answer(dpn.marginals(2), epsilon=1.0, strategy=dpn.strategy.identity).plan)
        monkeypatch.setattr(partwise, "MOST_NUMBERS", 50)
        with pytest.raises(DomainError, match="71 noisy numbers"):
            str(people.answer(dpn.marginals(2), epsilon=1.0).plan)
        monkeypatch.undo()
        monkeypatch.setattr(partwise, "MAX_ANSWERS", 20)
        monkeypatch.setattr(room, "free_memory", lambda: 1000)
        with pytest.raises(WorkloadError, match=r"GiB of memory, .*nothing was spent"):
            people.answer(dpn.marginals(2), epsilon=1.0).run()
        assert session.spent.epsilon == 0
        monkeypatch.setattr(room, "free_memory", lambda: None)
        assert people.answer(dpn.marginals(2), epsilon=1.0).run().unread


def test_small_groups_are_withheld_from_every_table(noise, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rows = tmp_path / "clinic.toml"
    delta = f"delta = {DELTAS[noise]}\n" if DELTAS[noise] else ""
    rows.write_text(f"[budget]\nepsilon = 9.0\n{delta}[groups]\nminimum = 30\n")
    for most in (10**6, 20):
        monkeypatch.setattr(partwise, "MAX_ANSWERS", most)
        with dpn.Session.from_policy(rows) as session:
            session.protect(people(), "people", domain=DOMAIN)
            release = session.table("people").answer(dpn.marginals(2), epsilon=4.0, fresh=True).run()
            assert bool(release.unread) == (most == 20)
            for table in (release.marginal("a", "b"), release.marginal("b", "a").simultaneous()):
                assert 0 < len(table.frame) < 20
                assert (table.frame["value"] >= 30).all()
                assert "withheld" in table.notes[-1]


def test_adaptive_answers_have_tables_too(noise):
    with opened(noise) as session:
        release = session.table("people").answer(dpn.marginals(2), epsilon=2.0, adaptive=True).run()
        frame = release.frame
        rows = frame[(frame["c"] == "(all)") & (frame["d"] == "(all)")]
        assert release.marginal("a", "b").frame["value"].tolist() == rows["value"].tolist()


def test_what_is_not_of_marginals_has_no_tables(noise):
    with opened(noise) as session:
        people = session.table("people")
        for query in (people.histogram("a", epsilon=0.2), people.answer(dpn.ranges("a"), epsilon=0.2)):
            with pytest.raises(WorkloadError, match=r"not one of marginals: its answers are in \.frame"):
                query.run().marginal("a")
        of_one = people.answer(dpn.marginals(1), epsilon=0.5).run()
        moved = of_one.marginal("a").nonnegative()
        assert moved.frame["value"].tolist() == of_one.nonnegative().frame["value"][:5].tolist()
        drawn = of_one.marginal("b").samples(100)
        assert len(drawn) == 400
        assert of_one.marginal("b").plot().data[0].y is not None


@pytest.mark.one_in(2)
def test_tables_are_published_and_a_release_of_very_many_is_not(noise, by_table, tmp_path):
    with opened(noise) as session:
        release = session.table("people").answer(dpn.marginals(2), epsilon=1.0).run()
        about = {"title": "People", "curator": "The clinic"}
        for chosen in (None, [release]):
            with pytest.raises(dpn.DPError, match=r"too long for a report: .*release\.marginal\("):
                session.publish(tmp_path / "report", chosen, **about)
        folder = session.publish(tmp_path / "report", [release.marginal("a", "b")], **about)
        assert len(pd.read_csv(folder / "release-1.csv")) == 20
