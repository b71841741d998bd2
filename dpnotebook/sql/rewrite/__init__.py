"""A private aggregation as SQL of an engine: bounded for each unit, and only sums of clamped integers leave."""
