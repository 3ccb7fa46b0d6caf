"""The command line `gpum`. An error is one sentence, exit status 2; an interrupt says what was stored, status 130."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from gpum import GpumError, __version__

from .check import check
from .demo import demo
from .info import info
from .label import label
from .models import Debug, fit
from .predict import predict
from .report import report
from .reproduce import reproduce
from .suggest import suggest

RENAMED = {"--n-kernel-inducing": "--n-modes, or with --kernel brownian --n-path-starts"}  # options of earlier versions
EXPECTED = (GpumError, OSError, MemoryError)
INTERRUPTED = 130


class Commands(TyperGroup):
    """Commands whose errors are reported in one sentence (with --debug, below the traceback)."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as stop:
            typer.secho(
                f"\nInterrupted{f' while {stop}' if str(stop) else '; nothing was written'}.", fg="red", err=True
            )
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if ctx.obj:
                traceback.print_exc()
            said, status = _sentence(error)
            typer.secho(said, fg="red", err=True)
            raise typer.Exit(status) from None


def _sentence(error: Exception) -> tuple[str, int]:
    """The message of an error, on one line, and the exit status."""
    if hasattr(error, "format_message"):  # of the command line itself, such as a missing option
        where = getattr(getattr(error, "ctx", None), "command_path", "gpum")
        problem, old = error.format_message().rstrip("."), getattr(error, "option_name", None)
        if old in RENAMED:
            problem = f"There is no option {old} any more; use {RENAMED[old]}"
        said, status = f"{problem} (see {where} --help)", 2
    elif isinstance(error, OSError) and error.strerror:
        said, status = f"{error.filename or 'a file'}: {error.strerror}", 2
    elif isinstance(error, EXPECTED) and str(error):
        said, status = str(error), 2
    else:
        said, status = f"{type(error).__name__}: {error}; this is a fault of gpum: please report it with --debug", 1
    return f"Error: {' '.join(said.split())}", status


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


@app.callback()
def _root(debug: Debug = False) -> None:
    """GPUM: Gaussian process regression on unknown manifolds.

    A table whose rows lie near a curved surface, a target known for some rows: fit, then predict the others.

    Examples:

    `gpum check data.csv --target y`

    `gpum fit data.csv --target y --out model.gpum`

    `gpum predict model.gpum data.csv --out predictions.csv`

    `gpum report model.gpum --out report.html`

    `gpum label data.csv --target y`
    """


app.command()(check)
app.command()(fit)
app.command()(predict)
app.command()(info)
app.command()(suggest)
app.command()(report)
app.command()(label)
app.command()(demo)
app.command()(reproduce)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Entry point of the `gpum` command."""
    try:
        app()
    except SystemExit as end:
        status = 0 if end.code is None else end.code
        others = [one for one in threading.enumerate() if one is not threading.current_thread() and not one.daemon]
        if status == INTERRUPTED or (isinstance(status, int) and not others):
            _leave(status)
        raise


def _leave(status: int) -> None:
    """End the process now: Python would remove every object of JAX and SciPy first, which takes half a second.

    After an interrupt this is necessary: JAX may crash there if it was compiling.
    """
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # as where the command was started without an output
                stream.flush()
    except OSError:  # nobody reads any more
        if status != INTERRUPTED:
            return
    os._exit(status)
