"""Random tables of people of whom few have most rows, with columns of many kinds, for tests of what bounds take."""

import numpy as np
import pandas as pd
from messy_tables import GROUPS, SHARES
from scipy import stats

import dpnotebook as dpn

KINDS = {
    "years": lambda random, z: 1940 + np.floor(60 * stats.norm.cdf(z)),
    "million": lambda random, z: (1e6 + 10 * z).round(2),
    "negative": lambda random, z: -np.exp(4 + 0.6 * z).round(2),
    "two clusters": lambda random, z: np.where(random.random(z.size) < 0.7, 20 + 3 * z, 200 + 15 * z).round(2),
    "lognormal": lambda random, z: np.exp(3.5 + z).round(2),
    "wide lognormal": lambda random, z: np.exp(3.5 + 2 * z).round(2),
    "power": lambda random, z: (10 * stats.norm.sf(z).clip(1e-12) ** (-1 / 1.5)).round(2),
    "constant": lambda random, z: np.full(z.size, 7.0),
    "mostly zero": lambda random, z: np.where(random.random(z.size) < 0.6, 0, np.exp(4 + z)).round(2),
}


def table(random, kind, people, one=False):
    """Return rows of people, of whom few have most, with values of which one half goes with the person."""
    sizes = np.ones(people, int) if one else np.ceil(random.pareto(1.4, people) + 0.01).clip(1, 1_000).astype(int)
    who = np.repeat(np.arange(people), sizes)
    home = random.choice(GROUPS, people, p=SHARES)[who]
    group = np.where(random.random(who.size) < 0.6, home, random.choice(GROUPS, who.size, p=SHARES))
    z = 0.7 * random.normal(size=people)[who] + 0.71 * random.normal(size=who.size)
    return pd.DataFrame({"who": who, "g": group, "x": KINDS[kind](random, z)})


def opened(frame, delta=1e-6, **options):
    session = dpn.Session(dpn.Budget(100.0, delta), ":memory:", confirm="never")
    session.protect(frame, "t", unit="who", domain={"g": GROUPS}, **options)
    return session
