"""Privacy: budgets, accountants, spend per cell, exact noise and its tails."""
