"""What errors, objectives and workloads are refused for: clearly, before anything is spent."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook import strategy
from dpnotebook.errors import AccuracyError, DPError, PredicateError, WorkloadError
from dpnotebook.planner import partwise
from dpnotebook.session import room
from dpnotebook.strategy import explicit, kept_optima
from dpnotebook.strategy.select import select_own
from dpnotebook.workload import Explicit, Predicates, Prefix, Stack

DELTAS = {"gaussian": 1e-6, "laplace": 0.0}
SIZES = {"age": 100, "sex": 2}
FRAME = pd.DataFrame({name: np.arange(300) % size for name, size in SIZES.items()} | {"town": list("xyz") * 100})
DOMAIN = {name: dpn.Range(0, size - 1) for name, size in SIZES.items()} | {"town": ["x", "y", "z"]}


@pytest.fixture(params=DELTAS)
def session(request):
    with dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=DELTAS[request.param]), ledger=":memory:") as session:
        session.protect(FRAME, "people", domain=DOMAIN)
        yield session


def untouched(session):
    return session.spent.epsilon == 0 and len(session.history()) == 0 and session.audit().ok


BESIDE = dpn.identity("age").within(20)
PARTS = {  # which have no answers, beside one that has
    "within 0": (lambda t: t.answer(BESIDE + dpn.total().within(0)), AccuracyError, "a finite number above 0"),
    "more attributes than there are": (
        lambda t: t.answer(BESIDE + dpn.marginals(4).within(20)),
        WorkloadError,
        "there are 3; write k=3",
    ),
    "up to more than there are": (
        lambda t: t.answer(dpn.identity("age") + dpn.marginals(upto=4), error=20),
        WorkloadError,
        "write upto=3",
    ),
    "marginals of no cells": (
        lambda t: t.answer(BESIDE + dpn.small_marginals(0).within(20)),
        WorkloadError,
        "at least 1, not 0",
    ),
    "no attribute": (lambda t: t.answer(BESIDE + dpn.cdf().within(20)), WorkloadError, "takes names of attributes"),
    "no order": (lambda t: t.answer(BESIDE + dpn.cdf("town").within(20)), WorkloadError, "'town' has none"),
    "no such attribute": (lambda t: t.answer(BESIDE + dpn.cdf("income").within(20)), WorkloadError, "'income'"),
    "an attribute that is left out": (
        lambda t: t.answer(BESIDE + dpn.identity("sex").within(20), on="age"),
        WorkloadError,
        r"identity\('sex'\) needs 'sex'",
    ),
    "no level": (
        lambda t: t.answer(BESIDE + dpn.total().within(20), where="age > 99"),
        PredicateError,
        "nothing in the declared domain satisfies",
    ),
    "coefficients of 0": (
        lambda t: t.answer(Explicit(np.zeros((2, 100))), on="age", error=20),
        WorkloadError,
        "asks nothing",
    ),
    "no rows": (lambda t: t.answer(Explicit(np.zeros((0, 100))), on="age", error=20), WorkloadError, "one row"),
    "no predicates": (lambda t: t.answer(Predicates([], 100), on="age", error=20), WorkloadError, "at least one row"),
    "a stack of nothing": (lambda t: t.answer(Stack(), on="age", error=20), WorkloadError, "at least one workload"),
    "a weight of 0": (lambda t: t.answer(0 * dpn.identity("age"), error=20), WorkloadError, "finite number above 0"),
    "other cells": (lambda t: t.answer(Prefix(99), on="age", error=20), WorkloadError, "99 cells, but age has 100"),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_with_no_answers(session, name):
    ask, kind, words = PARTS[name]
    with pytest.raises(kind, match=words):
        str(ask(session.table("people")).plan)
    assert untouched(session)


OBJECTIVES = {
    "of another part": {"identity('sex')": 3},
    "of a workload": dpn.identity("sex").within(3),
    "weights": np.ones(7),
    "weights of a frame": FRAME["age"],
    "a list": ["total", "worst"],
    "a name": "median",
}
VERBS = {
    "answer": lambda t, objective: t.answer(dpn.identity("age"), error=20, objective=objective),
    "cdf": lambda t, objective: t.cdf("age", error=20, objective=objective),
    "prefetch": lambda t, objective: t._session.prefetch(dpn.identity("age"), objective=objective),
    "at": lambda t, objective: t.count(error=20).at(error=10, objective=objective),
    "select": lambda t, objective: strategy.select(Prefix(5), objective=objective),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_over_what_the_workload_does_not_have(session, name, verb):
    with pytest.raises(AccuracyError, match=r'objective= is "total" .* or "worst"') as caught:
        str(VERBS[verb](session.table("people"), OBJECTIVES[name]))
    assert len(str(caught.value)) < 400
    assert untouched(session)


@pytest.mark.parametrize("asked", [("sex",), ("sex", "income"), ()], ids=str)
def test_a_table_that_was_not_asked_for(session, asked):
    release = session.table("people").answer(dpn.identity("age", "sex"), epsilon=1.0).run()
    spent = session.spent
    with pytest.raises(WorkloadError, match=r"has no table|none of its attributes"):
        release.marginal(*asked)
    assert session.spent == spent


@pytest.mark.one_in(4)
@pytest.mark.parametrize("how", ["damaged", "of another version", "of another question", "folders"])
def test_a_cache_that_cannot_be_used_changes_no_price(how, tmp_path, monkeypatch):
    folder = tmp_path / "optima"
    monkeypatch.setenv("DPNOTEBOOK_CACHE", str(folder))

    def prices():
        """Return what a notebook that was just opened says that questions cost."""
        select_own.cache_clear()
        explicit._found.clear()
        found = []
        for delta in DELTAS.values():
            with dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=delta), ledger=":memory:") as session:
                people = session.protect(FRAME, "people", domain=DOMAIN)
                found += [people.cdf("age", **asked).plan.cost for asked in ({"error": 20}, {"epsilon": 1.0})]
                assert untouched(session)
        return found

    before = prices()
    files = sorted(folder.glob("*.npz"))
    assert len(files) >= 2
    whole = [path.read_bytes() for path in files]
    if how == "of another version":
        monkeypatch.setattr(kept_optima, "FORM", kept_optima.FORM + 1)
    for path, content in zip(files, [*whole[1:], whole[0]], strict=True):
        if how == "damaged":
            path.write_bytes(content[: len(content) // 2])
        elif how == "of another question":
            path.write_bytes(content)
        elif how == "folders":
            path.unlink()
            path.mkdir()
    assert prices() == before


# Files of control groups: limit, used, statistics. 1,000,000 bytes are allowed, and 400,000 of 900,000 are of files.
VERSIONS = {
    "version 2": ("1000000\n", "900000\n", "anon 500000\ninactive_file 400000\n", 500_000),
    "version 1": ("1000000\n", "900000\n", "inactive_file 7\ntotal_inactive_file 400000\n", 500_000),
    "no limit": ("max\n", "900000\n", "inactive_file 0\n", None),
    "more than is allowed": ("1000000\n", "1200000\n", "inactive_file 0\n", 0),
    "nothing to read": (None, None, None, None),
}


@pytest.mark.parametrize("name", VERSIONS)
def test_free_memory_is_that_of_the_container(name, tmp_path):
    *texts, free = VERSIONS[name]
    paths = [tmp_path / part for part in ("limit", "used", "stat")]
    for path, text in zip(paths, texts, strict=True):
        if text is not None:
            path.write_text(text)
    files = tuple(map(str, paths))
    assert room.container_memory([("/nowhere",) * 3, files]) == free


def test_a_container_that_is_too_small_is_said_before_anything_is_spent(session, monkeypatch):
    monkeypatch.setattr(partwise, "MAX_ANSWERS", 20)
    monkeypatch.setattr(room, "container_memory", lambda: 1000)
    query = session.table("people").answer(dpn.marginals(2), epsilon=1.0)
    with pytest.raises(DPError, match=r"GiB of memory, .*nothing was spent"):
        query.run()
    assert untouched(session)
    monkeypatch.setattr(room, "container_memory", lambda: None)
    assert query.run().paid > 0


CONTRADICTIONS = {
    "the budget": (lambda t: t.answer(dpn.identity("age").within(0.2) + dpn.total().within(0.1)), "nothing was spent"),
    "all of any budget": (
        lambda t: t.answer(dpn.identity("sex").within(1e-9) + dpn.total().within(20)),
        "nothing was spent|no noise to speak of",
    ),
    "an epsilon": (lambda t: t.answer(BESIDE, epsilon=0.1), r"leave epsilon= out, or .within\(\)"),
    "an error": (lambda t: t.answer(BESIDE, error=5), r"leave error= out, or .within\(\)"),
    "a variance": (lambda t: t.answer(BESIDE, variance=5), r"leave variance= out, or .within\(\)"),
    "a part without one": (lambda t: t.answer(BESIDE + dpn.total()), "of every part how far off .* or of none"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_targets_that_contradict(session, name):
    ask, words = CONTRADICTIONS[name]
    with pytest.raises(DPError, match=words):
        ask(session.table("people")).run()
    assert untouched(session)
