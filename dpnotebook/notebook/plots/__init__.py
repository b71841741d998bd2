"""Figures of releases and of strategies."""
