"""Cell and line magics: SQL, the budget, and what completes them."""
