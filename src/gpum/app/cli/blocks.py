"""Predictions of blocks of rows, in this process or by the workers of a Dask cluster, in the order of the blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpum import GpumError, model_io
from gpum.tools import Sent, as_worker, needs

INTERVAL = (0.025, 0.975)
AHEAD = 2  # blocks for each thread of a cluster that wait or are predicted: memory here is limited
PATIENCE = 30  # seconds to wait for a scheduler, and for its first worker
LARGE = "10GiB"  # a model may be larger than what Dask usually expects of a task


@dataclass(frozen=True)
class Rows:
    """A block of rows X [n, p], encoded as in the fit, with their names and the title of these."""

    title: str
    names: list[str]
    X: np.ndarray


@dataclass(frozen=True)
class Predictor:
    """What predicts: a fitted estimator, which other processes receive as its model file, and the names of targets."""

    sent: Sent
    targets: list[str]

    @classmethod
    def of(cls, fitted: model_io.Fitted) -> Predictor:
        """The predictor of a model file."""
        return cls(Sent(fitted.model), fitted.targets)

    def columns(self, X: np.ndarray) -> dict[str, np.ndarray]:
        """The columns of a prediction for encoded rows X."""
        estimator = self.sent.estimator
        found, n = estimator.model_.predictive(X), len(X)
        columns: dict[str, np.ndarray] = {}
        if hasattr(estimator, "classes_"):
            p, name = found.probabilities, self.targets[0]
            columns[name] = estimator.classes_[p.argmax(1)]
            columns |= {f"{name}_p_{c}": p[:, k] for k, c in enumerate(estimator.classes_)}
        else:
            # The interval of a single trial is 0 to 1 in every row; that of its probability is more informative.
            chances = estimator.model_.settings.get("likelihood") == "binomial"
            found_mean, found_std, ends = found.summary(INTERVAL, levels_of_function=chances)
            mean, std, levels = found_mean.reshape(n, -1), found_std.reshape(n, -1), ends.reshape(n, 2, -1)
            values = {"mean": mean, "std": std, "low95": levels[:, 0], "high95": levels[:, 1]}
            for k, name in enumerate(self.targets):
                columns |= {f"{name}_{what}": value[:, k] for what, value in values.items()}
        if found.latent is not None:
            columns |= {f"latent_{k + 1}": column for k, column in enumerate(found.latent.T)}
        return columns | {"far_from_surface": found.far}


Predicted = Iterator[tuple[Rows, dict[str, np.ndarray]]]


def predicted(predictor: Predictor, blocks: Iterable[Rows], cluster: str | None) -> Predicted:
    """Each block with its predictions, in order; with `cluster` by the workers of the scheduler at that address."""
    if cluster is None:
        return ((rows, predictor.columns(rows.X)) for rows in blocks)
    return _on_cluster(predictor, blocks, cluster)


def _on_cluster(predictor: Predictor, blocks: Iterable[Rows], address: str) -> Predicted:
    """As `predicted`. A block whose worker dies is predicted by another one."""
    distributed, dask = needs("distributed", "--cluster"), needs("dask", "--cluster")
    with (
        _connected(distributed, address) as client,
        dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE}),
    ):
        # The model is the result of a task, which a worker receives once, and which can be computed again.
        model = client.submit(_itself, predictor, pure=False)
        waiting: deque[tuple[Rows, Any]] = deque()
        try:
            for rows in blocks:
                waiting.append((rows, client.submit(_columns, model, rows.X, pure=False)))
                while len(waiting) > AHEAD * max(sum(client.nthreads().values()), 1):
                    rows, future = waiting.popleft()
                    yield rows, future.result()
            while waiting:
                rows, future = waiting.popleft()
                yield rows, future.result()
        except distributed.KilledWorker as error:
            raise GpumError(
                f"--cluster: workers died while they predicted a block ({error.task}); give them more memory, and see "
                "their logs"
            ) from None


def _connected(distributed: Any, address: str) -> Any:
    """A client of the scheduler at an address, which has at least one worker."""
    try:
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        said = " ".join(str(error).split())
        raise GpumError(
            f"--cluster is {address!r}, where no Dask scheduler answers ({said}); start one with `dask scheduler`, and "
            "give the address that it prints"
        ) from None
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        client.close()
        raise GpumError(
            f"--cluster is {address!r}, which has no worker; start some with `dask worker {address}`"
        ) from None
    return client


def _itself(predictor: Predictor) -> Predictor:
    return predictor


def _columns(predictor: Predictor, X: np.ndarray) -> dict[str, np.ndarray]:
    with as_worker():
        return predictor.columns(X)
