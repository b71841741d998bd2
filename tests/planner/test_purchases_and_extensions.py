"""What purchases for group-bys took the place of is of the domain that they were made in: another one begins anew."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

COLUMNS = ["a", "b", "c", "d"]
SIZES = {"a": 6, "b": 5, "c": 4, "d": 3}
PAIRS = [["a", "b"], ["a", "c"], ["b", "c"], ["a", "d"], ["b", "d"], ["c", "d"], ["a", "b", "c"], ["b", "c", "d"]]


def asked_until_something_is_bought(rows):
    """Ask for groups, of all rows and of some, until the planner has bought for what follows; say how many it took."""
    for number, keys in enumerate(PAIRS * 2):
        where = None if number % 3 else f"{next(name for name in COLUMNS if name not in keys)} >= 1"
        rows.dp.groupby(keys).count(where=where, error=30 - number).run()
        if any("instead" in one["plan"] for one in dpn.active_session().ledger.history()):
            return number + 1
    return None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_groups_are_bought_again_in_a_domain_that_was_extended(delta, tmp_path):
    rng = np.random.default_rng(4)
    rows = pd.DataFrame({name: rng.integers(0, size, 3_000) for name, size in SIZES.items()})
    domain = {name: dpn.Range(0, size - 1) for name, size in SIZES.items()}
    path, budget = tmp_path / "bought.ledger", dpn.Budget(epsilon=50.0, delta=delta)
    with dpn.Session(budget, ledger=path) as session:
        session.protect(rows, "rows", rows=3_000, domain=domain)
        assert asked_until_something_is_bought(rows) is not None
        spent = session.spent.epsilon
    with dpn.Session(budget, ledger=path) as session:
        with pytest.warns(dpn.LedgerWarning):
            session.protect(rows, "rows", rows=3_000, domain=domain | {"a": dpn.Range(0, 7)})
        assert session.spent.epsilon == pytest.approx(spent)
        for number, keys in enumerate(PAIRS):
            rows.dp.groupby(keys).count(where="d >= 1" if "d" not in keys else None, error=14 - number).run()
        assert session.audit().ok
        assert session.spent.epsilon > spent
