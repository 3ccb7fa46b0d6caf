"""
Handwritten digits from one label a class
=========================================

Six hundred pictures of digits, and the class of ten of them. Pictures of one digit change into each other little by
little, so they hang together in a graph of neighbours, and a label reaches along it. ``GPUMClassifier`` gives a
probability to every class, so it also says which pictures somebody should look at.

Data: the optical digits of scikit-learn, 8 × 8 pixels.
"""

# %%
# The pictures
# ------------
# Rows without a label have -1 for a class, as in ``sklearn.semi_supervised``.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay, log_loss
from sklearn.semi_supervised import LabelSpreading

from gpum import GPUMClassifier

digits = load_digits()
rng = np.random.default_rng(0)
rows = rng.choice(len(digits.data), 600, replace=False)
X, truth, images = digits.data[rows], digits.target[rows], digits.images[rows]
drawn = np.stack([rng.choice(np.flatnonzero(truth == c), 5, replace=False) for c in range(10)])  # five of each class


def labels(n):
    """Classes with n labels each, -1 elsewhere."""
    y = np.full(len(X), -1)
    y[drawn[:, :n]] = np.arange(10)[:, None]
    return y


# %%
# One label a class, and five
# ---------------------------
# The geometries, here a graph of neighbours and flat space, do not depend on the labels: with ``warm_start`` the
# second fit uses them again. Label spreading, on a graph too, gets the same labels.

model = GPUMClassifier(warm_start=True, random_state=0)
accuracy, accuracy_of_spreading, loss, probabilities = {}, {}, {}, {}
for n in (1, 5):
    y = labels(n)
    unknown = y < 0
    probabilities[n] = model.fit(X, y).label_distributions_
    accuracy[n] = np.mean(model.transduction_[unknown] == truth[unknown])
    loss[n] = log_loss(truth[unknown], probabilities[n][unknown])
    spreading = LabelSpreading(kernel="knn").fit(X, y)
    accuracy_of_spreading[n] = np.mean(spreading.transduction_[unknown] == truth[unknown])
    weights = {name: round(weight, 2) for name, weight in model.geometry_weights_.items()}
    print(f"{n} a class: {accuracy[n]:.1%} right (label spreading {accuracy_of_spreading[n]:.1%}), ", end="")
    print(f"log loss {loss[n]:.2f}; {weights}")

# %%
# What it takes for what
# ----------------------
# With one label a class whole groups of pictures go to the wrong digit. Four more labels each set most of them right.

fig, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained", sharey=True)
for ax, n in zip(axes, (1, 5), strict=True):
    unknown, guess = labels(n) < 0, probabilities[n].argmax(1)
    ConfusionMatrixDisplay.from_predictions(truth[unknown], guess[unknown], cmap="Blues", colorbar=False, ax=ax)
    ax.set(title=f"{n} label{'s' * (n > 1)} a class: {accuracy[n]:.1%} right", xlabel="most probable digit", ylabel="")
axes[0].set_ylabel("true digit")

# %%
# Whether to believe it
# ---------------------
# Left: of the pictures about which it is so sure, how many are right? Above the line it is too modest, below it too
# sure, as here about the most doubtful pictures. Right: somebody looks at these, and few errors remain in the others.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
axes[0].plot([0, 1], [0, 1], color="0.6", linewidth=1)
errors_of_surest = {}
for n, colour, marker in ((1, "#d55e00", "o"), (5, "#0072b2", "s")):
    unknown = labels(n) < 0
    sure, right = probabilities[n][unknown].max(1), (probabilities[n].argmax(1) == truth)[unknown]
    order = np.argsort(-sure)  # the surest first
    groups = np.array_split(order, 8)
    style = {"color": colour, "label": f"{n} label{'s' * (n > 1)} a class"}
    axes[0].plot([sure[g].mean() for g in groups], [right[g].mean() for g in groups], marker=marker, **style)
    wrong = np.cumsum(~right[order]) / np.arange(1, len(order) + 1)
    axes[1].plot(np.linspace(1, 0, len(order)), wrong, **style)
    errors_of_surest[n] = wrong[len(order) * 3 // 4]
    print(f"{n} a class: {errors_of_surest[n]:.1%} errors among the surest three quarters, {wrong[-1]:.1%} in all")
axes[0].set(
    xlabel="probability of the most probable digit", ylabel="of these, right", xlim=(0.3, 1.02), ylim=(0.3, 1.02)
)
axes[0].set_title("Eighths of the pictures, by how sure it is")
axes[1].set(xlabel="pictures looked at", ylabel="of the others, wrong", title="Errors that remain", xlim=(-0.02, 0.6))
for axis in (*(ax.xaxis for ax in axes), *(ax.yaxis for ax in axes)):
    axis.set_major_formatter(PercentFormatter(1, decimals=0))
axes[0].legend(loc="lower right")

# %%
# The doubtful pictures
# ---------------------
# With five labels a class: the 18 of which it is least sure, with its two most probable digits; in red where the first
# of them is wrong. Ones with a foot are a group of their own, and none of the five labels is among them.

p, unknown = probabilities[5], labels(5) < 0
doubtful = np.flatnonzero(unknown)[np.argsort(p[unknown].max(1))[:18]]
fig, axes = plt.subplots(3, 6, figsize=(10, 6), layout="constrained")
for ax, row in zip(axes.flat, doubtful, strict=True):
    first, second = np.argsort(-p[row])[:2]
    ax.imshow(images[row], cmap="gray_r")
    colour = "k" if first == truth[row] else "#d00000"
    ax.set_title(f"{first}: {p[row, first]:.0%}, {second}: {p[row, second]:.0%}", fontsize=11, color=colour)
    ax.set_axis_off()
wrong_of_doubtful = np.mean(p[doubtful].argmax(1) != truth[doubtful])
print(f"{wrong_of_doubtful:.0%} of these are wrong, {1 - accuracy[5]:.0%} of all")

# %%
# What to label next
# ------------------
# ``suggest`` finds such groups: five more labels, where they help most. Pictures that the fit has not seen are taken
# as well.

asked, y = model.suggest(5), labels(5)
y[asked] = truth[asked]
model.fit(X, y)
accuracy_asked = np.mean((model.transduction_ == truth)[y < 0])
new = np.setdiff1d(np.arange(len(digits.data)), rows)
accuracy_of_new = model.score(digits.data[new], digits.target[new])
print(
    f"with labels of these {truth[asked]} too: {accuracy_asked:.1%} right, of {len(new)} new ones {accuracy_of_new:.1%}"
)

plt.show()
