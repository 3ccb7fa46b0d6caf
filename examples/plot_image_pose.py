"""
The angle of a cat from its picture
===================================

A toy cat was photographed on a turntable every five degrees, from 15 to 340. The pictures lie near a ring in R^1024
that is open: the views between 340 and 15 degrees are missing. The angle is known for 13 of the 66 pictures. The two
ends of the ring look alike while their angles could not be more different: a prediction must not leak across the gap.

Data: COIL-100, object 14 (Nene, Nayar and Murase 1996).
"""

# %%
# The pictures
# ------------
# The loader looks in ``GPUM_DATA``, then downloads. Without either, its message says what to do, and the example ends.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from gpum import EuclideanGPRegressor, GPUMRegressor, datasets, plots

try:
    cat = datasets.fetch_coil()
except OSError as error:
    print(error)
    raise SystemExit from None

labelled = np.sort(np.random.default_rng(0).choice(len(cat.X), 13, replace=False))
unknown = np.setdiff1d(np.arange(len(cat.X)), labelled)
y = np.full(len(cat.X), np.nan)
y[labelled] = cat.angle_deg[labelled]
step = np.median(np.linalg.norm(np.diff(cat.X, axis=0), axis=1))
across = np.linalg.norm(cat.X[0] - cat.X[-1])
apart = np.median(np.linalg.norm(cat.X[:, None] - cat.X, axis=2))
print(
    f"neighbouring pictures are {step:.1f} apart, the two ends of the ring {across:.1f}, any two pictures {apart:.1f}"
)

# %%
# With the gap open, and closed
# -----------------------------
# By default the boundary is averaged over a family of domains that hug the data, and the labels decide that the gap
# stays open. A Gaussian process of the pixels does not know that there is a gap.

model = GPUMRegressor(latent_dim=2, random_state=0).fit(cat.X, y)
of_pixels = EuclideanGPRegressor().fit(cat.X, y)
mean, std = model.predict(cat.X, return_std=True)
mean_of_pixels, std_of_pixels = of_pixels.predict(cat.X, return_std=True)


def rmse_of(guess):
    """Root mean square error of the pictures without a label, in degrees."""
    return np.sqrt(np.mean((guess - cat.angle_deg)[unknown] ** 2))


rmse, rmse_of_pixels = rmse_of(mean), rmse_of(mean_of_pixels)
coverage = np.mean(np.abs(mean - cat.angle_deg)[unknown] < 1.96 * std[unknown])
print(f"along the ring: RMSE {rmse:.1f} degrees, {coverage:.0%} of the angles in their 95 % interval")
print(f"of the pixels:  RMSE {rmse_of_pixels:.1f} degrees")

# %%
# The errors of the second are at the two ends.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharex=True, sharey=True)
panels = (mean, std, f"GPUM: RMSE {rmse:.1f}°"), (mean_of_pixels, std_of_pixels, f"Pixels: RMSE {rmse_of_pixels:.1f}°")
for ax, (guess, spread, title) in zip(axes, panels, strict=True):
    ax.plot([0, 360], [0, 360], color="0.6", linewidth=1)
    ax.errorbar(cat.angle_deg[unknown], guess[unknown], 1.96 * spread[unknown], fmt=".", color="#0072b2",
                ecolor="#0072b266", label="prediction, 95 % interval")  # fmt: skip
    ax.plot(cat.angle_deg[labelled], y[labelled], "k*", label="label")
    ax.set(title=title, xlabel="true angle (degrees)", xticks=np.arange(0, 361, 60), yticks=np.arange(0, 361, 60))
axes[0].set_ylabel("predicted angle (degrees)")
axes[0].legend(loc="upper left")

# %%
# The ring on the chart
# ---------------------
# Some of the pictures where they lie on the learned chart, with the boundary and the predicted angle of each row.

fig, ax = plt.subplots(figsize=(8.5, 7), layout="constrained")
plots.plot_boundary(model.chart_, ax=ax)
plots.plot_prediction(model, y, ax=ax)
centre = model.latent_.mean(0)
for row in unknown[::5]:
    picture, away = OffsetImage(cat.images[row], zoom=0.32), model.latent_[row] - centre
    shift = 60 * away / np.linalg.norm(away)
    line = {"arrowstyle": "-", "color": "0.5"}
    ax.add_artist(
        AnnotationBbox(picture, model.latent_[row], shift, boxcoords="offset points", arrowprops=line, pad=0.1)
    )
edge = 0.3 * np.ptp(model.latent_, axis=0)
xlim, ylim = np.stack([model.latent_.min(0) - edge, model.latent_.max(0) + edge], 1)
ax.set(title="Predicted angle (degrees) on the chart", xlim=xlim, ylim=ylim)

# %%
# On the turntable
# ----------------
# Pictures without a label, each at its predicted angle, joined to the true one.

fig, ax = plt.subplots(figsize=(6.5, 6.5), layout="constrained", subplot_kw={"projection": "polar"})
ax.plot(np.deg2rad(np.linspace(15, 340, 200)), np.ones(200), color="0.7")
for row in unknown[::4]:
    true, guess = np.deg2rad([cat.angle_deg[row], mean[row]])
    ax.plot([true, true, guess], [0.95, 1.05, 1.3], color="#d55e00", linewidth=1.5)
    ax.add_artist(AnnotationBbox(OffsetImage(cat.images[row], zoom=0.32), (guess, 1.3), pad=0.1))
for angle in (15, 90, 180, 270, 340):
    ax.text(np.deg2rad(angle), 0.82, f"{angle}°", ha="center", va="center")
ax.set(ylim=(0, 1.45), xticks=[], yticks=[], title="Each picture at its predicted angle")
ax.spines["polar"].set_visible(False)

plt.show()
