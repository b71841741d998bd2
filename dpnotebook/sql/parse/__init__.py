"""From text to tree: the three surfaces of SQL, private clauses and bounds, and what a statement may be made of."""
