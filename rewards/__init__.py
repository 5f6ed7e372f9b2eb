"""Evidence to verdict, verdict to number."""
