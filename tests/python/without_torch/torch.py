"""Comes before the real one on PYTHONPATH, also in the processes that tests start."""

raise ModuleNotFoundError("torch is blocked: this half of the tests does without it", name="torch")
