"""Wrappers: one verb each, around an environment."""
