"""Kernel objects: terms on surfaces and on columns, their sums and products, and a linear mean."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import kernels as peers

from gpum import GPUMClassifier, GpumError, GPUMRegressor, KernelOptions, Mesh
from gpum.geometry.kernels import Heat, Matern, Periodic, Surface
from gpum.heat.covariances import Spectral, Stationary, stationary, stationary_rate, stationary_slope
from gpum.heat.terms import Combined, LinearOf, OfColumns, OfSurface, PeriodicOf, ProductOf, SumOf
from gpum.inference import gp, relevance


def arc(n, rng):
    """Rows on an arc with a time, and a function of both."""
    s, t = rng.uniform(0, 1.5 * np.pi, n), rng.uniform(0, 10, n)
    return np.column_stack([np.cos(s), np.sin(s), t]), np.sin(2 * s) * np.cos(t)


def labelled(f, n, rng):
    """The function with noise at the first n rows, NaN elsewhere."""
    y = f + 0.05 * rng.standard_normal(len(f))
    y[n:] = np.nan
    return y


class TestAnySmoothness:
    @pytest.mark.parametrize("nu", [0.2, 0.5, 0.7, 1.0, 1.5, 2.2, 2.5, 7.0, 30.0])
    def test_is_the_kernel_of_scikit_learn(self, nu):
        u = np.geomspace(1e-3, 20, 50)
        expected = peers.Matern(1.0, nu=nu)(u[:, None], np.zeros((1, 1)))[:, 0]
        np.testing.assert_allclose(stationary(nu, u), expected, rtol=1e-9, atol=1e-12)
        assert stationary(nu, np.zeros(1)) == 1

    @pytest.mark.parametrize("nu", [0.3, 0.5, 0.7, 1.0, 1.5, 2.2, 2.5, 7.0, np.inf])
    def test_slopes_are_those_of_differences(self, nu):
        u, h = np.geomspace(0.1, 4, 30), 1e-5
        by_u = (stationary(nu, u * (1 + h)) - stationary(nu, u * (1 - h))) / (2 * h * u)
        np.testing.assert_allclose(stationary_rate(nu, u), by_u / u, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(stationary_slope(nu, u), -by_u * u, rtol=1e-6, atol=1e-8)

    @pytest.mark.parametrize("nu", [0.7, 3.2])
    def test_lengths_of_columns_climb_along_its_gradient(self, nu):
        rng = np.random.default_rng(0)
        labels = relevance.LabelledRows(rng.standard_normal((20, 3)), rng.standard_normal((20, 1)), f"matern nu={nu}")
        theta, h = np.array([0.3, -0.4, 0.8, 0.2]), 1e-6
        gradient = labels.objective(theta, 0.1)[1]
        for j, step in enumerate(h * np.eye(4)):
            change = labels.objective(theta + step, 0.1)[0] - labels.objective(theta - step, 0.1)[0]
            assert gradient[j] == pytest.approx(change / (2 * h), rel=1e-5, abs=1e-7)

    def test_an_estimator_has_candidates_of_it_alone(self):
        rng = np.random.default_rng(0)
        X, f = arc(80, rng)
        model = GPUMRegressor(geometry=["flat"], kernel=Matern(0.7), random_state=0)
        model.fit(X, labelled(f, 40, rng))
        assert set(model.candidates_.kernel) == {"matern nu=0.7"}
        classes = np.where(np.arange(80) < 40, f > 0, -1)
        assert GPUMClassifier(kernel=Matern(1.2), random_state=0).fit(X, classes).predict(X[:40]).shape == (40,)


def spectral(rng, k=6):
    """A kernel of eigenfunctions, cosines on a line, and points with two columns behind."""
    s = rng.uniform(0, np.pi, 25)
    values = np.arange(k, dtype=float) ** 2
    phi = np.where(np.arange(k) > 0, np.sqrt(2), 1.0) * np.cos(s[:, None] * np.arange(k))
    inner = Spectral(values, np.mean(phi**2, 0), 1.5, 1, 0.6)
    return inner, np.column_stack([phi, rng.uniform(0, 5, (25, 2))])


def flat(rng):
    return Stationary(2.5, 0.7), np.column_stack([rng.standard_normal((25, 2)), rng.uniform(0, 5, (25, 2))])


TERMS = st.recursive(
    st.sampled_from([
        OfSurface(), OfColumns((0,), 0.9, 1.3), OfColumns((0, 1), np.inf, 2.0), PeriodicOf(1, 2.0, 0.8),
        LinearOf((0, 1), np.array([2.0, 3.0]), np.array([1.0, 2.0])),
    ]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(ProductOf),
        st.tuples(inner, inner, st.floats(0.01, 0.99)).map(lambda t: SumOf(t[:2], (t[2], 1 - t[2]))),
    ),
    max_leaves=4,
)  # fmt: skip


class TestTerms:
    @given(TERMS, st.sampled_from([spectral, flat]))
    def test_are_positive_definite_and_consistent(self, term, make):
        inner, a = make(np.random.default_rng(0))
        kernel = Combined(inner, term, 2)
        K = kernel.gram(a, a)
        np.testing.assert_allclose(K, K.T, atol=1e-12)
        np.testing.assert_allclose(kernel.diag(a), np.diag(K), rtol=1e-9)
        assert np.linalg.eigvalsh(K).min() > -1e-9 * np.abs(K).max()
        U = np.random.default_rng(1).standard_normal((len(a), 3))
        np.testing.assert_allclose(kernel.times(a[:4], a, U), kernel.gram(a[:4], a) @ U, rtol=1e-9, atol=1e-9)
        F = kernel.factor(a)
        if F is not None:
            np.testing.assert_allclose(F @ F.T, K, rtol=1e-9, atol=1e-9)

    def test_a_product_is_that_of_its_entries(self):
        inner, a = flat(np.random.default_rng(0))
        product = Combined(inner, ProductOf((OfSurface(), OfColumns((1,), 1.5, 0.9))), 2)
        alone = peers.Matern(0.7, nu=2.5)(a[:, :2]) * peers.Matern(0.9, nu=1.5)(a[:, [3]])
        np.testing.assert_allclose(product.gram(a, a), 1 + alone, rtol=1e-9)

    def test_a_periodic_term_is_that_of_scikit_learn(self):
        t = np.linspace(0, 9, 30)[:, None]
        expected = peers.ExpSineSquared(0.8, 2.0)(t)
        np.testing.assert_allclose(PeriodicOf(0, 2.0, 0.8).gram(np.zeros((30, 30)), t, t), expected, rtol=1e-9)

    @pytest.mark.parametrize("make", [spectral, flat])
    def test_evidence_and_gradient_are_those_of_a_dense_gp(self, make):
        rng = np.random.default_rng(0)
        inner, a = make(rng)
        term = SumOf((ProductOf((OfSurface(), OfColumns((0,), np.inf, 2.0))), OfColumns((1,), 0.5, 1.0)), (0.7, 0.3))
        kernel, y, theta, h = Combined(inner, term, 2), rng.standard_normal(len(a)), np.log([1.7, 0.2]), 1e-5
        value, gradient = gp.log_evidence(kernel, a, y, *theta)
        cov = 1.7 * kernel.gram(a, a) + 0.2 * np.eye(len(a))
        assert value == pytest.approx(multivariate_normal(cov=cov).logpdf(y), rel=1e-9)
        for j, step in enumerate(h * np.eye(3)):
            ends = [
                gp.log_evidence(kernel.at(kernel.scale * np.exp(s * step[0])), a, y, *(theta + s * step[1:]))[0]
                for s in (1, -1)
            ]
            assert gradient[j] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-4, abs=1e-6)

    def test_a_product_on_a_surface_has_functions_of_the_column_alone(self):
        """A kernel of eigenfunctions leaves the constant to the mean; a product must not."""
        inner, _ = spectral(np.random.default_rng(0))
        assert 0 < inner.constant < 1
        kernel = Combined(inner, ProductOf((OfSurface(), OfColumns((0,), 1.5, 1.0))), 2)
        # Averaged over the surface, which the rows cover evenly, functions that are not constant there vanish.
        s = (np.arange(400) + 0.5) * np.pi / 400
        phi = np.where(np.arange(6) > 0, np.sqrt(2), 1.0) * np.cos(s[:, None] * np.arange(6))
        K = kernel.gram(np.column_stack([phi, np.ones((400, 2))]), np.column_stack([phi, np.ones((400, 2))])) - 1
        assert K.mean() == pytest.approx(inner.constant, rel=1e-6)


class TestEstimators:
    def test_a_prediction_is_that_of_a_dense_gp(self):
        rng = np.random.default_rng(0)
        X, f = arc(60, rng)
        y = labelled(f, 40, rng)
        kernel = Surface() * Heat(2, 1.5)
        model = GPUMRegressor(
            geometry="flat", kernel=kernel, scale="none", smoothness="matern32", hyperparameters="evidence",
            random_state=0,
        ).fit(X, y)  # fmt: skip
        (output,) = model.model_.outputs
        (component,) = output.posterior.components
        unit = float(model.model_.cloud.unit) * float(model.model_.geometries.members[0].scales[0])
        length = component.candidate.scale * unit
        gram = lambda A, B: (
            component.signal[0]
            * (1 + peers.Matern(length, nu=1.5)(A[:, :2], B[:, :2]) * peers.RBF(1.5)(A[:, 2:], B[:, 2:]))
        )
        known, new = X[:40], X[40:]
        C = gram(known, known) + component.signal[0] * component.ratios[0] * np.eye(40)
        z = (y[:40] - output.mean) / output.scale
        mean = gram(new, known) @ np.linalg.solve(C, z)
        variance = np.diag(gram(new, new) - gram(new, known) @ np.linalg.solve(C, gram(known, new)))
        got, std = model.predict(new, return_std=True, include_noise=False)
        np.testing.assert_allclose(got, output.mean + output.scale * mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(std, output.scale * np.sqrt(variance), rtol=1e-5)
        left_out = []
        for i in range(40):
            o = np.arange(40) != i
            middle = y[:40][o].mean()
            left_out.append(middle + gram(X[[i]], known[o]) @ np.linalg.solve(C[np.ix_(o, o)], y[:40][o] - middle))
        np.testing.assert_allclose(output.leave_one_out()[0], np.concatenate(left_out), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(output.cov(model.model_._project(new).whole, False).diagonal(), std**2, rtol=1e-6)

    @pytest.mark.parametrize("geometry", [["graph", "flat"], ["atlas"]])
    def test_a_surface_times_a_time(self, geometry, tmp_path):
        rng = np.random.default_rng(1)
        X, f = arc(220, rng)
        y = labelled(f, 110, rng)
        model = GPUMRegressor(geometry=geometry, kernel=Matern(2.5) * Heat(2), random_state=0).fit(X, y)
        error = model.predict(X[110:]) - f[110:]
        assert np.sqrt(np.mean(error**2)) < 0.15  # the function's deviation is 0.5
        std = model.predict(X[110:], return_std=True)[1]
        assert np.mean(np.abs(error) < 2 * std) > 0.85
        model.save(tmp_path / "model.gpum")
        loaded = GPUMRegressor.load(tmp_path / "model.gpum")
        new = X[:30] * np.where(np.arange(3) < 2, 1.001, 1.02)
        np.testing.assert_allclose(loaded.predict(new), model.predict(new), rtol=1e-9)
        assert repr(loaded.kernel) == "Matern(2.5) * Heat(2)"
        assert model.sample_y(new, 3).shape == (30, 3)
        assert model.sample_prior(new, 3).shape == (30, 3)
        assert len(set(model.suggest(3))) == 3
        assert model.suggest(1, candidates=new)[0] < 30
        assert "surface * heat of 2 at" in model.candidates_.terms[0]
        loaded.partial_fit(new[:2], [0.3, 0.4])
        assert len(loaded.model_.outputs[0].rows) == 112

    def test_rows_at_one_place_at_several_times_are_no_copies(self):
        rng = np.random.default_rng(2)
        s, hours = np.sort(rng.uniform(0, 4, 25)), np.arange(12.0)
        place = np.repeat(np.column_stack([np.cos(s), np.sin(s)]), 12, 0)
        t = np.tile(hours, 25)
        f = np.repeat(np.sin(2 * s), 12) * np.cos(2 * np.pi * t / 6)
        frame = pd.DataFrame({"east": place[:, 0], "hour": t, "north": place[:, 1]})
        y = f + 0.05 * rng.standard_normal(300)
        hidden = rng.permutation(300)[100:]
        y[hidden] = np.nan
        model = GPUMRegressor(geometry=["graph", "flat"], kernel=Heat() * Periodic("hour", (5, 6)), random_state=0)
        model.fit(frame, y)
        assert np.sqrt(np.mean((model.predict(frame) - f)[hidden] ** 2)) < 0.1
        assert not model.model_.cloud.repeated
        assert "period 6 of hour" in model.candidates_.terms[0]
        assert np.isnan(model.relevance_[1])
        # A further label of a row that has one is another observation; of another hour it is another row.
        rows = len(model.model_.cloud)
        labelled_row = np.flatnonzero(~np.isnan(y))[0]
        model.partial_fit(frame.iloc[[labelled_row]].assign(hour=40.0), [0.0])
        assert len(model.model_.cloud) == rows + 1
        model.partial_fit(frame.iloc[[hidden[0]]], [f[hidden[0]]])
        assert len(model.model_.cloud) == rows + 1

    def test_a_linear_mean_goes_on_where_labels_end(self):
        rng = np.random.default_rng(3)
        x = np.sort(rng.uniform(0, 1, (80, 2)), 0)
        y = 5 * x[:, 0] + 0.3 * np.sin(8 * x[:, 1]) + 0.02 * rng.standard_normal(80)
        fitted = {
            mean: GPUMRegressor(geometry="flat", mean=mean, random_state=0).fit(x, np.where(x[:, 0] < 0.6, y, np.nan))
            for mean in ("constant", "linear")
        }
        far = np.array([[1.5, 0.5]])
        expected = 7.5 + 0.3 * np.sin(4)
        off = {mean: abs(model.predict(far)[0] - expected) for mean, model in fitted.items()}
        assert off["linear"] < min(0.7, 0.5 * off["constant"])
        draws = np.array([f(far)[0] for f in fitted["linear"].sample_functions(400)])
        mean, std = fitted["linear"].predict(far, return_std=True, include_noise=False)
        assert abs(draws.mean() - mean[0]) < 5 * std[0] / 20

    def test_a_mesh_times_a_time_with_missing_readings_elsewhere(self):
        s = np.linspace(0, 4.5, 60)
        mesh = Mesh(np.column_stack([np.cos(s), np.sin(s)]), np.column_stack([np.arange(59), np.arange(1, 60)]))
        rng = np.random.default_rng(4)
        X, f = arc(150, rng)
        y = labelled(f, 90, rng)
        model = GPUMRegressor(geometry=mesh, kernel=Surface() * Heat(2), random_state=0).fit(X, y)
        assert np.sqrt(np.mean((model.predict(X) - f)[90:] ** 2)) < 0.15
        X[3, 0] = X[120, 1] = np.nan
        model = GPUMRegressor(geometry=["flat"], kernel=Surface() * Heat(2), random_state=0).fit(X, y)
        assert np.isfinite(model.predict(X)).all()

    @pytest.mark.parametrize(
        "settings", [{"likelihood": "student"}, {"likelihood": "poisson"}, {"likelihood": "lognormal"}, {"period": 9.0}]
    )
    def test_every_kind_of_number(self, settings):
        rng = np.random.default_rng(5)
        X, f = arc(40, rng)
        y = np.where(np.arange(40) < 25, np.round(np.exp(f + 1)), np.nan)
        model = GPUMRegressor(geometry="flat", kernel=Surface() * Heat(2, 2.0), smoothness="heat", **settings)
        assert np.isfinite(model.fit(X, y).predict(X)).all()


class TestErrors:
    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: Heat(2) * 3, "multiplied with 3"),
            (lambda: Surface() + "time", "added with 'time'"),
            (lambda: Heat("t", -1), "length_scale must be a positive number"),
            (lambda: Heat(length_scale=2), "no column is named"),
            (lambda: Matern(100), "use Heat"),
            (lambda: Matern(0), "smoothness must be a positive number"),
            (lambda: Periodic("t", 0), "period must be a positive number"),
            (lambda: Periodic(("t", "u"), 2), "must be one column"),
            (lambda: Heat([]), "columns must be names"),
            (lambda: KernelOptions(covariance="heat"), "no kernel of gpum.kernels"),
            (lambda: KernelOptions(covariance=Heat("t")), "no term on the surface"),
            (lambda: KernelOptions(covariance=Surface() * Matern(0.5)), "all on the surface"),
        ],
    )
    def test_of_kernels(self, make, words):
        with pytest.raises(GpumError, match=words):
            make()

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"kernel": Surface() * Heat(9)}, "X has 3 columns"),
            ({"kernel": Surface() * Heat("t")}, "no names"),
            ({"kernel": Surface() * Heat((0, 1, 2))}, "names every column"),
            ({"kernel": Matern(0.7), "smoothness": "heat"}, "smoothness is 'heat'"),
            ({"mean": "quadratic"}, "mean must be one of"),
        ],
    )
    def test_of_fits(self, settings, words):
        X, f = arc(20, np.random.default_rng(0))
        with pytest.raises(GpumError, match=words):
            GPUMRegressor(geometry="flat", **settings).fit(X, f)

    def test_of_what_is_not_there(self):
        X, f = arc(20, np.random.default_rng(0))
        with pytest.raises(GpumError, match="for GPUMRegressor"):
            GPUMClassifier(kernel=Surface() * Heat(2)).fit(X, f > 0)
        gap = X.copy()
        gap[4, 2] = np.nan
        model = GPUMRegressor(geometry="flat", kernel=Surface() * Heat(2, 2.0), smoothness="heat")
        with pytest.raises(GpumError, match="no reading at row 4 in column 2"):
            model.fit(gap, f)
        model.fit(X, f)
        with pytest.raises(GpumError, match="no reading at row 4"):
            model.predict(gap)
        with pytest.raises(GpumError, match="predict_gradient"):
            model.predict_gradient(X)
        with pytest.raises(GpumError, match="sample_y"):
            model.sample_functions()
