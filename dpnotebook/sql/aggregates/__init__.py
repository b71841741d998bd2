"""The mathematics of private aggregates: shares, noise, thresholds, bounds, and answers with their intervals."""
