"""Messages of the commands (stages, notes, sizes, durations), and checks of their output files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gpum import GpumError
from gpum.tools import check_writable

if TYPE_CHECKING:
    from ..tables.table import Table

# Parameters that are options of `gpum fit`; a list as in latent_dim=(1, 2) is left as it is.
PARAMETERS = (
    "latent_dim latent_model scale n_inducing n_modes n_path_starts kernel method boundary smoothness hyperparameters "
    "geometry n_paths max_time n_jobs likelihood period random_state"
)
# Notes of a fit about columns and rows of the table; all others are details of the computation.
ABOUT_TABLE = re.compile(
    r"column |the columns? |the spreads |the geometries were learned |all [\d,]+ rows |all labels |[<\d,.]+ ?%? "
)
PLAIN = (  # words of the language, too
    *("scale", "kernel", "method", "boundary", "smoothness", "hyperparameters", "geometry", "likelihood", "period"),
)
OTHERWISE = {"period": "angle", "random_state": "seed", "method": "kernel"}  # options of another name
PARAMETER = re.compile(
    rf"\b({'|'.join(p for p in PARAMETERS.split() if p not in PLAIN)}|(?:{'|'.join(PLAIN)})(?= must|=| is '))\b"
    r"(=['\"]?([\w.]+)['\"]?)?"
)

QUOTED = re.compile(rf"`({'|'.join(PLAIN)})`")


def check_output(out: Path, force: bool, *inputs: Path) -> None:
    """Raise unless a command may write its output; called before a long computation."""
    if any(out.resolve() == path.resolve() for path in inputs):
        raise GpumError(f"--out is {out}, which is an input too; give another name")
    if out.exists() and not out.is_dir() and not force:
        raise GpumError(f"{out} exists already; give another name, or replace it with --force")
    check_writable(out)


@contextmanager
def stage(doing: str, out: Path) -> Iterator[None]:
    """A scope in which the message of an interrupt names the stage; nothing has been written then."""
    try:
        yield
    except KeyboardInterrupt:
        state = f"{out} is as it was before" if out.exists() else "nothing was written"
        raise KeyboardInterrupt(f"{doing}: {state}") from None


@contextmanager
def collected(in_blocks: bool = False) -> Iterator[list[str]]:
    """Warnings of the library ask for an action; the one about far rows is left to the caller, which can name them.

    With `in_blocks` those that differ in numbers only, since they are about different blocks of rows, become one note.
    """
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield messages
    kinds: dict[str, list[str]] = {}
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        if "far from the fitted surface" not in text:
            kinds.setdefault(re.sub(r"\d+", "0", text) if in_blocks else text, []).append(text)
    for text, *others in kinds.values():
        messages.append(text)
        note(as_options(text) + "; the same holds for other blocks of rows" * bool(others), act=True)


@contextmanager
def called(name: str, first: int = 0) -> Iterator[None]:
    """Messages of the library in the words of the command line.

    The cloud, X or S, is called by its file name, y is the target, parameters are options, and rows count from 1; if
    X is a block of a table, `first` rows are above it.
    """
    try:
        yield
    except ValueError as error:
        text = re.sub(r"\b[XS] has\b", f"{name} has", str(error)).replace(" of X ", f" of {name} ")
        text = re.sub(r"\by (?=is|has|holds|must)", "the target ", text)
        text = re.sub(r"(?<=\b[ai][tn] row )\d+", lambda found: str(int(found[0]) + first + 1), text)
        raise GpumError(as_options(text)) from error


def note(text: str, act: bool = False) -> None:
    """Print what is good to know; or, with `act`, what the reader should do something about, in red."""
    typer.secho(f"{'Act now' if act else 'Note'}: {' '.join(text.split())}", fg="red" if act else "yellow", err=True)


def note_all(notes: list[str], warned: list[str], verbose: bool, out: Path) -> None:
    """Print the notes of a fit that are no warnings: those about the reader's own table, and on request the details."""
    others = [text for text in notes if text not in warned]
    details = [text for text in others if not ABOUT_TABLE.match(text)]
    for text in others:
        if text not in details:
            note(as_options(text))
    for text in details if verbose else ():
        typer.secho(f"Detail: {' '.join(as_options(text).split())}", err=True)
    if details and not verbose:
        count = "1 detail" if len(details) == 1 else f"{len(details)} details"
        typer.secho(f"{count} of the computation: --verbose prints them, gpum info {out} has them.", err=True)


def with_labels(table: Table, path: Path, targets: list[str]) -> Table:
    """The table with the labels that `gpum label` has stored beside it for these targets; with a note."""
    from ..tables import labelled, labels

    names = dict.fromkeys(name for value in targets for name in (value, *map(str.strip, value.split(","))))
    found, counts = labelled.merged(table, path, list(names))
    if counts:
        said = ", ".join(f"{count} of {name}" for name, count in counts.items())
        note(f"labels from {labels.beside(path).name}: {said}.")
    return found


def as_labelled(path: Path, targets: list[str], classes: bool, numbers: dict[str, bool]) -> bool:
    """Whether the targets are classes: by `--classes`, or by the kind stored by `gpum label`, with a note.

    `numbers` are options for numbers only, and whether they are given. A contradiction to the labels is an error.
    """
    from ..tables import labelled, labels

    file = labels.beside(path).name
    for name, kind in labelled.kinds(path, targets).items():
        if kind.classes is None:
            if classes:
                raise GpumError(
                    f"--classes is given, but the labels in {file} say that {name!r} is a number; leave it out, or "
                    "name the classes to `gpum label` (--classes A,B,C)"
                )
            continue
        said = f"{name!r} is a class"
        for option in (option for option, given in numbers.items() if given):
            raise GpumError(f"{option} is for numbers, but the labels in {file} say that {said}; leave the option out")
        if len(targets) > 1:
            raise GpumError(
                f"the labels in {file} say that {said}; classes are for one target, but --target names "
                f"{listed(targets)}; fit them one by one"
            )
        if not classes:
            note(f"{name} is a class, one of {listed(list(kind.classes))}, as {file} says.")
        classes = True
    return classes


def say(quiet: bool, text: str) -> None:
    """Print a line, unless `quiet`."""
    if not quiet:
        typer.echo(text)


def brief(value: Any) -> str:
    """A number with three digits; anything else as it is."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """Seconds in words."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {seconds % 60:.0f} s"


def size(path: Path) -> str:
    """The size of a file in words."""
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def listed(names: list[str], most: int = 8) -> str:
    """Names with commas between them, long lists cut short."""
    shown = names if len(names) <= most else [*names[: most - 2], "...", names[-1]]
    return ", ".join(shown)


def the(title: str) -> str:
    """The title of a geometry within a sentence."""
    return title if title.startswith("flat") else f"the {title}"


def as_options(text: str) -> str:
    """Replace names of parameters by options: latent_dim='auto' becomes --latent-dim auto."""

    def option(found: re.Match[str]) -> str:
        name = OTHERWISE.get(found[1], found[1].replace("_", "-"))
        return f"--{name}" + (f" {found[3]}" if found[3] else "")

    return PARAMETER.sub(option, QUOTED.sub(r"--\1", text))


def weighed(weights: dict[str, float], least: float = 0.005) -> str:
    """Names with their weights in percent, commas between them; those below `least` are only counted."""
    shown = [f"{name} {weight:.0%}" for name, weight in weights.items() if weight >= least]
    light = len(weights) - len(shown)
    return ", ".join(shown) + (f" ({light} more below {least:.1%})" if light else "")
