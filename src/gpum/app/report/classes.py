"""The report of a classifier: a map of the probability of each class, and the confusion of left-out labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpum import diagnostics, model_io
from gpum.tools import column, short

from . import findings, verdict

SHOWN_CLASSES = 30  # of the table of confusion
# Texts as in `findings.WORDS`, for a target that is a class.
WORDS = {
    "nothing": (
        "Nothing unusual was found: enough labels, no row or label far from the others, left-out labels right about as "
        "often as their probabilities say."
    ),
    "left_out": (
        "For the labels that come out right, the label of one row at a time is hidden and its class predicted from the "
        "other labels (the row itself stays). It tells how often the class of an unlabelled row is likely to be right."
    ),
    "mean": "Probability",
    "mean_of": "Probability that",
    "spread": "Doubt",
    "spread_title": "Doubt: probability that the likeliest class is wrong",
    "spread_head": "doubt",
    "changes": "the class",
}
SURE = 0.9  # probability above which a wrong class is worth a look


def targets(fitted: model_io.Fitted, common: dict[str, Any]) -> list[dict[str, Any]]:
    """The likeliest class, then the probability of each; `common` holds the entries that are the same for all."""
    model = fitted.model
    p, known = model.label_distributions_, np.isfinite(fitted.y[:, 0])
    left_out = diagnostics.left_out_classes(model)
    common = {
        **common,
        "verdict": verdict.of_classes(left_out),
        "figures": _figures(fitted, left_out),
        "cautions": _cautions(fitted, left_out),
        "std": column(1 - p.max(1)),
    }
    likeliest = {
        **common,
        "name": short(fitted.targets[0]),
        "classes": [short(name) for name in model.classes_],
        "y": column(fitted.y[:, 0]),
        "mean": column(p.argmax(1).astype(float)),
        "words": {"mean": "Class", "mean_of": "Likeliest class of"},
    }
    each = [
        {
            **common,
            "name": short(f"{fitted.targets[0]} is {name}"),
            "y": column(np.where(known, fitted.y[:, 0] == c, np.nan)),
            "mean": column(p[:, c]),
        }
        for c, name in enumerate(model.classes_)
    ]
    return [likeliest, *each]


def confusion(model: Any) -> dict[str, Any]:
    """Left-out labels as a table: classes, and counts of true and predicted ones; if there are many, the commonest."""
    found = diagnostics.left_out_classes(model)
    counts = found.confusion
    shown = np.sort(np.argsort(-counts.sum(1), kind="stable")[:SHOWN_CLASSES])
    names = [short(model.classes_[c]) for c in shown]
    left = f" The {len(shown)} commonest of {len(counts)} classes are shown." if len(shown) < len(counts) else ""
    right = int(found.right.sum())
    text = (
        f"The label of one row at a time is hidden and predicted from the others: {right} of {len(found.y)} "
        f"({findings.percent(right / len(found.y))}) come out right. Each line is a true class, each column what "
        f"it was taken for.{left}"
    )
    return {"classes": names, "counts": counts[np.ix_(shown, shown)].tolist(), "text": text}


def _figures(fitted: model_io.Fitted, left_out: diagnostics.LeftOutClasses) -> list[list[str]]:
    n, right = len(left_out.y), int(left_out.right.sum())
    few = " (few labels)" * (n < findings.FEW)
    largest = int(np.bincount(left_out.y).max())
    found = findings.rows_and_setting(fitted, 0, n, diagnostics.evidence_over_scale(fitted.model, 0))
    found[2:2] = [
        ["Classes", f"{len(fitted.model.classes_):,}", f"the commonest has {largest:,} labels"],
        ["Left-out labels right", f"{right:,} of {n:,}", f"{findings.percent(right / n)}{few}"],
        ["Log loss of a left-out label", findings.number(left_out.log_loss),
         f"even guesses have {findings.number(float(np.log(len(fitted.model.classes_))))}{few}"],
    ]  # fmt: skip
    return found


def _cautions(fitted: model_io.Fitted, left_out: diagnostics.LeftOutClasses) -> list[str]:
    found, classes, n = [], fitted.model.classes_, len(left_out.y)
    counts = np.bincount(left_out.y, minlength=len(classes))
    if n < findings.FEW:
        found.append(
            f"Only {n} rows have a label: the confusion in this report rests on {n} labels and may be far off."
        )
    single = np.flatnonzero(counts == 1)
    if len(single):
        some = ", ".join(f"“{short(classes[c])}”" for c in single[:3])
        found.append(
            f"{len(single)} of {len(classes)} classes have one label only ({some}): left out, nothing is known about "
            "them, and they count as wrong."
        )
    if n >= findings.FEW and left_out.right.sum() <= counts.max():
        found.append("Left-out labels come out right no more often than if every row were of the commonest class.")
    if n >= findings.FEW:
        found += _about_probabilities(left_out, counts)
    wrong = np.flatnonzero(~left_out.right & (left_out.probabilities.max(1) > SURE))
    if len(wrong):
        names = ", ".join(f"“{short(fitted.rows[i])}”" for i in left_out.rows[wrong[:3]])
        more = ", ..." if len(wrong) > 3 else ""
        some = "A label contradicts" if len(wrong) == 1 else f"{len(wrong)} labels contradict"
        found.append(f"{some} what all others say: {names}{more}. Was the row seen as what it is?")
    return found


def _about_probabilities(left_out: diagnostics.LeftOutClasses, counts: np.ndarray) -> list[str]:
    """Compare the number of correct left-out labels with their probabilities, without single labels of a class."""
    several = counts[left_out.y] > 1
    expected, right = left_out.probabilities.max(1)[several].sum(), int(left_out.right[several].sum())
    found = f"{right} of {several.sum()} left-out labels come out right, where their probabilities say {expected:.0f}: "
    words = {
        "large": "its probabilities are too large.",
        "small": "classes are more often right than the probabilities say.",
    }
    kind = verdict.probabilities(left_out)
    return [found + words[kind]] if kind in words else []
