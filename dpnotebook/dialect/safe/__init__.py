"""Expressions that no row can make fail: what fails is NULL instead, and everything else keeps its value."""
