"""The linear route: what is asked of one table's declared columns goes to the planner."""
