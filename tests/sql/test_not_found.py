"""Bounds that noise hides: "not found" is an answer: said, recorded, shown again, and NULL to what is worked out."""

import card_texts
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

BUDGETS = [dpn.Budget(100.0), dpn.Budget(100.0, 1e-6)]
NOTE = "not found. At this epsilon noise hides the bounds that so few units have; write bounds, as in"


def people(count):
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {"sex": np.where(np.arange(count) % 2, "F", "M"), "income": rng.lognormal(10.5, 0.6, count).round(2)}
    )


@pytest.fixture(params=BUDGETS, ids=["pure", "gaussian"])
def opened(request, tmp_path):
    """Return a function that opens a session over 25 people, on the same ledger each time."""
    made = []

    def open_session(count=25):
        session = dpn.Session(budget=request.param, ledger=tmp_path / "people.ledger")
        session.protect(people(count), "people", domain={"sex": ["F", "M"]})
        made.append(session)
        return session

    yield open_session
    for session in made:
        session.close()


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "aggregate", ["ANON_SUM(income)", "ANON_AVG(income)", "ANON_VAR(income)", "ANON_STDDEV(income)", "MEDIAN(income)"]
)
def test_it_is_said_in_the_answer(opened, aggregate):
    session = opened()
    query = session.sql(f"SELECT sex, {aggregate} AS a, COUNT(*) AS n FROM people GROUP BY sex", epsilon=0.3)
    assert any("with fewer the answer is 'not found'" in warning for warning in query.plan.warnings)
    release = query.run()
    assert release.frame[["a", "a_std_error", "a_lower", "a_upper"]].isna().all(axis=None)
    assert release.frame["n"].notna().all()
    (note,) = release.notes
    assert note.startswith(f"{aggregate}: {NOTE}")
    for shown in (card_texts.release_text(release), card_texts.release_html(release)):
        assert "not found" in shown
        assert NOTE in shown
    alone = session.sql(f"SELECT {aggregate} AS a FROM people", epsilon=0.3).run()
    assert np.isnan(alone.value)
    assert "not found" in card_texts.release_text(alone)
    with pytest.raises(dpn.SQLError, match=r"nothing to draw: .*not found"):
        alone.plot()


def test_it_is_recorded_and_shown_again(opened):
    session, text = opened(), "SELECT sex, ANON_SUM(income) AS total FROM people GROUP BY sex"
    first = session.sql(text, epsilon=0.3).run()
    spent = session.spent.epsilon
    assert first.paid > 0
    session.close()
    session = opened()
    again = session.sql(text, epsilon=0.3)
    assert again.plan.free
    again = again.run()
    assert again.paid == 0
    assert again.notes == session.release(first.number).notes == first.notes
    pd.testing.assert_frame_equal(again.frame, first.frame)
    assert session.spent.epsilon == spent
    assert session.audit().ok


@pytest.mark.one_in(3, first=1)
def test_it_is_null_to_what_is_worked_out(opened):
    session = opened()
    inner = "SELECT sex, ANON_SUM(income) AS total, COUNT(*) AS n FROM people GROUP BY sex"
    text = f"SELECT COUNT(*) AS groups, COUNT(total) AS known, MAX(total) AS most FROM ({inner}) WHERE n > -1e6"
    release = session.sql(text, epsilon=0.3).run()
    assert release.frame[["groups", "known"]].to_numpy().tolist() == [[2, 0]]
    assert release.frame["most"].isna().all()
    assert release.notes[0].startswith("ANON_SUM(income)")
    text = f"SELECT sex, 2 * total AS twice, total IS NULL AS unknown FROM ({inner}) WHERE total IS NULL OR total > 5"
    frame = session.sql(text, epsilon=0.3).run().frame
    assert frame["twice"].isna().all()
    assert frame["unknown"].tolist() == [True, True]
    empty = session.sql("SELECT ANON_SUM(income) AS total FROM people HAVING total > 0", epsilon=0.3).run()
    assert not len(empty.frame)
    assert NOTE in card_texts.release_text(empty)
    assert "no group has enough units" not in card_texts.release_text(empty)


def test_with_enough_people_it_is_found(opened):
    session = opened(2000)
    release = session.sql("SELECT ANON_SUM(income) AS a, ANON_AVG(income) AS b FROM people", epsilon=2.0).run()
    assert not any(NOTE in note for note in release.notes)
    assert len(release.notes) == 1  # rows without a declared sex count here
    exact = people(2000)["income"]
    assert abs(release.frame["a"][0] / exact.sum() - 1) < 0.2
    assert abs(release.frame["b"][0] / exact.mean() - 1) < 0.2


@pytest.mark.one_in(2)
def test_with_few_people_the_answer_is_a_count_or_nothing(opened):
    """Before, one in five sums of 25 people was beyond all sense."""
    session, found = opened(), 0
    for _ in range(10):
        release = session.sql("SELECT ANON_SUM(income) AS a FROM people", epsilon=1.0, fresh=True).run()
        found += not np.isnan(release.value)
    assert found <= 1


@pytest.mark.parametrize("aggregate", ["AVG", "STDDEV_POP"])
def test_declared_bounds_give_an_answer_where_rows_of_units_are_hidden(aggregate):
    """It was NULL, and paid in full, as noise hid how many rows each person has."""
    rng = np.random.default_rng(5)
    held, sessions = 0, 24
    for _ in range(sessions):
        rows = np.minimum(np.ceil(rng.pareto(1.5, 300) + 0.5).astype(int), 50)
        score = rng.normal(50, 10, rows.sum()) + np.repeat(np.log2(rows), rows)  # who has more rows has larger ones
        frame = pd.DataFrame({"who": np.repeat(np.arange(300), rows), "score": score.clip(0, 100)})
        with dpn.Session(budget=dpn.Budget(5.0, 1e-6), ledger=":memory:") as session:
            session.protect(frame, "visits", unit="who", domain={"score": dpn.Bins(0, 100, width=1)})
            release = session.sql(f"SELECT {aggregate}(score) AS a FROM visits", epsilon=0.1).run()
        answer = release.frame.iloc[0]
        assert np.isfinite(answer[["a", "a_std_error", "a_lower", "a_upper"]].astype(float)).all()
        assert 0 <= answer["a_lower"] <= answer["a"] <= answer["a_upper"] <= 100
        truth = frame["score"].mean() if aggregate == "AVG" else frame["score"].std(ddof=0)
        held += answer["a_lower"] <= truth <= answer["a_upper"]
    assert held >= 17  # at 95%, fewer are rarer than one in 10^5 times
    (note,) = release.notes
    assert "count less" in note
    assert "intervals are longer for that" in note
