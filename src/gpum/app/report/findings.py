"""The results of a fit in words: key figures, and warnings for its user."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpum import diagnostics, model_io
from gpum.tools import MORE, NO_BOUNDARY, Suggestions, number, percent, spacing

from .verdict import FEW, coverage

FAINT_EDGE = 0.01  # weight of a boundary level below which its outline is not drawn
ISOLATED = 6.0  # times the median distance to the nearest row
ODD = 4.0  # standard deviations between a label and what the others predict
WINS = 0.5  # weight above which one kind of geometry has most of the weight
LITTLE = 0.1  # weight below which the prediction is not made on the map
NOTHING_EXPLAINED, LITTLE_EXPLAINED = 0.25, 0.5  # fractions of the labels' variance below which a warning is the first
UNEVEN = 10.0  # times the spread of another column: then one column decides which rows are neighbours
# Texts of the page for a target that is a number; see `classes.WORDS`.
WORDS = {
    "nothing": (
        "Nothing unusual was found: enough labels, no row or label far from the others, intervals that hold about as "
        "often as they should."
    ),
    "left_out": (
        "For the error, the label of one row at a time is hidden and predicted from the other labels (the row itself "
        "stays). It tells how far off a prediction for an unlabelled row is likely to be."
    ),
    "mean": "Prediction",
    "mean_of": "Prediction of",
    "spread": "Uncertainty",
    "spread_title": "Uncertainty: ± one standard deviation",
    "spread_head": "± std",
    "changes": "the target",
}
MAPS = {  # titles of the flat picture
    "learned": "Flat map",
    "known": "Flat map",
    "graph": "Map of the graph",
    "relevant": "The rows in the columns that matter most",
    "directions": "The rows along two main directions",
}
SMOOTHNESS = {"heat": "heat kernel", "matern52": "Matérn 5/2", "matern32": "Matérn 3/2", "matern12": "Matérn 1/2"}


def scale_unit(geometry: str) -> str:
    """The unit of the scale of a kernel on the geometry of this title."""
    if geometry.startswith("flat"):
        return "scale, as a multiple of the data's spread"
    return f"scale, as a length along the {'graph' if geometry.startswith('graph') else 'surface'}"


def level_name(level: Any, geometry: str = "chart") -> str:
    """A boundary level in words; only charts have them."""
    if level is None:
        return "the chart's own" if geometry.startswith("chart") else "–"
    return "no boundary" if level == NO_BOUNDARY else f"level {number(level, 2)}"


def level_words(level: str) -> str:
    """A boundary level of the table of candidates, in words; empty where there is none."""
    return {"": "", "none": "no boundary"}.get(level, f"level {level}")


def outline(levels: dict[Any, float]) -> tuple[Any, str]:
    """The boundary level to draw, given the weight of each, and a sentence that says which one it is.

    NO_BOUNDARY if none is drawn, because even the likeliest has nearly no weight.
    """
    edges = {level: weight for level, weight in levels.items() if level != NO_BOUNDARY}
    if not edges:
        return None, "The line is the edge of the surface."
    level = max(edges, key=lambda v: edges[v])
    heaviest = percent(edges[level])
    none = levels.get(NO_BOUNDARY, 0.0)
    if none > edges[level] and edges[level] < FAINT_EDGE:
        return NO_BOUNDARY, f"No edge is drawn: the labels favour a surface without one (weight {percent(none)})."
    if none > edges[level]:
        return level, (
            f"The line is the likeliest edge of the surface ({level_name(level)}, weight {heaviest}), though the "
            f"labels favour none at all (weight {percent(none)})."
        )
    return level, f"The line is the likeliest edge of the surface ({level_name(level)}, weight {heaviest})."


def figures(
    fitted: model_io.Fitted, k: int, settings: diagnostics.EvidenceOverScale, left_out: diagnostics.LeaveOneOut | None
) -> list[list[str]]:
    """Key figures of target k: what, how much, and what to compare it with."""
    output = fitted.model.model_.outputs[k]
    n = len(output.labels)
    found = rows_and_setting(fitted, k, n, settings)
    if left_out is not None:
        inside, few = left_out.inside, " (few labels)" * (n < FEW)
        fraction = _explained(output, left_out)
        said = "" if fraction is None else f"; {percent(max(fraction, 0.0))} of their variance explained"
        found[2:2] = [
            [
                "Error of a left-out label",
                number(left_out.rmse),
                f"labels spread by {number(output.spread)}{said}{few}",
            ],
            ["In the 95 % interval", f"{inside.sum():,} of {len(inside):,}", f"{percent(inside.mean())}{few}"],
        ]
    return found


def _blind(output: Any) -> float:
    """Root mean square distance of a label from the mean of the other labels."""
    n = len(output.labels)
    return output.spread * n / (n - 1)


def _explained(output: Any, left_out: diagnostics.LeaveOneOut) -> float | None:
    """The fraction of the labels' variance that left-out predictions explain; None if all labels are equal."""
    return 1 - (left_out.rmse / _blind(output)) ** 2 if _blind(output) > 0 else None


def rows_and_setting(
    fitted: model_io.Fitted, k: int, n_labels: int, settings: diagnostics.EvidenceOverScale
) -> list[list[str]]:
    """Key figures that every kind of target has: two of the table, then those of the fit."""
    model = fitted.model
    first, weight = next(iter(diagnostics.geometry_weights(model, k).items()))
    N, p = len(fitted.X), len(fitted.columns)
    found = [
        ["Rows", f"{N:,}", f"{n_labels:,} with a label"],
        ["Features", f"{p:,}", f"{first}: {percent(weight)} of the weight"],
        [
            "Heaviest setting",
            SMOOTHNESS.get(settings.smoothness[0], settings.smoothness[0]),
            f"scale {number(settings.scale[0])}, {_where(settings)}, {percent(settings.weight[0])} of the weight",
        ],
        [
            "Log evidence",
            number(float(np.atleast_1d(model.log_evidence_)[k]), 4),
            "compare only fits of the same labels",
        ],
    ]
    seconds = fitted.about.get("seconds")
    if seconds is not None:
        found.append(["Fitted in", f"{number(float(seconds))} s", ""])
    return found


def _where(settings: diagnostics.EvidenceOverScale) -> str:
    """The geometry of the heaviest setting, or its boundary level."""
    geometry, level = settings.geometry[0], settings.level[0]
    return f"boundary: {level_name(level)}" if geometry.startswith("chart") else geometry


def averaged(candidates: int, with_weight: int, half: int, densities: bool = True) -> str:
    """How many candidates the prediction averages; `densities`: whether their left-out densities are known."""
    if candidates == 1:
        return "The prediction uses a single setting, which was chosen because it explains the labels best."
    few = "the first already has" if half == 1 else f"the first {half:,} already have"
    return (
        f"A candidate is a geometry with a kernel of one scale and smoothness. {candidates:,} were weighed by how well "
        f"they explain the labels, {with_weight:,} take part in the prediction, and {few} half of the "
        "weight. Many with a little weight each are normal: the labels cannot tell them apart."
        + " Left-out density: how well a candidate alone predicts a label from the others (mean log density; larger is "
        "better)." * densities
    )


def geometry(model: Any, k: int) -> str:
    """The meaning of the weights of the geometries for target k, in words."""
    titles = diagnostics.geometry_weights(model, k)
    first = next(iter(titles))
    if len(titles) == 1:
        given = model.chart_ is not None and model.latent_model_ is None
        what = "the chart that was given" if given else the(first)
        return f"The prediction is made on {what} alone: there was no other geometry."
    kinds = model.geometry_weights_[k] if isinstance(model.geometry_weights_, list) else model.geometry_weights_
    kind = max(kinds, key=lambda name: kinds[name])
    weight = percent(kinds[kind])
    if kinds[kind] < WINS:
        some = " and ".join(f"{the(title)} ({percent(weight)})" for title, weight in list(titles.items())[:2])
        return f"No geometry has most of the weight; {some} come first."
    if kind == "flat":
        return (
            f"Flat space has most of the weight ({weight}): the labels show no surface. Straight distances between "
            "rows predict them at least as well as any surface that was tried."
        )
    if kind == "graph":
        which = next(title for title in titles if title.startswith(kind))
        return (
            f"The {which} has most of the weight ({weight}): the labels follow the neighbourhoods of rows, "
            "and no smooth surface that was tried explains them better."
        )
    top = next(title for title in titles if title.startswith(kind))
    if kind == "chart":
        return f"A flat map has most of the weight ({weight}), the {top}: one map can represent the surface."
    atlas = atlas_of(model, top)
    if atlas is None:
        return f"Most of the weight ({weight}) is on {the(top)}."
    return f"Many small maps, glued, have most of the weight ({weight}): the {top}. {_shape(atlas)}"


def atlas_of(model: Any, title: str) -> Any:
    """The surface of the atlas of this title; None if it is another geometry."""
    members = model.model_.geometries.members
    return next((s.surface for s in members if s.name == "atlas" and s.title == title and hasattr(s, "surface")), None)


def _shape(atlas: Any) -> str:
    """A property of the surface that the atlas shows and a single map cannot."""
    if atlas.n_connected_components > 1:
        return (
            f"The surface has {atlas.n_connected_components} connected components. Each has a mean of its own, "
            "and labels in one say little about another."
        )
    if atlas.closed:
        return "The surface is closed, like a ring or a ball, so no single flat map can represent it without a cut."
    return "No single flat map that was tried represents the surface as well."


def the(title: str) -> str:
    """A geometry's title within a sentence."""
    return title if title.startswith("flat") else f"the {title}"


def the_map(model: Any, k: int, kind: str, width: int) -> str:
    """What the flat picture of a kind shows of rows of some width; of a chart, how much it counts for target k."""
    if kind == "graph":
        return (
            "Most of the weight is on the graph of neighbours. Here rows that are near along the graph are near each "
            "other; distances between groups of rows mean nothing. Each dot is a row of the data."
        )
    title, weight = _map_weight(model, k)
    none = "No geometry of this model has a flat map. " if kind == "directions" and title is None else ""
    if kind in ("relevant", "directions") and width < 3:
        return f"{none}Each dot is a row of the data, in its own columns."
    if kind == "relevant":
        return "Each dot is a row of the data, drawn in the columns that matter most for the prediction."
    if kind == "directions":
        return (
            f"{none}Each dot is a row of the data, drawn along the two main directions of the cloud (principal "
            "components)."
        )
    if weight >= WINS:
        return ""
    if weight >= LITTLE:
        return f"The prediction is made on this map in part: the {title} has {percent(weight)} of the weight."
    much = f"only {percent(weight)}" if weight > 0 else "none"
    return f"The prediction is not made on this map: the {title} is the best flat map, but it has {much} of the weight."


def _map_weight(model: Any, k: int) -> tuple[str | None, float]:
    """The chart that is drawn, and its weight for target k."""
    title = diagnostics.shown_chart(model)
    return title, 0.0 if title is None else diagnostics.geometry_weights(model, k)[title]


def cautions(fitted: model_io.Fitted, k: int, left_out: diagnostics.LeaveOneOut | None) -> list[str]:
    """Warnings about target k, in plain words, besides `about_cloud`; empty if there are none."""
    output = fitted.model.model_.outputs[k]
    found = [*_about_labels(output.labels), *_about_settings(fitted.model, k)]
    if left_out is None or len(output.labels) < FEW:
        return found
    return [*_about_explained(fitted, output, left_out), *found, *_about_predictions(fitted, output, left_out)]


def about_cloud(fitted: model_io.Fitted) -> list[str]:
    """Warnings about the surface, for all targets."""
    found = []
    model, latent = fitted.model, fitted.model.latent_model_
    if not getattr(latent, "converged_", True):
        found.append(
            "The surface was still improving when the fit stopped, so the chart may not be its best. Fit again, in "
            f"Python, with latent_model={type(latent).__name__}({latent.latent_dim_}, max_iter={2 * latent.max_iter})."
        )
    if model.latent_model_ is not None and len(torn := diagnostics.cuts(model, fitted.X)):
        where = (
            f"The map cuts the surface in {len(torn)} place{'s' * (len(torn) > 1)}: rows that are neighbours in the "
            f"data, such as {_names(fitted, torn[0])}, are far apart on it"
        )
        others = 1 - float(np.mean([_map_weight(model, k)[1] for k in range(len(model.model_.outputs))]))
        if others > WINS:
            found.append(
                f"{where}. That concerns the picture more than the prediction: {percent(others)} of the weight is on "
                "other geometries."
            )
        else:
            found.append(
                f"{where}, so the label of one says little about the other. A closed or branching surface has to be "
                "cut somewhere, and geometry='atlas' needs no cut; otherwise fit again with a larger latent_dim."
            )
    some = diagnostics.learned_from(model, fitted.X)
    nearest = spacing(fitted.X[some] / model.model_.cloud.unit)  # in the units of the fit
    alone = np.flatnonzero(nearest > ISOLATED * max(float(np.median(nearest)), 1e-12))
    if len(alone):
        alone = alone[np.argsort(-nearest[alone], kind="stable")]
        times, first = nearest[alone[0]] / max(float(np.median(nearest)), 1e-12), some[alone[:3]]
        how_many = f"{len(alone)} rows are" if len(alone) > 1 else "One row is"
        found.append(
            f"{how_many} far from all others, the farthest is {_names(fitted, first)} (up to {number(times, 2)} "
            "times the usual distance between neighbours). Little is known about the "
            "surface around them: check whether they are mistakes, or add rows between."
        )
    return found


def label_next(found: Suggestions | None, of_classes: bool = False) -> str:
    """The expected benefit of more labels, in words."""
    if found is None:
        return ""
    if found.enough:
        if of_classes:
            return f"More labels no longer help much: {MORE} of them would settle hardly a row besides their own."
        return (
            "More labels no longer help much: the best of them is expected to gain less than the noise of the labels."
        )
    rows = f"{len(found.rows)} rows" if len(found.rows) > 1 else "row"
    return f"“Label next” lists the {rows} whose labels would lower the uncertainty of all rows most."


def _about_labels(labels: np.ndarray) -> list[str]:
    if len(labels) < 2:
        return ["Only one row has a label: nothing can be said about how good the predictions are. Label more rows."]
    found = []
    if len(labels) < FEW:
        found.append(
            f"Only {len(labels)} rows have a label: the error and the coverage in this report rest on "
            f"{len(labels)} numbers and may be far off."
        )
    if np.ptp(labels) == 0:
        found.append("All labels have the same value: the prediction is that value everywhere.")
    return found


def _about_settings(model: Any, k: int) -> list[str]:
    components = model.model_.outputs[k].posterior.components
    at = dict.fromkeys(("low", "high"), 0.0)
    for component in components:
        for end in at:
            at[end] += component.weight * component.candidate.at_end(end)
    found = []
    if at["low"] > 0.25:
        found.append(
            f"{percent(at['low'])} of the weight is at the smallest scale the kernel can follow: the target changes "
            "faster over the surface than that. Raise n_modes (of KernelOptions), or the labels may be mostly noise."
        )
    if at["high"] > 0.25:
        found.append(
            f"{percent(at['high'])} of the weight is at the largest scale that was tried: the target changes very "
            "slowly, and a larger max_time may fit better."
        )
    return found


def _about_explained(fitted: model_io.Fitted, output: Any, left_out: diagnostics.LeaveOneOut) -> list[str]:
    """A warning if the model hardly predicts the target."""
    fraction = _explained(output, left_out)
    if fraction is None or fraction >= LITTLE_EXPLAINED:
        return []
    much = "next to nothing" if fraction < NOTHING_EXPLAINED else "less than half"
    spreads = fitted.X.std(0)
    as_they_come = np.ndim(fitted.model.model_.cloud.unit) == 0
    uneven = as_they_come and spreads.max() > UNEVEN * max(float(spreads.min()), 1e-300)
    advice = (
        f"The columns' spreads go from {number(spreads.min(), 2)} to {number(spreads.max(), 2)}, so that a few columns "
        "decide which rows are neighbours: fit again with scale='standard'."
        if uneven
        else "More labels, or other columns, may help."
    )
    return [
        f"This model explains {much} of the target ({percent(max(fraction, 0.0))} of the variance of its labels): a "
        f"left-out label is missed by {number(left_out.rmse)}, and guessing the mean of the other labels misses by "
        f"{number(_blind(output))}. {advice}"
    ]


def _about_predictions(fitted: model_io.Fitted, output: Any, left_out: diagnostics.LeaveOneOut) -> list[str]:
    n, inside = len(left_out.y), int(left_out.inside.sum())
    found = []
    words = {"narrow": "too narrow: read ± as too small", "wide": "wider than they need to be"}
    if (word := words.get(coverage(left_out))) is not None:
        found.append(
            f"{inside} of {n} labels ({percent(inside / n)}) are in their 95 % interval. The intervals are {word}."
        )
    gross = output.posterior.gross * output.posterior.gross_variance * output.scale**2 if output.linear else 0.0
    variance = left_out.std**2  # gross errors, where some are expected, widen it for all labels
    off = np.abs(left_out.y - left_out.mean) / np.sqrt(np.maximum(variance - gross, 0.01 * variance))
    odd = np.flatnonzero(off > ODD)
    if len(odd):
        odd = odd[np.argsort(-off[odd], kind="stable")]
        names, most = _names(fitted, left_out.rows[odd[:3]]), f"{number(off[odd[0]], 2)} standard deviations"
        found.append(
            f"The label of {names} is {most} from what the other labels say. Check it for mistakes."
            if len(odd) == 1
            else f"{len(odd)} labels are up to {most} from what the others say, most of all {names}. Check them."
        )
    return found


def _names(fitted: model_io.Fitted, rows: np.ndarray) -> str:
    return ", ".join(f"“{fitted.rows[i]}”" for i in rows)
