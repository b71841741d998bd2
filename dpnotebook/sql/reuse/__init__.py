"""Statements that a recorded release of another statement answers: nothing is measured twice because it is asked
otherwise."""
