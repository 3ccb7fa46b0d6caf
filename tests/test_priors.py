"""`Priors`: the defaults are those of the modules, every field acts, and nonsense is refused."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone

from gpum import GPUMClassifier, GpumError, GPUMRegressor, Priors
from gpum.geometry.priors import RATIOS

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (80, 2))
F = np.sin(6 * X[:, 0]) + X[:, 1]
KNOWN = np.arange(0, 80, 4)
Y = np.full(80, np.nan)
Y[KNOWN] = F[KNOWN] + 0.05 * RNG.standard_normal(len(KNOWN))


def fit(priors=None, y=Y, geometry="flat", **options):
    options = {"scale": "none", "random_state": 0, "smoothness": "matern52", **options}
    return GPUMRegressor(geometry=geometry, priors=priors, **options).fit(X, y)


def test_none_is_the_default():
    np.testing.assert_array_equal(fit().predict(X), fit(Priors()).predict(X))
    assert repr(Priors()) == "Priors()"
    assert repr(Priors(evidence_power=1)) == "Priors(evidence_power=1)"


def test_the_noise_is_a_mixture_of_normals():
    given = Priors(noise=((3.0, -3.0, 1.0), (1.0, 0.0, 0.5)))
    parts = [np.exp(-0.5 * ((np.log10(RATIOS) - m) / s) ** 2) for m, s in ((-3, 1), (0, 0.5))]
    expected = 0.75 * parts[0] / parts[0].sum() + 0.25 * parts[1] / parts[1].sum()
    np.testing.assert_allclose(np.exp(given.log_ratio()), expected)
    assert logsumexp(Priors().log_ratio()) == pytest.approx(0, abs=1e-12)


def test_more_noise_is_assumed_where_it_is_said():
    noise = []
    for priors in (Priors(noise=((1, -5, 0.3),)), None, Priors(noise=((1, 0, 0.3),))):
        model = fit(priors)
        with_noise, without = (model.predict(X, return_std=True, include_noise=n)[1] for n in (True, False))
        noise.append(np.mean(np.sqrt(with_noise**2 - without**2)))
    assert noise[0] < noise[1] < noise[2]
    assert noise[2] > 0.2


def test_the_signal_decides_where_there_is_no_label():
    """With one label, that is its own mean: E[σ_h²] is b/(a - 1), a = a0 + ½, b = b0.

    A kernel is its correlations and a constant, each of variance 1. Far away the label halves that of the constant.
    """
    y = np.full(80, np.nan)
    y[0] = 2.0
    far = np.array([[1e4, 1e4]])
    for shape, rate in ((1.0, 3.0), (3.0, 1.0), (2.0, 9.0)):
        model = fit(Priors(signal=(shape, rate)), y)
        variance = model.predict(far, return_std=True)[1][0] ** 2 / 2.0**2
        assert variance == pytest.approx(1.5 * rate / (shape - 0.5), rel=0.01)


def test_lengths_follow_their_prior():
    """Where columns are taken to matter little, lengths are longer."""
    lengths = []
    for scales in ((0.001,), (10.0,)):
        model = fit(Priors(length_scale=scales))
        family = model.model_.geometries.candidate_set
        lengths.append(np.median([space.scale[1] for space in family.spaces if np.ndim(space.scale)]))
    assert lengths[0] > 3 * lengths[1]


def test_geometries_have_the_weights_that_are_given():
    """Odds of weights are odds of priors times those that plain priors give; each kind by its name."""
    plain = fit(geometry=["graph", "flat"]).geometry_weights_
    often = fit(Priors(geometry={"graph": 9.0}), geometry=["graph", "flat"]).geometry_weights_
    if min(*plain.values(), *often.values()) > 0.01:
        odds = [w["graph"] / w["flat"] for w in (plain, often)]
        assert odds[1] / odds[0] == pytest.approx(9, rel=0.02)
    surely = fit(Priors(geometry={"graph": 1e30}), geometry=["graph", "flat"]).geometry_weights_
    assert surely["graph"] > 0.999
    assert sum(often.values()) == pytest.approx(1)


def test_the_power_of_the_evidence():
    """Log odds of geometries are those of priors plus the power times those of evidence."""
    noisy = np.where(np.isnan(Y), np.nan, Y + 1.5 * RNG.standard_normal(80))
    odds = []
    for power in (0.25, 0.5):
        w = fit(Priors(evidence_power=power), noisy, geometry=["graph", "flat"], hyperparameters="average")
        members = w.model_.weights[0]
        odds.append(np.log(members[0] / members[-1]))
        log_prior = w.model_.geometries.candidate_set.log_priors
    assert len(log_prior) == len(members)
    assert odds[1] != pytest.approx(odds[0], rel=1e-3)


def classes(priors, power_of=None):
    y = np.where(np.arange(80) % 4 == 0, (np.median(F) < F).astype(int), -1)
    return GPUMClassifier(geometry=["graph", "flat"], scale="none", random_state=0, priors=priors).fit(X, y)


def test_classes_have_geometries_and_a_power():
    plain, surely = classes(None), classes(Priors(geometry={"graph": 1e30}))
    np.testing.assert_array_equal(plain.predict_proba(X), classes(Priors(evidence_power=1.0)).predict_proba(X))
    assert surely.geometry_weights_["graph"] > 0.999
    tempered = classes(Priors(evidence_power=0.01)).geometry_weights_
    spread = lambda weights: max(weights.values()) - min(weights.values())
    assert spread(tempered) < max(spread(plain.geometry_weights_), 0.2)
    with pytest.raises(GpumError, match="priors has noise, which is of numbers; for classes give geometry and"):
        classes(Priors(noise=((1, -2, 1),)))


def test_other_priors_need_no_new_geometry():
    model = fit(geometry=["graph", "flat"], warm_start=True)
    members = model.model_.geometries.members
    model.set_params(priors=Priors(evidence_power=0.3)).fit(X, Y)
    assert model.model_.geometries.members[0] is members[0]


def test_priors_are_parameters_and_go_through_files(tmp_path):
    given = Priors(noise=((1.0, -2.0, 0.5),), geometry={"flat": 2.0}, evidence_power=0.5)
    model = fit(given, geometry=["graph", "flat"])
    assert model.get_params()["priors"] is given
    assert clone(model).priors == given
    model.save(tmp_path / "m.gpum")
    loaded = GPUMRegressor.load(tmp_path / "m.gpum")
    assert loaded.priors == given
    assert loaded.model_.summary()["settings"]["priors"] == repr(given)
    for one in (model, loaded):
        np.testing.assert_allclose(*(o.model_.outputs[0].leave_one_out()[0] for o in (one, model)))
    model.partial_fit(X[1:4], F[1:4])
    y = Y.copy()
    y[1:4] = F[1:4]
    np.testing.assert_allclose(model.predict(X), fit(given, y, geometry=["graph", "flat"]).predict(X), rtol=1e-9)
    assert np.isfinite(loaded.partial_fit(X[1:4], F[1:4]).predict(X)).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"noise": 3}, "noise must be a sequence, got 3"),
        ({"noise": ((1, 2),)}, r"noise must hold \(weight, mean, sd\), got \(1, 2\)"),
        ({"noise": ((1, np.nan, 1),)}, r"noise must hold \(weight, mean, sd\)"),
        ({"noise": ((-1, 0, 1),)}, "the weight of noise must be a positive number, got -1"),
        ({"noise_of_copies": ((1, 0, 0),)}, "the standard deviation of noise_of_copies must be a positive number"),
        ({"signal": 1.0}, r"signal must hold \(shape, rate\), got 1.0"),
        ({"signal": (0, 3)}, "the shape of signal must be a positive number"),
        ({"signal": (1, "a")}, r"signal must hold \(shape, rate\), got \(1, 'a'\)"),
        ({"length_scale": ()}, r"length_scale must hold numbers, got \(\)"),
        ({"length_scale": (1, -1)}, "length_scale must be a positive number, got -1"),
        ({"geometry": "flat"}, "geometry must be a mapping such as"),
        ({"geometry": {"flt": 1}}, "did you mean 'flat'"),
        ({"geometry": {"flat": 0}}, "the weight of 'flat' in geometry must be a positive number"),
        ({"evidence_power": 0}, "evidence_power must be a positive number"),
        ({"evidence_power": 2}, "evidence_power is 2, but it is at most 1"),
    ],
)
def test_priors_that_cannot_be(given, message):
    with pytest.raises(GpumError, match=message):
        Priors(**given)


def test_other_things_are_no_priors():
    with pytest.raises(GpumError, match=r"priors must be a gpum\.Priors or None, got 0\.5"):
        fit(0.5)
    with pytest.raises(GpumError, match=r"priors must be a gpum\.Priors or None"):
        GPUMClassifier(priors={}).fit(X, np.arange(80) % 2)


def test_draws_of_the_prior_have_its_moments():
    """f over σ_h is a draw of the kernel; quantiles of a row follow from those of signal, noise and kernel."""
    given = Priors(noise=((1.0, -2.0, 0.3),), signal=(4.0, 6.0))
    model = fit(given)
    output = model.model_.outputs[0]
    draws = (model.sample_prior(X[:7], 8000) - output.mean) / output.scale
    plain = (model.sample_prior(X[:7], 8000, include_noise=False) - output.mean) / output.scale
    ratio = np.exp(given.log_ratio())
    prior = 2.0  # k(x, x): the kernel and its constant
    signal = 6.0 / (4.0 - 1) * np.sum(ratio / (1 + RATIOS))  # E[σ_h²]
    noise = 6.0 / (4.0 - 1) * np.sum(ratio * RATIOS / (1 + RATIOS))
    error = 6 / np.sqrt(8000)  # of a variance with a kurtosis of about 9, three standard errors
    assert np.var(plain, axis=1).mean() == pytest.approx(prior * signal, rel=error)
    assert np.var(draws, axis=1).mean() == pytest.approx(prior * signal + noise, rel=error)
    assert np.abs(plain.mean(1)).max() < 4 * np.sqrt(prior * signal / 8000)
    np.testing.assert_array_equal(model.sample_prior(X[:7], 3), model.sample_prior(X[:7], 3))
    near = np.corrcoef(model.sample_prior(np.array([[0.5, 0.5], [0.501, 0.5]]), 500, include_noise=False))[0, 1]
    assert near > 0.99


@pytest.mark.parametrize(
    "options", [{"likelihood": "lognormal"}, {"likelihood": "poisson"}, {"likelihood": "binomial"}, {"several": True}]
)
def test_every_target_but_angles_has_prior_draws(options, tmp_path):
    if several := options.pop("several", False):
        model = fit(y=np.stack([Y, -Y], 1), geometry=["graph", "flat"])
    else:
        y = {"lognormal": np.exp(Y), "poisson": np.round(np.exp(Y)), "binomial": (Y > 0.5) + 0 * Y}
        model = fit(y=y[options["likelihood"]], **options)
    new = RNG.uniform(0, 1, (5, 2))
    draws = model.sample_prior(new, 20)
    assert draws.shape == ((5, 2, 20) if several else (5, 20))
    assert np.isfinite(draws).all()
    assert several or np.all(draws >= 0)
    model.save(tmp_path / "m.gpum")
    with pytest.raises(GpumError, match="the model was read from a file, which holds no candidate without weight"):
        GPUMRegressor.load(tmp_path / "m.gpum").sample_prior(new)


def test_angles_have_no_prior_draws():
    with pytest.raises(GpumError, match="the prior of an angle is uniform at each row"):
        fit(period=20.0).sample_prior(X)
