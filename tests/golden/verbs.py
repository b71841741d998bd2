"""Every verb of a protected table, each asked of a session of its own: by epsilon, by error and by variance."""

from golden.rows import protect_clinic, protect_people
from golden.stories import GAUSSIAN, PURE, Story

import dpnotebook as dpn

VERBS = {
    "count by epsilon": lambda s, t: t.count(epsilon=0.1),
    "count where by error": lambda s, t: t.count(where="age >= 30 and sex == 'F'", error=25),
    "count of a disjunction": lambda s, t: t.count(where="region in ['north', 'west'] or smokes", epsilon=0.2),
    "count of nobody": lambda s, t: t.count(where="age < 0", epsilon=0.2),
    "count by variance": lambda s, t: t.count(where="smokes", variance=50.0, confidence=0.9),
    "count by percent": lambda s, t: t.count(error="10%"),  # refused: nothing tells about how many there are
    "count at another accuracy": lambda s, t: t.count(epsilon=0.1).at(error=8, confidence=0.99),
    "sum by epsilon": lambda s, t: t.sum("income", epsilon=0.3),
    "sum within bounds": lambda s, t: t.sum("income", bounds=(0, 50_000), granularity=100, epsilon=0.3),
    "sum by error": lambda s, t: t.sum("age", where="region != 'north'", error=400),
    "mean by epsilon": lambda s, t: t.mean("income", epsilon=0.5),
    "mean of so many rows": lambda s, t: t.mean("age", bounds=(0, 39), epsilon=0.5).assuming(rows=300, value=20),
    "mean by error": lambda s, t: t.mean("age", error=2).assuming(rows=300),
    "histogram of a range": lambda s, t: t.histogram("age", epsilon=0.2),
    "histogram of bins": lambda s, t: t.histogram("income", error=15),
    "histogram of categories": lambda s, t: t.histogram("region", where="sex == 'M'", epsilon=0.2),
    "histogram of truth": lambda s, t: t.histogram("smokes", variance=30.0),
    "crosstab": lambda s, t: t.crosstab("sex", "region", epsilon=0.4),
    "crosstab of three where": lambda s, t: t.crosstab(
        "sex", "smokes", "region", where="region != 'north' and region.notna()", error=20
    ),
    "cdf": lambda s, t: t.cdf("income", epsilon=0.4),
    "cdf by error": lambda s, t: t.cdf("age", where="smokes == False", error=40),
    "median": lambda s, t: t.quantile("income", epsilon=0.5),
    "quantile by error": lambda s, t: t.quantile("age", 0.9, error=30),
    "grouped count": lambda s, t: t.groupby(["sex", "smokes"]).count(epsilon=0.3),
    "grouped sum": lambda s, t: t.groupby("region").sum("age", epsilon=0.3),
    "grouped mean": lambda s, t: t.groupby("sex").mean("income", epsilon=0.6),
    "grouped cdf": lambda s, t: t.groupby("sex").cdf("income", epsilon=0.6),
    "grouped median": lambda s, t: t.groupby("sex").quantile("age", 0.5, epsilon=0.8),
    "marginals": lambda s, t: t.answer(dpn.marginals(2), on=["sex", "region", "smokes"], epsilon=0.8),
    "small marginals by error": lambda s, t: t.answer(dpn.small_marginals(30), error=40),
    "ranges": lambda s, t: t.answer(dpn.ranges("income"), epsilon=0.5),
    "a sum of requests": lambda s, t: t.answer(2 * dpn.total() + dpn.identity("sex") + dpn.cdf("income"), epsilon=0.5),
    "prefix marginals": lambda s, t: t.answer(dpn.prefix_marginals(1), on=["income", "sex"], epsilon=0.5),
    "prefixes by matrix": lambda s, t: t.answer(dpn.workload.Prefix(40), on="age", epsilon=0.5),
    "a strategy of one's own": lambda s, t: t.answer(
        dpn.ranges("age"), strategy=dpn.strategy.wavelet, where="sex == 'F'", epsilon=0.5
    ),
}
# What depends on the noise law, again.
AGAIN = (
    "count by epsilon",
    "count where by error",
    "count by percent",
    "sum within bounds",
    "mean by error",
    "histogram of a range",
    "crosstab",
    "cdf by error",
    "median",
    "grouped mean",
    "marginals",
    "small marginals by error",
    "ranges",
    "a strategy of one's own",
)
UNITS = {
    "count": lambda s, t: t.count(epsilon=0.3),
    "sum": lambda s, t: t.sum("minutes", bounds=(0, 200), where="urgent", epsilon=0.3),
    "mean": lambda s, t: t.mean("minutes", epsilon=0.5),
    "crosstab by error": lambda s, t: t.crosstab("ward", "urgent", error=60),
    "quantile": lambda s, t: t.groupby("ward").quantile("minutes", 0.25, epsilon=0.5),
}
STORIES = [
    Story("verbs_laplace", PURE, protect_people, VERBS, alone=True),
    Story("verbs_gaussian", GAUSSIAN, protect_people, {name: VERBS[name] for name in AGAIN}, alone=True),
    Story("verbs_of_units", PURE, protect_clinic, UNITS, alone=True, html=True),
]
