"""Rows in a Dask array or data frame: a method then answers with a lazy `dask.array`, block by block.

Nothing is computed before it is requested. The fitted estimator is one node of the graph, so a worker receives it once,
as its model file, and every task of that worker uses it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..basics.checks import GpumError, GpumTypeError
from ..basics.workers import as_worker
from ..persistence import model_io
from . import features


@dataclass(frozen=True)
class Answer:
    """What a method answers for one row: a shape, `results` times (mean and standard deviation are two), of a type."""

    shape: tuple[int, ...] = ()
    results: int = 1
    dtype: Any = float

    @property
    def stacked(self) -> tuple[int, ...]:
        """The shape of all results of a row, side by side on a last axis if there are several."""
        return self.shape if self.results == 1 else (*self.shape, self.results)


def lazy(answer: Callable[..., Answer]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of methods f(X, ...) that treat rows one by one; `answer(estimator, ...)` says what f returns."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        of_method = signature(method)

        @wraps(method)
        def called(self: Any, X: Any, *args: Any, **options: Any) -> Any:
            if not type(X).__module__.startswith(("dask.", "dask_expr.")):
                return method(self, X, *args, **options)
            check_is_fitted(self)
            given = of_method.bind(self, X, *args, **options).arguments
            given = {name: value for name, value in given.items() if name not in ("self", "X")}
            return _graph(self, method.__name__, X, given, answer(self, **given))

        return called

    return decorate


def of_rows(
    estimator: Any, *, return_std: bool = False, return_cov: bool = False, trials: Any = None, **_: Any
) -> Answer:
    """What `predict` of a regressor answers."""
    if return_cov:
        raise GpumError("return_cov is True, but X is in blocks, and covariances run between them; pass a numpy array")
    if np.ndim(trials):
        raise GpumError("trials must be one number where X is in blocks; for one a row, pass X as a numpy array")
    model = estimator.model_
    return Answer((len(model.outputs),) if model.several else (), 1 + bool(return_std))


def of_quantiles(estimator: Any, *, quantiles: Any = (0.025, 0.5, 0.975), trials: Any = None, **_: Any) -> Answer:
    """What `predict_quantiles` answers."""
    return Answer((np.size(quantiles), *of_rows(estimator, trials=trials).shape))


def of_chart(estimator: Any, *, return_std: bool = False) -> Answer:
    """What `transform` answers."""
    if estimator.latent_ is None:
        estimator.model_.coordinates(estimator.model_.cloud.X[:1])  # raises the error that says why
    return Answer((estimator.latent_.shape[1],), 1 + bool(return_std))


class Sent:
    """A fitted estimator in a graph. It travels between processes as its model file, which has no caches."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = copy(estimator)  # a later fit of the estimator does not change what was asked of this one

    def __reduce__(self) -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.gpum")
            try:
                self.estimator.save(path)
            except GpumError:  # it holds a class that files cannot store, such as a chart of the user's own
                return Sent, (self.estimator,)
            return _received, (path.read_bytes(),)


def _received(content: bytes) -> Sent:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.gpum")
        path.write_bytes(content)
        return Sent(model_io.read(path))


def _graph(estimator: Any, method: str, X: Any, given: dict[str, Any], answer: Answer) -> Any:
    """The lazy answer, or a tuple of them."""
    from dask import array, delayed

    sent = delayed(Sent(estimator), traverse=False)
    meta = np.empty((0,) * (1 + len(answer.stacked)), answer.dtype)
    options = {"method": method, "given": given, "answer": answer}
    if isinstance(X, array.Array):
        if X.ndim != 2:
            raise GpumError(f"X is a dask array of shape {X.shape}; it must have two dimensions, rows and columns")
        features.check_count(estimator, X.shape[1])
        X = X.rechunk({1: -1})  # a row is in one block
        chunks = (X.chunks[0], *((n,) for n in answer.stacked))
        axes = list(range(1, 1 + len(answer.stacked)))
        lazy_answer = X.map_blocks(
            _answers, sent=sent, **options, drop_axis=1, new_axis=axes, chunks=chunks, dtype=answer.dtype, meta=meta
        )
    elif hasattr(X, "_meta") and X.ndim == 2:  # a data frame
        features.check_names(estimator, X._meta)
        block, shape = delayed(_answers, pure=False), (nan, *answer.stacked)
        blocks = [block(part, sent=sent, block_id=(k,), **options) for k, part in enumerate(X.to_delayed())]
        lazy_answer = array.concatenate(
            [array.from_delayed(part, shape, meta=meta) for part in blocks], allow_unknown_chunksizes=True
        )
    else:
        raise GpumTypeError(f"X is a {type(X).__name__} of dask; pass a dask array or data frame, rows by columns")
    return lazy_answer if answer.results == 1 else tuple(lazy_answer[..., k] for k in range(answer.results))


def _answers(
    rows: Any, *, sent: Sent, method: str, given: dict[str, Any], answer: Answer, block_id: Sequence[int]
) -> np.ndarray:
    """The answer for one block."""
    if not len(rows):
        return np.empty((0, *answer.stacked), answer.dtype)
    try:
        with as_worker():
            result = getattr(sent.estimator, method)(rows, **given)
    except GpumError as error:
        error.add_note(f"This is block {block_id[0]} of X; rows are counted from its first.")
        raise
    return result if answer.results == 1 else np.stack(result, -1)
