"""Model files of estimators, and the stores of their fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..basics import checks
from ..basics.checks import GpumError, GpumTypeError
from ..persistence import model_io
from ..persistence.store import Store

NOT_RESULTS: tuple[str, ...] = ("n_jobs", "verbose", "warm_start", "checkpoint")  # settings on which no number depends


@contextmanager
def fitting(estimator: Any) -> Iterator[None]:
    """The context of a fit: if it fails, the estimator is as it was before."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def save(self: Any, path: Any, *, force: bool = False, max_mb: float | None = None) -> None:
    """Write the fitted estimator to a file, completely or not at all; an existing file is replaced only with `force`.

    The file holds numbers and text, no code: the fitted model and the parameters of the fit. A further `fit` of the
    loaded estimator learns new geometries.

    `max_mb` limits the size of the file, in 10⁶ bytes; if it would be larger, nothing is written.
    """
    check_is_fitted(self)
    model_io.write(path, self, force=force, max_mb=max_mb)


def _load(cls: Any, path: Any, *, ready: bool = False) -> Any:
    """Read an estimator that `save` or `gpum fit` wrote; no code of the file runs.

    A regressor or classifier is ready at once. With `ready` a latent model compiles what its first projection needs.
    """
    checks.flag(ready, "ready")
    found: Any = model_io.read(path)
    if isinstance(found, model_io.Fitted):
        found = found.model
    if not isinstance(found, cls):
        raise GpumTypeError(f"{path} holds a {type(found).__name__}, not a {cls.__name__}; load it with its own class")
    if ready and hasattr(found, "__gpum_ready__"):
        found.__gpum_ready__()
    return found


load: Any = classmethod(_load)


def open_store(estimator: Any) -> Store:
    """A store for a fit, with the folder that the estimator's `checkpoint` names."""
    if estimator.checkpoint is not None and not isinstance(estimator.random_state, Integral):
        raise GpumError(
            f"checkpoint is {str(estimator.checkpoint)!r}, but random_state is {estimator.random_state!r}: another run "
            "would not be the same; give random_state a whole number"
        )
    return Store.open(estimator.checkpoint)
