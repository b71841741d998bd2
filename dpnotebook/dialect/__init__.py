"""SQL as text and as trees, engine by engine, and expressions that no row can make fail."""
