"""
Bring your own decoder
======================

Any latent variable model with a differentiable decoder gives a chart: the decoder maps codes to data, and JᵀJ is its
metric. Here an autoencoder of a few lines, trained on small pictures of a spot somewhere in a bent corridor. Such a
model does not say where its surface ends; the rows do, in an ``inside`` test of our own.
"""

# %%
# The pictures
# ------------
# The corridor is a C, and the target falls from one of its ends to the other. The ends are close: whoever goes straight
# from one to the other will be wrong.

from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from gpum import EmbeddedChart, EuclideanGPRegressor, GPUMRegressor, plots
from gpum.manifold import Chart


def pictures(rng, n):
    """Noisy pictures of n spots, 12 × 12 pixels, and the target of each."""
    angle, radius = rng.uniform(0.3, 2 * np.pi - 0.3, (n, 1)), rng.uniform(0.65, 1.0, (n, 1))
    profile = lambda centre: np.exp(-((np.linspace(-1.2, 1.2, 12) - centre) ** 2) / (2 * 0.4**2))
    column, row = profile(radius * np.cos(angle)), profile(radius * np.sin(angle))
    X = np.einsum("ni,nj->nij", row, column).reshape(n, 144)
    return X + 0.01 * rng.standard_normal(X.shape), np.cos(angle[:, 0] / 2)


rng = np.random.default_rng(0)
X, truth = pictures(rng, 400)
labelled = np.arange(400) < 16
y = np.where(labelled, truth + 0.02 * rng.standard_normal(400), np.nan)

# %%
# An autoencoder
# --------------
# 144 pixels to two numbers and back, trained on the squared error by 4000 steps of Adam. GPUM has no part in it.


def network(layers, x):
    """Two dense layers with tanh between them."""
    (A, a), (B, b) = layers
    return jnp.tanh(x @ A + a) @ B + b


def adam(k, state):
    """Step k: the weights and the running moments of the slope; the rate falls to 0."""
    weights, m, v = state
    slope = jax.grad(lambda w: jnp.mean((network(w[1], network(w[0], pixels)) - pixels) ** 2))(weights)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, slope)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, v, slope)
    rate = 0.01 * (1 - k / 4000) * jnp.sqrt(1 - 0.999 ** (k + 1)) / (1 - 0.9 ** (k + 1))
    return jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-8), weights, m, v), m, v


pixels = jnp.asarray(X, "float32")
sizes = [[(144, 32), (32, 2)], [(2, 32), (32, 144)]]  # of the encoder's and the decoder's layers
weights = [[(rng.normal(0, a**-0.5, (a, b)).astype("f"), np.zeros(b, "f")) for a, b in half] for half in sizes]
zeros = jax.tree.map(np.zeros_like, weights)
(encoder, decoder), _, _ = jax.jit(partial(jax.lax.fori_loop, 0, 4000, adam))((weights, zeros, zeros))
decode = partial(network, decoder)
encode = lambda X: np.asarray(network(encoder, jnp.asarray(X, "float32")), float)
codes = encode(X)
unexplained = float(jnp.mean((decode(codes) - pixels) ** 2) / pixels.var(0).mean())
print(f"{unexplained:.2%} of the pictures' variance is left unexplained, {1e-4 / X.var(0).mean():.2%} is noise")

# %%
# Its chart
# ---------
# Three things make a chart: a box, a metric, and which points are inside. Here those within reach of some row.

reach = 0.06 * np.ptp(codes)


@jax.tree_util.register_static
class DecoderChart(Chart):
    """The decoder's surface, where there are rows."""

    bounds = np.stack([codes.min(0) - reach, codes.max(0) + reach], 1)

    def metric(self, x):
        J = jax.jacfwd(decode)(x)
        return J.T @ J

    def inside(self, x):
        return jnp.min(jnp.sum((codes - x) ** 2, 1)) < reach**2


chart = DecoderChart()
whole_box = EmbeddedChart(decode, chart.bounds)  # the same surface, without an end of its own

# %%
# Regression on it
# ----------------
# A regressor on a chart takes coordinates in it, so the encoder comes before it in a pipeline.

encoded = FunctionTransformer(encode)
on_chart, on_box = (make_pipeline(encoded, GPUMRegressor(latent_model=c, random_state=0)) for c in (chart, whole_box))
new, new_truth = pictures(rng, 300)
errors = [r.fit(X, y).predict(new) - new_truth for r in (on_chart, on_box, EuclideanGPRegressor())]
rmse, rmse_on_box, rmse_of_pixels = np.sqrt(np.mean(np.square(errors), axis=1))
coverage = np.mean(np.abs(errors[0]) < 1.96 * on_chart.predict(new, return_std=True)[1])
print(f"300 new pictures, target's sd {new_truth.std():.2f}: RMSE {rmse:.3f}, {coverage:.0%} in the 95 % intervals")
print(f"without a boundary {rmse_on_box:.3f}, from the pixels {rmse_of_pixels:.3f}")

# %%
# The rows on the chart (stars: labels), and the errors on new pictures.

fig, axes = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained", sharex=True, sharey=True)
plots.plot_magnification(chart, ax=axes[0]).set_title("The chart")
plots.plot_boundary(chart, ax=axes[0])
axes[0].scatter(*codes[~labelled].T, s=3, color="#0072b2")
axes[0].scatter(*codes[labelled].T, s=70, color="#e69f00", marker="*", edgecolor="k", linewidth=0.7, zorder=5)
for ax, error, title in zip(axes[1:], errors, ("With the boundary", "Without"), strict=False):
    dots = ax.scatter(*encode(new).T, s=14, c=np.abs(error), cmap="viridis", vmin=0, vmax=0.5)
    ax.set(title=f"{title}: RMSE {np.sqrt(np.mean(error**2)):.3f}", xlabel="latent dimension 1")
fig.colorbar(dots, ax=axes[1:], label="absolute error", extend="max")

plt.show()
