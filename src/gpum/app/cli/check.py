"""`gpum check`: everything in a table that is in the way of a fit, in one list, without fitting."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from gpum.tools import counted

from .messages import called, listed, stage, with_labels
from .models import Data, Debug, Decimal, Encoding, Matrix, Missing, Written, column

STOPPED = 1  # exit status: something is in the way


def check(
    data: Data,
    target: Annotated[list[str] | None, column("What is to be learned.")] = None,
    features: Annotated[list[str] | None, column("Columns of the data space; by default all others.")] = None,
    drop: Annotated[list[str] | None, column("Columns to leave out.")] = None,
    index: Annotated[str | None, column("Column that names the rows; it is no feature.")] = None,
    missing: Missing = None,
    written: Written = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    matrix: Matrix = None,
    debug: Debug = False,
) -> None:
    """List what is in the way of a fit, with the option that solves each, and print the command that uses them all.

    Nothing is fitted or written. The exit status is 0 if nothing is in the way, else 1.

    Examples:

    `gpum check data.csv --target y`
    """
    with stage(f"reading {data.name}", data):
        from ..tables import tables
        from ..tables.written import Conventions
        from .advice import Advice, advice_on, options_of, show
        from .columns import choose

        conventions, unread = Conventions.of(missing, written), []
        try:
            table = tables.read(data, decimal=decimal, encoding=encoding, matrix=matrix)
        except tables.OtherEncoding as error:
            table = tables.read(data, decimal=decimal, encoding=error.likely, matrix=matrix)
            said = (
                f"the text of {data.name} is not UTF-8; it reads as {error.likely}, if the words below are written well"
            )
            unread.append(Advice(said, ("--encoding", error.likely)))
        table = with_labels(table, data, target or [])
        chosen = choose(table, target or [], features, drop, index, conventions)
        with called(data.name):
            found = unread + advice_on(chosen)
    typer.echo(f"{data.name}: {counted(len(table), 'row')}, {counted(len(table.columns), 'column')}.")
    given = [
        *(word for name in chosen.targets or ["NAME"] for word in ("--target", name)),
        *_repeated("--features", features),
        *_repeated("--drop", drop),
        *([] if index is None else ["--index", index]),
        *_repeated("--missing", missing),
        *_repeated("--written", written),
        *([] if decimal == "." else ["--decimal", decimal]),
        *([] if encoding == "utf-8" else ["--encoding", encoding]),
        *([] if matrix is None else ["--matrix", matrix]),
    ]
    show(found)
    outputs = ["--out", "model.gpum", "--report", "report.html"]
    words = ["gpum", "fit", str(data), *given, *options_of(found), *outputs]
    stops = [advice for advice in found if advice.stops]
    yours = [str(number) for number, advice in enumerate(stops, 1) if not advice.options]  # no option solves it
    typer.echo(f"Fit with{f', once {listed(yours)} is solved' * bool(yours)}:\n  {shlex.join(words)}")
    if stops:
        raise typer.Exit(STOPPED)


def _repeated(option: str, values: list[str] | None) -> list[str]:
    return [word for value in values or [] for word in (option, value)]
