"""Odd clouds and odd settings for property tests, and how many examples they get.

`make test` has a few examples each. `pytest --hypothesis-profile=many`, as in `make test-all`, has 2 000 where an
example takes up to 7 ms, and of the others as many as fit 15 seconds of an idle core; `--hypothesis-profile=all` has
2 000 of every one.

A library that refuses everything would pass a test that accepts every refusal. So a refusal counts only where it is of
our own class, and each test states which share of its questions is answered.
"""

import contextlib
import functools
import warnings

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from scipy.stats import binom

from gpum import GpumError

PROFILES = {"few": 5, "many": 2000, "all": 2000}
BUDGET = {"few": 2.0, "many": 15.0, "all": np.inf}  # seconds of an idle core
LEAST = {"few": 1, "many": 10, "all": 2000}
WORDS = 4  # that a message has at least
COVERED = set()  # public names that have a property test
ASKED = [0, 0]  # questions of the running test that were answered, and all of them
CHANCE = 1e-3  # that a sound library falls short of a stated share
DEADLINE = 300_000  # ms of an example: bounded time. 20 000 columns with gaps take ten seconds on an idle core


def register_profiles():
    """Make the profiles known to hypothesis; `few` unless another is asked for.

    What fails is told as it was found: clouds are small already, and to shrink them takes many fits.
    """
    for name, n in PROFILES.items():
        settings.register_profile(
            name, max_examples=n, deadline=DEADLINE, derandomize=True, database=None, print_blob=False,
            suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate],
        )  # fmt: skip
    settings.load_profile("few")


def covers(*names, seconds, answered):
    """A property test of these public names, an example of which takes so many seconds on an idle core.

    Of its calls of `answered`, a share of about `answered` is answered. The test fails where there are fewer, by more
    than chance does with so few examples, or none.
    """
    COVERED.update(names)
    profile = settings.get_current_profile_name()
    n = min(PROFILES[profile], BUDGET[profile] / seconds)

    def decorate(test):
        limited = settings(max_examples=max(LEAST[profile], int(n)))(test)

        @functools.wraps(limited)
        def run(*args, **options):
            ASKED[:] = 0, 0
            limited(*args, **options)
            least = max(1, binom.ppf(CHANCE, ASKED[1], answered)) if answered else 0
            assert ASKED[0] >= least, f"only {ASKED[0]} of {ASKED[1]} questions were answered, not {answered:.0%}"

        return run

    return decorate


def _plain(rng, n, p):
    return rng.standard_normal((n, p))


def _curve(rng, n, p):
    t = np.linspace(0, 3, n)
    return np.stack([np.sin((k + 1) * t) for k in range(p)], 1)


def _line(rng, n, p):
    return rng.standard_normal((n, 1)) * rng.standard_normal(p)


def _copies(rng, n, p):
    return rng.standard_normal((max(n // 3, 1), p))[rng.integers(max(n // 3, 1), size=n)]


def _two_pieces(rng, n, p):
    return rng.standard_normal((n, p)) + 1e6 * (np.arange(n) % 2)[:, None]


def _whole_numbers(rng, n, p):
    return rng.integers(-2, 3, (n, p))


def _constant(rng, n, p):
    return np.full((n, p), 3.0)


SHAPES = [_plain, _curve, _line, _copies, _two_pieces, _whole_numbers, _constant]
MEMORY = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "list": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]),
    "read-only": lambda X: np.frombuffer(np.ascontiguousarray(X, float).tobytes()).reshape(X.shape),
}


@st.composite
def clouds(draw, gaps=False, wide=True, rows=(3, 24), columns=(1, 2, 3, 7)):
    """A cloud of some odd kind, in some kind of memory, and a generator."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    n, p = draw(st.integers(*rows)), draw(st.sampled_from(columns))
    if wide and draw(st.integers(0, 40)) == 0:
        p = 20_000
    X = draw(st.sampled_from(SHAPES))(rng, n, p)
    exponent = draw(st.sampled_from([0, 0, 0, -12, 12, -6, 6]))
    X = X if X.dtype.kind == "i" and exponent == 0 else X * 10.0**exponent
    if gaps and X.dtype.kind == "f" and draw(st.booleans()):
        X = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    kind = draw(st.sampled_from(sorted(MEMORY)))
    return MEMORY[kind](X), rng


def like(X, rows):
    """Rows as the cloud X is: a data frame where it is one."""
    return pd.DataFrame(rows, columns=X.columns) if isinstance(X, pd.DataFrame) else rows


def rows_like(X):
    """Rows of a cloud, rows near it and one far away."""
    values = np.asarray(X, float)
    spread = float(np.nanmax(np.nanstd(values, axis=0))) or 1.0
    return like(X, np.concatenate([values[:3], values[:2] + 0.1 * spread, np.nan_to_num(values[:1]) + 1e4 * spread]))


def labels(draw, rng, n):
    """Numbers of some size, half of them or none missing."""
    y = rng.standard_normal(n) * 10.0 ** draw(st.sampled_from([0, -9, 9]))
    y[rng.random(n) < draw(st.sampled_from([0.0, 0.5]))] = np.nan
    return y


def repeats(X):
    """Whether a cloud has a row twice."""
    X = np.nan_to_num(np.asarray(X, float))
    return len(np.unique(X, axis=0)) < len(X)


@contextlib.contextmanager
def quiet():
    """Without what the library warns of: it is in words, and tested elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def answered(use):
    """What `use` returns, or None where the library says in a sentence why not; any other exception travels."""
    ASKED[1] += 1
    try:
        with quiet():
            found = use()
    except GpumError as refused:
        if len(str(refused).split()) < WORDS:
            raise AssertionError(f"not a sentence: {refused}") from refused
        return None
    ASKED[0] += 1
    return found


def finite(*arrays):
    """Whether there are only numbers."""
    return all(np.all(np.isfinite(np.asarray(a, float))) for a in arrays)


ODD = [None, -1, 0, 1, 2, 1.5, -0.5, 1e-300, 1e300, np.nan, np.inf, True, "", "word", [], (), {}, [1, 2], np.zeros(2)]


def setting(*sound):
    """A value that a parameter should have, or, about half of the time, an odd one."""
    return st.sampled_from([*sound * (len(ODD) // len(sound)), *ODD])
