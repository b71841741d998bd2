"""Workloads by attribute names: nothing is known of a domain until they are asked of one."""

import time

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.domain.named_workloads import WorkloadRequest
from dpnotebook.errors import WorkloadError
from dpnotebook.workload import AllRange, Identity, Kron, Marginals, Padded, Prefix, Stack, Total, Weighted

DOMAIN = dpn.Domain(
    {
        "age": dpn.Range(0, 4, nullable=True),  # 5 levels in order, and missing
        "sex": ["F", "M"],
        "income": dpn.Bins(0, 30, width=10),
        "grade": dpn.Categories(["low", "high"], ordered=True, other="other", nullable=True),
    }
)
AGE, INCOME, GRADE = Padded(Prefix(5), 1), Prefix(3), Padded(Prefix(2), 2)


def same(w, *factors):
    np.testing.assert_array_equal(w.dense(), Kron(*factors).dense())


def test_each_builder():
    small = DOMAIN.project(["age", "sex", "income"])
    same(dpn.identity("sex").over(small), Total(6), Identity(2), Total(3))
    same(dpn.identity("income", "age").over(small), Identity(6), Total(2), Identity(3))
    same(dpn.cdf("age").over(small), AGE, Total(2), Total(3))
    same(dpn.ranges("income").over(small), Total(6), Total(2), AllRange(3))
    same(dpn.ranges("age", "income").over(small), Padded(AllRange(5), 1), Total(2), AllRange(3))
    same(dpn.total().over(small), Total(6), Total(2), Total(3))
    one = dpn.marginals(1).over(small)
    assert one == Marginals([Identity(6), Identity(2), Identity(3)], [((0,), 1), ((1,), 1), ((2,), 1)])
    assert dpn.marginals(upto=1).over(small) == Marginals(one.factors, [((), 1), *one.weights])
    assert dpn.small_marginals(6).over(small) == Marginals(one.factors, [((), 1), *one.weights, ((1, 2), 1)])


def test_prefix_marginals_are_cumulative_along_ordered_attributes_alone():
    w = dpn.prefix_marginals(2).over(DOMAIN)
    assert w.factors == (AGE, Identity(2), INCOME, GRADE)
    assert len(w.weights) == 6
    assert dpn.small_prefix_marginals(8).over(DOMAIN).factors == (AGE, Identity(2), INCOME, GRADE)


def test_levels_without_an_order_are_in_no_range_and_in_every_total():
    counts = np.arange(1, 7)  # of age 0 to 4, and missing
    alone = DOMAIN.project(["age"])
    assert dpn.cdf("age").over(alone).matvec(counts).tolist() == [1, 3, 6, 10, 15]
    assert dpn.ranges("age").over(alone).matvec(counts).tolist() == AllRange(5).matvec(counts[:5]).tolist()
    assert dpn.identity("age").over(alone).matvec(counts).tolist() == counts.tolist()
    assert dpn.total().over(alone).matvec(counts).tolist() == [21]


def test_a_union_is_one_set_of_marginals_where_it_can_be():
    w = (dpn.marginals(2) + dpn.identity("sex") + dpn.total()).over(DOMAIN)
    assert isinstance(w, Marginals)
    assert [subset for subset, _ in w.weights][-2:] == [(1,), ()]
    mixed = (dpn.marginals(1) + 3 * dpn.ranges("age") + dpn.cdf("age")).over(DOMAIN)
    assert isinstance(mixed, Stack)
    assert [type(part) for part in mixed.parts] == [Marginals, Weighted, Kron]
    # Only the attributes that a part uses must agree: ranges of income join the marginals that leave income out.
    joined = (dpn.identity("age", "sex") + dpn.ranges("income")).over(DOMAIN)
    assert isinstance(joined, Marginals)
    assert joined.factors[2] == AllRange(3)


def test_what_is_asked_twice_is_asked_once_with_the_larger_weight():
    once = dpn.marginals(1).over(DOMAIN)
    assert (dpn.marginals(1) + dpn.marginals(1)).over(DOMAIN) == once
    w = (dpn.marginals(1) + 2 * dpn.identity("sex") + 0.5 * dpn.identity("age")).over(DOMAIN)
    assert w.weights == (((0,), 1), ((1,), 2), ((2,), 1), ((3,), 1))
    assert 3 * (2 * dpn.total()) == dpn.total() * 6
    # The unordered part of prefix-marginals is that of the marginals, asked already.
    both = (dpn.marginals(1) + dpn.prefix_marginals(1)).over(DOMAIN)
    assert both.shape[0] == (6 + 2 + 3 + 4) + (5 + 3 + 2)


def test_attributes_in_another_order_and_some_levels_only():
    w = dpn.ranges("age").over(DOMAIN, ["sex", "age"])
    same(w, Total(2), Padded(AllRange(5), 1))
    assert dpn.ranges("age").over(DOMAIN, "age", {"age": (1, 2, 3)}) == AllRange(3)
    assert dpn.ranges("age").over(DOMAIN, "age", {"age": (3, 5)}) == Padded(AllRange(1), 1)
    assert dpn.marginals(1).over(DOMAIN, ["age", "sex"], {"sex": (1,)}).sizes == (6, 1)
    assert dpn.total().over(DOMAIN, []) == Total(1)


def test_which_attributes_take_part():
    assert (dpn.ranges("income") + dpn.identity("age")).attributes(DOMAIN) == ("age", "income")
    assert dpn.marginals(1).attributes(DOMAIN) == DOMAIN.names
    assert dpn.total().attributes(DOMAIN) == ()


def test_a_domain_answers_by_itself():
    assert DOMAIN.marginals(2) == dpn.marginals(2).over(DOMAIN)
    assert DOMAIN.marginals(upto=2) == dpn.marginals(upto=2).over(DOMAIN)
    assert DOMAIN.prefix_marginals(1) == dpn.prefix_marginals(1).over(DOMAIN)
    assert DOMAIN.small_marginals(9) == dpn.small_marginals(9).over(DOMAIN)
    assert DOMAIN.small_prefix_marginals(9) == dpn.small_prefix_marginals(9).over(DOMAIN)
    assert DOMAIN.ranges("age") == dpn.ranges("age").over(DOMAIN)
    assert DOMAIN.cdf("age") == dpn.cdf("age").over(DOMAIN)
    assert DOMAIN.identity("sex", "age") == dpn.identity("sex", "age").over(DOMAIN)
    assert DOMAIN.project(["age"]).total() == Total(6)
    assert isinstance(DOMAIN.marginals(2) + 2 * DOMAIN.ranges("age"), Stack)


def test_it_reads_as_it_is_written():
    text = "marginals(upto=3) + 2 * ranges('age', 'income') + small_marginals(50) + cdf('age') + prefix_marginals(1)"
    text += " + total() + identity('sex') + small_prefix_marginals(9)"
    found = eval(text, vars(dpn))
    assert isinstance(found, WorkloadRequest)
    assert repr(found) == text
    assert hash(found) == hash(eval(text, vars(dpn)))


def test_100_attributes():
    many = dpn.Domain({f"a{i}": dpn.Range(0, 9) for i in range(100)})
    started = time.process_time()
    assert len(dpn.marginals(upto=3).over(many).weights) == 166_751
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: dpn.ranges("agee").over(DOMAIN), "no declared column 'agee'; did you mean 'age'"),
        (lambda: dpn.identity("AGE").attributes(DOMAIN), "did you mean 'age'"),
        (lambda: DOMAIN.cdf("agee"), "did you mean 'age'"),
        (lambda: dpn.total().over(DOMAIN, "agee"), "did you mean 'age'"),
        (lambda: dpn.ranges("age").over(DOMAIN, ["sex"]), r"\('age'\) needs 'age', and what it is asked of has 'sex'"),
        (lambda: dpn.ranges("age").over(DOMAIN, []), r"has no attribute"),
        (lambda: dpn.ranges("sex").over(DOMAIN), r"ranges\('sex'\) needs an order, and 'sex' has none"),
        (lambda: dpn.cdf("sex").over(DOMAIN), r"cdf\('sex'\) needs an order"),
        (lambda: dpn.cdf("age").over(DOMAIN, "age", {"age": (5,)}), "none among the levels that take part"),
        (lambda: dpn.cdf("age").over(DOMAIN, "age", {"age": ()}), "no level of 'age' takes part"),
        (lambda: dpn.marginals(5).over(DOMAIN), "marginals of 5 attributes need at least as many, and there are 4"),
        (lambda: dpn.marginals(1).over(DOMAIN, []), "a domain without attributes has no marginals"),
        (lambda: dpn.small_marginals(5).over(DOMAIN.project([])), "a domain without attributes has no marginals"),
        (lambda: dpn.marginals(1).over(DOMAIN, ["age", "age"]), "an attribute comes twice"),
        (lambda: dpn.ranges("age", "age"), "an attribute comes twice"),
        (lambda: dpn.ranges(), "takes names of attributes"),
        (lambda: dpn.identity(3), "takes names of attributes"),
        (lambda: dpn.identity(["age", "sex"]), "takes names of attributes"),
        (lambda: dpn.marginals(), "exactly one of k and upto="),
        (lambda: dpn.marginals(1, upto=1), "exactly one of k and upto="),
        (lambda: dpn.marginals(-1), "at least 0"),
        (lambda: dpn.marginals("age"), "k must be a whole number"),
        (lambda: dpn.small_marginals(0), "at least 1"),
        (lambda: 0 * dpn.total(), "a finite number above 0, not 0"),
        (lambda: -2 * dpn.total(), "a finite number above 0, not -2"),
        (lambda: dpn.total() * float("nan"), "a finite number above 0, not nan"),
        (lambda: dpn.total() * float("inf"), "a finite number above 0, not inf"),
        (lambda: dpn.total() * dpn.total(), "a finite number above 0"),
        (lambda: True * dpn.total(), "a finite number above 0, not True"),
        (lambda: dpn.total() + Total(5), r"can be joined with others that do.*\.over\(domain\) makes a workload of it"),
        (lambda: Total(5) + dpn.total(), "a workload can be joined with another workload"),
        (lambda: DOMAIN.total() + DOMAIN.project(["age"]).total(), "the same cells"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(make, why):
    with pytest.raises(WorkloadError, match=why):
        make()
