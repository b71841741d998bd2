"""Bugs in which groups are shown: thresholds, their delta, and the noise that they look at."""

from mutant import Mutant

PARTITIONS, BUILDING = "sql/aggregates/partitions.py", "sql/aggregates/building.py"
NOISING = "sql/aggregates/noising.py"
OWN_GROUPS = "sql/test_sql_privacy.py::test_a_units_own_groups_show_as_seldom_as_delta_and_a_lower_threshold_fails"

PLANTED = (
    Mutant(
        "a group of one needs one noisy unit less",
        "a person's own group shows more often than with delta",
        NOISING,
        "(noisy[:, measuring.place(measuring.counted).start] >= least)",
        "(noisy[:, measuring.place(measuring.counted).start] >= least - 1)",
        (OWN_GROUPS,),
    ),
    Mutant(
        "the exact number of units decides",
        "whether one more person is in a group shows for sure",
        NOISING,
        "(noisy[:, measuring.place(measuring.counted).start] >= least)",
        "(units >= least)",
        (OWN_GROUPS,),
    ),
    Mutant(
        "a threshold is for one group of a unit",
        "with k groups of one's own one of them shows k times as often as with delta",
        PARTITIONS,
        "return weighted_threshold(noise, scale, ((groups, 1),), delta)",
        "return weighted_threshold(noise, scale, ((1, 1),), delta)",
        ("sql/test_partitions.py::test_more_groups_of_a_unit_raise_the_threshold_and_more_delta_lowers_it",),
    ),
    Mutant(
        "clipped units are thought to weigh all in one group",
        "delta is 4e-4 where 1e-7 was charged",
        BUILDING,
        "tau = weighted_threshold(accountant.noise, scale, clipped_spread(), delta)",
        "tau = weighted_threshold(accountant.noise, scale, ((1, PARTS),), delta)",
        ("sql/test_sql_privacy.py::test_groups_that_a_unit_has_to_itself_show_with_the_delta_that_is_charged",),
    ),
    Mutant(
        "a threshold forgets the unit that is in the group",
        "a group of one shows as often as one of nobody should",
        PARTITIONS,
        "taus.append(weight + law_of(noise).least_beyond(scale, _one_of(log_delta, groups)))",
        "taus.append(law_of(noise).least_beyond(scale, _one_of(log_delta, groups)))",
        (
            "sql/test_partitions.py::test_a_units_own_groups_show_with_probability_delta_at_most_and_one_less_would_be_too_little",
        ),
    ),
    Mutant(
        "the tail of rounded Gaussian noise begins a step too late",
        "thresholds on Gaussian noise spend more delta than is charged",
        "privacy/laws.py",
        "return np.asarray(log_ndtr(-(m - 0.5) / s))",
        "return np.asarray(log_ndtr(-(m + 0.5) / s))",
        (
            "sql/test_partitions.py::test_a_units_own_groups_show_with_probability_delta_at_most_and_one_less_would_be_too_little",
        ),
    ),
    Mutant(
        "the count that only the threshold needs is measured for nothing",
        "every statement over groups costs more epsilon than is charged",
        "sql/aggregates/budget_split.py",
        "each = math.floor((units - claimed) / Fraction(sharing)) if sharing else 0",
        "each = math.floor((units - claimed) / Fraction(sharing - (weight if hidden else 0))) if sharing else 0",
        ("sql/test_aggregates.py::test_shares_are_even_over_functions_and_the_count_of_the_threshold",),
    ),
    Mutant(
        "the delta of one query stands for all of a statement",
        "a statement of several queries costs several times the delta that is charged",
        "sql/plan.py",
        "        return sum(self.deltas, Fraction(0))\n",
        "        return max(self.deltas, default=Fraction(0))\n",
        ("test_statements.py::TestUnknownGroups::test_all_queries_of_a_statement_are_paid_for",),
    ),
    Mutant(
        "each query of a statement has the whole price",
        "a statement of several queries costs several times what is charged",
        "sql/prices.py",
        "return tuple(units * weight // sum(weights) for weight in weights)",
        "return tuple(units for weight in weights)",
        ("test_statements.py::TestUnknownGroups::test_all_queries_of_a_statement_are_paid_for",),
    ),
)
