"""What is random is drawn anew for every charge, for every measurement in it, and for every sample: seen from outside.

No law is tested here, only that nothing random comes twice: a key, a seed or a secret that stays the same passes every
test of a law.
"""

import itertools
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

pytestmark = pytest.mark.fresh_noise

CELLS = 60
BUDGETS = {"pure": dpn.Budget(1000.0), "gaussian": dpn.Budget(1000.0, 1e-6)}
QUESTIONS = {
    "histogram": lambda session: session.table("people").histogram("age", epsilon=0.5, fresh=True),
    "statement": lambda session: session.sql(
        "SELECT age, COUNT(*) AS value FROM people WHERE note <> 'x' GROUP BY age", epsilon=0.5, fresh=True
    ),
}


def people():
    numbers = np.arange(50 * CELLS)
    return pd.DataFrame({"age": numbers % CELLS, "note": "a", "who": numbers // CELLS})


def opened(budget, ledger=":memory:", make=dpn.Session, **options):
    session = make(budget=budget, ledger=ledger)
    session.protect(people(), "people", domain={"age": dpn.Range(0, CELLS - 1)}, **options)
    return session


def noise_of(release, column="value"):
    return release.frame[column].to_numpy(dtype=float) - 50.0


def check_independent(noises):
    """Every pair differs, and no pair goes together more than chance lets one of some 10^9 pairs."""
    noises = np.array(noises)
    assert noises.std(axis=1).min() > 0
    for one, other in itertools.combinations(noises, 2):
        assert not np.array_equal(one, other)
        assert not np.array_equal(one, -other)
        assert abs(np.corrcoef(one, other)[0, 1]) < 6.2 / np.sqrt(noises.shape[1] - 3)


@pytest.mark.parametrize("law", BUDGETS)
@pytest.mark.parametrize("asked", QUESTIONS)
def test_every_charge_has_noise_of_its_own(law, asked, tmp_path):
    """In one session, in another on the same ledger, and in a new ledger of the same data."""
    noises = []
    for path in (tmp_path / "one.ledger", tmp_path / "one.ledger", tmp_path / "two.ledger", ":memory:", ":memory:"):
        session = opened(BUDGETS[law], path)
        noises += [noise_of(QUESTIONS[asked](session).run()) for _ in range(3)]
        session.close()
    check_independent(noises)


def test_every_process_has_noise_of_its_own():
    code = (
        "import numpy as np, pandas as pd, dpnotebook as dpn\n"
        "session = dpn.Session(budget=dpn.Budget(10.0))\n"
        f"session.protect(pd.DataFrame({{'age': np.arange(100) % {CELLS}}}), 'people', "
        f"domain={{'age': dpn.Range(0, {CELLS - 1})}})\n"
        "print(session.table('people').histogram('age', epsilon=0.5).run().frame['value'].tolist())"
    )
    said = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)]
    assert said[0] != said[1]


@pytest.mark.parametrize("law", BUDGETS)
def test_every_measurement_of_a_charge_has_noise_of_its_own(law):
    session = opened(BUDGETS[law])
    noises = []
    for _ in range(3):
        text = (
            "SELECT a.age, a.n AS first, b.n AS second FROM "
            "(SELECT age, COUNT(*) AS n FROM people WHERE note <> 'x' GROUP BY age) AS a JOIN "
            "(SELECT age, COUNT(*) AS n FROM people WHERE note <> 'y' GROUP BY age) AS b ON a.age = b.age ORDER BY age"
        )
        several = session.sql(text, epsilon=0.8, fresh=True).run()
        noises += [noise_of(several, "first"), noise_of(several, "second")]
        text = "SELECT age, COUNT(*) AS n, COUNT(note) AS m FROM people WHERE note <> 'x' GROUP BY age"
        beside = session.sql(text, epsilon=0.8, fresh=True).run()
        noises += [noise_of(beside, "n"), noise_of(beside, "m")]
    check_independent(noises)
    session.close()


@pytest.mark.parametrize("law", BUDGETS)
def test_every_measure_of_a_question_has_noise_of_its_own(law):
    session, noises = dpn.Session(BUDGETS[law]), []
    levels = dpn.Range(0, CELLS - 1)
    session.protect(people().assign(pay=people()["age"]), "people", domain={"age": levels, "pay": levels})
    text = "SELECT age, COUNT(*) AS n, SUM(age) AS s, SUM(pay) AS p FROM people GROUP BY age"
    for _ in range(3):
        query = session.sql(text, epsilon=2, fresh=True)
        assert len(query.plan.measurements) > 1
        frame = query.run().frame
        noises += [(frame[name] - 50.0 * frame["age"]).to_numpy(float) for name in ("s", "p")]
    check_independent(noises)
    session.close()


@pytest.fixture
def unsafe(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def sampled(session, options=""):
    select = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) age, "
    count = "COUNT(*, contribution_bounds_per_group => (0, 1))" if "groups" in options else "COUNT(*)"
    text = f"{select}{count} AS n FROM people WHERE note <> 'x' GROUP BY age"
    return tuple(session.sql(text, epsilon=0.5, fresh=True).run().frame["n"].tolist())


@pytest.mark.parametrize("options", ["max_groups_contributed = 3", "max_rows_contributed = 3"])
def test_every_charge_samples_anew(unsafe, options):
    """Fifty people with a row in each of sixty groups, of which three count: without noise the sample is seen."""
    found = []
    for _ in range(3):
        session = opened(BUDGETS["gaussian"], make=exact_session, unit="who", max_rows=CELLS)
        found += [sampled(session, options) for _ in range(4)]
        session.close()
    assert all(sum(one) == 150 for one in found)
    assert len(set(found)) == len(found)
    check_independent([np.array(one, dtype=float) for one in found])


def test_every_ledger_samples_rows_of_its_own(unsafe, tmp_path):
    """Once a ledger, where a table is bounded: the same again in a later session on it."""

    def drawn(path):
        session = opened(BUDGETS["pure"], path, make=exact_session, unit="who", max_rows=3)
        found = tuple(session.table("people").histogram("age", epsilon=0.5, fresh=True).run().frame["value"])
        session.close()
        return found

    found = [drawn(tmp_path / f"{i}.ledger") for i in range(6)]
    assert len(set(found)) == 6
    assert drawn(tmp_path / "0.ledger") == found[0]
    check_independent([np.array(one, dtype=float) for one in found])
