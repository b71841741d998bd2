"""A protected table whose domain is extended after something was charged: what was paid and answered goes on."""

import shutil
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpnotebook as dpn
from dpnotebook.errors import EngineError
from dpnotebook.privacy.budget import Budget
from dpnotebook.session.domains import redeclared
from dpnotebook.testing import exact_session

rng = np.random.default_rng(3)
N = 600
FRAME = pd.DataFrame(
    {
        "age": rng.integers(-5, 130, N),
        "sex": rng.choice(["F", "M"], N),
        "ward": rng.choice(["A", "B", "C", None], N),
        "who": np.arange(N) // 3,
    }
)
BEFORE = {"age": dpn.Range(0, 100), "sex": ["F", "M"]}
WARD = dpn.Categories(["A", "B"], other="elsewhere", nullable=True)
AFTER = {"age": dpn.Range(0, 100), "ward": WARD, "sex": ["F", "M"]}
EVERYWHERE = "SELECT COUNT(*) AS n FROM people WHERE who > 30"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "clinic.ledger"


@pytest.fixture
def kernel(path):
    """Return what opens one more session on the same ledger."""
    opened = []

    def one(**options):
        opened.append(dpn.Session(Budget(20.0), path, **options))
        return opened[-1]

    yield one
    for session in opened:
        session.close()


def extended(session, frame, domain=None, words="was extended", **options):
    with pytest.warns(dpn.LedgerWarning, match=words):
        return session.protect(frame, "people", domain=domain or AFTER, **options)


def values(release):
    return release.frame["value"].tolist()


def test_a_new_column_keeps_what_was_paid_and_answered(kernel):
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=BEFORE)
    ages = frame.dp.histogram("age", epsilon=1.0).run()
    women = frame.dp.count(where="sex == 'F'", epsilon=0.5).run()
    session.sql(EVERYWHERE, epsilon=0.25).run()
    spent, columns = session.spent, session.spend_by_column()
    words = (
        r"'people' was extended: 'ward' is new, Categories\(\['A', 'B'\], other='elsewhere', nullable=True\)\. "
        r"Its 2 answers are kept\. 1 other statement would be measured anew when asked again"
    )
    extended(session, frame, words=words, lose_answers=True)
    assert session.spent == spent
    found = session.spend_by_column()
    assert found["people", "ward"].tolist() == [1.75] * 4
    for name in ("age", "sex"):
        assert found["people", name].tolist() == columns["people", name].tolist()
    again = frame.dp.histogram("age", epsilon=1.0).run()
    assert (again.paid, values(again)) == (0, values(ages))
    assert frame.dp.count(where="sex == 'F'", epsilon=0.5).run().value == women.value
    by_ward = frame.dp.crosstab("ward", "sex", epsilon=0.5)
    assert set(by_ward.run().sources) > {2}
    assert not any("cannot be used" in step for step in by_ward.plan.steps)
    assert session.release(1).frame.equals(ages.frame)
    assert session.release(3).paid == 0
    assert session.audit().ok
    assert session.sql(EVERYWHERE, epsilon=0.25).run().paid == 0.25


def test_answers_that_follow_are_those_of_the_present_rows(monkeypatch):
    """Without noise: every question that is free after the extension is answered as the data answer it."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    session, frame = exact_session(Budget(20.0)), FRAME.copy()
    session.protect(frame, "people", domain=BEFORE)
    frame.dp.crosstab("age", "sex", epsilon=1.0).run()
    frame.dp.sum("age", epsilon=1.0, where="sex == 'F'").run()
    extended(session, frame)
    ages = frame["age"].clip(0, 100)
    asked = [
        (frame.dp.count(epsilon=0.01), [N]),
        (frame.dp.count(where="age < 30 and sex == 'F'", epsilon=0.01), [((ages < 30) & (frame.sex == "F")).sum()]),
        (frame.dp.histogram("sex", epsilon=0.01), [(frame.sex == sex).sum() for sex in "FM"]),
        (frame.dp.sum("age", epsilon=0.01, where="sex == 'F'"), [ages[frame.sex == "F"].sum()]),
    ]
    for query, truth in asked:
        release = query.run()
        assert release.paid == 0
        assert values(release) == [float(number) for number in truth]
    assert values(frame.dp.histogram("ward", epsilon=0.5).run()) == [
        *(float((frame.ward == ward).sum()) for ward in "AB"),
        float((frame.ward == "C").sum()),
        float(frame.ward.isna().sum()),
    ]


def covered(sessions, story):
    """Check that of the intervals of 95%, of independent answers, as many hold the truth as should."""
    inside = []
    for _ in range(sessions):
        with dpn.Session(Budget(20.0)) as session:
            release, truth = story(session, FRAME.copy())
            assert release.paid == 0
            inside += list((release.frame["lower"] <= truth) & (truth <= release.frame["upper"]))
    assert sum(inside) >= binom.ppf(1e-6, len(inside), 0.95)


SEXES = {"sex": ["F", "M"]}
WARDS = [None if pd.isna(ward) else ward for ward in FRAME["ward"]]
AGES = FRAME["age"]


def counts(column, levels):
    return [float((column == level).sum()) for level in levels]


# Of each: the domain before and after, what is asked before, and what then follows, with its true answers.
FOLLOWS = {
    "a level is added": (
        {"ward": ["A", "B"]},
        {"ward": ["A", "C", "B"]},
        lambda dp: [dp.crosstab("ward", "sex", epsilon=1.0), dp.count(epsilon=1.0)],
        lambda dp: [
            (dp.count(where="ward == 'B'", epsilon=0.01), counts(FRAME.ward, ["B"])),
            (dp.count(where="ward != 'C'", epsilon=0.01), [float(FRAME.ward.isin(["A", "B"]).sum())]),
            (
                dp.histogram("sex", where="ward != 'C'", epsilon=0.01),
                counts(FRAME.sex[FRAME.ward.isin(["A", "B"])], "FM"),
            ),
        ],
    ),
    "one of the others": (
        {"ward": dpn.Categories(["A"], other="else")},
        {"ward": dpn.Categories(["B", "A"], other="else")},
        lambda dp: [dp.crosstab("ward", "sex", epsilon=1.0)],
        lambda dp: [
            (dp.count(where="ward == 'A'", epsilon=0.01), counts(FRAME.ward, ["A"])),
            (dp.count(where="ward in ['B', 'else']", epsilon=0.01), [float(FRAME.ward.isin(["B", "C"]).sum())]),
            (dp.histogram("sex", epsilon=0.01), counts(FRAME.sex[FRAME.ward.notna()], "FM")),
        ],
    ),
    "a wider range": (
        {"age": dpn.Range(0, 100)},
        {"age": dpn.Range(-5, 130)},
        lambda dp: [dp.crosstab("sex", "age", epsilon=1.0), dp.cdf("age", epsilon=1.0)],
        lambda dp: [
            (dp.count(where="age >= 100", epsilon=0.01), [float((AGES >= 100).sum())]),
            (
                dp.count(where="age <= 0 and sex == 'M'", epsilon=0.01),
                [float(((AGES <= 0) & (FRAME.sex == "M")).sum())],
            ),
            (dp.histogram("age", where="age > 0 and age < 100", epsilon=0.01), counts(AGES, range(1, 100))),
            (dp.histogram("sex", epsilon=0.01), counts(FRAME.sex, "FM")),
        ],
    ),
    "finer bins": (
        {"age": dpn.Bins(0, 100, width=25)},
        {"age": dpn.Bins(0, 150, width=5)},
        lambda dp: [
            dp.answer(dpn.marginals(1) + dpn.marginals(2), epsilon=1.0),
            dp.histogram("age", where="sex == 'F'", epsilon=1.0),
        ],
        lambda dp: [
            (dp.count(where="age < 50", epsilon=0.01), [float((AGES < 50).sum())]),
            (
                dp.count(where="age >= 75 and sex == 'F'", epsilon=0.01),
                [float(((AGES >= 75) & (FRAME.sex == "F")).sum())],
            ),
            (dp.histogram("sex", where="age >= 25", epsilon=0.01), counts(FRAME.sex[AGES >= 25], "FM")),
        ],
    ),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", FOLLOWS)
def test_what_follows_from_answers_about_unions_of_levels(name, monkeypatch):
    """Without noise: what is free is exact. All of these are about levels, or unions of them, that were told apart."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    before, after, asked, follows = FOLLOWS[name]
    session, frame = exact_session(Budget(20.0)), FRAME.copy()
    session.protect(frame, "people", domain=before | SEXES)
    for query in asked(frame.dp):
        query.run()
    spent = session.spent
    extended(session, frame, after | SEXES, words=r"are kept|is kept")
    for query, truth in follows(frame.dp):
        release = query.run()
        assert release.paid == 0
        assert values(release) == truth
    assert session.spent == spent
    column = next(iter(after))
    finer = frame.dp.histogram(column, epsilon=1.0).run()
    assert finer.paid > 0 or name == "a level is added"  # of new rows alone, whose cells had paid nothing
    levels = pd.Series(session.table("people").domain[column].encode(frame[column]))
    assert values(finer) == counts(levels, range(len(finer.frame)))
    assert session.audit().ok


def test_rows_that_come_in_had_paid_for_statements_alone(kernel):
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain={"ward": ["A", "B"]} | SEXES)
    frame.dp.count(where="sex == 'F'", epsilon=1.0).run()
    session.sql(EVERYWHERE, epsilon=0.25).run()
    extended(session, frame, {"ward": ["A", "B", "C"]} | SEXES, words="Its 1 answer is kept", lose_answers=True)
    assert session.spend_by_column()["people", "ward"].tolist() == [1.25, 1.25, 0.25]
    assert frame.dp.count(where="ward == 'C'", epsilon=1.0).run().paid == 0  # charged, where others had paid more
    assert session.spend_by_column()["people", "ward"].tolist() == [1.25, 1.25, 1.25]
    assert frame.dp.count(where="ward == 'C'", epsilon=1.5).run().paid > 0
    assert session.audit().ok


def test_sums_of_a_column_with_other_bounds_are_lost(kernel):
    """A value beyond the bounds was counted as one of them."""
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=BEFORE)
    frame.dp.sum("age", epsilon=1.0).run()
    frame.dp.histogram("age", epsilon=1.0).run()
    words = "1 of its 2 answers are kept, 1 cannot be used under it: what it cost stays"
    with pytest.raises(dpn.LedgerMismatch, match="1 of its 2 answers could not be used under it; what they cost stays"):
        session.protect(frame, "people", domain=BEFORE | {"age": dpn.Range(0, 120)})
    extended(session, frame, BEFORE | {"age": dpn.Range(0, 120)}, words, lose_answers=True)
    again = frame.dp.sum("age", epsilon=1.0)
    assert again.plan.cost.epsilon == 1.0
    assert again.plan.steps[-1].startswith("1 answer from before")
    again.run()
    assert frame.dp.count(where="age < 50", epsilon=0.02).run().paid == 0
    assert session.release(1).paid == 0
    assert session.audit().ok


def test_the_sample_of_units_stays_where_their_rows_and_columns_do(kernel):
    session, frame = kernel(), FRAME.copy()
    unit = {"unit": "who", "max_rows": 2}
    session.protect(frame, "people", domain=BEFORE, **unit)
    frame.dp.histogram("age", epsilon=1.0).run()
    extended(session, frame, BEFORE | {"age": dpn.Range(0, 120)}, words="Its 1 answer is kept", **unit)
    assert frame.dp.count(where="age < 50", epsilon=0.02).run().paid == 0
    wider = {"age": dpn.Range(0, 120, nullable=True), "sex": ["F", "M"]}  # rows may come in, and push others out
    with pytest.raises(dpn.LedgerMismatch, match="1 of its 1 answer could not be used"):
        session.protect(frame, "people", domain=wider, **unit)
    extended(session, frame, wider, words="cannot be used", lose_answers=True, **unit)
    assert frame.dp.count(where="age < 50", epsilon=0.02).run().paid == 0.02
    assert session.audit().ok


@pytest.mark.filterwarnings("ignore::dpnotebook.LedgerWarning")
def test_intervals_of_unions_of_levels_cover_the_truth():
    def story(session, frame):
        session.protect(frame, "people", domain=BEFORE)
        frame.dp.crosstab("age", "sex", epsilon=1.0).run()
        session.protect(frame, "people", domain=BEFORE | {"age": dpn.Range(-5, 130)})
        query = frame.dp.histogram("age", where="age > 0 and age < 100", epsilon=0.02)
        return query.run(), np.array(counts(AGES, range(1, 100)))

    covered(3, story)


@pytest.mark.filterwarnings("ignore::dpnotebook.LedgerWarning")
def test_intervals_of_answers_that_follow_cover_the_truth():
    def story(session, frame):
        session.protect(frame, "people", domain=BEFORE)
        frame.dp.crosstab("age", "sex", epsilon=1.0).run()
        session.protect(frame, "people", domain=AFTER)
        truth = frame["age"].clip(0, 100).value_counts().reindex(range(101), fill_value=0)
        return frame.dp.histogram("age", epsilon=0.02).run(), truth.to_numpy()

    covered(3, story)


def test_where_rows_may_be_left_out_nothing_is_answered_from_before(kernel):
    """Rows without a level of a new column were counted and are not any more: what they paid stays."""
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=BEFORE)
    first = frame.dp.count(epsilon=1.0).run()
    words = (
        r"Its 1 answer cannot be used under it: what it cost stays\. Rows without a level of 'ward' were counted and "
        "are not: other= and nullable=True count them too"
    )
    extended(session, frame, BEFORE | {"ward": ["A", "B"]}, words, lose_answers=True)
    query = frame.dp.count(epsilon=1.0)
    assert query.plan.cost.epsilon == 1.0
    assert query.plan.steps[-1] == (
        "1 answer from before the domain was extended cannot be used under it; what it cost stays"
    )
    query.run()
    assert session.spent.epsilon == 2.0
    assert session.spend_by_column()["people", "ward"].tolist() == [2.0, 2.0]
    assert session.release(1).value == first.value
    assert session.audit().ok


def test_a_table_of_units_starts_anew_with_all_that_was_spent(kernel):
    """Another sample of everyone's rows may be drawn where a column is new: what was answered is of the old one."""
    session, frame = kernel(), FRAME.copy()
    unit = {"unit": "who", "max_rows": 2}
    session.protect(frame, "people", domain=BEFORE, **unit)
    frame.dp.count(where="age < 50", epsilon=1.0).run()
    extended(session, frame, words="Its 1 answer cannot be used", lose_answers=True, **unit)
    assert session.spend_by_column()["people", "sex"].tolist() == [1.0, 1.0]
    assert frame.dp.count(where="age >= 50", epsilon=1.0).run().paid == 1.0
    assert session.audit().ok


def test_another_kernel_is_refused_until_it_declares_the_same(kernel):
    old, new = kernel(), kernel()
    frame, other = FRAME.copy(), FRAME.copy()
    old.protect(frame, "people", domain=BEFORE)
    frame.dp.histogram("age", epsilon=1.0).run()
    asked = frame.dp.count(where="sex == 'F'", epsilon=1.0)
    extended(new, other)
    for use in (
        asked.run,
        lambda: frame.dp.histogram("age", epsilon=1.0).run(),
        lambda: old.sql(EVERYWHERE, epsilon=1.0).run(),
    ):
        with pytest.raises(dpn.LedgerConflict, match="'people' was changed by another kernel"):
            use()
    assert new.spent.epsilon == 1.0
    by_ward = other.dp.histogram("ward", epsilon=1.0).run()
    assert old.release(by_ward.number).frame.equals(by_ward.frame)  # what it was asked under is in the ledger
    assert old.release(1).frame.equals(new.release(1).frame)
    with pytest.raises(dpn.LedgerMismatch, match=r"may be extended now: .*Here 'ward' is gone.*'people_2'"):
        old.protect(frame, "people", domain=BEFORE)
    old.protect(frame, "people", domain=AFTER)
    assert frame.dp.histogram("age", epsilon=1.0).run().paid == 0
    with pytest.raises(dpn.DomainError, match="before it was protected again"):
        asked.run()
    assert new.audit().ok


def test_two_kernels_that_extend_at_once(kernel, monkeypatch):
    """The second is told, and loses nothing: what it means is an extension of what the first one said, or it is not."""
    one, two = kernel(), kernel()
    frame, other = FRAME.copy(), FRAME.copy()
    for session, rows in ((one, frame), (two, other)):
        session.protect(rows, "people", domain=BEFORE)
    frame.dp.count(epsilon=1.0).run()
    extend = type(two.ledger).extend

    def after_the_other(self, *arguments, **options):
        monkeypatch.setattr(type(two.ledger), "extend", extend)
        extended(one, frame)
        return extend(self, *arguments, **options)

    monkeypatch.setattr(type(two.ledger), "extend", after_the_other)
    contradicting = AFTER | {"ward": dpn.Categories(["A"], other="elsewhere", nullable=True)}
    with pytest.raises(dpn.LedgerConflict, match="was changed by another kernel"):
        two.protect(other, "people", domain=contradicting)
    with pytest.raises(dpn.LedgerMismatch, match=r"rest on its domain.*Here 'ward' was"):
        two.protect(other, "people", domain=contradicting)
    two.protect(other, "people", domain=AFTER)
    assert other.dp.count(epsilon=1.0).run().paid == 0
    assert two.spent.epsilon == 1.0
    assert two.audit().ok


HALVES = {"age": dpn.Bins(0, 100, width=50), "sex": ["F", "M"]}
QUARTERS, TENTHS = (HALVES | {"age": dpn.Bins(0, 100, width=width)} for width in (25, 10))


def test_levels_that_are_split_in_two_ways_or_taken_away(kernel):
    """What came first counts; what contradicts it is told why, changes nothing, and costs nothing."""
    one, two, frame, other = kernel(), kernel(), FRAME.copy(), FRAME.copy()
    for session, rows in ((one, frame), (two, other)):
        session.protect(rows, "people", domain=HALVES)
    ages, women = frame.dp.histogram("age", epsilon=1.0).run(), frame.dp.count(where="sex == 'F'", epsilon=1.0).run()
    extended(one, frame, QUARTERS, words="Its 2 answers are kept")
    spent, head = one.spent, one.ledger.head
    contradicting = [
        (two, other, TENTHS, r"'age' was Bins\(0, 100, width=25\) and is Bins\(0, 100, width=10\): an edge is gone"),
        (two, other, HALVES, r"'age' was Bins\(0, 100, width=25\) and is Bins\(0, 100, width=50\): an edge is gone"),
        (one, frame, QUARTERS | {"sex": ["F"]}, "'sex' was .*: the level 'M' is gone"),
        (one, frame, QUARTERS | {"sex": ["F", "N", "M2"]}, "'sex' was .*: the level 'M' is gone"),
        (one, frame, QUARTERS | {"age": dpn.Bins(0, 50, width=25)}, ".*its bounds may only be wider"),
        (one, frame, {"age": QUARTERS["age"]}, "'sex' is gone"),
    ]
    for session, rows, domain, why in contradicting:
        with pytest.raises(dpn.LedgerMismatch, match=f"rest on its domain.*Here {why}.*'people_2'"):
            session.protect(rows, "people", domain=domain)
    with pytest.raises(dpn.LedgerConflict, match="was changed by another kernel"):
        other.dp.histogram("age", epsilon=1.0).run()
    assert one.ledger.head == head
    two.protect(other, "people", domain=QUARTERS)
    for rows in (frame, other):
        assert rows.dp.count(where="sex == 'F'", epsilon=1.0).run().value == women.value
        older = rows.dp.count(where="age < 50", epsilon=1.0).run()  # a bin of before is two of now
        assert (older.paid, older.value) == (0, values(ages)[0])
    assert two.spent == spent
    assert two.audit().ok


def test_what_was_charged_and_interrupted_is_answered_before(kernel, monkeypatch):
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=BEFORE)

    def dies(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(session._questions, "measure", dies)
    with pytest.raises(KeyboardInterrupt):
        frame.dp.histogram("age", epsilon=1.0).run()
    monkeypatch.undo()
    new, other = kernel(), FRAME.copy()
    extended(new, other, words="Its 1 answer is kept")
    assert len(new.release(1).frame) == 101
    assert other.dp.histogram("age", epsilon=1.0).run().paid == 0
    assert new.spent.epsilon == 1.0
    assert new.audit().ok


def test_a_statement_that_waits_is_answered_first(kernel, monkeypatch):
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=BEFORE)

    def fails(*arguments):
        raise ValueError

    monkeypatch.setattr(session._statements, "measure", fails)
    with pytest.raises(EngineError):
        session.sql(EVERYWHERE, epsilon=1.0).run()
    monkeypatch.undo()
    with pytest.raises(
        dpn.LedgerConflict, match="release 1, which reads 'people', was charged and is not answered yet"
    ):
        session.protect(frame, "people", domain=AFTER)
    session.retry(1)  # the table is as it was
    extended(session, frame, lose_answers=True)
    assert session.spent.epsilon == 1.0
    assert session.audit().ok


FORMS = {
    "a file": lambda frame, folder: frame.to_parquet(folder / "rows.parquet") or folder / "rows.parquet",
    "a database": lambda frame, folder: (duckdb.connect().execute("CREATE TABLE people AS FROM frame"), "people"),
}


@pytest.mark.parametrize("form", FORMS)
def test_in_any_form(form, tmp_path):
    with dpn.Session(Budget(20.0)) as session:
        data = FORMS[form](FRAME, tmp_path)
        session.protect(data, "people", domain=BEFORE).histogram("age", epsilon=1.0).run()
        table = extended(session, FRAME.copy(), AFTER | {"age": dpn.Range(0, 120)})  # the same rows, in a frame
        assert table.count(where="age < 50", epsilon=0.02).run().paid == 0
        table = extended(session, data, AFTER | {"age": dpn.Range(-5, 120)})
        assert table.count(where="age < 50", epsilon=0.02).run().paid == 0
        assert len(session.sql("SELECT ward, COUNT(*) AS n FROM people GROUP BY ward", epsilon=0.5).run().frame) == 4
        assert session.audit().ok


def test_an_interrupt_after_the_ledger_was_told_loses_nothing(kernel, monkeypatch):
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=BEFORE)
    first = frame.dp.histogram("age", epsilon=1.0).run()

    def dies(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(session._statements.relations, "protect", dies)
    with pytest.raises(KeyboardInterrupt):
        session.protect(frame, "people", domain=AFTER)
    monkeypatch.undo()
    entries = session.audit().entries
    with pytest.raises(dpn.NotProtected):
        session.table("people")
    with pytest.raises(dpn.DPError):
        frame.dp.histogram("age", epsilon=1.0).run()
    session.protect(frame, "people", domain=AFTER)
    assert values(frame.dp.histogram("age", epsilon=1.0).run()) == values(first)
    assert session.spent.epsilon == 1.0
    assert session.audit().entries == entries + 2  # an answer that follows, and its record


@pytest.mark.parametrize("rows", ["changed", "fewer"])
def test_other_rows_are_another_table_whatever_is_declared(kernel, rows):
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=BEFORE)
    first = frame.dp.count(epsilon=1.0).run()
    other = FRAME.copy() if rows == "changed" else FRAME.iloc[1:].copy()
    other.loc[5, "age"] = 77 if FRAME.loc[5, "age"] != 77 else 78
    with pytest.raises(dpn.LedgerMismatch, match="its data differ"):
        session.protect(other, "people", domain=AFTER)
    assert frame.dp.count(epsilon=1.0).run().value == first.value
    extended(session, frame)


def test_a_ledger_of_an_earlier_version_is_extended(path):
    """It was written before anything was reused; a charge in it was never answered, and is lost."""
    shutil.copy(Path(__file__).parent / "data" / "ledger_before_reuse.sqlite", path)
    path.chmod(0o600)
    rows = pd.DataFrame({"age": [n * 7 % 50 for n in range(60)], "sex": ["F", "M"] * 30, "ward": ["A", "B", "C"] * 20})
    with dpn.Session(Budget(2.0), path) as session:
        before = {"age": dpn.Range(0, 49), "sex": ["F", "M"]}
        session.protect(rows, "people", domain=before)
        spent, first = session.spent, session.release(2)
        extended(session, rows, before | {"ward": WARD}, words="Its 3 answers are kept")
        assert session.spent == spent
        assert session.release(2).frame.equals(first.frame)
        ages = rows.dp.histogram("age", epsilon=0.25)
        assert ages.run().paid == 0
        assert session.audit().ok


def test_whose_table_is_unknown_or_unchanged_is_nothing_new(kernel):
    session, frame = kernel(), FRAME.copy()
    table = session.protect(frame, "people", domain=BEFORE).table
    assert redeclared(session.ledger, table).extends is None
    frame.dp.count(epsilon=1.0).run()
    assert redeclared(session.ledger, table).same
    session.protect(frame, "people", domain=BEFORE)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"ward": ["A", "B"]},
            r"'ward' is new, .*, and 1 of its 1 answer could not be used under it, and 1 other statement would be "
            r"measured anew when asked again; what they cost stays\. Rows without a level of 'ward' .* "
            r"other= and nullable=True count them too\. .*lose_answers=True.*'people_2'",
        ),
        ({"ward": WARD}, r"'ward' is new, .*, and 1 other statement would be measured anew when asked again"),
    ],
)
def test_what_would_lose_answers_is_told_before_it_does(kernel, more, why):
    """Nobody's history is lost by a slip: neither kernel notices what was refused."""
    one, two, frame, other = kernel(), kernel(), FRAME.copy(), FRAME.copy()
    one.protect(frame, "people", domain=BEFORE)
    ages = frame.dp.histogram("age", epsilon=1.0).run()
    one.sql(EVERYWHERE, epsilon=0.25).run()
    head = one.ledger.head
    for session, rows in ((two, other), (one, frame)):
        with pytest.raises(dpn.LedgerMismatch, match="nothing was changed: .* would be extended.*" + why):
            session.protect(rows, "people", domain=BEFORE | more)
    assert one.ledger.head == head
    again = frame.dp.histogram("age", epsilon=1.0).run()
    assert (again.paid, values(again)) == (0, values(ages))
    assert one.sql(EVERYWHERE, epsilon=0.25).run().paid == 0
    extended(two, other, BEFORE | more, lose_answers=True)
    one.protect(frame, "people", domain=BEFORE | more)  # as it is known now: nothing more is lost
    assert one.audit().ok


def test_what_was_lost_before_is_not_counted_again(kernel):
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=BEFORE)
    frame.dp.count(epsilon=1.0).run()
    session.sql(EVERYWHERE, epsilon=0.25).run()
    extended(session, frame, BEFORE | {"ward": ["A", "B"]}, lose_answers=True)
    frame.dp.count(epsilon=1.0).run()
    extended(session, frame, BEFORE | {"ward": ["A", "B", "C"]})  # which loses nothing


SHUFFLED = {"sex": ["M", "F"], "age": dpn.Range(0, 100), "ward": dpn.Categories(["C", "B", "A"])}
DECLARED = {"age": dpn.Range(0, 100), "ward": ["A", "B", "C"], "sex": ["F", "M"]}


@pytest.mark.parametrize("asked", [False, True])
def test_levels_and_columns_in_another_order_are_the_same_domain(kernel, asked):
    """Two analysts who list the same levels in orders of their own share history and price, and go on side by side."""
    one, two, frame, other = kernel(), kernel(), FRAME.copy(), FRAME.copy()
    one.protect(frame, "people", domain=DECLARED)
    if asked:
        frame.dp.crosstab("ward", "sex", epsilon=1.0).run()
    head = one.ledger.head
    told = r"rows in the order that was declared first: 'sex' goes \['F', 'M'\]; 'ward' goes \['A', 'B', 'C'\]|"
    told += r"rows in the order that was declared first: 'ward' goes \['A', 'B', 'C'\]; 'sex' goes \['F', 'M'\]"
    with pytest.warns(dpn.LedgerWarning, match=told):
        two.protect(other, "people", domain=SHUFFLED)
    two.protect(other, "people", domain=SHUFFLED)  # the cell is run again
    assert one.ledger.head == head
    first = frame.dp.crosstab("ward", "sex", epsilon=1.0).run()
    second = other.dp.crosstab("ward", "sex", epsilon=1.0).run()
    assert second.paid == 0
    assert second.frame.equals(first.frame)
    assert one.spent.epsilon == two.spent.epsilon == 1.0
    wards = {ward: (FRAME.ward == ward).sum() for ward in "ABC"}
    found = other.dp.histogram("ward", epsilon=1.0).run()
    assert found.frame["ward"].tolist() == list(wards)
    assert np.allclose(values(found), list(wards.values()), atol=40)
    assert two.audit().ok


def test_who_says_another_order_than_before_corrects_it_until_something_was_charged(kernel):
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain=DECLARED)
    with pytest.warns(dpn.LedgerWarning, match="was corrected"):
        session.protect(frame, "people", domain=DECLARED | {"sex": ["M", "F"]})
    assert frame.dp.histogram("sex", epsilon=1.0).run().frame["sex"].tolist() == ["M", "F"]
    with pytest.warns(dpn.LedgerWarning, match=r"declared first: 'sex' goes \['M', 'F'\]"):
        session.protect(frame, "people", domain=DECLARED)
    assert frame.dp.histogram("sex", epsilon=1.0).run().paid == 0


def test_an_order_that_levels_are_declared_to_have_is_part_of_the_domain(kernel):
    """What `<` means of them depends on it."""
    session, frame = kernel(), FRAME.copy()
    session.protect(frame, "people", domain={"ward": dpn.Categories(["A", "B", "C"], ordered=True)})
    frame.dp.count(epsilon=1.0).run()
    extended(session, frame, {"ward": dpn.Categories(["C", "B", "A"], ordered=True)})
    assert session.table("people").domain["ward"].levels == ("C", "B", "A")
