"""Shared fixtures. Nothing here sets JAX's configuration: the library must work without."""

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import odd
from browser import MISSING, Browser
from gpum import BayesianGPLVM, GPUMRegressor, SwissRoll, datasets
from gpum.persistence.model_io import Fitted

# Programs that tests compile are shared between workers and kept for the next run.
os.environ.setdefault("GPUM_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "programs"))
# One thread for linear algebra: those of several workers wait for each other, which took half of all the time. What
# tests start has one, too.
os.environ.setdefault("OMP_NUM_THREADS", "1")
threadpool_limits(int(os.environ["OMP_NUM_THREADS"]))
SHARED = Path(os.environ.get("GPUM_SHARED", Path(__file__).parents[2] / "shared"))
LONGEST = 900  # seconds for one test, several times what the slowest takes on two idle cores
odd.register_profiles()


def shared(name, what):
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"no {what} at {folder}: set GPUM_SHARED to the folder that holds {name}/")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A test that takes longer than LONGEST fails; what hangs inside a solver is started in a process of its own."""
    if not hasattr(signal, "SIGALRM"):  # Windows
        return (yield)

    def stop(*_):
        pytest.fail(f"it took longer than {LONGEST} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium; where it is needed and not there, that is a failure."""
    if MISSING:
        (pytest.fail if os.environ.get("GPUM_NEEDS_BROWSER") else pytest.skip)(MISSING)
    found = Browser()
    yield found
    found.close()


@pytest.fixture(scope="module")
def one_thread():
    """For many small problems: threads that wait for each other take longer than the problems."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session")
def tasks():
    """The folder of ready regression tasks, where it is there."""
    return shared("tasks", "regression tasks")


@pytest.fixture(scope="session")
def real_data():
    """The folder of the paper's real data, where it is there."""
    return shared("data", "real data")


@pytest.fixture(scope="session")
def roll():
    """A small Swiss roll with its exact coordinates."""
    return datasets.make_swiss_roll(n_unlabeled=250, random_state=0)


@pytest.fixture(scope="session")
def roll_model(roll):
    """The default model of that roll."""
    return BayesianGPLVM(random_state=0).fit(roll.X)


def make_ring(n=66, gap=35.0, p=40, seed=0):
    """Points on a closed curve in R^p with a gap of so many degrees, and their angles."""
    rng = np.random.default_rng(seed)
    angle = np.deg2rad(np.linspace(gap / 2, 360 - gap / 2, n))
    waves = np.concatenate([f(k * angle)[:, None] / k for k in (1, 2, 3) for f in (np.sin, np.cos)], axis=1)
    S = waves @ rng.standard_normal((6, p)) + 0.01 * rng.standard_normal((n, p))
    return S, angle


@pytest.fixture(scope="session")
def default_fit():
    """Default settings on a bent ring in R³, two targets, 15 labels each with noise of 0.05; the cloud, the truth."""
    t = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    X = np.stack([np.cos(t), np.sin(t), 0.3 * np.cos(2 * t)], 1)
    truth = np.column_stack([np.sin(t), np.cos(2 * t)])
    noisy = truth + 0.05 * np.random.default_rng(0).standard_normal((60, 2))
    y = np.where((np.arange(60) % 4 == 0)[:, None], noisy, np.nan)
    return GPUMRegressor(random_state=0, warm_start=True).fit(X, y), X, truth


@pytest.fixture(scope="session")
def curve_fit():
    """A learned curve in R^4 with two targets, under hostile names."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(-1, 1, 40))
    S = np.stack([np.sin(2 * t), np.cos(2 * t), 0.3 * t, 0.5 * t], 1) + 0.01 * rng.standard_normal((40, 4))
    y = np.stack([np.sin(3 * t), t**2], 1) + 0.02 * rng.standard_normal((40, 2))
    y[np.arange(40) % 3 > 0, 0] = np.nan
    y[np.arange(40) % 10 > 0, 1] = np.nan
    latent = BayesianGPLVM(1, n_inducing=12, starts="pca", random_state=0)
    model = GPUMRegressor(1, geometry="chart", latent_model=latent, random_state=0).fit(S, y)
    rows = [f"</script><script>document.title='row {i}'</script><!--<script>" for i in range(39)] + [
        "$x$ &lt;b> \u2028"
    ]
    features = ['<img src=x onerror="document.title=1">', "a & b", "c", "%{x} <b>d</b>"]
    about = {"source": "<b>curve</b>.csv", "seconds": 1.5, "warnings": ["<script>document.title='warned'</script>"]}
    return Fitted(model, features, ["<i>sine</i>", "square"], S, y, rows, about)


@pytest.fixture(scope="session")
def sheet_fit():
    """200 rows on a known chart of two dimensions."""
    chart = SwissRoll()
    X = np.random.default_rng(1).uniform(*chart.bounds.T, (200, 2))
    y = np.sin(X[:, :1] / 2) + 0.1 * X[:, 1:]
    y[30:] = np.nan
    model = GPUMRegressor(latent_model=chart, random_state=0).fit(X, y[:, 0])
    return Fitted(model, ["radius", "width"], ["height"], X, y, [f"place {i}" for i in range(200)], {})


@pytest.fixture(scope="session")
def label_geometry(tmp_path_factory):
    """A table of rows to label whose geometry is learned; tests work on copies."""
    from label_child import learn_table

    folder = tmp_path_factory.mktemp("geometry")
    learn_table(folder / "data.csv")
    return folder


@pytest.fixture
def label_table(label_geometry, tmp_path):
    """A copy of that table, with its geometry beside it."""
    for path in label_geometry.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path / "data.csv"


@pytest.fixture
def label_session(label_table):
    """A session on it."""
    from label_child import closing, make_session

    with closing(make_session(label_table)) as found:
        yield found


@pytest.fixture
def label_server(label_session):
    """A server of that session, in a thread."""
    from label_child import serving

    with serving(label_session) as found:
        yield found
