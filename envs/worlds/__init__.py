"""The worlds: one module is one organisation's software."""
