"""Whether `likelihood="auto"` takes logarithms where it should: simulated targets above 0 on a roll and in a box.

    python benchmarks/logarithms.py [--labels 20,100,500] [--sets 6] [--targets lognormal,shifted,square,cut]

    lognormal   e to the power of a random function with noise
    shifted     a random function with noise, shifted until it is above 0
    square      the square of a random function, above a small number
    cut         a random function with noise, cut at a small number

For the sets of labels whose largest is at least 100 times the smallest: how often logarithms are used, the NLPD of 300
other rows with "gaussian" and with "auto", the difference (median and largest), and the RMSE of "auto" over that of
"gaussian" (geometric mean and largest). A set of 100 labels takes about a second on one core.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy.special import logsumexp
from scipy.stats import t as student_t

from gpum import GPUMRegressor
from gpum.estimators.logarithms import SPAN

ROWS = 300


def wave(rng: np.random.Generator, Z: np.ndarray, length: float = 1.2) -> np.ndarray:
    """A random function, a draw of a Gaussian process by random Fourier features, at rows Z."""
    W, phase = rng.standard_normal((Z.shape[1], 300)) / length, rng.uniform(0, 2 * np.pi, 300)
    return np.cos(Z @ W + phase) @ rng.standard_normal(300) * np.sqrt(2 / 300)


def cloud(kind: str, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and the coordinates that targets depend on."""
    if kind == "box":
        Z = rng.uniform(-1.7, 1.7, (n, 5))
        return Z, Z[:, :3]
    r, z = rng.uniform(1.5 * np.pi, 4.5 * np.pi, n), rng.uniform(0, 10, n)
    return np.column_stack([r * np.cos(r), z, r * np.sin(r)]) / 7, np.column_stack([(r - 9) / 2.7, (z - 5) / 2.9])


def target(kind: str, f: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Labels above 0 of a function f with noise."""
    y = f + noise * rng.standard_normal(len(f))
    if kind == "lognormal":
        return np.exp(1.5 * y)
    if kind == "shifted":
        return y - y.min() + np.ptp(y) / 150
    return np.maximum(f**2 + 0.1 * noise * np.abs(y - f), 0.01) if kind == "square" else np.maximum(y, 0.005)


def nlpd(model: GPUMRegressor, X: np.ndarray, y: np.ndarray) -> float:
    """The mean negative log density of labels y."""
    (output,) = model.model_.outputs
    logs = output.target.likelihood == "lognormal"
    z = ((np.log(y) if logs else y) - output.mean) / output.scale
    weights, means, variances, _ = output.posterior.flat(model.model_.predictive(X).rows.whole, True)
    weights, means, variances = output.posterior.observed(weights[:, None], means, variances)
    dof = output.posterior.dof
    sd = np.sqrt(variances * (dof - 2) / dof)
    density = logsumexp(student_t(dof).logpdf((z - means) / sd) - np.log(sd), axis=0, b=weights) - np.log(output.scale)
    return -float(np.mean(density - logs * np.log(y)))


def main() -> None:
    """Print one line for each kind of target and number of labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", default="20,100,500")
    parser.add_argument("--sets", type=int, default=6)
    parser.add_argument("--targets", default="lognormal,shifted,square,cut")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in asked.targets.split(","):
        for n in map(int, asked.labels.split(",")):
            found = []
            for seed in range(asked.sets):
                for shape in ("roll", "box"):
                    rng = np.random.default_rng(seed)
                    X, Z = cloud(shape, rng, n + ROWS)
                    y = target(kind, wave(rng, Z), (0.05, 0.3)[seed % 2], rng)
                    if y[:n].max() < SPAN * y[:n].min():
                        continue
                    found.append(_compared(X, y, n, "flat" if shape == "box" else ["graph", "flat"]))
            if not found:
                print(f"{kind:10} {n:4} labels: no set spans two orders of magnitude", flush=True)
                continue
            used, before, after, ratio = np.array(found).T
            gain = after - before
            print(
                f"{kind:10} {n:4} labels, {len(used):2} sets: logarithms {used.mean():4.0%}; NLPD {before.mean():6.3f} "
                f"-> {after.mean():6.3f} (median {np.median(gain):6.3f}, largest {gain.max():6.3f}); RMSE "
                f"{np.exp(np.log(ratio).mean()):.3f} (largest {ratio.max():.2f})",
                flush=True,
            )


def _compared(X: np.ndarray, y: np.ndarray, n: int, geometry: str | list[str]) -> tuple[bool, float, float, float]:
    """Whether logarithms were used, NLPD with "gaussian" and "auto", and the ratio of RMSE."""
    labels = np.where(np.arange(len(y)) < n, y, np.nan)
    models = [
        GPUMRegressor(geometry=geometry, likelihood=likelihood, random_state=0).fit(X, labels)
        for likelihood in ("gaussian", "auto")
    ]
    errors = [np.sqrt(np.mean((model.predict(X[n:]) - y[n:]) ** 2)) for model in models]
    densities = [nlpd(model, X[n:], y[n:]) for model in models]
    used = models[1].model_.outputs[0].target.likelihood == "lognormal"
    return used, *densities, errors[1] / errors[0]


if __name__ == "__main__":
    main()
