"""
Where am I? Position from WiFi signals
======================================

Somebody walks a loop through a building and records the signal strengths of 30 access points at 36 positions. At six of
them the position is written down. The readings lie near a curve in R^30, the walk; along it the other positions can be
predicted. Two targets, x and y, have the same learned surface.

Data: Ferris, Fox and Lawrence (2007).
"""

# %%
# The readings
# ------------
# The loader looks in ``GPUM_DATA``, then downloads. Without either, its message says what to do, and the example ends.

from copy import copy

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from gpum import EuclideanGPRegressor, GPUMRegressor, datasets, plots

try:
    tour = datasets.fetch_wifi()
except OSError as error:
    print(error)
    raise SystemExit from None

labelled = np.linspace(1, len(tour.X) - 2, 6).round().astype(int)
unknown = np.setdiff1d(np.arange(len(tour.X)), labelled)
y = np.full(tour.y.shape, np.nan)
y[labelled] = tour.y[labelled]
print(f"{tour.X.shape[0]} readings, {tour.X.shape[1]} access points, {len(labelled)} known positions")
print(f"{np.mean(np.isnan(tour.rssi_dbm)):.0%} of the readings are missing (access point not heard)")

# %%
# Two outputs at once
# -------------------
# ``y`` has a column for each output; predictions and quantiles come back with one more axis. A box that holds x and y
# with probability 95 % takes :math:`\sqrt{0.95}` for each of them.

model = GPUMRegressor(latent_dim=2, warm_start=True, random_state=0).fit(tour.X, y)
mean = model.predict(tour.X)
tail = (1 - np.sqrt(0.95)) / 2
low, high = np.moveaxis(model.predict_quantiles(tour.X, [tail, 1 - tail]), 1, 0)

in_signals = EuclideanGPRegressor().fit(tour.X, y).predict(tour.X)
errors, errors_in_signals = (np.linalg.norm(guess - tour.y, axis=1)[unknown] for guess in (mean, in_signals))
coverage = np.mean(np.all((low < tour.y) & (tour.y < high), axis=1)[unknown])
print(f"along the walk: median error {np.median(errors):.1f} m, {coverage:.0%} of the positions in their 95 % box")
print(f"a Gaussian process of the signals: median error {np.median(errors_in_signals):.1f} m")

# %%
# Six labels are few, and much depends on which they are. The geometries do not depend on them: with ``warm_start``
# another set takes a fraction of a second.

other = copy(model)
rng = np.random.default_rng(0)
rmse = []
for _ in range(20):
    chosen = rng.integers(0, 6, 6) + 6 * np.arange(6)  # one from each sixth of the tour
    y_chosen = np.full(tour.y.shape, np.nan)
    y_chosen[chosen] = tour.y[chosen]
    fits = (regressor.fit(tour.X, y_chosen).predict(tour.X) for regressor in (other, EuclideanGPRegressor()))
    rmse.append([np.sqrt(np.mean(np.delete(np.sum((fit - tour.y) ** 2, 1), chosen))) for fit in fits])
mean_rmse, mean_rmse_in_signals = np.mean(rmse, axis=0)
print(f"20 sets of six labels: RMSE {mean_rmse:.1f} m along the walk, {mean_rmse_in_signals:.1f} m from the signals")

# %%
# The tour
# --------
# Thin lines join predicted positions to the true ones; some have their 95 % box. Six labels leave much open, and the
# boxes are wide.

fig, axes = plt.subplots(1, 2, figsize=(10, 6), layout="constrained", sharex=True, sharey=True)
panels = (mean, errors, "GPUM"), (in_signals, errors_in_signals, "Gaussian process in R^30")
for ax, (guess, error, title) in zip(axes, panels, strict=True):
    ax.plot(*tour.y.T, color="0.7", zorder=1, label="true tour")
    for a, b in zip(guess[unknown], tour.y[unknown], strict=True):
        ax.plot(*np.stack([a, b]).T, color="0.4", linewidth=0.7, zorder=2)
    dots = ax.scatter(*guess[unknown].T, c=unknown, cmap="viridis", s=26, zorder=3, label="prediction")
    ax.plot(*tour.y[labelled].T, "k*", markersize=11, zorder=4, label="label")
    ax.set(title=f"{title}: median error {np.median(error):.1f} m", xlabel="x (m)", aspect="equal")
axes[0].set_ylabel("y (m)")
axes[0].legend(loc="upper right")
for row in unknown[2::6]:
    box = Rectangle(low[row], *(high - low)[row], edgecolor=dots.to_rgba(row), facecolor="none", linewidth=1.2)
    axes[0].add_patch(box)
fig.colorbar(dots, ax=axes, label="position along the tour", shrink=0.8)

# %%
# The chart
# ---------
# The same walk on the learned chart. The tour ends close to where it began, in the building and in the signals.

ax = plots.plot_magnification(model.chart_)
plots.plot_boundary(model.chart_, ax=ax)
ax.plot(*model.latent_.T, color="#0072b2", linewidth=0.8)
ax.scatter(*model.latent_.T, c=np.arange(len(tour.X)), cmap="viridis", s=22, zorder=5)
ax.plot(*model.latent_[labelled].T, "k*", markersize=10, zorder=6)
ax.set_title("The tour on the learned chart")

plt.show()
