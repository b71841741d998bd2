"""Tables as people have them, and what whole sessions tell of their answers beside what they deliver.

Costs, lengths of stay, incomes, events, amounts that are mostly zero, and ages; one row a person, three, several or
heavily different numbers of them; some values go with how many rows a person has. A session is one draw of the
histograms from which norms and bounds are chosen; the noise of its answer is drawn many times, beside what is exact.
"""

import math
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

import dpnotebook as dpn
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.expected import taken_told
from dpnotebook.sql.aggregates.layers import with_combinations
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.statement_json import statement_from_json

GROUPS, SHARES = list("abcdef"), [0.4, 0.25, 0.15, 0.1, 0.06, 0.04]
AT_HOME = 0.6  # of rows are in the group that is their person's own

# Values from a normal number of the person, one of the row, and the number of the group.
TRIED = {  # constants were chosen by these
    "costs": lambda own, each, g: np.exp(5.5 + 0.15 * g + 1.2 * (0.55 * own + 0.84 * each)).round(2),
    "length of stay": lambda own, each, g: np.ceil(np.exp(1 + 0.1 * g + 0.9 * (0.6 * own + 0.8 * each))),
    "events": lambda own, each, g: stats.poisson.ppf(stats.norm.cdf(each), np.exp(0.3 + 0.8 * own + 0.05 * g)),
    "mostly zero": lambda own, each, g: np.where(0.5 * own + 0.87 * each < 0.9, 0.0, np.exp(4 + 0.1 * g + 1.1 * each)),
    "ages": lambda own, each, g: np.clip(45 + 18 * own + 3 * each + g, 0, 100).round(),
}
OTHERS = {
    "power law": lambda own, each, g: 100 * stats.norm.sf(0.6 * own + 0.8 * each).clip(1e-9) ** (-1 / 2.5),
    "debts": lambda own, each, g: np.where(each < -0.5, -np.exp(8 + own), np.exp(7 + 1.3 * each)).round(),
    "gamma": lambda own, each, g: (
        stats.gamma.ppf(stats.norm.cdf(0.5 * own + 0.866 * each).clip(0, 1 - 1e-12), 0.4) * 200 * (1 + 0.1 * g)
    ),
    "heavy": lambda own, each, g: (
        stats.t.ppf(stats.norm.cdf(0.6 * own + 0.8 * each).clip(1e-9, 1 - 1e-9), 3) * 50 + 500 + 10 * g
    ),
}
ROWS = {
    "one": lambda random, people: np.ones(people, int),
    "three": lambda random, people: np.full(people, 3),
    "several": lambda random, people: np.minimum(random.geometric(0.2, people), 60),
    "heavy": lambda random, people: np.ceil(random.pareto(1.4, people) + 0.01).clip(1, 300).astype(int),
}
ASKED = {
    "sum": "SUM(x)",
    "average": "AVG(x)",
    "variance": "VAR_POP(x)",
    "deviation": "STDDEV_POP(x)",
    "weighted": "SUM(w * x) / SUM(w)",
}


def messy(random, values, rows, people, grows=0.0, alike=False):
    """Return a table of so many people, whose values grow with the logarithm of their number of rows.

    Groups are of values of their own, or all alike.
    """
    sizes = ROWS[rows](random, people)
    who = np.repeat(np.arange(people), sizes)
    home = random.choice(6, people, p=SHARES)[who]
    group = np.where(random.random(who.size) < AT_HOME, home, random.choice(6, who.size, p=SHARES))
    own = random.normal(size=people) + grows * np.log2(sizes)
    x = values(own[who], random.normal(size=who.size), group * (not alike))
    weight = np.exp(1 + 0.5 * random.normal(size=people))[who].round(3)
    return pd.DataFrame({"who": who, "g": np.array(GROUPS)[group], "x": x, "w": weight})


def exact(frame, asked):
    """Return the answers without any bounds, by group."""
    by = frame.groupby("g")
    found = {
        "sum": by.x.sum,
        "average": by.x.mean,
        "variance": lambda: by.x.var(ddof=0),
        "deviation": lambda: by.x.std(ddof=0),
        "weighted": lambda: (frame.w * frame.x).groupby(frame.g).sum() / by.w.sum(),
    }[asked]()
    return found.reindex(GROUPS).to_numpy(dtype=float)


@dataclass(frozen=True)
class Delivered:
    """What one session told of its answer, and what that is over many draws of its noise, by group.

    Parameters
    ----------
    held
        How often the interval of each group held the exact answer.
    bias, noise
        What bounds and norms move, and the standard deviation of what noise does.
    off
        Root mean squared error beside what is lost behind the longest norm.
    about, most
        What was told of the bias, in the answer's own units: what is expected, and the most if some lie apart.
    std_error
        What was foretold for the worst group.
    """

    held: np.ndarray
    bias: np.ndarray
    noise: np.ndarray
    off: np.ndarray
    about: float
    most: float
    std_error: float


def delivered(frame, asked, epsilon, random, domain=None, max_rows=None, runs=100):
    """Return what a session told and delivered; the answer is measured anew after a first one told norms and bounds.

    None where noise hides how much people add.
    """
    drawn = []

    def draw(law, scale, size):
        drawn.append(draw_integers(law, scale, size))
        return drawn[-1]

    with closing(dpn.Session(dpn.Budget(4.0, 1e-6), ":memory:", confirm="never")) as session:
        session.protect(frame, "t", unit="who", domain={"g": GROUPS} | (domain or {}), max_rows=max_rows)
        text = f"SELECT g, {ASKED[asked]} AS a FROM t GROUP BY g"
        session.sql(text, epsilon=epsilon).run()
        query = session.sql(text, epsilon=epsilon, fresh=True)
        (planned,) = query.plan.parts
        session._statements.draw = draw
        shown = query.run()
        record = session.ledger.get(shown.number)
    told = record.details["selects"][0]
    one, (select,) = Measuring.from_json(told["measuring"]), statement_from_json(record.plan["statement"]).selects
    if not one.parts[0].found or list(shown.frame["g"]) != GROUPS:
        return None
    noise = np.concatenate([each.reshape(6, -1) for each in drawn[-len(one.blocks) :]], axis=1)
    without = record.answers[0].reshape(6, -1) - noise
    spread = np.sqrt([one.law.variance(scale) for scale in one.scales])
    found = []
    for _ in range(runs):
        numbers = without + np.rint(random.normal(size=without.shape) * spread).astype(np.int64)
        found.append(estimate(with_combinations(one, numbers), numbers, 0.95)[0])
    value, lower, upper = (np.stack([getattr(each, part) for each in found]) for part in ("value", "lower", "upper"))
    clipped = estimate(with_combinations(one, without, False), without, 0.95)[0].value
    truth = exact(frame, asked)
    abouts, mosts = [], []
    for by in taken_told(told, select):
        if 0 in by and by[0].known:
            abouts.append(by[0].about)
            mosts.append(by[0].worst)
    about, most = sum(abouts), sum(mosts)
    if asked == "deviation":
        mean = float(np.sqrt(np.mean(truth**2)))
        about, most = (math.sqrt(mean**2 + part) - mean for part in (about, most))
    return Delivered(
        ((lower <= truth) & (truth <= upper)).mean(axis=0),
        clipped - truth,
        value.std(axis=0),
        np.sqrt(((value - clipped) ** 2).mean(axis=0)),
        about,
        most,
        planned.std_error,
    )
