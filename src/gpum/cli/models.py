"""`gpum fit`, `gpum predict` and `gpum info`: from a table to a model file, and from that to predictions."""

from __future__ import annotations

import shlex
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import __version__
from ..checks import GpumError
from .messages import (
    as_labelled,
    as_options,
    brief,
    called,
    check_output,
    collected,
    duration,
    listed,
    note,
    say,
    size,
    stage,
    the,
    weighed,
    with_labels,
)

if TYPE_CHECKING:  # imported by the commands that need them: others need not wait
    import numpy as np

    from ..files.model_io import Fitted

CHUNK = 200  # rows predicted at once: progress is seen, and memory bounded
NO_MAP = "none: no geometry is a chart"
INTERVAL = (0.025, 0.975)


def _remember(ctx: typer.Context, value: bool) -> bool:
    root = ctx.find_root()
    root.obj = bool(root.obj) or value
    return value


Debug = Annotated[bool, typer.Option("--debug", callback=_remember, help="Show the traceback of an error.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors and notes only.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="File of `gpum fit` or of `model.save`.")]
Decimal = Annotated[str, typer.Option(metavar="CHARACTER", help="Decimal mark of .csv and .tsv, such as a comma.")]
Missing = Annotated[
    float | None,
    typer.Option(metavar="VALUE", help="A number that means a missing reading, such as 100. Empty cells always do."),
]
Encoding = Annotated[str, typer.Option(metavar="NAME", help="Encoding of .csv and .tsv, such as latin-1 or utf-16.")]


def _option(kind: str, text: str, panel: str | None = None) -> Any:
    return typer.Option(metavar=kind, help=text, rich_help_panel=panel)


def _column(text: str) -> Any:
    return _option("NAME", text, "Columns (several: repeat the option, or put commas between names)")


def _setting(kind: str, text: str) -> Any:
    return _option(kind, text, "Settings of the estimator")


def fit(
    data: Annotated[Path, typer.Argument(metavar="TABLE", help=".csv, .tsv, .parquet or .npz, with named columns.")],
    target: Annotated[list[str], _column("What to learn; empty where it is unknown.")],
    out: Annotated[Path, _option("FILE", "Model file to write, such as model.gpum.")],
    features: Annotated[list[str] | None, _column("What spans the data space; by default all others.")] = None,
    drop: Annotated[list[str] | None, _column("Columns to leave out.")] = None,
    index: Annotated[str | None, _column("Column that names the rows; it is no feature.")] = None,
    classes: Annotated[
        bool, typer.Option("--classes", help="The target's values are classes; a column of text is so by itself.")
    ] = False,
    likelihood: Annotated[
        str, _setting("WORD", "gaussian, student (labels with outliers), poisson (counts) or binomial (0 and 1).")
    ] = "gaussian",
    angle: Annotated[
        float | None, _setting("PERIOD", "The target is an angle that comes round after so much, such as 360.")
    ] = None,
    latent_dim: Annotated[
        str, _setting("Q", "Dimension of the surface, several such as 1,2, average or auto.")
    ] = "average",
    geometry: Annotated[
        str, _setting("WORD", "chart, atlas, graph, flat, several such as chart,graph, or average: all of them.")
    ] = "average",
    latent_model: Annotated[str, _setting("WORD", "bgplvm or gplvm.")] = "bgplvm",
    n_inducing: Annotated[int | None, _setting("N", "Inducing points of the latent model; 50 by default.")] = None,
    kernel: Annotated[str, _setting("WORD", "auto, spectral or brownian.")] = "auto",
    boundary: Annotated[str, _setting("LEVEL", "A level such as 0.5, average, or variance (the paper's).")] = "average",
    smoothness: Annotated[str, _setting("WORD", "average, heat, matern12, matern32 or matern52.")] = "average",
    hyperparameters: Annotated[str, _setting("WORD", "average, or evidence: the single best.")] = "average",
    n_kernel_inducing: Annotated[
        int | None, _setting("N", "Eigenfunctions (spectral), or points that paths start from (brownian).")
    ] = None,
    n_paths: Annotated[int, _setting("N", "Paths from each point (brownian).")] = 1000,
    max_time: Annotated[float | None, _setting("T", "Largest diffusion time of heat kernels.")] = None,
    seed: Annotated[int, _setting("N", "The same seed gives the same model.")] = 0,
    n_jobs: Annotated[
        int | None, _setting("N", "Processes at once (default: threads, one a core); the model does not depend on it.")
    ] = None,
    checkpoint: Annotated[
        Path | None, _setting("DIR", "Folder to go on from: after a kill, the same command does what is left.")
    ] = None,
    missing: Missing = None,
    scale_columns: Annotated[
        bool, typer.Option("--scale-columns", help="Divide every feature by its standard deviation.")
    ] = False,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a model to a table and write it to a file.

    Rows with an empty target are used too: they show where the surface is. Nothing is written before the fit has ended.

    Examples:

    `gpum fit data.csv --target y --out model.gpum`

    `gpum fit wifi.csv --target x,y --index id --drop time --latent-dim auto --out wifi.gpum`
    """
    check_output(out, force, data)
    with stage(f"reading {data.name}", out):
        import numpy as np

        from ..files import tables
        from .columns import check_apart, coded, gaps_in, labels_of, named, readings_of, spreads

        table = with_labels(tables.read(data, decimal=decimal, encoding=encoding), data, target)
        targets = named(table, "--target", target)
        dropped = named(table, "--drop", drop or [])
        names = named(table, "--index", [index] if index else [])
        others = [name for name in table.columns if name not in {*targets, *dropped, *names}]
        used = named(table, "--features", features or []) or others
        check_apart({"--target": targets, "--drop": dropped, "--index": names, "--features": used})
        X = readings_of(table, used, missing)
        numbers = {"--likelihood": likelihood != "gaussian", "--angle": angle is not None}
        classes = as_labelled(data, targets, classes, numbers)
        classes = classes or (len(targets) == 1 and bool(table.words(targets[0])))
        if classes and len(targets) > 1:
            raise GpumError(f"--classes is for one target, but --target names {listed(targets)}; fit them one by one")
        if classes:
            labels, y = coded(table, targets[0])
        else:
            y = np.stack([labels_of(table, name) for name in targets], 1)
            labels = y if len(targets) > 1 else y[:, 0]
        scales = spreads(X, used) if scale_columns else None
    known = ", ".join(f"{name} known for {int(n)}" for name, n in zip(targets, (~np.isnan(y)).sum(0), strict=True))
    say(quiet, f"{data.name}: {len(X)} rows, {len(used)} features{gaps_in(X)}; {known}.")
    with stage("starting", out):
        from ..estimators.classifier import GPUMClassifier
        from ..estimators.regressor import GPUMRegressor
        from ..files import model_io
    settings: dict[str, Any] = {
        "latent_dim": _several(latent_dim),
        "geometry": _several(geometry),
        "latent_model": latent_model,
        "n_inducing": n_inducing,
        "boundary": _number(boundary),
        "kernel": kernel,
        "smoothness": smoothness,
        "n_kernel_inducing": n_kernel_inducing,
        "n_paths": n_paths,
        "max_time": max_time,
        "n_jobs": n_jobs,
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "random_state": seed,
        "verbose": int(not quiet),
    }
    if classes:
        if geometry == "average":
            del settings["geometry"]  # a classifier's own default
        model: Any = GPUMClassifier(**settings)
    else:
        turn: dict[str, Any] = {} if angle is None else {"target": "angle", "period": angle}
        model = GPUMRegressor(**settings, hyperparameters=hyperparameters, likelihood=likelihood, **turn)
    begin = time.perf_counter()
    with stage("fitting", out), collected() as warned, called(data.name):
        X = X if scales is None else X / scales
        model.fit(X, labels)
    seconds = time.perf_counter() - begin
    model.verbose = 0
    about = {
        "source": data.name,
        "version": __version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": model.get_params(deep=False),
        "seconds": seconds,
        "warnings": warned,
        **({"index": names[0]} if names else {}),
        **({} if scales is None else {"scales": scales.tolist()}),
        **({} if missing is None else {"missing": missing}),
    }
    rows = table.text(names[0]) if names else [str(k + 1) for k in range(len(X))]
    with stage(f"writing {out.name}", out):
        model_io.save(model_io.Fitted(model, used, targets, X, y, rows, about), out, force=force)
    say(quiet, f"Fitted in {duration(seconds)}; wrote {out} ({size(out)}).")
    say(quiet, f"Next: {shlex.join(['gpum', 'predict', str(out), str(data), '--out', 'predictions.csv'])}")
    say(quiet, f"      {shlex.join(['gpum', 'report', str(out), '--out', 'report.html'])}")


def predict(
    model: Model,
    data: Annotated[Path, typer.Argument(metavar="TABLE", help="It has the model's features, in any order.")],
    out: Annotated[Path, _option("FILE", "Table to write: .csv, .tsv, .parquet or .npz.")],
    index: Annotated[str | None, _option("NAME", "Column that names the rows; by default as in the fit.")] = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the targets of rows, seen in the fit or not.

    For each target: mean, standard deviation and 95 % interval of a new observation (noise included); of classes the
    most probable, and the probability of each. Then the row's
    coordinates on the heaviest chart, where the model has one, and far_from_surface: 1 where a row is so far from what
    was fitted that it gets the prior.

    Example:

    `gpum predict model.gpum new.csv --out predictions.csv`
    """
    from ..files import tables

    tables.check_ending(out)
    check_output(out, force, data, model)
    with stage(f"reading {model.name}", out), collected():
        import numpy as np

        from ..files import model_io
        from .columns import features_of, named

        fitted = model_io.load(model)
    with stage(f"reading {data.name}", out):
        table = tables.read(data, decimal=decimal, encoding=encoding)
        X = table.readings(features_of(table, fitted, model), "or remove the row", fitted.about.get("missing"))
        X = X / np.array(fitted.about.get("scales", 1.0))
        names = named(table, "--index", [index] if index else [])
        kept = fitted.about.get("index")
        if not names and kept in table.columns:
            names = [kept]
    with stage("predicting", out), collected():
        columns = _predictions(fitted, X, int(not quiet))
    rows = table.text(names[0]) if names else [str(k + 1) for k in range(len(X))]
    far = np.flatnonzero(columns["far_from_surface"])
    if len(far):
        note(
            f"rows far from the fitted surface: {len(far)} of {len(X)}, the first is {rows[far[0]]}. They get the "
            "prior (a wide interval around the mean of the labels), and 1 in the column far_from_surface."
        )
    if fitted.model.latent_ is None:
        note("no geometry of this model is a chart, so there are no columns latent_1, latent_2, ...")
    with stage(f"writing {out.name}", out):
        tables.write(out, {names[0] if names and names[0] not in columns else "row": rows, **columns})
    say(quiet, f"Wrote {out}: {len(X)} rows with {', '.join(columns)}.")


def info(model: Model, debug: Debug = False) -> None:
    """Say what is in a model file.

    Example:

    `gpum info model.gpum`
    """
    from ..files import model_io

    told = model_io.summary(model)
    settings, about, targets = (told.get(key, {}) for key in ("settings", "about", "targets"))
    chosen = ("geometry", "latent_dim", "kernel", "boundary", "smoothness", "hyperparameters", "random_state")
    names = told.get("names") or (["y"] if len(targets) == 1 else [f"y_{k + 1}" for k in range(len(targets))])
    features = told.get("features")
    lines = [
        ("file", f"{model} ({size(model)}), gpum {told.get('version')}" + _after(", ", about.get("date"))),
        ("holds", str(told.get("kind"))),
        ("fitted to", f"{about['source']} in {duration(about['seconds'])}" if "seconds" in about else "arrays"),
        ("rows", f"{told.get('rows')}" + _after(", named by ", about.get("index"))),
        ("features", f"{len(features)}: {listed(features)}" if features else f"{told.get('n_features')}, no names"),
        ("map", f"{told['map']} ({settings['latent_model']})" if told.get("map") else NO_MAP),
        ("settings", ", ".join(f"{name} {settings[name]}" for name in chosen if name in settings)),
    ]
    if about.get("scales"):
        lines.append(("scaling", "every feature is divided by its standard deviation"))
    for name, target in zip(names, targets, strict=True):
        best = target["best"]
        level = f", boundary level {brief(best['level'])}" if "level" in best else ""
        level = ", no boundary" if best.get("level") == "none" else level
        span = f" from {target['range'][0]:.4g} to {target['range'][1]:.4g}" if "range" in target else ""
        if "classes" in target:
            span = " of " + listed([f"{name} ({n})" for name, n in target["classes"]])
        lines += [
            (f"target {name}", f"{target['labels']} labels{span}"),
            ("", f"geometry: {weighed(target['geometry'])}"),
            ("", f"log evidence {target['log_evidence']:.4g}"),
            ("", f"heaviest setting: {best['smoothness']}, scale {best['scale']:.3g}{level}, on {the(target['on'])}"),
        ]
    lines += [("warning", as_options(text)) for text in about.get("warnings", [])]
    lines += [("note", as_options(text)) for text in told.get("notes", [])]
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        typer.echo(f"{name:{width}}  {text}")


def _after(joint: str, text: str | None) -> str:
    return f"{joint}{text}" if text else ""


def _predictions(fitted: Fitted, X: np.ndarray, verbose: int) -> dict[str, np.ndarray]:
    """The columns of a prediction, made in chunks."""
    import numpy as np

    from ..progress import Reporter

    made: list[tuple[Any, ...]] = []
    with Reporter(verbose, len(X), "placing rows") as report:
        for begin in range(0, len(X), CHUNK):
            rows = X[begin : begin + CHUNK]
            n = len(rows)
            if hasattr(fitted.model, "classes_"):
                placed = fitted.model.predictive(rows)
                made.append((placed.probabilities, placed.latent, placed.far))
                report.advance(f"rows predicted: {begin + n} of {len(X)}", n)
                continue
            found = fitted.model.predictive(rows)
            mean, std = (v.reshape(n, -1) for v in found.moments())
            low, high = np.moveaxis(found.quantiles(INTERVAL).reshape(n, 2, -1), 1, 0)
            made.append((mean, std, low, high, found.latent, found.far))
            report.advance(f"rows predicted: {begin + n} of {len(X)}", n)
    *parts, latent, far = zip(*made, strict=True)
    columns: dict[str, np.ndarray] = {}
    if hasattr(fitted.model, "classes_"):
        p, name = np.concatenate(parts[0]), fitted.targets[0]
        columns[name] = fitted.model.classes_[p.argmax(1)]
        columns |= {f"{name}_p_{c}": p[:, k] for k, c in enumerate(fitted.model.classes_)}
    else:
        values = dict(zip(("mean", "std", "low95", "high95"), map(np.concatenate, parts), strict=True))
        for k, name in enumerate(fitted.targets):
            columns |= {f"{name}_{what}": value[:, k] for what, value in values.items()}
    if latent[0] is not None:
        columns |= {f"latent_{k + 1}": column for k, column in enumerate(np.concatenate(latent).T)}
    return columns | {"far_from_surface": np.concatenate(far)}


def _several(text: str) -> Any:
    """A word or a whole number, or a list of them where there are commas."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    found = [int(part) if part.isdigit() else part for part in parts]
    return found[0] if len(found) == 1 else found or text


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
