"""Strategies side by side, before any data is touched."""
