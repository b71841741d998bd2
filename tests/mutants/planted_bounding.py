"""Bugs in how much of one unit counts: sampling, clamping, clipping, and what the noise pays for."""

from mutant import Mutant

COMPONENTS, BUILDER = "sql/bounded_sums.py", "sql/aggregates/builder.py"
DRAWING = "sql/rewrite/contribution_sampling.py"
ADDED, BOUNDS = "sql/aggregates/added.py", "sql/aggregates/bounds.py"
INFLUENCE = "sql/test_influence.py::test_a_unit_with_far_too_much_changes_as_much_as_is_paid_for"
WORST = "sql/test_sql_privacy.py::test_the_worst_unit_costs_what_is_charged_and_no_more"

PLANTED = (
    Mutant(
        "one row or group of a unit more counts than is paid for",
        "a person with many groups loses more than is charged",
        DRAWING,
        "some = f\"SELECT {chosen} FROM {parts.last} WHERE {first('turn', most)}\"",
        "some = f\"SELECT {chosen} FROM {parts.last} WHERE {first('turn', most + 1)}\"",
        (INFLUENCE,),
    ),
    Mutant(
        "all groups of a unit count where one should",
        "a person in every group loses that many times what is charged",
        DRAWING,
        'parts.choose("kept", columns, "turn = 1")',
        'parts.choose("kept", columns, "turn >= 1")',
        (INFLUENCE,),
    ),
    Mutant(
        "which groups of a unit count depends on other units",
        "one person's leaving moves the groups of others: two units change for the price of one",
        DRAWING,
        "return f\"row_number() OVER (PARTITION BY {', '.join(partition)} ORDER BY {order})\"",
        'return f"row_number() OVER (ORDER BY {order})"',
        ("sql/test_drawing.py::test_nobody_elses_sample_changes_when_a_unit_leaves",),
    ),
    Mutant(
        "sums of a unit are not clamped",
        "one person's sum is as large as it likes",
        ADDED,
        'value = steps.within(nearest(f"CAST({total} AS DOUBLE)", part / step), *ends)',
        'value = steps.within(nearest(f"CAST({total} AS DOUBLE)", part / step), -(2**50), 2**50)',
        (INFLUENCE,),
    ),
    Mutant(
        "single rows are not clamped",
        "one row is as large as it likes",
        ADDED,
        'return f"CASE WHEN {y} IS NULL THEN 0 ELSE {steps.within(steps.whole(bounded, component.step), *ends)} END"',
        'return f"CASE WHEN {y} IS NULL THEN 0 ELSE {steps.within(steps.whole(y, component.step), -(2**50), 2**50)} '
        'END"',
        (INFLUENCE,),
    ),
    Mutant(
        "the number of rows of a unit is not clamped",
        "a person with many rows in a group adds all of them",
        ADDED,
        "return steps.within(steps.whole(steps.clamped(rows, low, high), step), *ends)",
        "return steps.within(steps.whole(rows, step), 0, 2**50)",
        (INFLUENCE,),
    ),
    Mutant(
        "groups of a unit cost as one",
        "a person in k groups loses k times what is charged",
        COMPONENTS,
        "return contribution.most * self.largest**power",
        "return self.largest**power",
        (INFLUENCE,),
    ),
    Mutant(
        "rows of a unit cost as if each were in a group of its own",
        "k rows in one group cost k times mu^2 where k^2 is due",
        COMPONENTS,
        "return (contribution.most * self.largest) ** power",
        "return contribution.most * self.largest**power",
        (INFLUENCE,),
    ),
    Mutant(
        "a mean's pair of sums is paid for by half",
        "averages in a pure session lose twice what is charged",
        "sql/aggregates/ratios.py",
        "blocks: tuple[int, ...] = (builder.block((c, n), pair, 2 * half, cost),)",
        "blocks: tuple[int, ...] = (builder.block((c, n), pair, half, cost),)",
        (WORST,),
    ),
    Mutant(
        "the bins of a quantile are paid for without their strategy",
        "quantiles lose as many times more as a value has levels in the hierarchy",
        BUILDER,
        "norm = component.norm(self.contribution, self._power) * strategy.norm",
        "norm = component.norm(self.contribution, self._power)",
        (WORST,),
    ),
    Mutant(
        "the products of pairs are paid for by half",
        "covariances in a pure session lose twice what is charged",
        "sql/aggregates/covariance.py",
        "blocks = [builder.block((n, a, b, p), corners, rows * (4 * half + 2), rest)]",
        "blocks = [builder.block((n, a, b, p), corners, rows * (2 * half + 2), rest)]",
        (WORST,),
    ),
    Mutant(
        "combinations of columns are paid for in one group",
        "averages of a person in k groups lose k times what is charged",
        BUILDER,
        'norm = most * largest**power if self.contribution.kind == "groups" else (most * largest) ** power',
        "norm = largest**power",
        (WORST,),
    ),
    Mutant(
        "a vector is clipped by its largest entry",
        "a person in many groups has a vector longer than its norm",
        "sql/rewrite/bounded_aggregation.py",
        'every, sums = parts.hold(), ", ".join(f"sum({square}) AS {name}" for name, square in squares)',
        'every, sums = parts.hold(), ", ".join(f"max({square}) AS {name}" for name, square in squares)',
        ("sql/test_influence.py::test_a_clipped_vector_is_never_longer_than_its_norm",),
    ),
    Mutant(
        "vectors of up to twice the norm are not clipped",
        "their people lose more than is charged",
        "sql/rewrite/clipping.py",
        "CASE WHEN {squared} <= {bound * bound} THEN",
        "CASE WHEN {squared} <= {4 * bound * bound} THEN",
        ("sql/test_influence.py::test_a_clipped_vector_is_never_longer_than_its_norm",),
    ),
    Mutant(
        "the histogram that bounds are found in has half the noise",
        "AUTO bounds cost twice what is charged",
        BOUNDS,
        "return accountant.scale(units, 1)",
        "return accountant.scale(2 * units, 1)",
        ("sql/test_sql_privacy.py::test_the_histogram_that_bounds_are_found_in_hides_a_unit",),
    ),
    Mutant(
        "bounds are found in the exact histogram",
        "the largest value of the table is told, to its power of two",
        BOUNDS,
        "noisy[at] = exact + draw(accountant.noise, scale, exact.size), scale",
        "noisy[at] = exact + 0 * draw(accountant.noise, scale, exact.size), scale",
        ("sql/test_sql_privacy.py::test_bounds_are_found_in_noisy_numbers",),
    ),
    Mutant(
        "finding bounds is free",
        "half of what a statement with AUTO bounds tells is not charged",
        "sql/aggregates/budget_split.py",
        "main = [share - half for share, half in zip(given, halves, strict=True)]",
        "main = [share for share, half in zip(given, halves, strict=True)]",
        ("sql/test_aggregates.py::test_bounds_that_are_found_take_half_of_their_aggregates_share",),
    ),
    Mutant(
        "a unit is in the histogram of bounds once for each of its rows",
        "AUTO bounds cost a person with k rows k times what is charged",
        "sql/rewrite/magnitudes.py",
        "if parts.select.single or texts is None:",
        "if True or texts is None:",
        ("sql/test_influence.py::test_one_unit_is_counted_once_in_the_histogram_of_magnitudes",),
    ),
)
