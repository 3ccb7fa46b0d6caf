"""`gpum reproduce`: the paper's tables and figures beside ours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from .messages import collected
from .models import Debug


def reproduce(
    experiments: Annotated[list[str], typer.Argument(help="heat-kernel, swissroll, wifi, coil, or all.")],
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and finished steps.")] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Two label sets and few paths: a first look.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of the real data; default GPUM_DATA, else a cache.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of clouds, label sets and fits.")] = 0,
    n_jobs: Annotated[int, typer.Option(help="Threads; -1 is one a core. Results do not depend on it.")] = -1,
    debug: Debug = False,
) -> None:
    """The paper's tables and figures beside ours. After an interrupt, the same command continues.

    Without a network, `all` does what needs no data, and says what it left out.

    Examples:

    `gpum reproduce all --quick`

    `GPUM_DATA=folder gpum reproduce wifi coil --out reproduction`
    """
    from rich.console import Console
    from rich.table import Table

    from ..reproduce import reproduce as run

    out = out / "quick" if quick else out
    begin = time.perf_counter()
    try:
        with collected():
            made = run(experiments, out, quick=quick, data_home=data, seed=seed, n_jobs=n_jobs)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"at work; finished label sets are stored in {out}, and the same command continues from there"
        ) from None
    console = Console()
    for result in made:
        table = Table(*result.columns, title=result.title, caption=" ".join(result.notes) or None)
        for column in table.columns[1:]:
            column.justify = "right"
        for row in result.rows:
            table.add_row(*row)
        console.print(table)
    console.print("* the smallest mean RMSE of the table.")
    console.print(f"Tables, figures and finished steps: {out} ({time.perf_counter() - begin:.0f} s).")
