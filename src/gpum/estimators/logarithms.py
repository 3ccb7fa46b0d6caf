"""Whether labels or their logarithms are the function and normal noise: `likelihood="auto"` of `GPUMRegressor`.

Labels above 0 whose largest is SPAN times their smallest are tried both ways in flat space, of which a fit takes a
fraction of a second, before geometries are learned. Logarithms are used where

    their evidence, times Π 1/y so that both are densities of the same numbers, leads by CLEAR,
    the others predict a left-out label with the larger density, by TWICE the standard error of the difference, and
    the root mean square error of left-out labels is at most WORSE times that of the labels themselves.

It is a choice: one posterior has one transform. All other labels are numbers with normal noise, "gaussian". On
simulated targets (`python benchmarks/logarithms.py`) the evidence alone chose logarithms for squares and cut functions,
which they explain better near 0 and predict worse elsewhere; left-out labels say so.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ..basics.checks import GpumError
from ..basics.workers import one_blas_thread
from ..fitted import Cloud, Geometries
from ..geometry.build import make_flat, rows_of
from ..geometry.options import KernelTask
from ..inference.outputs import Output
from ..inference.target import Target
from ..persistence.store import Store
from .base import infer
from .learning import kernel_task, units_of
from .targets import Labels

SPAN = 100.0
CLEAR = 3.0  # nats: logarithms are 20 times as probable
TWICE = 2.0
WORSE = 1.25  # the mean of a log-normal distribution is large where its logarithm is uncertain
TRIED = 250  # labels that decide; of more, as many are drawn

NOTE = (
    "all labels{} are above 0, the largest at least 100 times the smallest, and their logarithms are explained better: "
    "likelihood='lognormal' was used; likelihood='gaussian' prevents it"
)


def settled(estimator: Any, cloud: Cloud, labels: Labels) -> tuple[Labels, list[str]]:
    """The labels of a fit with the likelihood that "auto" means for each column, and notes about them."""
    targets, notes = list(labels.targets), []
    for k, (y, target) in enumerate(labels.columns()):
        if estimator.likelihood == "auto" and tried(y[~np.isnan(y)], target):
            unit = units_of(estimator, cloud)[0].unit
            nats = lead(cloud.changed(unit=unit), y, target, kernel_task(estimator, 0))
            if nats is not None:
                targets[k] = replace(target, likelihood="lognormal")
                notes.append(NOTE.format(f" of output {k}" if labels.several else ""))
    return replace(labels, targets=targets), notes


def tried(labels: np.ndarray, target: Target) -> bool:
    """Whether the logarithms of labels [n] are tried."""
    return target.has_normal_noise and len(labels) > 2 and labels.min() > 0 and labels.max() >= SPAN * labels.min()


def lead(cloud: Cloud, y: np.ndarray, target: Target, kernels: KernelTask) -> float | None:
    """By how many nats the evidence of logarithms leads, where they are to be used; None: the labels themselves are.

    y [N] are the labels of a cloud in comparable units, NaN where a row has none.
    """
    known = np.flatnonzero(~np.isnan(y))
    index = np.sort(np.random.default_rng(0).permutation(len(known))[:TRIED])
    known, target = known[index], target.only(index)
    cloud = replace(cloud, X=cloud.X[known], subset=None, many=None)
    rows = rows_of(cloud.rows, None, ("flat",))[0]["flat"]
    with one_blas_thread:
        flat = Geometries._of(cloud, [rows.complete(one) for one in make_flat(rows.rows)], [0.0], [], kernels)
        plain, logs = (
            infer(flat, y[known], replace(target, likelihood=likelihood), Store())[1]
            for likelihood in ("gaussian", "lognormal")
        )
        nats = logs.posterior.log_evidence - plain.posterior.log_evidence
        if nats < CLEAR:
            return None
        gain = logs.left_out_density() - plain.left_out_density()
        if gain.mean() < TWICE * gain.std() / np.sqrt(len(gain)):
            return None
        with suppress(GpumError):  # a prediction that is too large for a number
            return nats if _error(logs) <= WORSE * _error(plain) else None
    return None


def _error(output: Output) -> float:
    """The root mean square error of left-out labels."""
    return float(np.sqrt(np.mean((output.leave_one_out()[0] - output.labels) ** 2)))
