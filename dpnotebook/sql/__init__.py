"""From SQL over protected tables to what is measured privately, and to what is worked out from that."""
