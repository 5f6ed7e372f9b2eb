"""Training: agents that learn in these environments; the only place that loads torch, Ray or TRL."""
