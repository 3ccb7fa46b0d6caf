"""A result depends on its inputs alone: not on earlier calls, other threads, failed fits or what a folder holds."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import inside
from gpum import Atlas, BayesianGPLVM, GPUMRegressor, KernelOptions
from gpum.basics import workers
from gpum.basics.checks import NoSurface
from gpum.geometry import chart
from gpum.geometry.options import KernelTask

t = np.linspace(-1, 1, 40)
S = np.stack([np.sin(2 * t), np.cos(2 * t), 0.3 * t], 1) + 0.01 * np.random.default_rng(0).standard_normal((40, 3))
y = np.where(np.arange(40) % 3 == 0, np.sin(3 * t), np.nan)
a, b = np.meshgrid(np.linspace(-1, 1, 8), np.linspace(-1, 1, 6))
P = np.stack([a.ravel(), b.ravel(), 0.3 * a.ravel() ** 2], 1)
z = np.where(np.arange(48) % 2 == 0, np.sin(2 * P[:, 0]) + P[:, 1], np.nan)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A fitted latent model in a file: a copy that is read from it has computed nothing yet."""
    path = tmp_path_factory.mktemp("state") / "latent.gpum"
    BayesianGPLVM(2, n_inducing=10, starts="pca", random_state=0).fit(P).save(path)
    return path


def fitted(model, seed=0, **options):
    kernel = KernelOptions("spectral", n_modes=20, **options)
    return GPUMRegressor(geometry="chart", latent_model=model, kernel=kernel, random_state=seed, n_jobs=1).fit(P, z)


def test_a_folder_serves_fits_with_other_options_of_the_kernel(tmp_path):
    make = lambda n, folder: GPUMRegressor(
        1, geometry="atlas", kernel=KernelOptions(n_modes=n), random_state=0, checkpoint=folder, n_jobs=1
    )
    first = make(8, tmp_path / "run").fit(S, y).predict(S)
    second = make(12, tmp_path / "run").fit(S, y).predict(S)
    np.testing.assert_array_equal(second, make(12, None).fit(S, y).predict(S))
    assert np.abs(first - second).max() > 0


def test_a_failed_refit_changes_nothing(monkeypatch):
    model = BayesianGPLVM(1, n_inducing=10, random_state=0).fit(S)
    before, coordinates = dict(vars(model)), model.transform(S + 0.01)

    def fail(*about, **options):
        raise NoSurface("no surface")

    monkeypatch.setattr("gpum.estimators.latent_base.multistart", fail)
    with pytest.raises(NoSurface):
        model.fit(5 * S[:, ::-1] + 3)
    changed = [name for name in {*before, *vars(model)} if vars(model).get(name) is not before.get(name)]
    assert set(changed) <= {"_yardstick"}
    np.testing.assert_array_equal(model.transform(S + 0.01), coordinates)


def test_the_seed_of_an_earlier_fit_does_not_matter(file):
    alone = fitted(BayesianGPLVM.load(file), 1, boundary="variance").predict(P)
    model = BayesianGPLVM.load(file)
    first = fitted(model, 0, boundary="variance").predict(P)
    np.testing.assert_array_equal(fitted(model, 1, boundary="variance").predict(P), alone)
    assert np.abs(first - alone).max() > 0


def test_two_threads_get_what_one_gets(file):
    alone = fitted(BayesianGPLVM.load(file)).predict(P)
    model = BayesianGPLVM.load(file)
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: fitted(model).predict(P), range(2)))
    for one in both:
        np.testing.assert_array_equal(one, alone)


def test_a_level_that_another_thread_has_cached_does_not_shift_the_others(file, monkeypatch):
    """The other thread caches the first missing level after this one has looked which are missing."""
    latent, task = BayesianGPLVM.load(file), KernelTask(["heat"], KernelOptions("spectral", n_modes=20), n_jobs=1)
    alone = inside.geometry_of(latent)
    expected = alone.built(task)[1]
    key, domain = inside.first_domain(alone, task)
    shared = inside.geometry_of(latent)

    def and_another_thread(tasks, n_jobs):
        shared.store.once(key, lambda: domain, type(domain))
        return workers.results(tasks, n_jobs)

    monkeypatch.setattr(chart, "results", and_another_thread)
    found = shared.built(task)[1]
    for one, other in zip(found.rows, expected.rows, strict=True):
        np.testing.assert_array_equal(one, other)


def blas():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_blas_threads_are_restored_while_the_traceback_of_a_failure_is_held():
    def consume(made):
        for _ in made:
            raise ValueError("the consumer fails")

    with threadpool_limits(2, "blas"):
        before = blas()
        assert max(before) == 2
        with pytest.raises(ValueError, match="the consumer fails") as failure:
            consume(workers.results([lambda: 1, lambda: 2], 2))
        for _ in range(1000):  # the second task may still run
            if blas() == before:
                break
            sleep(0.01)
        assert failure.value.__traceback__ is not None
        assert blas() == before


def test_a_failed_refit_of_an_atlas_changes_nothing(monkeypatch):
    def fail(*about):
        raise NoSurface("no surface")

    atlas = Atlas(1).fit(S)
    before = dict(vars(atlas))
    monkeypatch.setattr("gpum.heat.atlas.surface", fail)
    with pytest.raises(NoSurface):
        atlas.fit(5 * P + 3)
    assert {name: vars(atlas)[name] is value for name, value in before.items()} == dict.fromkeys(before, True)
    assert set(vars(atlas)) == set(before)


STARTS = """
from gpum import BayesianGPLVM, datasets

cloud = datasets.make_swiss_roll(n_labeled=20, n_unlabeled=780, random_state=0)
model = BayesianGPLVM(2, n_inducing=40, max_iter=1, random_state=0).fit(cloud.X)
print([repr(entry["bound"]) for entry in model.history_])
"""


def test_a_latent_model_does_not_depend_on_the_number_of_threads():
    """Sums of several threads of OpenMP and BLAS have other last digits, from which the optimiser goes other ways."""
    bounds = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", STARTS], env={**os.environ, "OMP_NUM_THREADS": n}, check=True,
            capture_output=True, text=True,
        ).stdout
        for n in ("1", "2")
    ]  # fmt: skip
    assert bounds[0] == bounds[1] != ""
