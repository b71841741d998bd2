"""Random sessions on two neighbouring databases, on every engine: nothing tells them apart but what was paid for."""

import os

import everywhere
import pytest
from neighbours import loss, play, told_apart
from random_sessions import random_session

pytestmark = pytest.mark.audit

MANY = range(*map(int, os.environ.get("DPNOTEBOOK_AUDIT_SEEDS", "1000:1060").split(":")))


@pytest.fixture(autouse=True)
def _without_noise(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.fixture
def put(request, tmp_path):
    """Return what puts rows into an engine, by the engine's name."""
    count = iter(range(10**6))

    def put_rows(engine):
        if engine == "frame":
            return lambda name, rows: everywhere.frame(rows)
        if engine == "parquet":

            def written(name, rows):
                path = tmp_path / f"{name}{next(count)}.parquet"
                everywhere.frame(rows).to_parquet(path)
                return path

            return written
        server = request.getfixturevalue(engine)
        if engine == "postgres":
            return lambda name, rows: everywhere.put_into_postgres(server, f"{name}_{next(count)}", rows)
        return lambda name, rows: everywhere.put_into_spark(server, rows)

    return put_rows


def check(seed, put, questions=6):
    """Play one random session on two neighbouring databases."""
    data, other, budget, asked = random_session(seed, questions)
    one, two = play(data.declare(put), asked, budget), play(other.declare(put), asked, budget)
    assert told_apart(one, two) is None, f"seed {seed}"
    lost = loss(one, two)
    assert lost <= 1, f"seed {seed}: the answers lose {float(lost):g} times what was charged"
    return lost


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(10))
def test_sessions_over_frames(seed, put):
    check(seed, put("frame"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("engine", ["parquet", "postgres", pytest.param("spark", marks=pytest.mark.slow)])
def test_sessions_elsewhere(engine, put):
    check(35, put(engine), questions=2 if engine == "spark" else 4)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["frame", "parquet", "postgres", "spark"])
def test_many_sessions(engine, put, audited):
    """Of the sessions on frames, some lose all that they pay for: nothing is charged that could be spared."""
    some = MANY if engine == "frame" else MANY[: len(MANY) // 10]
    most = max(check(seed, put(engine)) for seed in some)
    audited(f"{len(some)} random sessions, {engine}", "what is charged", f"{float(most):.3f} of it", "")
    assert engine != "frame" or len(some) < 50 or most > 0.9
