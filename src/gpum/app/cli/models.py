"""`gpum fit`: from a table to a model file; and the options of several commands."""

from __future__ import annotations

import shlex
import time
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from gpum import GpumError, __version__
from gpum.tools import counted

from .messages import (
    as_labelled,
    called,
    check_output,
    collected,
    duration,
    listed,
    note,
    note_all,
    say,
    size,
    stage,
    with_labels,
)


def _remember(ctx: typer.Context, value: bool) -> bool:
    root = ctx.find_root()
    root.obj = bool(root.obj) or value
    return value


Debug = Annotated[bool, typer.Option("--debug", callback=_remember, help="Show the traceback of an error.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors and notes only.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="File of `gpum fit` or of `model.save`.")]
Decimal = Annotated[str, typer.Option(metavar="CHARACTER", help="Decimal mark of tables of text, such as a comma.")]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VALUE",
        help="A number or word for a missing reading: 100, NA; may be repeated. Empty cells always are.",
    ),
]
Written = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=EXAMPLE",
        help="How the cells of a column are written: 'weight=12 g', 'price=1.234,5', sold=31/12/2024; may be repeated.",
    ),
]
Encoding = Annotated[str, typer.Option(metavar="NAME", help="Encoding of tables of text, such as latin-1 or utf-16.")]
Matrix = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Of single cells (.h5ad): the features, X or a name of obsm or layers; by default X_pca, else X.",
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help=".csv, .tsv, .txt, .xlsx, .parquet, .feather or .npz, with named columns; single cells (.h5ad); "
        "or a folder of pictures.",
    ),
]


def option(kind: str, text: str, panel: str | None = None) -> Any:
    """An option of a command."""
    return typer.Option(metavar=kind, help=text, rich_help_panel=panel)


def column(text: str) -> Any:
    """An option that names columns."""
    return option("NAME", text, "Columns (several: repeat the option, or put commas between names)")


Unlabelled = Annotated[
    str | None,
    option("WORD", "Class that marks rows without a label, or none; by default -1. Empty cells always do."),
]


PANEL = "Settings of the estimator"


def setting(kind: str, text: str, **limits: Any) -> Any:
    """An option that is a parameter of the estimator."""
    return typer.Option(metavar=kind, help=text, rich_help_panel=PANEL, **limits)


def fit(
    data: Data,
    target: Annotated[list[str], column("What to learn; empty where it is unknown.")],
    out: Annotated[Path, option("FILE", "Model file to write, such as model.gpum.")],
    features: Annotated[list[str] | None, column("Columns of the data space; by default all others.")] = None,
    drop: Annotated[list[str] | None, column("Columns to leave out.")] = None,
    index: Annotated[str | None, column("Column that names the rows; it is no feature.")] = None,
    classes: Annotated[
        bool, typer.Option("--classes", help="The target's values are classes; those of a column of text always are.")
    ] = False,
    unlabelled: Unlabelled = None,
    likelihood: Annotated[
        str,
        setting(
            "WORD",
            "auto (gaussian, or lognormal where y is above 0 and its logarithms are better), gaussian, student "
            "(outliers), lognormal (above 0), poisson (counts), binomial (0 and 1).",
        ),
    ] = "auto",
    angle: Annotated[float | None, setting("PERIOD", "The target is an angle with this period, such as 360.")] = None,
    latent_dim: Annotated[
        str, setting("Q", "Dimension of the surface, several such as 1,2, average or auto.")
    ] = "average",
    geometry: Annotated[
        str, setting("WORD", "chart, atlas, graph, flat, several such as chart,graph, or average: all of them.")
    ] = "average",
    latent_model: Annotated[str, setting("WORD", "bgplvm or gplvm.")] = "bgplvm",
    n_inducing: Annotated[int | None, setting("N", "Inducing points of the latent model; 50 by default.")] = None,
    kernel: Annotated[str, setting("WORD", "auto, spectral or brownian.")] = "auto",
    boundary: Annotated[str, setting("LEVEL", "A level such as 0.5, average, or variance (the paper's).")] = "average",
    smoothness: Annotated[str, setting("WORD", "average, heat, matern12, matern32 or matern52.")] = "average",
    hyperparameters: Annotated[str, setting("WORD", "average, or evidence: the single best.")] = "average",
    n_modes: Annotated[int | None, setting("N", "Eigenfunctions (spectral); 100 by default.")] = None,
    n_path_starts: Annotated[int | None, setting("N", "Rows that paths start from (brownian); all by default.")] = None,
    n_paths: Annotated[int, setting("N", "Paths from each point (brownian).")] = 1000,
    max_time: Annotated[float | None, setting("T", "Largest diffusion time of heat kernels.")] = None,
    seed: Annotated[int, setting("N", "The same seed gives the same model.", min=0, max=2**32 - 1)] = 0,
    n_jobs: Annotated[int, setting("N", "Threads; -1 is one a core. The model does not depend on it.")] = -1,
    checkpoint: Annotated[
        Path | None,
        setting("DIR", "Folder for checkpoints: an interrupted fit continues from it when the command is repeated."),
    ] = None,
    missing: Missing = None,
    written: Written = None,
    scale: Annotated[
        str, setting("WORD", "What features are divided by: auto, none, standard (their sds) or robust (quartiles).")
    ] = "auto",
    scale_columns: Annotated[
        bool, typer.Option("--scale-columns", help="The same as --scale standard.", rich_help_panel=PANEL)
    ] = False,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    matrix: Matrix = None,
    max_file: Annotated[
        float | None,
        option("MB", "Largest size of the model file; eigenvectors of large clouds are then left out if necessary."),
    ] = None,
    report: Annotated[Path | None, option("FILE", "Also write the report, an HTML page.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also print notes on details of the computation.")] = False,
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
    if report is not None:
        check_output(report, force, data, out)
    with stage(f"reading {data.name}", out):
        import numpy as np

        from ..tables import labelled, tables
        from ..tables.written import Conventions
        from .advice import readings_or_advice
        from .columns import choose, gaps_in, named, note_counting
        from .targets import FOR_CLASSES, NO_MARK, are_classes, coded, labels_of, mark_of

        table = with_labels(tables.read(data, decimal=decimal, encoding=encoding, matrix=matrix), data, target)
        if table.advice is not None:
            note(table.advice, act=True)
        targets = named(table, "--target", target)
        if not targets:
            raise GpumError(f"--target is empty; name a column of {data.name}: {listed(list(table.columns))}")
        conventions = Conventions.of(missing, written)
        chosen = choose(table, targets, features, drop, index, conventions)
        table, names, used = chosen.table, chosen.index, chosen.used
        readings = readings_or_advice(chosen)
        X = readings.X
        numbers = {"--likelihood": likelihood not in ("auto", "gaussian"), "--angle": angle is not None}
        classes = as_labelled(data, targets, classes, numbers)
        if unlabelled is None and any("-1" in (kind.classes or ()) for kind in labelled.kinds(data, targets).values()):
            unlabelled = NO_MARK  # in the file of `gpum label`, -1 is a class
        classes = classes or (len(targets) == 1 and are_classes(table, targets[0], unlabelled))
        if classes and len(targets) > 1:
            raise GpumError(f"--classes is for one target, but --target names {listed(targets)}; fit them one by one")
        if classes:
            labels, y = coded(table, targets[0], unlabelled)
        elif unlabelled is not None:
            raise GpumError(FOR_CLASSES)
        else:
            y = np.stack([labels_of(table, name) for name in targets], 1)
            labels = y if len(targets) > 1 else y[:, 0]
        if not features:
            note_counting(X, readings.names, bool(names))
    known = ", ".join(f"{name} known for {int(n)}" for name, n in zip(targets, (~np.isnan(y)).sum(0), strict=True))
    say(quiet, f"{data.name}: {counted(len(X), 'row')}, {counted(len(used), 'feature')}{gaps_in(X)}; {known}.")
    with stage("starting", out):
        from gpum import GPUMClassifier, GPUMRegressor, KernelOptions, model_io
    with called(data.name):
        options = KernelOptions(
            kernel, boundary=_number(boundary), n_modes=n_modes, max_time=max_time, n_paths=n_paths,
            n_path_starts=n_path_starts,
        )  # fmt: skip
    settings: dict[str, Any] = {
        "latent_dim": several(latent_dim),
        "geometry": several(geometry),
        "latent_model": _latent_model(latent_model, n_inducing),
        "scale": "standard" if scale_columns else scale,
        "kernel": kernel if options == KernelOptions(kernel) else options,
        "smoothness": smoothness,
        "n_jobs": n_jobs,
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "random_state": seed,
        "verbose": int(not quiet),
    }
    if classes:
        if geometry == "average":
            del settings["geometry"]  # a classifier's own default
        model: Any = GPUMClassifier(**settings, unlabelled=mark_of(unlabelled))
    else:
        model = GPUMRegressor(**settings, hyperparameters=hyperparameters, likelihood=likelihood, period=angle)
    begin = time.perf_counter()
    with stage("fitting", out), collected() as warned, called(data.name):
        model.fit(readings.given, labels)
    seconds = time.perf_counter() - begin
    note_all(model.notes_, warned, verbose, out)
    model.verbose = 0
    about = {
        "source": data.name,
        "version": __version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": model.get_params(deep=False),
        "seconds": seconds,
        "warnings": warned,
        **({"index": names[0]} if names else {}),
        **({} if matrix is None else {"matrix": matrix}),
        **conventions.words(),
    }
    rows = table.text(names[0]) if names else [str(k + 1) for k in range(len(X))]
    with stage(f"writing {out.name}", out):
        fitted = model_io.Fitted(model, readings.names, targets, X, y, rows, about)
        model_io.save(fitted, out, force=force, max_mb=max_file)
    say(quiet, f"Fitted in {duration(seconds)}; wrote {out} ({size(out)}).")
    if report is not None:
        from ..report import write_report

        with stage(f"writing {report.name}", report):
            write_report(fitted, report, force=force)
        say(quiet, f"Wrote {report} ({size(report)}); open it in a browser.")
    read = [*_named("--decimal", decimal, "."), *_named("--encoding", encoding, "utf-8")]
    predictions, page = str(_free(Path("predictions.csv"))), str(_free(Path("report.html")))
    say(quiet, f"Next: {shlex.join(['gpum', 'predict', str(out), str(data), *read, '--out', predictions])}")
    if report is None:
        say(quiet, f"      {shlex.join(['gpum', 'report', str(out), '--out', page])}")


def _latent_model(name: str, n_inducing: int | None) -> Any:
    """The latent model by its name, or, with a number of inducing points, as an object that has it."""
    if n_inducing is None:
        return name
    from gpum import BayesianGPLVM

    if name != "bgplvm":
        raise GpumError(f"--n-inducing is {n_inducing}, but --latent-model {name} has no inducing points; leave it out")
    return BayesianGPLVM(n_inducing=n_inducing)


def _named(option: str, value: str, default: str) -> list[str]:
    return [] if value == default else [option, value]


def _free(path: Path) -> Path:
    """The path, or the same with the first number under which there is no file."""
    paths = (path.with_stem(f"{path.stem}_{k}") for k in count(2))
    return path if not path.exists() else next(other for other in paths if not other.exists())


def several(text: str) -> Any:
    """A word or a whole number, or a list of them if they are separated by commas."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    found = [int(word) if word.isdigit() else word for word in words]
    return found[0] if len(found) == 1 else found or text


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
