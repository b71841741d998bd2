"""A golden file that differs in anything that matters fails, and the message says where."""

import copy

import numpy as np
import pytest
from golden.comparison import differences, first_difference
from golden.files import read

from dpnotebook.workload.packing import packed


@pytest.fixture(scope="module")
def frozen():
    return read("verbs_laplace")


@pytest.fixture(scope="module")
def statements():
    return read("statements_gaussian")


def changed(found, *path, to):
    """Return a copy in which one thing is another; it must have been there."""
    found = copy.deepcopy(found)
    inside = found
    for step in path[:-1]:
        inside = inside[step]
    assert inside[path[-1]] != to
    inside[path[-1]] = to
    return found


def renamed(found, *path, to):
    found = copy.deepcopy(found)
    inside = found
    for step in path[:-1]:
        inside = inside[step]
    inside[to] = inside.pop(path[-1])
    return found


def test_what_is_the_same_has_no_difference(frozen):
    assert first_difference(frozen, copy.deepcopy(frozen), "verbs") is None


CHARGE = ("crosstab", "ledger", 0, "payload")
CHANGES = {
    "the scale of a plan": (("crosstab", "plan", "measurements", 0, "scale"), "501/100"),
    "the units of a plan": (("crosstab", "plan", "units"), 400_000_000_001),
    "an expected error": (("crosstab", "plan", "error"), 1.0),
    "a scale in the ledger": ((*CHARGE, "plan", "measures", 0, "scale"), "501/100"),
    "a kind of entry": (("crosstab", "ledger", 0, "kind"), "record"),
    "a noisy answer": (("crosstab", "ledger", 1, "answers", 0), 10**6),
    "a line of a card": (("crosstab", "card", "text", 0), "Preview"),
    "a line of HTML": (("crosstab", "shown", "html"), "0123456789abcdef"),
    "a reused release": (("crosstab", "plan", "reused"), [1]),
    "a value of a release": (("crosstab", "release", "frame", "rows", 0, 2), -1.5),
    "an error's class": (("count of nobody", "error"), "DomainError"),
    "an error's words": (("count of nobody", "says"), "nobody"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_found_and_named(frozen, name):
    path, to = CHANGES[name]
    said = first_difference(frozen, changed(frozen, *path, to=to), "verbs")
    assert said is not None
    assert said.startswith("verbs/" + "/".join(map(str, path)))


@pytest.mark.parametrize("path", [(*CHARGE, "units"), (*CHARGE, "plan", "measures", 0, "bits"), ("crosstab", "plan")])
def test_a_key_that_is_called_otherwise_is_found(frozen, path):
    said = first_difference(frozen, renamed(frozen, *path, to="zzz"), "verbs")
    assert said is not None
    assert said.startswith("verbs/" + "/".join(map(str, path)))
    assert "now:    nothing" in said


def test_a_number_is_compared_to_nine_digits(frozen):
    path = ("crosstab", "plan", "error")
    value = frozen["crosstab"]["plan"]["error"]
    assert first_difference(frozen, changed(frozen, *path, to=value * (1 + 1e-12)), "verbs") is None
    assert first_difference(frozen, changed(frozen, *path, to=value * (1 + 1e-8)), "verbs") is not None
    assert first_difference(frozen, changed(frozen, *path, to=value * (1 + 1e-15)), "verbs", None) is not None


def test_a_number_is_also_one_as_a_fraction_or_in_a_text():
    assert not list(differences("366684423979733/281474976710656", "2933475391837865/2251799813685248"))
    assert list(differences("366684423979733/281474976710656", "2933475391837865/2251799813685248", digits=None))
    assert list(differences("366684423979733/281474976710656", "366684424979733/281474976710656"))
    assert not list(differences("error=6.9168628332428215", "error=6.91686283324283"))
    assert list(differences("error=6.9168628332428215", "error=6.9168628532428215"))
    assert list(differences("error=6.9168628332428215", "variance=6.91686283324283"))
    assert list(differences("error=6.91", "error=6.92"))


def test_weights_of_an_optimum_are_compared_to_the_last_step_that_they_are_rounded_to():
    weights = np.array([[16_133, 8_690], [9_197, 0]])
    for step, same in ((1, True), (3, True), (4, False), (-50, False)):
        other = weights + np.array([[0, 0], [0, step]])
        assert (not list(differences(packed(weights), packed(other)))) is same
    assert list(differences(packed(weights), packed(weights + 1), digits=None))
    assert list(differences(packed(weights), packed(weights.T.copy())))
    assert list(differences(packed(weights), packed(weights.ravel())))


def test_a_whole_number_is_no_float_and_no_truth():
    assert list(differences(1, 1.0)) == [("", 1, 1.0)]
    assert list(differences(1, True)) == [("", 1, True)]
    assert list(differences(float("nan"), float("nan"))) == []


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_sql_is_compared_as_trees(statements, dialect):
    steps = [(name, place) for name, step in statements.items() for place, _ in enumerate(step.get("sql", ()))]
    whole = (step for step in steps if " AS " in statements[step[0]]["sql"][step[1]].get(dialect, {}).get("sql", ""))
    path = next((name, "sql", place, dialect) for name, place in whole)
    text = statements[path[0]]["sql"][path[2]][dialect]["sql"]
    spaced = changed(statements, *path, "sql", to=text.replace(" AS ", "\n  as  "))
    assert first_difference(statements, spaced, "sql") is None
    for before, after in (("COUNT", "SUM"), ("count", "sum"), ("SELECT", "SELECT DISTINCT"), (" FROM", ", 1 FROM")):
        if before in text:
            said = first_difference(
                statements, changed(statements, *path, "sql", to=text.replace(before, after)), "sql"
            )
            assert said is not None
            assert said.startswith("sql/" + "/".join(map(str, path)))


def test_an_earlier_ledger_is_compared_to_the_bit_but_for_what_is_worked_out():
    frozen = read("ledger_before_the_house")
    epsilon = frozen["release 1"]["release"]["epsilon"]
    other = changed(frozen, "release 1", "release", "epsilon", to=epsilon * (1 + 1e-15))
    assert first_difference(frozen, other, "ledger") is None
    assert first_difference(frozen, other, "ledger", None) is not None
    row = ("release 1", "release", "frame", "rows", 0, 1)
    value = frozen["release 1"]["release"]["frame"]["rows"][0][1]
    assert first_difference(frozen, changed(frozen, *row, to=value * (1 + 1e-7)), "ledger", None) is None
    assert first_difference(frozen, changed(frozen, *row, to=value * (1 + 1e-5)), "ledger", None) is not None
    head = changed(frozen, "audit", "head", to=frozen["audit"]["head"][:-1] + "x")
    assert first_difference(frozen, head, "ledger").startswith("ledger/audit/head")


def test_sql_that_cannot_be_read_differs_where_its_text_does():
    before, after = ({"sql": text, "dialect": "duckdb"} for text in ("SELECT ((", "SELECT (("))
    assert first_difference(before, after, "sql") is None
    assert first_difference(before, after | {"sql": "SELECT ((("}, "sql") is not None
