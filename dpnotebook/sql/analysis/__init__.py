"""What a statement means: what is measured privately, and what is worked out from that."""
