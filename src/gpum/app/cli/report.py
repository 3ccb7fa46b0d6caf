"""`gpum report`: an HTML page about a fitted model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .messages import check_output, say, size, stage
from .models import Debug, Force, Model, Quiet


def report(
    model: Model,
    out: Annotated[Path, typer.Option(metavar="FILE", help="HTML file to write, such as report.html.")],
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write one HTML page about a fitted model: how well it fits, its chart, its weights, what to look out for.

    The page opens in any browser, without a network. It shows values of the table that was fitted.

    Examples:

    `gpum report model.gpum --out report.html`
    """
    check_output(out, force, model)
    with stage("drawing the report", out):
        from gpum import model_io

        from ..report import write_report

        write_report(model_io.load(model), out, force=force)
    say(quiet, f"Report: {out} ({size(out)}). Open it in a browser.")
