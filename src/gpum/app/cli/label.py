"""`gpum label`: a page for labelling rows by hand, the most useful rows first."""

from __future__ import annotations

import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpum import GpumError
from gpum.tools import counted

from .address import new_token, opened, store_address, stored_address
from .messages import called, check_output, collected, duration, listed, note, say, size, stage
from .models import (
    Data,
    Debug,
    Decimal,
    Encoding,
    Force,
    Matrix,
    Missing,
    Quiet,
    Unlabelled,
    Written,
    column,
    option,
    setting,
    several,
)

if TYPE_CHECKING:  # imported by the command when it runs: others need not wait
    import numpy as np

    from ..tables.labels import Kind, LabelFile
    from ..tables.table import Table
    from .columns import Readings

LONGEST = 80  # characters of a class
MOST = 50  # classes for which there are buttons


def label(
    data: Data,
    target: Annotated[str, column("What to label; a column of the table, or a new one.")],
    features: Annotated[list[str] | None, column("Columns of the data space; by default all others.")] = None,
    drop: Annotated[list[str] | None, column("Columns to leave out.")] = None,
    index: Annotated[str | None, column("Column that names the rows; it is no feature.")] = None,
    classes: Annotated[
        str | None, option("A,B,C", "The target is one of these classes. A target of text always has classes.")
    ] = None,
    unlabelled: Unlabelled = None,
    images: Annotated[
        Path | None, option("FOLDER", "Pictures, named like the rows (a.png) or numbered (1.png).")
    ] = None,
    image_shape: Annotated[str | None, option("HxW", "The features are pixels: height x width, such as 28x28.")] = None,
    export: Annotated[
        Path | None, option("FILE", "Write the table with its labels (to itself, or elsewhere), and end.")
    ] = None,
    latent_dim: Annotated[str, setting("Q", "Dimension of the surface, several such as 1,2, or average.")] = "average",
    geometry: Annotated[
        str | None, setting("WORD", "chart, atlas, graph, flat, several such as chart,graph, or average.")
    ] = None,
    scale: Annotated[
        str, setting("WORD", "What features are divided by: auto, none, standard (their sds) or robust (quartiles).")
    ] = "auto",
    seed: Annotated[int, setting("N", "The same seed gives the same geometry.")] = 0,
    n_jobs: Annotated[int, setting("N", "Threads while the geometry is learned; -1 is one a core.")] = -1,
    missing: Missing = None,
    written: Written = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    matrix: Matrix = None,
    port: Annotated[int, option("N", "Port of the page; by default that of the last time, or a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page.")] = True,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Label rows by hand, on a page of this machine: the row that would help most is asked for first.

    The geometry is learned once and stored beside the table, so that the next start is immediate. Every label goes into
    TABLE.labels.csv before the page shows it; `gpum fit` reads it from there, and --export writes it into the table.

    Examples:

    `gpum label data.csv --target y --index id`

    `gpum label pictures/ --target kind --classes cat,dog`

    `gpum label digits.csv --target digit --classes 0,1,2,3,4,5,6,7,8,9 --image-shape 28x28`

    `gpum label data.csv --target y --export data.csv`
    """
    if export is not None:
        return _export(data, target, export, decimal, encoding, force, quiet)
    from ..tables import labels, tables
    from ..tables.written import Conventions
    from .advice import readings_or_advice
    from .columns import choose, note_counting

    if data.is_dir():
        data = data.resolve()  # which has a name, and so have the files beside it
    label_path = labels.beside(data)
    with stage(f"reading {data.name}", label_path):
        table = tables.read(data, decimal=decimal, encoding=encoding, matrix=matrix)
        if table.advice is not None:
            note(table.advice, act=True)
        targets = _target(table, target)
        conventions = Conventions.of(missing, written)
        chosen_columns = choose(table, targets, features, drop, index, conventions, new_target=True)
        index_name, used = chosen_columns.index, chosen_columns.used  # labels belong to cells as they are in the file
        readings = readings_or_advice(replace(chosen_columns, targets=[]))  # labels are yet to come
        X = readings.X
        for text in readings.notes:
            note(text)
        if not features:
            note_counting(X, readings.names, bool(index_name))
        names = table.text(index_name[0]) if index_name else [str(k + 1) for k in range(len(X))]
        pictures = _pictures(X, names, data if data.is_dir() and image_shape is None else images, image_shape)
        file = labels.LabelFile(label_path)
        file.hold()
    try:
        if file.torn:
            note(f"{label_path.name} has {file.torn} unfinished line(s), as a crash leaves them; they are ignored.")
        known, chosen = _known(table, target, classes, file.kind(target), unlabelled)
        _check_given(file, table, target, names, chosen)
        _serve(data, table, target, X, used, names, known, chosen, pictures, file, quiet, port, browser, {
            "latent_dim": several(latent_dim), "geometry": geometry and several(geometry), "random_state": seed,
            "scale": scale, "n_jobs": n_jobs, "verbose": int(not quiet), "warm_start": True,
        }, readings)  # fmt: skip
    finally:
        file.release()


def _serve(
    data: Path, table: Table, target: str, X: np.ndarray, used: list[str], names: list[str], known: dict[int, str],
    classes: list[str] | None, pictures: Any, file: LabelFile, quiet: bool, port: int, browser: bool,
    settings: dict[str, Any], readings: Readings,
) -> None:  # fmt: skip
    """Learn the geometry, then answer the page until Ctrl-C."""
    from gpum import GPUMClassifier, GPUMRegressor
    from gpum.tools import Classes, Numbers, learned

    from ..labelling.server import LabelServer
    from ..labelling.session import Session, Work
    from ..labelling.views import setup
    from ..tables.labels import RowFinder
    from .columns import gaps_in

    chosen = {name: value for name, value in settings.items() if value is not None or name != "geometry"}
    model: Any = (GPUMRegressor if classes is None else GPUMClassifier)(**chosen)
    path = learned.beside(data)
    geometry = learned.stored(model, X, path)
    kind = "a number" if classes is None else f"one of {listed(classes)}"
    count = f"{counted(len(X), 'row')}, {counted(len(used), 'feature')}{gaps_in(X)}"
    given = file.given(target, RowFinder(table, file.path)).values
    say(quiet, f"{data.name}: {count}; {target}, {kind}, is known for {len({*known, *given})}.")
    begin = time.perf_counter()
    if geometry is None and path.exists():
        note(f"{path.name} is of other numbers, other settings or another version, or damaged; it is learned again.")
    doing = "reading the geometry" if geometry else "learning the geometry"
    with stage(doing, path), collected(), called(data.name):
        model = learned.learn(model, X, path, geometry, data, readings.given)
    done = f"Geometry from {path.name}" if geometry else f"Geometry learned, and stored in {path.name} ({size(path)}),"
    say(quiet, f"{done} in {duration(time.perf_counter() - begin)}.")
    aim = Numbers(model, X, readings.names) if classes is None else Classes(model, X, classes)
    encoded = None if readings.given is X else readings.names
    session = Session(Work(data, table, target, X, used, names, known, pictures, encoded), aim, file)
    token, last = stored_address(data)
    content = setup(session)
    try:
        server = LabelServer(session, content, token, port or last)
    except OSError:
        if port:
            raise GpumError(f"--port is {port}, which another program uses; give another one, or none") from None
        token = new_token()  # the program at that port may have received the old token from an open page
        server = LabelServer(session, content, token)
    store_address(data, token, server.server_port)
    typer.echo(f"Label at {server.address}")
    say(quiet, "The address is for you alone: who has it, on this machine, can label. Ctrl-C ends.")
    try:
        with opened(data, server) if browser else nullcontext():
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
        n = len(session.given.order)
        done = f"{n} label{'s' * (n != 1)} in {file.path}"
        with _interrupted(f"ending: {done}"):  # waits for the running computation
            session.close()
    say(quiet, f"\n{done}; gpum fit reads them there. Into the table:")
    read = [*_named("--decimal", table.decimal, "."), *_named("--encoding", table.encoding, "utf-8")]
    say(quiet, f"    {shlex.join(['gpum', 'label', str(data), '--target', target, *read, '--export', str(data)])}")


@contextmanager
def _interrupted(text: str) -> Iterator[None]:
    """A scope in which an interrupt has this message."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(text) from None


def _named(option: str, value: str, default: str) -> list[str]:
    return [] if value == default else [option, value]


def _export(data: Path, target: str, out: Path, decimal: str, encoding: str, force: bool, quiet: bool) -> None:
    from ..tables import labelled, labels, tables

    back = out.resolve() == data.resolve()
    if not back:
        tables.check_ending(out)
        check_output(out, force, data)
    label_path = labels.beside(data)
    if not label_path.exists():
        raise GpumError(f"there is no {label_path}, so there are no labels to export; label rows first")
    file = labels.LabelFile(label_path)
    if back:
        file.hold()
    try:
        with stage(f"writing {out.name}", out):
            n = labelled.export(data, target, out, decimal=decimal, encoding=encoding)
            if back and n:
                file.add(labels.Line(token_hex(8), "exported", target))
    finally:
        file.release()
    say(quiet, f"Wrote {out} with {n} label{'s' * (n != 1)} of {target}.")


def _target(table: Table, target: str) -> list[str]:
    """The target, an existing or a new column; a name that is similar to an existing one is an error."""
    from .columns import named

    if re.search(r"[\r\n]", target) or not target.strip():
        raise GpumError(f"--target is {target!r}; give the name of one column")
    if target in table.columns:
        return [target]
    try:
        return named(table, "--target", [target])
    except ValueError as error:
        if "did you mean" in str(error):
            raise
    note(f"{table.source} has no column {target!r}: it begins without labels, and --export adds it.")
    return [target]


def _known(
    table: Table, target: str, given: str | None, remembered: Kind | None = None, unlabelled: str | None = None
) -> tuple[dict[int, str], list[str] | None]:
    """Labels of the table, by row, and the classes (None if the target is a number).

    Classes are those of --classes (`given`), else those recorded in the file of labels, else the words of the table. A
    value that marks rows without a label (`unlabelled`, or -1) is not a class, unless --classes names it.
    """
    from gpum.tools import parse_number

    from .targets import FOR_CLASSES, note_marks, without_marks

    found, whose = [], f"--classes {given}"
    if given is not None:
        found = list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    elif remembered is not None and remembered.classes is not None:
        found = list(remembered.classes)
        whose = f"the classes {listed(found)} that the file of labels has"
    cells = table.entries(target, found) if target in table.columns else []
    known = {row: cell for row, cell in enumerate(cells) if cell is not None}
    if given is None and not found:
        try:
            numbers = {row: parse_number(cell.replace(table.decimal, ".")) for row, cell in known.items()}
        except ValueError:
            known = without_marks(known, unlabelled)
            found = sorted(set(known.values()))
            note_marks(Counter(known.values()), len(table))
        else:
            if unlabelled is not None:
                raise GpumError(FOR_CLASSES)
            return numbers, None
    known = {row: cell if cell in found else _as_whole(cell) for row, cell in known.items()}
    unmarked = without_marks(known, unlabelled)
    known = {row: cell for row, cell in known.items() if cell in found or row in unmarked}
    strange = next((row for row, cell in known.items() if cell not in found), None)
    if strange is not None:
        raise GpumError(
            f"column {target!r} of {table.source}, {table.row_name(strange)}, is {known[strange]!r}, which is none of "
            f"{whose}; name all classes (--classes), or correct the cell"
        )
    if not 2 <= len(found) <= MOST or max(map(len, found)) > LONGEST:
        classes = "1 class" if len(found) == 1 else f"{len(found)} classes"
        raise GpumError(
            f"{target!r} has {classes} ({listed(found)}); give 2 to {MOST} of at most {LONGEST} characters "
            "with --classes, or numbers"
        )
    return known, found


def _check_given(file: LabelFile, table: Table, target: str, names: list[str], classes: list[str] | None) -> None:
    """Raise if a label of the file is not one of the classes, or not a number."""
    from gpum.tools import parse_number

    from ..tables.labels import RowFinder

    for row, value in file.given(target, RowFinder(table, file.path)).values.items():
        said = f"{file.path.name} has the label {value!r} for {names[row]}, which is"
        if classes is not None:
            if value not in classes:
                raise GpumError(f"{said} none of the classes {listed(classes)}; name all of them (--classes)")
            continue
        try:
            parse_number(value)
        except ValueError:
            raise GpumError(f"{said} no number; name the classes (--classes A,B,C)") from None


def _as_whole(cell: str) -> str:
    """A whole number without its decimals: 3.0 becomes 3."""
    return cell.removesuffix(".0") if re.fullmatch(r"-?\d+\.0", cell) else cell


def _pictures(X: np.ndarray, names: list[str], folder: Path | None, shape: str | None) -> Any:
    from ..labelling.pictures import Folder, Pixels

    if folder is not None and shape is not None:
        raise GpumError("--images and --image-shape are both given; pictures come from one of them")
    if folder is not None:
        found = Folder(folder, names)
        if len(found.files) < len(names):
            note(f"{len(names) - len(found.files)} of {len(names)} rows have no picture in {folder}.")
        return found
    return None if shape is None else Pixels.of(X, shape)
