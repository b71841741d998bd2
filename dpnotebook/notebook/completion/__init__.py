"""What Tab offers: in the magics, and inside the calls of `df.dp`, protected tables and sessions."""
