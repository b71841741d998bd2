"""A protected table whose domain is declared otherwise later: corrected while nothing was charged for it."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.privacy.budget import Budget

FRAME = pd.DataFrame({"age": np.arange(200) % 120, "sex": ["F", "M"] * 100, "who": np.arange(200) // 2})
WRONG = {"age": dpn.Range(0, 100), "sex": ["F", "M"]}
MEANT = {"age": dpn.Range(0, 120), "sex": ["F", "M"]}


@pytest.fixture
def kernel(tmp_path):
    """Return what opens one more session on the same ledger."""
    opened = []

    def one(**options):
        opened.append(dpn.Session(Budget(4.0), tmp_path / "clinic.ledger", **options))
        return opened[-1]

    yield one
    for session in opened:
        session.close()


def test_a_cell_with_the_domain_corrected_is_just_run_again(kernel):
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=WRONG)
    query = frame.dp.count(where="age == 100", epsilon=1.0)
    words = r"'people' was corrected: 'age' is Range\(0, 120\), was Range\(0, 100\)\. Nothing had been charged"
    with pytest.warns(dpn.LedgerWarning, match=words):
        session.protect(frame, "people", domain=MEANT)
    with pytest.raises(dpn.DomainError, match="written for the domain that 'people' had before"):
        query.run()
    with pytest.raises(dpn.DomainError, match="written for the domain that 'people' had before"):
        _ = query.plan
    assert session.spent.epsilon == 0
    release = frame.dp.histogram("age", epsilon=1.0).run()
    assert len(release.frame) == 121
    assert len(session.spend_by_column()["people", "age"]) == 121
    assert session.audit().ok
    session.protect(frame, "people", domain=MEANT)  # again, and in another kernel, nothing changes
    kernel().protect(frame.copy(), "people", domain=MEANT)


def test_other_columns_may_be_declared_and_none(kernel):
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=WRONG)
    with pytest.warns(dpn.LedgerWarning, match="'sex' is gone"):
        session.protect(frame, "people", domain={"age": dpn.Range(0, 100)})
    with pytest.warns(dpn.LedgerWarning, match="'age' is gone"):
        session.protect(frame, "people", domain=dpn.Domain.nothing())
    with pytest.warns(dpn.LedgerWarning, match="'sex' is new"):
        session.protect(frame, "people", domain={"sex": ["F", "M"]})
    assert frame.dp.histogram("sex", epsilon=1.0).run().paid == 1.0
    assert session.audit().ok


def test_the_rows_of_units_are_sampled_anew(kernel):
    """The sample may depend on what is declared: nobody has seen anything of the old one."""
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=WRONG, unit="who", max_rows=1)
    with pytest.warns(dpn.LedgerWarning, match="was corrected"):
        session.protect(frame, "people", domain=MEANT, unit="who", max_rows=1)
    frame.dp.count(epsilon=1.0).run()
    with pytest.raises(dpn.LedgerMismatch, match="its max_rows"):
        session.protect(frame, "people", domain=MEANT, unit="who", max_rows=2)


def test_another_kernel_is_told_and_spends_nothing(kernel):
    old, new = kernel(), kernel()
    frame, other = FRAME.copy(), FRAME.copy()
    old.protect(frame, "people", domain=WRONG)
    asked = frame.dp.count(where="age == 100", epsilon=1.0)
    assert asked.plan.cost.epsilon == 1.0
    with pytest.warns(dpn.LedgerWarning, match="was corrected"):
        new.protect(other, "people", domain=MEANT)
    told = "'people' was changed by another kernel"
    for use in (
        asked.run,
        lambda: asked.plan,
        lambda: old.sql("SELECT COUNT(*) AS n FROM people WHERE who > 3", epsilon=1.0).run(),
        lambda: old.sql("SELECT COUNT(*) AS n FROM people", epsilon=1.0).run(),
        old.spend_by_column,
    ):
        with pytest.raises(dpn.LedgerConflict, match=told):
            use()
    assert new.spent.epsilon == 0
    other.dp.count(where="age == 100", epsilon=1.0).run()
    with pytest.raises(dpn.LedgerMismatch, match="its domain"):  # something rests on it now
        old.protect(frame, "people", domain=WRONG | {"age": dpn.Range(0, 10)})
    with pytest.raises(dpn.LedgerConflict, match=told):
        asked.run()
    old.protect(frame, "people", domain=MEANT)
    assert frame.dp.count(where="age == 100", epsilon=1.0).run().paid == 0  # the answer is there
    assert new.spent.epsilon == 1.0
    assert new.audit().ok


def test_where_correcting_fails_the_table_stays_as_it_was(kernel):
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=WRONG)
    first = frame.dp.count(epsilon=1.0).run()
    with pytest.raises(dpn.LedgerMismatch, match="its domain"):
        session.protect(frame, "people", domain={"age": dpn.Range(0, 50)})
    assert frame.dp.count(epsilon=1.0).run().value == first.value
    assert session.spent.epsilon == 1.0


class TestHandedOn:
    """Whoever says no domain takes the one of the ledger: a second analyst neither repeats it nor changes it."""

    @pytest.mark.parametrize("charged", [False, True])
    def test_the_table_is_what_it_was_declared_as(self, kernel, charged):
        steward, frame = kernel(), FRAME.assign(age=FRAME["age"].where(FRAME["age"] > 3))
        domain = {"age": dpn.Range(0, 120, nullable=True), "sex": dpn.Categories(["M", "F"], label="Sex")}
        steward.protect(frame, "people", unit=dpn.Unit("person", column="who"), max_rows=2, domain=domain)
        if charged:
            asked = frame.dp.groupby("sex").count(where="age >= 10", epsilon=0.5).run()
        entries = steward.audit().entries
        analyst, copy = kernel(), frame.sample(frac=1, random_state=1)
        table = copy.dp.protect("people", session=analyst)
        assert table.table == steward.table("people").table
        assert table.domain["sex"].label == "Sex"
        assert steward.audit().entries == entries
        if charged:
            again = copy.dp.groupby("sex").count(where="age >= 10", epsilon=0.5).run()
            assert again.number == asked.number
            assert again.paid == 0
        frame.dp.count(epsilon=0.1).run()  # the steward is not disturbed

    def test_a_table_in_parts(self, kernel):
        steward = kernel()
        first, second = FRAME.assign(at=range(200)), FRAME.assign(at=range(200, 400))
        steward.protect([first, second], "people", domain=MEANT)
        steward.table("people").groupby("part").count(epsilon=0.5).run()
        analyst = kernel()
        copy = first.copy()
        assert not analyst.protect(copy, "people").complete
        assert analyst.extend("people", second.copy()).complete
        assert kernel().protect([first.copy(), second.copy()], "people").complete

    def test_a_table_that_the_ledger_does_not_know_has_no_column(self, kernel):
        table = kernel().protect(FRAME.copy(), "people")
        assert list(table.domain) == []

    def test_less_than_was_declared_is_refused_with_what_to_write(self, kernel):
        steward, frame = kernel(), FRAME.copy()
        steward.protect(frame, "people", domain=MEANT)
        frame.dp.count(epsilon=0.5).run()
        with pytest.raises(dpn.LedgerMismatch, match="Leave domain= out to use it as it was declared last"):
            kernel().protect(FRAME.copy(), "people", domain={"age": dpn.Range(0, 120)})
        with pytest.warns(dpn.LedgerWarning, match="was extended"):
            kernel().protect(FRAME.copy(), "people", domain={**MEANT, "sex": ["F", "M", "X"]})
        with pytest.raises(dpn.LedgerConflict, match="Protect it again: without domain= it has the one"):
            frame.dp.count(epsilon=1.5).run()
        assert steward.protect(frame, "people").domain["sex"].size == 3
        frame.dp.count(epsilon=1.5).run()

    def test_rows_or_a_unit_that_are_others_are_refused(self, kernel):
        kernel().protect(FRAME.copy(), "people", unit="who", max_rows=2, domain=MEANT)
        with pytest.raises(dpn.LedgerMismatch, match="its data differ"):
            kernel().protect(FRAME.iloc[1:], "people")
        with pytest.raises(dpn.DomainError, match="'age' is in the domain but not in the table"):
            kernel().protect(FRAME[["sex", "who"]], "people")
