"""
Regression on a Swiss roll
==========================

A sheet is rolled up in space, and a quantity on it is known at 24 points. Two turns of the roll are close in space and
far apart along the sheet, so a smooth function of position in space is the wrong model. ``GPUMRegressor`` learns the
sheet from all rows, labelled or not, and does the regression along it.
"""

# %%
# The cloud
# ---------
# Rows without a label have NaN for a target. They cost nothing and they show where the sheet runs.

import matplotlib.pyplot as plt
import numpy as np

from gpum import EuclideanGPRegressor, GPUMRegressor, datasets, plots

cloud = datasets.make_swiss_roll(n_labeled=24, n_unlabeled=450, random_state=0)
unknown = np.isnan(cloud.y)
print(f"{len(cloud.X)} rows in R^{cloud.X.shape[1]}, {np.sum(~unknown)} with a label")

# %%
# The fit
# -------
# One call learns the surface in several ways (charts by a Bayesian GPLVM, atlases, a graph; flat space beside them) and
# averages the regression over geometry, boundary, smoothness, length scale and noise. For comparison, a Gaussian
# process in space that knows of no sheet.

model = GPUMRegressor(random_state=0).fit(cloud.X, cloud.y)
print({name: round(weight, 2) for name, weight in model.geometry_weights_.items()})
in_space = EuclideanGPRegressor().fit(cloud.X, cloud.y)


def measure(regressor):
    """RMSE on the rows without a label, and the fraction of them whose truth is in the 95 % interval of f."""
    mean, std = regressor.predict(cloud.X[unknown], return_std=True, include_noise=False)
    error = mean - cloud.y_true[unknown]
    return np.sqrt(np.mean(error**2)), np.mean(np.abs(error) < 1.96 * std)


rmse, coverage = measure(model)
rmse_in_space, coverage_in_space = measure(in_space)
print(f"the target's standard deviation is {cloud.y_true.std():.2f}")
print(f"on the sheet: RMSE {rmse:.3f}, {coverage:.1%} of the truth in the 95 % intervals")
print(f"in space:     RMSE {rmse_in_space:.3f}, {coverage_in_space:.1%}")

# %%
# New rows are projected onto the sheet first.

fresh = datasets.make_swiss_roll(n_labeled=100, n_unlabeled=0, random_state=1)
mean, std = model.predict(fresh.X, return_std=True)
rmse_fresh = np.sqrt(np.mean((mean - fresh.y_true) ** 2))
print(f"100 new rows: RMSE {rmse_fresh:.3f}, mean standard deviation {std.mean():.3f}")

# %%
# The cloud and the chart
# -----------------------
# Left: the roll with its labels. Right: the sheet laid flat. The chart is not drawn to scale; the magnification says
# how much sheet one unit of it holds, and the line is where the sheet ends.

fig = plt.figure(figsize=(10, 4.2), layout="constrained")
space = plots.plot_cloud(cloud.X, cloud.y, label="label y", ax=fig.add_subplot(1, 2, 1, projection="3d"))
space.set(title="The cloud and its labels", xticks=[], yticks=[], zticks=[])
space.view_init(75, -80)
chart = plots.plot_magnification(model.chart_, ax=fig.add_subplot(1, 2, 2))
plots.plot_boundary(model.chart_, ax=chart)
chart.scatter(*model.latent_.T, s=3, color="#0072b2")
chart.set_title("The learned chart: rows, magnification, boundary")

# %%
# Prediction and uncertainty
# --------------------------
# On the chart the prediction is smooth, and its uncertainty grows away from the labels (rings).

fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharex=True, sharey=True)
for ax, std, title in zip(axes, (False, True), ("Prediction", "Its standard deviation"), strict=True):
    plots.plot_boundary(model.chart_, ax=ax)
    plots.plot_prediction(model, cloud.y, std=std, ax=ax).set_title(title)
axes[0].set_ylim(top=1.25 * axes[0].get_ylim()[1])  # room for the legend

# %%
# Truth against prediction
# ------------------------
# Intervals are of new observations, noise included; the truth has no noise, so more than 95 % of it should be inside.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
for ax, regressor, title in zip(axes, (model, in_space), ("GPUM", "GP in space"), strict=True):
    plots.plot_calibration(regressor, cloud.X[unknown], cloud.y_true[unknown], ax=ax)
    ax.set_title(f"{title}: {ax.get_title()}")

plt.show()
