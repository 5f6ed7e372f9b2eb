"""Audits of archives that import nothing of this package."""
