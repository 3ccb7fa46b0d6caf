"""`gpum predict`: predictions of a model for the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..basics.checks import counted
from .messages import check_output, collected, note, say, stage
from .models import Debug, Decimal, Encoding, Force, Model, Quiet, option

if TYPE_CHECKING:  # imported when the command runs, so that other commands start faster
    import numpy as np

    from ..persistence.model_io import Fitted

CHUNK = 200  # rows that are predicted together: progress is shown, and memory is limited
INTERVAL = (0.025, 0.975)


def predict(
    model: Model,
    data: Annotated[Path, typer.Argument(metavar="TABLE", help="It has the model's features, in any order.")],
    out: Annotated[Path, option("FILE", "Table to write: .csv, .tsv, .parquet or .npz.")],
    index: Annotated[str | None, option("NAME", "Column that names the rows; by default as in the fit.")] = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the targets of rows, seen in the fit or not.

    For each target: mean, standard deviation and 95 % interval of a new observation (noise included); for classes the
    most probable class, and the probability of each. Then the coordinates of the row on the chart of largest weight, if
    the model has a chart, and far_from_surface: 1 if a row is so far from the surface that it gets the prior.

    Example:

    `gpum predict model.gpum new.csv --out predictions.csv`
    """
    from ..persistence import tables

    tables.check_ending(out)
    check_output(out, force, data, model)
    with stage(f"reading {model.name}", out), collected():
        import numpy as np

        from ..estimators.shell import check_rows
        from ..persistence import model_io
        from .columns import features_of, named, readings_like

        fitted = model_io.load(model)
    with stage(f"reading {data.name}", out):
        table = tables.read(data, decimal=decimal, encoding=encoding)
        features_of(table, fitted, model)
        with collected():
            X = check_rows(fitted.model, readings_like(table, fitted.encoding, fitted.about.get("missing")).given)
        names = named(table, "--index", [index] if index else [])
        stored = fitted.about.get("index")
        if not names and stored in table.columns:
            names = [stored]
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
    say(quiet, f"Wrote {out}: {counted(len(X), 'row')} with {', '.join(columns)}.")


def _predictions(fitted: Fitted, X: np.ndarray, verbose: int) -> dict[str, np.ndarray]:
    """The columns of a prediction for encoded rows X, made in chunks."""
    import numpy as np

    from ..basics.progress import Reporter

    made: list[tuple[Any, ...]] = []
    # The interval of a single trial is 0 to 1 in every row; the interval of its probability is more informative.
    chances = fitted.model.model_.settings.get("likelihood") == "binomial"
    with Reporter(verbose, len(X), "projecting rows") as report:
        for begin in range(0, len(X), CHUNK):
            rows = X[begin : begin + CHUNK]
            n = len(rows)
            if hasattr(fitted.model, "classes_"):
                predicted = fitted.model.model_.predictive(rows)
                made.append((predicted.probabilities, predicted.latent, predicted.far))
                report.advance(f"rows predicted: {begin + n} of {len(X)}", n)
                continue
            found = fitted.model.model_.predictive(rows)
            mean, std = (v.reshape(n, -1) for v in (found.mean, found.std))
            low, high = np.moveaxis(
                (found.of_function() if chances else found).quantiles(INTERVAL).reshape(n, 2, -1), 1, 0
            )
            made.append((mean, std, low, high, found.latent, found.far))
            report.advance(f"rows predicted: {begin + n} of {len(X)}", n)
    *chunks, latent, far = zip(*made, strict=True)
    columns: dict[str, np.ndarray] = {}
    if hasattr(fitted.model, "classes_"):
        p, name = np.concatenate(chunks[0]), fitted.targets[0]
        columns[name] = fitted.model.classes_[p.argmax(1)]
        columns |= {f"{name}_p_{c}": p[:, k] for k, c in enumerate(fitted.model.classes_)}
    else:
        values = dict(zip(("mean", "std", "low95", "high95"), map(np.concatenate, chunks), strict=True))
        for k, name in enumerate(fitted.targets):
            columns |= {f"{name}_{what}": value[:, k] for what, value in values.items()}
    if latent[0] is not None:
        columns |= {f"latent_{k + 1}": column for k, column in enumerate(np.concatenate(latent).T)}
    return columns | {"far_from_surface": np.concatenate(far)}
