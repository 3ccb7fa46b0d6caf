"""`gpum suggest`: which rows of the fitted table to label next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpum.tools import counted

from .messages import check_output, collected, note, say, stage
from .models import Debug, Force, Model, Quiet


def suggest(
    model: Model,
    n: Annotated[int, typer.Option("-n", "--number", metavar="N", help="How many rows.")] = 10,
    criterion: Annotated[
        str,
        typer.Option(
            metavar="WORD",
            help="variance: lowers the average uncertainty most; information: rows whose own value is least certain.",
        ),
    ] = "variance",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also a table: .csv, .tsv, .parquet or .npz.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Suggest which rows of the fitted table to label next, best first.

    Each row is chosen as if those before it had labels, so that their labels are not redundant. The gain is the
    expected decrease of the average predictive variance of the table by this label, in addition to those before it.

    Examples:

    `gpum suggest model.gpum -n 10`

    `gpum suggest model.gpum -n 50 --out next.csv`
    """
    from gpum import model_io

    from ..report.findings import label_next
    from ..tables import tables

    if out is not None:
        tables.check_ending(out)
        check_output(out, force, model)
    with stage("choosing", out or model), collected():
        fitted = model_io.load(model)
        found = fitted.model.suggestions(n, criterion)
    names = [fitted.rows[i] for i in found.rows]
    index = fitted.about.get("index") or "row"
    for text in found.notes:
        note(text)
    if len(names) < n:
        note(f"only {counted(len(names), 'row')} {'is' if len(names) == 1 else 'are'} without a label.")
    width = max(len(index), *(len(name) for name in names))
    typer.echo(f"{index:{width}}  gain")
    for name, gain in zip(names, found.gain, strict=True):
        typer.echo(f"{name:{width}}  {gain:.3g}")
    if found.enough:
        note(label_next(found, hasattr(fitted.model, "classes_")))
    if out is not None:
        with stage(f"writing {out.name}", out):
            tables.write(out, {index if index != "gain" else "row": names, "gain": found.gain})
        say(quiet, f"Wrote {out}: {counted(len(names), 'row')}.")
