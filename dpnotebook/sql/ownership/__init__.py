"""Who owns each row: queries below a private aggregation, in which no row belongs to two units."""
