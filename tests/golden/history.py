"""Questions that build on those before them: free, refined, combined, bought, by every planner."""

from golden.rows import protect_people
from golden.stories import GAUSSIAN, PURE, Story

import dpnotebook as dpn

HISTORY = {
    "count": lambda s, t: t.count(where="age < 20", error=30),
    "the same is free": lambda s, t: t.count(where="age < 20", error=30),
    "less accurate is free": lambda s, t: t.count(where="age < 20", error=50),
    "more accurate": lambda s, t: t.count(where="age < 20", error=12),
    "fresh": lambda s, t: t.count(where="age < 20", error=30, fresh=True),
    "a slice": lambda s, t: t.histogram("sex", where="age < 20", epsilon=0.2),
    "the other slice": lambda s, t: t.histogram("sex", where="age >= 20", epsilon=0.2),
    "combined of slices": lambda s, t: t.count(where="sex == 'F'", error=60),
    "half combined": lambda s, t: t.count(error=10),
    "crosstab": lambda s, t: t.crosstab("sex", "region", epsilon=0.5),
    "its margin is free": lambda s, t: t.histogram("region", error=40),
    "its margin and more": lambda s, t: t.histogram("region", error=10),
    "a sum": lambda s, t: t.sum("age", epsilon=0.2),
    "the sum again": lambda s, t: t.sum("age", error=900),
    "the mean from it": lambda s, t: t.mean("age", epsilon=0.3),
    "drill down": lambda s, t: t.histogram("age", where="sex == 'F'", epsilon=0.4),
    "a range of it": lambda s, t: t.count(where="sex == 'F' and 5 <= age <= 9", error=40),
    "another range": lambda s, t: t.count(where="sex == 'F' and 3 <= age <= 30", error=25),
    "by percent": lambda s, t: t.count(where="sex == 'M'", error="5%"),
    "by groups": lambda s, t: t.groupby(["sex", "smokes"]).count(error=30),
    "cdf": lambda s, t: t.cdf("age", error=30),
    "median": lambda s, t: t.quantile("age", epsilon=0.2),
    "repeated at epsilon": lambda s, t: t.crosstab("sex", "region", epsilon=0.5),
    "at more epsilon": lambda s, t: t.crosstab("sex", "region", epsilon=0.8),
    "statement from it": lambda s, t: s.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", error=40),
    "statement with more": lambda s, t: s.sql(
        "SELECT sex, SUM(age) / COUNT(*) AS mean FROM people WHERE smokes GROUP BY sex ORDER BY mean", epsilon=0.4
    ),
}
RANGES = {
    f"{low} to {high}": lambda s, t, low=low, high=high: t.count(where=f"{low} <= age <= {high}", error=20)
    for low, high in [(0, 9), (5, 14), (10, 29), (0, 19), (3, 4), (20, 39), (2, 37), (11, 12), (30, 39), (0, 39)]
}
PREFETCH = {
    "offer": lambda s, t: s.prefetch(dpn.ranges("age")),
    "offer of errors": lambda s, t: s.prefetch(dpn.marginals(1), on=["sex", "smokes"], errors=[10, 40]),
    "bought": lambda s, t: s.prefetch(dpn.ranges("age")).query(error=30),
    "free after it": lambda s, t: t.count(where="10 <= age <= 14", error=30),
    "histogram after it": lambda s, t: t.histogram("age", error=40),
    "cdf after it": lambda s, t: t.cdf("age", epsilon=0.2),
    "offer after it": lambda s, t: s.prefetch(dpn.ranges("age"), errors=[15, 30]),
    "bought by epsilon": lambda s, t: s.prefetch(dpn.marginals(2), on=["sex", "region"]).query(epsilon=0.4),
}
PIONEER = {
    "count": lambda s, t: t.count(where="age < 20", variance=60.0),
    "part": lambda s, t: t.count(where="age < 10", variance=60.0),
    "rest": lambda s, t: t.count(where="10 <= age < 20", variance=120.0),
    "whole": lambda s, t: t.count(variance=100.0),
    "complement": lambda s, t: t.count(where="age >= 20", variance=150.0),
    "more accurate": lambda s, t: t.count(where="age < 20", variance=20.0),
    "across": lambda s, t: t.count(where="5 <= age < 25", variance=80.0),
    "histogram": lambda s, t: t.histogram("sex", variance=60.0),
    "a sum": lambda s, t: t.sum("age", epsilon=0.1),
}
NAIVE = ("count", "the same is free", "more accurate", "a slice", "crosstab", "its margin is free", "a sum", "median")
STORIES = [
    Story("history_laplace", PURE, protect_people, HISTORY),
    Story("history_gaussian", GAUSSIAN, protect_people, HISTORY),
    Story("history_naive", PURE, protect_people, {name: HISTORY[name] for name in NAIVE}, planner="naive", html=True),
    Story("history_pioneer", PURE, protect_people, PIONEER, planner="pioneer", html=True),
    Story("ranges_laplace", PURE, protect_people, RANGES),
    Story("ranges_gaussian", GAUSSIAN, protect_people, RANGES),
    Story("prefetch_laplace", PURE, protect_people, PREFETCH, html=True),
    Story("prefetch_gaussian", GAUSSIAN, protect_people, PREFETCH),
]
