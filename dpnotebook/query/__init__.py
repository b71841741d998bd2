"""The plain data that rooms hand each other: what is asked of a table, and what is measured of it."""
