"""`gpum info --system`: what a bug report needs to say about versions and the machine. It holds no path of the user."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

from gpum import __version__

PACKAGES = ("numpy", "scipy", "scikit-learn", "jax", "jaxlib")
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "JAX_PLATFORMS")


def system() -> list[tuple[str, str]]:
    """Names and values: versions, platform, cores, threads of linear algebra, devices of JAX."""
    return [
        ("gpum", __version__),
        ("python", f"{platform.python_version()} ({platform.python_implementation()})"),
        *((name, _version(name)) for name in PACKAGES),
        ("platform", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("cores", str(os.cpu_count())),
        ("threads", _threads()),
        ("devices", _devices()),
        *((name, os.environ[name]) for name in VARIABLES if name in os.environ),
    ]


def _version(name: str) -> str:
    try:
        return installed(name)
    except PackageNotFoundError:
        return "not installed"


def _threads() -> str:
    """The libraries of linear algebra and OpenMP that are loaded, each with its number of threads."""
    import scipy.linalg  # noqa: F401  (loads its BLAS)
    from threadpoolctl import threadpool_info

    found = [
        f"{at['internal_api']} {at.get('version') or ''}".strip() + f": {at['num_threads']}" for at in threadpool_info()
    ]
    return ", ".join(dict.fromkeys(found)) or "no library with threads"


def _devices() -> str:
    import jax

    try:
        found = jax.devices()
    except RuntimeError:  # its message may hold paths of drivers
        return "none: JAX could not start its backend; python -c 'import jax; jax.devices()' says why"
    kinds = [f"{device.platform} ({device.device_kind})" for device in found]
    return ", ".join(f"{kinds.count(kind)} × {kind}" for kind in dict.fromkeys(kinds))
