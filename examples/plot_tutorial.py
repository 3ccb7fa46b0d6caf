"""
Tutorial: from a table to predictions
=====================================

You have a table, and a quantity that is known for a few of its rows. This page goes from there to predictions with
intervals that can be trusted, with a picture at every step. It takes a minute to run, and uses default settings only.

The table is simulated: somebody walks along three parallel corridors of a building with a phone, which records the
signal strength of twelve transmitters every half metre. The temperature was noted in 20 places.
"""

# %%
# The table
# ---------
# A data frame with one row for each measurement. The temperature is missing (NaN) where it was not noted. No position
# is recorded: all that is known of a row are its twelve signals.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from gpum import EuclideanGPRegressor, GPUMRegressor, diagnostics, plots

rng = np.random.default_rng(3)
metres = np.sort(rng.uniform(0, 100, 200))  # along the walk


def position(u):
    """Where the walk is after u metres: three corridors of 30 metres, 5 metres apart, walked to and fro."""
    corners = [0, 30, 35, 65, 70, 100]  # where it turns
    return np.stack([np.interp(u, corners, [0, 30, 30, 0, 0, 30]), np.interp(u, corners, [0, 0, 5, 5, 10, 10])], 1)


def temperature(u):
    """Degrees at u metres of the walk."""
    return 20 + 2 * np.sin(u / 9) + 0.02 * u


transmitters = rng.uniform((-5, -8), (35, 18), (12, 2))
away = np.linalg.norm(position(metres)[:, None] - transmitters, axis=2)
signals = -40 - 30 * np.log10(np.maximum(away, 1)) + rng.standard_normal(away.shape)  # dBm
table = pd.DataFrame(signals.round(1), columns=[f"signal_{k + 1}" for k in range(12)])
truth = temperature(metres)
noted = rng.choice(len(table), 20, replace=False)
table["temperature"] = np.nan
table.loc[noted, "temperature"] = (truth + 0.1 * rng.standard_normal(len(truth)))[noted].round(1)
table.head()

# %%
# A look at it. On the left three of the columns along the walk, on the right two of them against each other: the walk
# is a curve in the space of the signals, and it passes near itself where corridors are side by side.

X, y = table.drop(columns="temperature"), table["temperature"]
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name in X.columns[:3]:
    axes[0].plot(metres, X[name], ".", markersize=4, label=name)
axes[0].set(xlabel="metres walked (not in the table)", ylabel="dBm", title="Three columns")
axes[0].legend(fontsize=8)
axes[1].plot(X["signal_1"], X["signal_2"], ".", color="0.75", markersize=5)
dots = axes[1].scatter(X["signal_1"].iloc[noted], X["signal_2"].iloc[noted], c=y.iloc[noted], s=50, edgecolor="k")
axes[1].set(xlabel="signal_1", ylabel="signal_2", title="Two columns; 20 rows have a temperature")
fig.colorbar(dots, ax=axes[1], label="temperature")

# %%
# The fit
# -------
# One call. All rows are given, not only those with a label: the others show where the walk goes. ``warm_start`` keeps
# what was learned for later fits to other labels. A notebook shows the parameters, and a summary of the fit.

model = GPUMRegressor(random_state=0, warm_start=True).fit(X, y)
model

# %%
# Several geometries were built side by side: charts, atlases, graphs, flat space. The labels decide how much weight
# each of them has, and all predictions are averages with these weights. There is nothing to choose. One figure shows
# the fit: the map of the rows, left-out labels (see below), the weights, and which columns matter or how far a label
# reaches.

plots.overview(model)

# %%
# Predictions
# -----------
# The mean and the standard deviation of every row, and the quantiles for an interval of 95 %. A Gaussian process of the
# signals, which knows of no walk, is shown beside it.

mean, std = model.predict(X, return_std=True)
low, high = model.predict_quantiles(X, [0.025, 0.975]).T
in_signals, std_in_signals = (
    EuclideanGPRegressor().fit(X.to_numpy(), y.to_numpy()).predict(X.to_numpy(), return_std=True)
)
unknown = y.isna().to_numpy()
rmse, rmse_in_signals = (np.sqrt(np.mean((m - truth)[unknown] ** 2)) for m in (mean, in_signals))
coverage = np.mean((low < truth)[unknown] & (truth < high)[unknown])
print(f"GPUM: off by {rmse:.2f} degrees (root mean square); {coverage:.0%} of the truth is in the 95 % intervals")
print(f"a Gaussian process of the signals: off by {rmse_in_signals:.2f} degrees")

fig, axes = plt.subplots(2, 1, figsize=(10, 6), layout="constrained", sharex=True, sharey=True)
intervals = (low, high), (in_signals - 1.96 * std_in_signals, in_signals + 1.96 * std_in_signals)
for ax, name, m, (a, b) in zip(
    axes, ("GPUM", "A Gaussian process of the signals"), (mean, in_signals), intervals, strict=True
):
    ax.fill_between(metres, a, b, color="#0072b2", alpha=0.2, label="95 % interval", linewidth=0)
    ax.plot(metres, m, color="#0072b2", label="prediction")
    ax.plot(metres, truth, "k--", linewidth=1, label="truth")
    ax.plot(metres[noted], y.iloc[noted], "o", color="#d55e00", label="labels")
    ax.set(title=name, ylabel="temperature")
axes[0].legend(fontsize=8, ncols=4, loc="lower right")
axes[1].set_xlabel("metres walked (not in the table)")

# %%
# Can it be trusted?
# ------------------
# Without the truth, leave out one label at a time and predict it from the others. This takes no further fit. Points
# near the diagonal are good predictions; a bar that does not reach it is an interval that fails.

left_out = diagnostics.leave_one_out(model)
print(f"left-out labels: {left_out.inside.mean():.0%} in their 95 % intervals")
fig, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
plots.plot_leave_one_out(model, ax=ax)

# %%
# What to label next
# ------------------
# Where would another reading help most? ``suggest`` names the rows. After five more labels ``fit`` takes a fraction of
# the time: the cloud is the same.

asked = model.suggest(5)
more = y.copy()
more.iloc[asked] = truth[asked]
better = model.fit(X, more).predict(X)
rmse_asked = np.sqrt(np.mean((better - truth)[unknown] ** 2))
print(f"with five more labels: off by {rmse_asked:.2f} degrees")

fig, ax = plt.subplots(figsize=(10, 3.2), layout="constrained")
ax.plot(metres, np.abs(mean - truth), color="0.6", label="20 labels")
ax.plot(metres, np.abs(better - truth), color="#0072b2", label="25 labels")
ax.plot(metres[asked], np.zeros(5), "^", color="#d55e00", clip_on=False, label="asked for")
ax.set(xlabel="metres walked (not in the table)", ylabel="error in degrees", ylim=(0, None))
ax.legend(fontsize=8)

# %%
# New rows
# --------
# Rows that were not in the table are projected onto what was learned, and the uncertainty of the projection enters
# their intervals.

walked = np.array([12.0, 47.5, 80.0])
new = -40 - 30 * np.log10(np.maximum(np.linalg.norm(position(walked)[:, None] - transmitters, axis=2), 1))
predicted, spread = model.predict(pd.DataFrame(new, columns=X.columns), return_std=True)
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.errorbar(walked, predicted, 1.96 * spread, fmt="o", color="#0072b2", capsize=4, label="new rows, 95 %")
ax.plot(metres, truth, "k--", linewidth=1, label="truth")
ax.set(xlabel="metres walked", ylabel="temperature")
ax.legend(fontsize=8)

# %%
# Where to go from here
# ---------------------
# ``model.save("walk.gpum")`` stores the model. The same on the command line, from a CSV file::
#
#     gpum fit walk.csv --target temperature --out walk.gpum
#     gpum report walk.gpum --out report.html
#     gpum predict walk.gpum new.csv --out predictions.csv
#
# The report has all these pictures on one page.
