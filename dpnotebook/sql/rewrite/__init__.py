"""A private aggregation as SQL of an engine, bounded for each unit: sums of clamped integers leave, or matches."""
