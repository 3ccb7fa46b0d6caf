"""
Pipelines and cross-validation
==============================

``GPUMRegressor`` is a scikit-learn estimator: it stands in pipelines and is tuned by ``GridSearchCV``. What is new is
that most rows have no label. They stay in every training set, where they help to learn the surface, and only labelled
rows are held out.
"""

# %%
# Six sensors in six units
# ------------------------
# Two hidden quantities, s and t, move six sensors along a bent sheet. Their units differ by factors of thousands.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gpum import BayesianGPLVM, GPUMRegressor, KernelOptions, diagnostics

rng = np.random.default_rng(0)
s, t = rng.uniform(0, 4, 120), rng.uniform(0, 1.5, 120)
clean = np.stack([np.sin(s), np.cos(s), t, s / 2 + t, np.sin(s + t), np.cos(t)], 1)
X = (clean + 0.01 * rng.standard_normal(clean.shape)) * [1000, 800, 0.1, 5, 300, 0.02]
truth = np.sin(1.5 * s) + t
y = np.where(np.arange(120) < 36, truth + 0.05 * rng.standard_normal(120), np.nan)
print(f"{len(X)} rows, {np.sum(~np.isnan(y))} with a label; sd of the columns {X.std(0).round(3)}")

# %%
# Folds of labelled rows
# ----------------------
# Scikit-learn takes any list of training and test rows. Without test rows that have no label, every metric works.

labelled, unlabelled = np.flatnonzero(~np.isnan(y)), np.flatnonzero(np.isnan(y))
folds = [
    (np.concatenate([unlabelled, labelled[train]]), labelled[test])
    for train, test in KFold(3, shuffle=True, random_state=0).split(labelled)
]
pipeline = Pipeline(
    [
        ("scale", StandardScaler()),
        (
            "gpum",
            GPUMRegressor(
                2,
                geometry="chart",
                latent_model=BayesianGPLVM(n_inducing=20),
                kernel=KernelOptions(boundary=0.5),
                scale="none",  # so that the search decides about the scaling, not the labels
                random_state=0,
            ),
        ),
    ]
)

# %%
# Which dimension, and scaled or not
# ----------------------------------
# Each setting learns its surface anew in each fold: charts alone, so that their dimension shows.


def rmse_of(search):
    """RMSE of every setting in every fold, [settings, folds]."""
    return -np.stack([search.cv_results_[f"split{k}_test_score"] for k in range(len(folds))], 1)


grid = {"scale": [StandardScaler(), "passthrough"], "gpum__latent_dim": [1, 2]}
search = GridSearchCV(pipeline, grid, cv=folds, scoring="neg_root_mean_squared_error").fit(X, y)
errors = {}
for setting, error in zip(search.cv_results_["params"], rmse_of(search), strict=True):
    columns = "not scaled" if setting["scale"] == "passthrough" else "scaled"
    errors[f"latent_dim {setting['gpum__latent_dim']}, {columns}"] = error
best = search.best_estimator_

# %%
# The surface does not depend on the labels
# -----------------------------------------
# So it may be learned once, from all rows. ``FrozenEstimator`` keeps the fitted steps as they are, and a search over
# settings of the regression takes seconds.

surface = FrozenEstimator(best["gpum"].latent_model_)
gpum = GPUMRegressor(geometry="chart", latent_model=surface, kernel=KernelOptions(boundary=0.5), random_state=0)
frozen = Pipeline([("scale", FrozenEstimator(best["scale"])), ("gpum", gpum)])
names = ["average", "heat", "matern32"]
refined = GridSearchCV(frozen, {"gpum__smoothness": names}, cv=folds, scoring="neg_root_mean_squared_error").fit(X, y)
errors |= {f"smoothness {name}": error for name, error in zip(names, rmse_of(refined), strict=True)}
for name, error in errors.items():
    print(f"{name:24} RMSE {error.mean():.3f}")

# %%
# Plain folds work too: ``score`` is R² on the rows that have a label. But then rows without one are held out as well.

r2 = cross_val_score(frozen, X, y, cv=KFold(3, shuffle=True, random_state=0))
print(f"plain folds: R² {r2.mean():.3f}")

# %%
# Each label as the others predict it
# -----------------------------------
# For one fitted model ``leave_one_out`` needs no refit: the row stays in the cloud and only its label goes.

found = diagnostics.leave_one_out(best["gpum"])
rmse = np.sqrt(np.mean((best.predict(X) - truth)[unlabelled] ** 2))
print(f"leave-one-out: RMSE {found.rmse:.3f}, {found.inside.mean():.0%} of the labels in their 95 % interval")
print(f"rows without a label, against the truth: RMSE {rmse:.3f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for name, error in errors.items():
    left.plot(error, [name] * len(error), ".", color="0.6")
    left.plot(error.mean(), name, "D", color="#0072b2")
left.invert_yaxis()
left.set(title="Held-out labels: folds, and their mean", xlabel="RMSE", xlim=(0, None))
ends = np.abs(np.stack([found.low, found.high]) - found.mean)
right.errorbar(found.y, found.mean, ends, fmt=".", color="#0072b2", ecolor="#0072b266")
right.axline((0, 0), slope=1, color="0.6", linewidth=1)
right.set(title="Leave-one-out", xlabel="label", ylabel="its prediction from the others, 95 % interval")

plt.show()
