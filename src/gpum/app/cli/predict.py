"""`gpum predict`: predictions of a model for the rows of a table, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpum.tools import counted

from .messages import called, check_output, collected, note, say, stage
from .models import Debug, Decimal, Encoding, Force, Model, Quiet, option

if TYPE_CHECKING:  # imported when the command runs, so that other commands start faster
    from gpum import model_io

    from ..tables.table import Table
    from .blocks import Rows


def predict(
    model: Model,
    data: Annotated[Path, typer.Argument(metavar="TABLE", help="It has the model's features, in any order.")],
    out: Annotated[Path, option("FILE", "Table to write: .csv, .parquet, .npz, ...; .h5ad: TABLE with more in obs.")],
    index: Annotated[str | None, option("NAME", "Column that names the rows; by default as in the fit.")] = None,
    cluster: Annotated[
        str | None, option("ADDRESS", "Dask scheduler whose workers predict, such as tcp://10.0.0.5:8786.")
    ] = None,
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

    The table is read, predicted and written in blocks of rows, so that it may be larger than the memory. A table of
    text is written with the separator and the decimal mark of the table that was read.

    Examples:

    `gpum predict model.gpum new.csv --out predictions.csv`

    `gpum predict model.gpum new.parquet --out predictions.parquet --cluster tcp://10.0.0.5:8786`
    """
    from ..tables import tables

    tables.check_ending(out)
    check_output(out, force, data, model)
    with stage(f"reading {model.name}", out), collected():
        from gpum import model_io
        from gpum.tools import Reporter

        from .blocks import Predictor, predicted

        fitted = model_io.load(model)
    count, far, first_far, made = 0, 0, "", [""]
    with (
        stage("predicting", out),
        collected(in_blocks=True),
        Reporter(int(not quiet), tables.expected_rows(data), "projecting rows", "about") as report,
        tables.writing(out, data, decimal=decimal, encoding=encoding) as add,
    ):
        matrix = fitted.about.get("matrix") if data.suffix.lower() == ".h5ad" else None
        read = tables.blocks(data, decimal=decimal, encoding=encoding, matrix=matrix)
        blocks = _read(read, fitted, model, index)
        for rows, columns in predicted(Predictor.of(fitted), blocks, cluster):
            made = list(columns)
            add({rows.title if rows.title not in columns else "row": rows.names, **columns})
            count += len(rows.names)
            if columns["far_from_surface"].any():
                first_far = first_far or rows.names[int(columns["far_from_surface"].argmax())]
                far += int(columns["far_from_surface"].sum())
            report.advance(f"rows predicted: {count}", len(rows.names))
    if far:
        note(
            f"rows far from the fitted surface: {far} of {count}, the first is {first_far}. Nothing that was learned "
            "holds there, so they get the mean of the labels with a wide interval, and 1 in the column "
            "far_from_surface. Check the units and the order of their columns.",
            act=True,
        )
    say(quiet, f"Wrote {out}: {counted(count, 'row')} with {', '.join(made)}.")


def _read(blocks: Iterator[Table], fitted: model_io.Fitted, model: Path, index: str | None) -> Iterator[Rows]:
    """The rows of each block of a table, encoded as in the fit, with their names."""
    from gpum.tools import check_rows

    from ..tables.written import Conventions
    from .blocks import Rows
    from .columns import features_of, named, readings_like

    written = Conventions.stored(fitted.about)
    for table in blocks:
        features_of(table, fitted, model)
        with called(table.source, table.first):
            X = check_rows(fitted.model, readings_like(written.applied(table, fitted.columns), fitted.encoding).given)
        names = named(table, "--index", [index] if index else [])
        stored = fitted.about.get("index")
        if not names and stored in table.columns:
            names = [stored]
        if names:
            yield Rows(names[0], table.text(names[0]), X)
        else:
            yield Rows("row", [str(table.first + k + 1) for k in range(len(X))], X)
