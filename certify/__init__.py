"""Certification: scripted policies, checks, certificates."""
