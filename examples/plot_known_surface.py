"""
A surface with a formula
========================

Where the surface is known nothing has to be learned: ``EmbeddedChart`` takes its formula, and automatic differentiation
its metric. Here the ramp of a car park, three turns of a helicoid. Two cars on top of each other are three metres apart
in space and sixty along the ramp.
"""

# %%
# The chart
# ---------
# ``phi`` maps one point of the chart, angle and radius, to one point of space. A coordinate whose two ends are one and
# the same, as the angles of a torus, would be declared by ``periodic``.

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from gpum import EmbeddedChart, EuclideanGPRegressor, GPUMRegressor, heat_kernel
from gpum.manifold import evaluate, magnification, volume

PITCH = 3 / (2 * np.pi)  # metres up for each radian


def phi(x):
    """The point of the ramp at x = (angle, radius), in metres."""
    angle, radius = x
    return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle), PITCH * angle])


ramp = EmbeddedChart(phi, domain=[(0, 6 * np.pi), (6, 14)])
area = volume(ramp)
print(f"area {area:.1f} m²")

# %%
# Heat on it
# ----------
# The heat kernel from one point at three times, at a grid of points. Nothing flows over the edges: each integral is 1.

angles, radii = np.linspace(0, 6 * np.pi, 241), np.linspace(6, 14, 13)
middles = [(a[1:] + a[:-1]) / 2 for a in (angles, radii)]
points = np.stack(np.meshgrid(*middles, indexing="ij"), -1).reshape(-1, 2)
start = np.array([[3 * np.pi, 10.0]])  # half way up
times = [10.0, 100.0, 1000.0]
kernels = heat_kernel(ramp, start, points, times)[:, 0]  # [times, points]
density = evaluate(ramp, magnification, points)
total = kernels @ (area * density / density.sum())
for t, kernel, integral in zip(times, kernels, total, strict=True):
    print(f"t = {t:6}: peak {kernel.max():.2e}, integral {integral:.4f}")

corners = np.stack(np.meshgrid(angles, radii, indexing="ij"), -1)
surface = np.moveaxis(np.asarray(jax.vmap(jax.vmap(phi))(corners)), -1, 0)
fig, axes = plt.subplots(1, 3, figsize=(11, 5), layout="constrained", subplot_kw={"projection": "3d"})
for ax, t, kernel in zip(axes, times, kernels, strict=True):
    colour = plt.cm.ScalarMappable(plt.Normalize(0, kernel.max()), "inferno")
    faces = colour.to_rgba(kernel.reshape(len(angles) - 1, -1))
    ax.plot_surface(*surface, facecolors=faces, rstride=1, cstride=1, shade=False, antialiased=False)
    ax.set(title=f"t = {t:.0f} m²", xticks=[], yticks=[], zticks=[])
    ax.set_box_aspect((28, 28, 36), zoom=1.15)  # four times as high as it is
    ax.view_init(25, -60)
    fig.colorbar(colour, ax=ax, label="heat kernel (1/m²)", orientation="horizontal", shrink=0.7, pad=0.02)

# %%
# Regression on it
# ----------------
# With a chart for a latent model, X holds coordinates in it: 40 labels at random points. For a Gaussian process of the
# position in space, neighbouring floors contradict each other, and it takes the labels for noise.


def f(x):
    """What is measured on the ramp: it changes along it, and a little across."""
    return np.sin(x[:, 0] / 2) + 0.05 * (x[:, 1] - 10)


rng = np.random.default_rng(0)
X = rng.uniform(*ramp.bounds.T, (40, 2))
y = f(X) + 0.05 * rng.standard_normal(40)
model = GPUMRegressor(latent_model=ramp, random_state=0).fit(X, y)
mean, std = model.predict(points, return_std=True, include_noise=False)
rmse = np.sqrt(np.mean((mean - f(points)) ** 2))
coverage = np.mean(np.abs(mean - f(points)) < 1.96 * std)
in_space = EuclideanGPRegressor().fit(jax.vmap(phi)(X), y).predict(jax.vmap(phi)(points))
rmse_in_space = np.sqrt(np.mean((in_space - f(points)) ** 2))
print(f"along the ramp: RMSE {rmse:.3f}, {coverage:.1%} of it in the 95 % intervals; sd of f {f(points).std():.2f}")
print(f"in space:       RMSE {rmse_in_space:.3f}")

# %%
# The ramp unrolled, with the labels.

fig, axes = plt.subplots(4, 1, figsize=(10, 7), layout="constrained", sharex=True, sharey=True)
panels = {
    "Truth": f(points),
    "Prediction along the ramp": mean,
    "Its standard deviation": std,
    "Prediction in space": in_space,
}
for ax, (title, values) in zip(axes, panels.items(), strict=True):
    colours = {"cmap": "magma"} if values is std else {"vmin": f(points).min(), "vmax": f(points).max()}
    image = ax.pcolormesh(angles / (2 * np.pi), radii, values.reshape(len(angles) - 1, -1).T, **colours)
    ax.scatter(X[:, 0] / (2 * np.pi), X[:, 1], s=18, facecolor="none", edgecolor="w")
    ax.set(title=title, ylabel="radius (m)")
    fig.colorbar(image, ax=ax)
axes[-1].set_xlabel("turns up the ramp")

plt.show()
