"""Training: agents that learn in these environments; the only place that loads torch, Ray or TRL."""

import os

# Read when torch and Ray are loaded, so before any module here loads them. With more than one thread, small arrays cost
# more in hand-over than in work (measured: twenty times).
for _name, _value in {"OMP_NUM_THREADS": "1", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}.items():
    os.environ.setdefault(_name, _value)
