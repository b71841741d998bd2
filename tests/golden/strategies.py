"""What is chosen to be measured for a workload, and how it is shown."""

from golden.rows import PEOPLE, protect_people
from golden.stories import GAUSSIAN, PURE, Story

import dpnotebook as dpn

WORKLOADS = {
    "ranges": lambda: dpn.workload.AllRange(32),
    "prefixes": lambda: dpn.workload.Prefix(20),
    "identity": lambda: dpn.workload.Identity(12),
    "marginals": lambda: dpn.marginals(2).over(dpn.Domain(PEOPLE), ["sex", "region", "smokes"]),
}
STEPS = {name: lambda s, t, made=made: dpn.strategy.select(made()) for name, made in WORKLOADS.items()}
STEPS |= {
    f"gaussian {name}": lambda s, t, made=made: dpn.strategy.select(made(), noise="gaussian")
    for name, made in WORKLOADS.items()
}
CARDS = {
    "a new session": lambda s, t: s,
    "tables": lambda s, t: s.tables(),
    "a count": lambda s, t: t.count(epsilon=2.0),
    "a histogram": lambda s, t: t.histogram("sex", epsilon=3.0),
    "the session": lambda s, t: s,
    "raised": lambda s, t: s.raise_budget(dpn.Budget(80.0, s.budget.delta), reason="second year"),
    "renewed": lambda s, t: s.renew_budget(dpn.Budget(10.0, s.budget.delta), reason="third year"),
    "budgets": lambda s, t: s.budgets().drop(columns="time"),
    "history": lambda s, t: s.history().drop(columns="time"),
    "spent": lambda s, t: {f"{table}.{column}": list(found) for (table, column), found in s.spend_by_column().items()},
    "the session after that": lambda s, t: s,
    "release 1 again": lambda s, t: s.release(1),
}
STORIES = [
    Story("strategies", PURE, protect_people, STEPS, html=True),
    Story("cards_laplace", PURE, protect_people, CARDS, html=True),
    Story("cards_gaussian", GAUSSIAN, protect_people, CARDS, html=True),
]
