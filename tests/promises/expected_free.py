"""What is expected to cost nothing beside what was paid for, and what is charged all the same."""

import math
from dataclasses import dataclass

import numpy as np

import dpnotebook as dpn

AFTER_SUMS = 1.02  # noise that is added up in whole numbers reaches a little further than its variance says
ERROR, EPSILON = 120.0, 0.1
ROWS = 60_000  # as the tables are said to have


@dataclass
class Asked:
    """A session, and what became of the questions that were expected for nothing."""

    session: dpn.Session
    table: object
    by: str
    rng: np.random.Generator
    expected: int = 0
    charged: list = None
    spent: int = 0
    overpaid: int = 0

    def accuracy(self, terms=1.0):
        """Return the accuracy that a sum of so many answers has which were each paid for."""
        if self.by == "error":
            return {"error": ERROR * (math.sqrt(terms) * AFTER_SUMS if terms > 1 else 1)}
        if terms == 1:
            return {"epsilon": EPSILON}
        return {"epsilon": self.worth(EPSILON, terms)}

    def at(self, error, epsilon, terms):
        """Return an accuracy: the error, or an epsilon whose answers have so many times the variance."""
        return {"error": error * AFTER_SUMS} if self.by == "error" else {"epsilon": self.worth(epsilon, terms)}

    def worth(self, epsilon, terms):
        """Return the epsilon whose answers have the variance of sums of so many answers for an epsilon."""
        accountant = self.session.ledger.accountant
        units = accountant.least_units(epsilon)
        less = units / terms if accountant.noise == "gaussian" else units / math.sqrt(terms)
        return float(accountant.epsilon(math.floor(less / AFTER_SUMS)))

    def pays(self, query):
        self.spent += query.plan.cost.units
        return query.run()

    def free(self, words, query):
        self.expected += 1
        price = query.plan.cost.units
        if price:
            self.charged.append(words)
            self.spent += price
            self.overpaid += price
        query.run()
