"""Tasks side by side in threads of this process: what `n_jobs=None` means.

Compiled programs, LAPACK and sparse solvers let go of Python's lock, and each of our problems is too small for threads
of its own. What joblib was told (`n_jobs`, `joblib.parallel_config`) comes first, and what joblib runs as one of many
tasks already has its share of the cores.
"""

from __future__ import annotations

from joblib import cpu_count, effective_n_jobs
from joblib.parallel import BACKENDS, DEFAULT_BACKEND, get_active_backend


def at_once(n_jobs: int | None) -> int:
    """How many threads to use: one a core for None, unless joblib has been told something; else 1."""
    if n_jobs is not None:
        return 1
    backend, _ = get_active_backend()
    usual = isinstance(backend, BACKENDS[DEFAULT_BACKEND]) and backend.nesting_level == 0
    return cpu_count() if usual and effective_n_jobs(None) == 1 else 1
