"""
Labels in rounds
================

A label may cost an hour in the laboratory, and there are 470 rows. Which of them should be measured? After each round
``suggest`` names the rows whose labels would lower the average predictive variance most. Here it competes with labels
of rows at random, on a Swiss roll.
"""

# %%
# The cloud
# ---------
# Nothing is known but the rows. ``measure`` stands for the laboratory: it answers for the rows it is asked, with noise.

import matplotlib.pyplot as plt
import numpy as np

from gpum import GPUMRegressor, datasets

cloud = datasets.make_swiss_roll(n_labeled=0, n_unlabeled=470, grid=False, random_state=0)
truth = cloud.y_true
readings = truth + 0.05 * np.random.default_rng(0).standard_normal(len(truth))


def measure(rows):
    """A target for the cloud: readings at these rows, NaN elsewhere."""
    y = np.full(len(truth), np.nan)
    y[rows] = readings[rows]
    return y


# %%
# Rounds
# ------
# Six labels to begin with, then four a round. Labels have no part in the surface, and ``warm_start`` keeps what was
# learned of it: the first fit takes seconds, the others a fraction of one. One geometry, an atlas, is enough here; of
# several the labels would weigh each.

steps = np.arange(6, 27, 4)  # labels after each round
model = GPUMRegressor(geometry="atlas", warm_start=True, random_state=0)


def label_in_rounds(order, ask):
    """Rows with a label in the order they were asked for, RMSE and expected gain of the next label after each round.

    The first rows are those of `order`; then the model is asked, or the order goes on. Last, the spread at the end.
    """
    known, rmse, gain = order[:0], [], []
    for n in steps:
        more = n - len(known)
        known = np.append(known, model.suggest(more) if ask and len(known) else order[len(known) : n])
        mean, std = model.fit(cloud.X, measure(known)).predict(cloud.X, return_std=True, include_noise=False)
        rmse.append(np.sqrt(np.mean((mean - truth) ** 2)))
        gain.append(model.suggestions().gain[0])
    return known, rmse, gain, std


orders = [np.random.default_rng(seed).permutation(len(truth)) for seed in range(4)]
at_random, suggested = ([label_in_rounds(order, ask) for order in orders] for ask in (False, True))
rmse, rmse_at_random = (np.array([run[1] for run in runs]) for runs in (suggested, at_random))
for n, a, b in zip(steps, rmse.mean(0), rmse_at_random.mean(0), strict=True):
    print(f"{n:2} labels: RMSE {a:.3f} suggested, {b:.3f} at random")

# %%
# How fast the error falls
# ------------------------
# Four beginnings, each continued in both ways (thin), and their means. Right: by how much the next label is expected to
# lower the average variance, which needs no truth. Below the line the model says that it has ``enough``: see
# ``suggestions``.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharex=True)
for runs, colour, name in ((at_random, "#d55e00", "at random"), (suggested, "#0072b2", "suggested")):
    for ax, curves in zip(axes, np.moveaxis([run[1:3] for run in runs], 1, 0), strict=True):
        ax.semilogy(steps, curves.T, color=colour, linewidth=0.8, alpha=0.5)
        ax.semilogy(steps, curves.mean(0), "o-", color=colour, linewidth=2.5, label=name)
        ax.set(xlabel="labels", xticks=steps)
axes[0].axhline(0.05, color="0.6", linewidth=1)
axes[0].text(steps[0], 0.051, "noise of one label", color="0.4", va="bottom")
axes[0].set_yticks([], minor=True)
axes[0].set_yticks([0.05, 0.1, 0.2, 0.5], ["0.05", "0.1", "0.2", "0.5"])
axes[0].set_title(f"RMSE over the cloud (the target's sd is {truth.std():.2f})")
axes[0].legend()
floor = model.suggestions().floor
axes[1].axhline(floor, color="0.6", linewidth=1)
axes[1].text(steps[0], 1.05 * floor, "enough", color="0.4", va="bottom")
axes[1].set_title("Expected gain of the next label (variance)")

# %%
# Which rows were chosen
# ----------------------
# The sheet laid flat by its formula, which the model does not know. Numbers are rounds, 0 the beginning, which both
# have in common; colour is the standard deviation at the end. Labels at random leave holes, suggested ones spread.

u, z = cloud.chart.arc_length(cloud.chart_coords[:, 0]), cloud.chart_coords[:, 1]
largest = max(run[3].max() for run in (at_random[0], suggested[0]))
fig, axes = plt.subplots(2, 1, figsize=(10, 6), layout="constrained", sharex=True, sharey=True)
for ax, name, (known, errors, _, std) in zip(
    axes, ("At random", "Suggested"), (at_random[0], suggested[0]), strict=True
):
    dots = ax.scatter(u, z, c=std, s=18, cmap="copper_r", vmin=0, vmax=largest, linewidth=0)
    for row, number in zip(known, np.searchsorted(steps, np.arange(len(known)), "right"), strict=True):
        ax.text(u[row], z[row], number, ha="center", va="center", fontsize=9,
                bbox={"boxstyle": "circle", "facecolor": "w", "edgecolor": "#0072b2"})  # fmt: skip
    ax.set(title=f"{name}: {len(known)} labels, RMSE {errors[-1]:.3f}", ylabel="across the roll")
axes[1].set_xlabel("along the roll (arc length)")
fig.colorbar(dots, ax=axes, label="standard deviation")

plt.show()
