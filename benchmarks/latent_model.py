"""The latent model against GPy, on generated data, in one run on one machine.

1. bound and gradient, one evaluation, at three sizes;
2. seconds to the bound that GPy reaches after 300 iterations of its L-BFGS from the same start, ours in whole rounds
   of 100 steps, with compilation included (cold), or with compiled programs on the disk (warm);
3. one evaluation at N = 10⁴, 3·10⁴, 10⁵: time and peak memory.

Run by `make bench`. `python benchmarks/latent_model.py --device` times the optimiser and whole fits of 10³, 10⁴ and 10⁵
rows on JAX's default device instead.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
import warnings
from contextlib import nullcontext

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from gpum import BayesianGPLVM, datasets
from gpum.gplvm import bound, starts
from gpum.gplvm.models import Variational
from gpum.gplvm.optimise import Stage, maximise, value_and_gradient
from gpum.persistence.programs import cached_programs

SIZES = [(474, 3, 40), (66, 1024, 30), (698, 1024, 50)]
GPY_ITERATIONS = 300
console = Console(width=110)


def cloud(N: int, p: int, rng: np.random.Generator) -> np.ndarray:
    """A Swiss roll (p = 3), or 32 × 32 pictures of a spot that moves and swells; centred, scaled."""
    if p == 3:
        S = datasets.make_swiss_roll(24, N - 24, random_state=0).X
    else:
        angle, size = rng.uniform(0, 2 * np.pi, (N, 1, 1)), rng.uniform(3, 6, (N, 1, 1))
        i, j = np.mgrid[:32, :32]
        S = np.exp(-((i - 16 - 8 * np.cos(angle)) ** 2 + (j - 16 - 8 * np.sin(angle)) ** 2) / (2 * size**2))
        S = S.reshape(N, p) + 0.05 * rng.standard_normal((N, p))
    S = S - S.mean(0)
    return S / np.sqrt(np.mean(S**2))


def start(S: np.ndarray, m: int, rng: np.random.Generator) -> bound.Parameters:
    """PCA for pictures, Isomap for the roll (from PCA, GPy stops after a few steps); unit length scales."""
    X = starts.isomap(S, 2, 7, rng) if S.shape[1] == 3 else starts.pca(S, 2)
    X = starts.standardise(X)
    return bound.Parameters(
        mu=X,
        log_s=np.log(rng.uniform(0.01, 0.1, X.shape)),
        Z=X[rng.permutation(len(X))[:m]],
        log_ell=np.zeros(2),
        log_gamma=np.asarray(0.0),
        log_beta=np.log(np.asarray(10.0)),
    )


def gpy_model(S: np.ndarray, theta: bound.Parameters):
    """The same model at the same parameters in GPy."""
    import GPy

    kernel = GPy.kern.RBF(2, np.exp(theta.log_gamma), np.exp(theta.log_ell), ARD=True)
    noise = GPy.likelihoods.Gaussian(variance=np.exp(-theta.log_beta))
    return GPy.models.BayesianGPLVM(
        S, 2, X=theta.mu, X_variance=np.exp(theta.log_s), Z=theta.Z, kernel=kernel, likelihood=noise
    )


def seconds(function, repeat: int) -> float:
    """Median time of one call, after a first one."""
    function(0)
    times = []
    for k in range(1, repeat + 1):
        begin = time.perf_counter()
        function(k)
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def time_to(target: float, theta: bound.Parameters, data: bound.FactoredCloud, warm: bool) -> tuple[float, int]:
    """Seconds and evaluations until a round ends above the target; `warm`: with compiled programs on the disk."""
    jax.clear_caches()
    count, begin = 0, time.perf_counter()
    with cached_programs() if warm else nullcontext():
        for stage in (Stage("noise held", ("log_beta",), 100), Stage("all free")):
            for reached, now in maximise(Variational(), theta, data, stage, len(theta.mu)):
                theta, count = reached, count + now.evaluations
                spent = time.perf_counter() - begin
                if now.value >= target:
                    return spent, count
                if spent > 300:
                    break
    return float("inf"), count


def against_gpy() -> None:
    """Parts 1 and 2."""
    one = Table(title="Bound and gradient, one evaluation (median)")
    to = Table(title=f"Seconds to the bound that GPy reaches after {GPY_ITERATIONS} iterations, same start")
    for column in ("N", "p", "m", "gpum ms", "GPy ms", "ratio"):
        one.add_column(column, justify="right")
    for column in ("N", "p", "m", "bound", "gpum s, cold", "warm (evaluations)", "GPy s (evaluations)", "ratios"):
        to.add_column(column, justify="right")
    for N, p, m in SIZES:
        rng = np.random.default_rng(0)
        S = cloud(N, p, rng)
        theta, data = start(S, m, rng), bound.compress(S)
        ours = seconds(lambda k, t=theta, d=data: jax.block_until_ready(value_and_gradient(Variational(), t, d)), 30)
        model = gpy_model(S, theta)
        point = model.optimizer_array.copy()
        # GPy caches by value: change the parameters slightly before each call.
        theirs = seconds(lambda k, x=point, g=model: g._objective_grads(x * (1 + 1e-12 * k)), 5)
        one.add_row(str(N), str(p), str(m), f"{1e3 * ours:.2f}", f"{1e3 * theirs:.1f}", f"{theirs / ours:.1f}")

        model = gpy_model(S, theta)
        begin = time.perf_counter()
        model.optimize("lbfgsb", max_iters=GPY_ITERATIONS)
        theirs = time.perf_counter() - begin
        calls = model.optimization_runs[-1].funct_eval
        target = -float(np.squeeze(model.objective_function()))
        begin = time.perf_counter()
        data = bound.compress(S)
        spent = time.perf_counter() - begin
        time_to(target, theta, data, warm=True)  # so that the compiled programs are on the disk
        cold, warm = time_to(target, theta, data, warm=False), time_to(target, theta, data, warm=True)
        ours = cold[0] + spent, warm[0] + spent
        to.add_row(
            str(N),
            str(p),
            str(m),
            f"{target:.0f}",
            f"{ours[0]:.2f}",
            f"{ours[1]:.2f} ({warm[1]})",
            f"{theirs:.1f} ({calls})",
            f"{theirs / ours[0]:.1f}, {theirs / ours[1]:.1f}",
        )
    console.print(one)
    console.print(to)


def one_large(N: int) -> None:
    """Part 3, in a process of its own so that its peak memory can be read."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        X = rng.standard_normal((N, 2))
        S = np.sin(X @ rng.standard_normal((2, 50))) + 0.1 * rng.standard_normal((N, 50))
        data = bound.compress(S / S.std())
        theta = bound.Parameters(
            mu=X,
            log_s=np.full(X.shape, -4.0),
            Z=X[:100],
            log_ell=np.zeros(2),
            log_gamma=np.asarray(0.0),
            log_beta=np.asarray(3.0),
        )
        spent = seconds(lambda _: jax.block_until_ready(value_and_gradient(Variational(), theta, data)), 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(spent, peak)


def large() -> None:
    """Part 3."""
    table = Table(title="One evaluation, p = 50, m = 100")
    for column in ("N", "seconds", "µs per row", "peak memory GiB"):
        table.add_column(column, justify="right")
    for N in (10_000, 30_000, 100_000):
        out = subprocess.run([sys.executable, __file__, str(N)], check=True, capture_output=True, text=True)
        spent, peak = map(float, out.stdout.split()[-2:])
        table.add_row(str(N), f"{spent:.2f}", f"{1e6 * spent / N:.1f}", f"{peak:.2f}")
    console.print(table)


def on_device() -> None:
    """The optimiser on JAX's default device, and a whole fit: a roll in R^50 with noise 0.02."""
    table = Table(title=f"Latent model on {jax.devices()[0].device_kind}, p = 50, m = 50")
    for column in ("N", "first 100 steps s", "second run", "ms an evaluation", "whole fit s", "second run"):
        table.add_column(column, justify="right")
    for N in (1_000, 10_000, 100_000):
        rng = np.random.default_rng(0)
        roll = datasets.make_swiss_roll(20, N - 20, random_state=0)
        S = roll.X @ np.linalg.qr(rng.standard_normal((50, 3)))[0].T + 0.02 * rng.standard_normal((N, 50))
        scaled = (S - S.mean(0)) / S.std()
        with jax.enable_x64(True), cached_programs():
            data, stage = bound.fill_cloud(bound.compress(scaled)), Stage("noise held", ("log_beta",), 100)
            theta = Variational().start(starts.standardise(roll.chart_coords), rng)
            times = []
            for _ in range(2):
                begin = time.perf_counter()
                ((_, now),) = list(maximise(Variational(), theta, data, stage, N))
                times.append(time.perf_counter() - begin)
        fits = []
        for _ in range(2):
            begin = time.perf_counter()
            BayesianGPLVM(2, random_state=0).fit(S)
            fits.append(time.perf_counter() - begin)
        row = [*times, 1e3 * times[1] / now.evaluations, *fits]
        table.add_row(str(N), *(f"{value:.2f}" for value in row))
        console.print(table)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:] == ["--device"]:
        on_device()
    elif len(sys.argv) > 1:
        one_large(int(sys.argv[1]))
    else:
        with jax.enable_x64(True):
            against_gpy()
        large()
