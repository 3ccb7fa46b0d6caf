"""Break one central line of the library at a time, and see whether the fast tests notice: `make mutations`.

Each mutant is a copy of the tree with one text replaced, on which the named test files run until one test fails. A
mutant that survives says which test is missing. `python tests/mutations.py bound quantiles` runs those whose names hold
one of these words.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = ("src", "tests", "benchmarks", "pyproject.toml", "README.md", "docs")


@dataclass(frozen=True)
class Mutant:
    """What is broken: `old` in a file of that name becomes `new`, and one of `tests` should fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def mutant(name, file, old, new, *tests):
    return Mutant(name, f"{file}.py", old, new, tuple(f"tests/test_{test}.py" for test in tests))


MUTANTS = [
    mutant("bound: trace of the data", "bound", "- 0.5 * beta * cloud.trace", "- 0.4 * beta * cloud.trace", "gplvm"),
    mutant(
        "bound: divergence from the prior",
        "bound",
        "jnp.exp(log_s) - log_s - 1)",
        "jnp.exp(log_s) - log_s)",
        "gplvm",
    ),
    mutant(
        "precise bound: misfit",
        "precise",
        "jnp.sum(rest * rest) + jnp.sum(W * W) / b",
        "jnp.sum(rest * rest)",
        "gplvm",
    ),
    mutant(
        "breakdown: the precise form",
        "optimise",
        "last, objective = -np.inf, model.precise_objective",
        "last = -np.inf",
        "race",
    ),
    mutant("psi1", "psi", "a * mu**2 + array.log1p(s), axis=1)", "a * mu**2 + array.log1p(2 * s), axis=1)", "gplvm"),
    mutant("psi2: pairs of inducing points", "psi", "-0.25 * array.sum((Z[i]", "-0.5 * array.sum((Z[i]", "gplvm"),
    mutant(
        "metric: variance of the Jacobian",
        "metric",
        "spread = array.sum(m.scale**2) * m.gamma",
        "spread = 0 * m.gamma",
        "metric",
    ),
    mutant("volume: midpoint rule", "chart", "(np.arange(n) + 0.5) / n", "np.arange(n) / n", "charts"),
    mutant(
        "boundary level",
        "boundary",
        "self.level_of(x) <= self.level",
        "self.level_of(x) < self.level",
        "boundary",
    ),
    mutant("finite elements: stiffness", "assembly", "np.linalg.inv(G), du", "G, du", "elements", "spectral"),
    mutant("finite elements: size of a simplex", "assembly", "/ factorial(q)", "/ factorial(q + 1)", "elements"),
    mutant("finite elements: quadrature", "assembly", "(56 / 375,", "(55 / 375,", "elements"),
    mutant("atlas: mass matrix", "simplicial", "CONSISTENT = 0.4", "CONSISTENT = 0.0", "atlas"),
    mutant("eigenvalues: shift", "lanczos", "1 / nu - self.shift", "1 / nu", "spectral"),
    mutant(
        "eigenfunctions: normalisation",
        "lanczos",
        "V / np.sqrt(np.maximum(w,",
        "V / 2 / np.sqrt(np.maximum(w,",
        "spectral",
    ),
    mutant("heat kernel: exponent", "spectra", "np.exp(-0.5 * values * t)", "np.exp(-values * t)", "spectral"),
    mutant("Matérn: spectral density", "spectra", "(-nu - dim / 2)", "(-nu)", "spectral", "gp"),
    mutant("evidence: determinant", "gp", "- 0.5 * log_det", "- log_det", "gp"),
    mutant(
        "evidence: prior of candidates",
        "gp",
        "log_p + candidate.log_prior + ratio_prior(candidate, priors)",
        "log_p + ratio_prior(candidate, priors)",
        "gp",
        "diagnostics",
    ),
    mutant("leave-one-out", "left_out", "/ s**2 - alpha**2 / c", "/ s**2", "gp", "diagnostics"),
    mutant(
        "mixture: spread between components", "posterior", "variances + means**2 + noise", "variances + noise", "gp"
    ),
    mutant("mixture: weights", "gp", "np.exp(scores[k][0] + shift[k])", "np.exp(0.9 * scores[k][0])", "gp"),
    mutant("mixture: quantiles", "quantiles", "np.sqrt((dof - 2) / dof)", "np.sqrt((dof - 1) / dof)", "gp"),
    mutant(
        "expectation propagation: cavity",
        "probit",
        "1 / variance - tau, 1.0)",
        "1 / variance, 1.0)",
        "classifier",
    ),
    mutant(
        "expectation propagation: evidence",
        "probit",
        "0.5 * D * np.log1p(cavity",
        "0.5 * np.log1p(cavity",
        "classifier",
    ),
    mutant("graph: weights", "graphs", "np.exp(-0.5 * (edges.data", "np.exp(-1.0 * (edges.data", "graphs"),
    mutant(
        "graph: relevant columns", "relevant_graphs", " + half + log_weights[s.space]", " + half", "relevant_graphs"
    ),
    mutant("graph: density", "graphs", "_scaled(w, 1 / q) if even", "w if even", "graphs"),
    mutant(
        "projection: best of several starts",
        "projection",
        "np.argmax(values.reshape(n, c), 1)",
        "np.argmin(values.reshape(n, c), 1)",
        "projection",
    ),
    mutant(
        "projection: far from a surface", "surface", "distance > self.limit[", "distance > 10 * self.limit[", "atlas"
    ),
    mutant("projection: middles of sides", "surface", "points[ends].mean(1)", "points[ends].sum(1)", "elements"),
    mutant(
        "units of the cloud",
        "scaling",
        "(S - self.offset) / self.unit / self.scale",
        "(S - self.offset) / self.scale",
        "latent_models",
    ),
    mutant(
        "missing values: variance of donors",
        "missing",
        "whole.var(0) + filled.variance[donors].mean(1)",
        "whole.var(0)",
        "missing",
    ),
    mutant(
        "model file: checksum",
        "container",
        "if sha256(payload).hexdigest().encode() != header[4]",
        "if False",
        "model_io",
    ),
    mutant("model file: room", "container", "total > _allowed(len(payload))", "False", "model_io"),
    mutant(
        "gross errors: their density",
        "left_out",
        "variance + v_gross[:, None]",
        "variance + 0 * v_gross[:, None]",
        "gross",
    ),
    mutant("gross errors: their rate", "left_out", "rate = float(np.sum(q * rates[..., 0]))", "rate = 0.5", "gross"),
    mutant("gross errors: quantiles", "posterior", "variances + self.gross_variance]", "variances]", "gross"),
    mutant("gross errors: draws", "posterior", "(rng.random(z.shape) < self.gross)", "1.0", "gross"),
    mutant("programs: JAX as before", "programs", "if name not in theirs}", "if name in theirs}", "programs"),
    mutant("programs: released", "device", "program.clear_cache()", "pass", "programs"),
    mutant(
        "threads: jobs of a scope",
        "workers",
        "asked = of_context if n_jobs is None",
        "asked = 1 if n_jobs is None",
        "cluster",
    ),
    mutant("report: units of pictures", "maps", "_main_directions(X / unit, 3)", "_main_directions(X, 3)", "report"),
    mutant("store: key", "store", "{array.dtype.str} {array.shape}", "{array.dtype.str}", "checkpoint"),
]


def mutate(one, folder):
    """Put a mutant into a copy of the tree."""
    files = [path for path in (folder / "src").rglob(one.file) if one.old in path.read_text()]
    if len(files) != 1 or files[0].read_text().count(one.old) != 1:
        raise SystemExit(f"{one.name}: {one.old!r} is not once in a file {one.file}; mend the list")
    files[0].write_text(files[0].read_text().replace(one.old, one.new))


def tested(change, tests):
    """The first test that fails on a changed copy of the tree, None where all pass; and in how many seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder, begin = Path(name), time.perf_counter()
        for needed in NEEDED:
            copy = shutil.copytree if (ROOT / needed).is_dir() else shutil.copy
            copy(ROOT / needed, folder / needed)
        change(folder)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        environment = {"GPUM_CACHE": str(ROOT / ".pytest_cache" / "programs"), **os.environ}
        environment |= {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if run.returncode not in (0, 1):
            raise SystemExit(f"the tests did not run\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
        words = [line.split()[1] for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        found = words[0] if words else "a test" if run.returncode else None
        return found, time.perf_counter() - begin


def main(words):
    """Run those mutants whose names hold one of the words, or all; the exit status says whether any survives."""
    chosen = [one for one in MUTANTS if not words or any(word.lower() in one.name.lower() for word in words)]
    survivors, sound = [], sorted({test for one in chosen for test in one.tests})
    failed = tested(lambda folder: None, sound)[0]
    if failed is not None:
        raise SystemExit(f"without a mutant {failed} fails; mend that first")
    for one in chosen:
        found, seconds = tested(partial(mutate, one), one.tests)
        result = f"noticed by {found}" if found else f"SURVIVES {' '.join(one.tests)}"
        print(f"{seconds:5.0f} s  {one.name}: {result}", flush=True)
        survivors += [] if found else [one.name]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants are noticed")
    return len(survivors)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
