"""Everything in a table that is in the way of a fit, or good to know, with the options that solve it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import typer

from gpum import GpumError
from gpum.tools import Columns, Encoding, TextColumns, counted, is_date, is_missing

from ..tables.dates import FIRST_YEAR, could_be_date, has_short_year, hours, order_of
from ..tables.table import Table
from ..tables.written import Style, could_be_thousands
from .columns import FEW, ROW_NAMES, Chosen, Readings, counts_rows, readings_of
from .messages import listed

FEW_WORDS = 4  # different words among numbers that are taken for marks of missing values
TRIED = 40  # cells that are tried as an example of how a column is written
SHOWN = 3  # cells that a sentence quotes
MARKED = re.compile(r"[+-]?\d+[.,]\d+")
LIMIT = re.compile(r"[<>≤≥~]")
COMMA = re.compile(r"[+-]?\d+,\d+")
POINT = re.compile(r"[+-]?\d+\.\d+")


@dataclass(frozen=True)
class Advice:
    """A sentence about the table, and the options of `gpum fit` that solve it; `stops`: the fit is refused without."""

    text: str
    given: tuple[str, ...] = ()
    stops: bool = True
    drop: tuple[str, ...] = ()  # columns to leave out

    @property
    def options(self) -> tuple[str, ...]:
        """Options and their values."""
        return (*self.given, *_drop(self.drop))


def advice_on(chosen: Chosen) -> list[Advice]:
    """What is in the way of a fit to the chosen columns, first what stops it; empty for a tidy table."""
    decimal = _decimal(chosen)
    if decimal is not None:
        chosen = replace(chosen, table=replace(chosen.table, decimal=","))
    table, found = chosen.table, [] if decimal is None else [decimal]
    empty = [name for name in chosen.used if table.is_empty(name)]
    if empty:
        have = "column has no value" if len(empty) == 1 else "columns have no value"
        found.append(Advice(f"{len(empty)} {have} in any row: {listed(empty)}", drop=tuple(empty)))
    names_rows = bool(chosen.index)
    for name in (name for name in chosen.used if name not in empty):
        for advice in _of_column(table, name, names_rows):
            names_rows = names_rows or "--index" in advice.options
            found.append(advice)
    for name in chosen.targets:
        found += _of_target(table, name)
    found += _of_rows(chosen, [name for name in chosen.used if name not in empty])
    if table.advice is not None:
        found.append(Advice(table.advice, stops=False))
    return sorted(found, key=lambda advice: not advice.stops)


def readings_or_advice(chosen: Chosen) -> Readings:
    """The features of a table; where several things are in the way, all of them are listed before the error."""
    try:
        return readings_of(chosen.table, chosen.used)
    except GpumError:
        found = [advice for advice in advice_on(chosen) if advice.stops]
        if len(found) < 2:
            raise
        show(found, err=True)
        raise GpumError(
            f"{len(found)} things of {chosen.table.source} are in the way (above); add {shlex.join(options_of(found))}"
        ) from None


def show(found: list[Advice], err: bool = False) -> None:
    """Print a list of advice, what stops a fit first."""
    for title, stops in (("In the way:", True), ("Good to know:", False)):
        some = [advice for advice in found if advice.stops == stops]
        if some:
            typer.echo(title, err=err)
        for number, advice in enumerate(some, 1):
            solved = f"   {shlex.join(advice.options)}" if advice.options else ""
            typer.echo(f"  {number}. {advice.text}.{solved}", err=err)


def options_of(advice: Iterable[Advice]) -> list[str]:
    """The options of several pieces of advice, columns to leave out in one option where possible."""
    drop: list[str] = []
    others: list[str] = []
    for one in advice:
        drop += [name for name in one.drop if name not in drop]
        if one.given and not _contains(others, one.given):
            others += one.given
    return [*others, *_drop(drop)]


def _contains(options: list[str], pair: tuple[str, ...]) -> bool:
    return any(tuple(options[k : k + len(pair)]) == pair for k in range(len(options)))


def _drop(names: Collection[str]) -> tuple[str, ...]:
    if not names:
        return ()
    together = not any("," in name for name in names)
    return ("--drop", ",".join(names)) if together else tuple(word for name in names for word in ("--drop", name))


def _texts(table: Table, name: str) -> list[str]:
    """The different cells of a column of text that have a value."""
    column = table.columns[name]
    if column.dtype.kind not in "OU":
        return []
    cells = {cell.strip() for cell in column if isinstance(cell, str)}
    return sorted(cell for cell in cells if not is_missing(cell, among_words=False))


def _decimal(chosen: Chosen) -> Advice | None:
    """Advice to name the comma as the decimal mark: more columns have numbers such as 1,5 than such as 1.5."""
    if chosen.table.decimal != ".":
        return None
    columns = [_texts(chosen.table, name) for name in (*chosen.used, *chosen.targets)]
    commas = [cells for cells in columns if _most(cells, COMMA.fullmatch)]
    if len(commas) <= sum(_most(cells, POINT.fullmatch) for cells in columns):
        return None
    return Advice(f"numbers have decimal commas, such as {commas[0][0]!r}", ("--decimal", ","))


def _most(cells: list[str], fits: Callable[[str], object]) -> bool:
    """Whether most of the cells with digits, and more than one, are of a kind."""
    digits = [cell for cell in cells if re.search(r"\d", cell)]
    return len(digits) > 1 and 2 * sum(bool(fits(cell)) for cell in digits) > len(digits)


def _of_column(table: Table, name: str, names_rows: bool) -> Iterator[Advice]:
    """Advice on a feature that has values."""
    column, cells = table.columns[name], _texts(table, name)
    if (column.dtype.kind in "iuf" or table.holds_numbers(name)) and counts_rows(_plain(table, name)):
        yield _no_feature(name, "counts the rows", names_rows, stops=False)
        return
    digits = [cell for cell in cells if re.search(r"\d", cell)]
    words = [cell for cell in cells if not re.search(r"\d", cell)]
    clock = [cell for cell in digits if hours(cell) is not None]
    dates = [cell for cell in digits if could_be_date(cell)]
    numbers = table.holds_numbers(name) and not dates
    text = not numbers and 2 * max(len(dates), len(clock)) <= len(cells)
    different = bool(cells) and len(table) >= FEW and len({_same(cell) for cell in column}) == len(table)
    if name.strip().lower() in ROW_NAMES or (text and different):
        how = "is different in every row, as names of rows are" if different else "seems to name the rows"
        yield _no_feature(name, how, names_rows, stops=text)
        return
    if text:
        yield from _of_words(table, name)
    elif numbers:
        yield from _of_numbers(table, name, digits, words)
    elif len(clock) > len(dates):
        yield from _of_times(name, digits, words)
    elif cells:
        yield from _of_dates(name, digits, words)
    if len({_same(cell) for cell in column}) == 1:
        said = f"column {name!r} has the same value in every row, which tells nothing"
        yield Advice(said, drop=(name,), stops=False)


def _no_feature(name: str, what: str, names_rows: bool, stops: bool) -> Advice:
    """A column that names the rows: `--index` for the first, others are left out."""
    said = f"column {name!r} {what}"
    return Advice(said, drop=(name,), stops=stops) if names_rows else Advice(said, ("--index", name), stops)


def _same(cell: object) -> object:
    return cell.strip() if isinstance(cell, str) else cell


def _plain(table: Table, name: str) -> np.ndarray:
    """A column as numbers, NaN where a cell is none."""
    try:
        return table.numbers(name, "")
    except GpumError:
        return np.full(len(table), np.nan)


def _of_times(name: str, digits: list[str], words: list[str]) -> Iterator[Advice]:
    """A column of times of day."""
    yield from _marks(name, words)
    others = [cell for cell in digits if hours(cell) is None]
    if others:
        yield Advice(f"column {name!r} has times of day among other text ({_quoted(others)})", drop=(name,))
    else:
        said = f"column {name!r} has times of day such as {digits[0]!r}, which become numbers of hours"
        yield Advice(said, ("--written", f"{name}={digits[0]}"))


def _of_dates(name: str, digits: list[str], words: list[str]) -> Iterator[Advice]:
    """A column of dates: those in which day and month may be confused need an example."""
    yield from _marks(name, words)
    others = [cell for cell in digits if not is_date(cell)]
    if not others:
        return
    example = _example(others, digits, ".", fits=order_of)
    said = f"column {name!r} has dates such as {others[0]!r}"
    if example is not None:
        if has_short_year(example):
            said += f" (years are from {FIRST_YEAR} to {FIRST_YEAR + 99})"
        yield Advice(said, ("--written", f"{name}={example}"))
    elif all(could_be_date(cell) for cell in others):
        yield Advice(
            f"{said}, in which the day may be first or second: add "
            f"{shlex.join(['--written', f'{name}={_day_first(others[0])}'])} or the same with the month first"
        )
    else:
        yield Advice(f"column {name!r} has dates among other text ({_quoted(others)})", drop=(name,))


def _day_first(cell: str) -> str:
    """An example of a date whose day is first, with the separator of a cell."""
    mark = next(character for character in cell if not character.isdigit())
    return f"31{mark}12{mark}2024"


def _of_numbers(table: Table, name: str, digits: list[str], words: list[str]) -> Iterator[Advice]:
    """A column of numbers, perhaps with words or units."""
    yield from _marks(name, words)
    yield from _code_of_none(table, name)
    plain = Style("0")
    strange = [cell for cell in digits if plain.plain(cell, table.decimal) is None]
    if not strange:
        return
    example = _example(strange, digits, table.decimal)
    unclear = [(cell, number) for cell in strange for number in MARKED.findall(cell) if could_be_thousands(number)]
    if example is None and unclear and (both := _readings(*unclear[0], digits)) is not None:
        one, other = (shlex.join(["--written", f"{name}={example}"]) for example in both)
        yield Advice(
            f"column {name!r} has numbers such as {unclear[0][0]!r}, which may be a thousand times as large: add {one} "
            f"if the mark is the decimal mark, {other} if it is one of thousands"
        )
    elif example is None:
        text = (
            f"column {name!r} has numbers that are written in several ways ({_quoted(strange)}): write them alike, or"
        )
        yield Advice(f"{text} leave it out", drop=(name,))
    else:
        said = f"column {name!r} has numbers such as {example!r}"
        if LIMIT.match(example):
            said += ", a limit instead of a value: it will stand for the value"
        yield Advice(said, ("--written", f"{name}={example}"))


def _readings(cell: str, number: str, cells: list[str]) -> tuple[str, str] | None:
    """Examples in which the mark of a cell's number is the decimal mark, and one of thousands; if all cells fit."""
    plain = ("0,5", "1,234.5") if "," in number else ("0.5", "1.234,5")
    decimal, thousands = (cell.replace(number, one) for one in plain)
    return (decimal, thousands) if all(Style(decimal).plain(other, ".") is not None for other in cells) else None


def _code_of_none(table: Table, name: str) -> Iterator[Advice]:
    """A number of nines, such as -999, far from all others in two rows or more: it may mean that there is no value."""
    values, counts = np.unique(_plain(table, name), return_counts=True, equal_nan=False)
    values, counts = values[np.isfinite(values)], counts[np.isfinite(values)]
    for number in {values[0], values[-1]} if len(values) > 2 else ():
        others = values[values != number]
        away = np.abs(others - number).min()
        if (
            counts[values == number] > 1
            and away > np.ptp(others)
            and re.fullmatch(r"-?9{2,}(\.0)?", repr(float(number)))
        ):
            said = (
                f"column {name!r} has {number:g} in {int(counts[values == number][0])} rows, far from all other numbers"
            )
            option = shlex.join(["--missing", f"{number:g}"])
            yield Advice(f"{said}; if it means that there is no value, add {option}", stops=False)


def _marks(name: str, words: list[str]) -> Iterator[Advice]:
    """Words among numbers or dates, which seem to say that there is no value."""
    if len(words) > FEW_WORDS:
        yield Advice(f"column {name!r} has numbers among words ({_quoted(words)})", drop=(name,))
    elif words:
        options = tuple(option for word in words for option in ("--missing", word))
        yield Advice(f"column {name!r} has {_quoted(words)} among its values, as if they were not known", options)


def _example(candidates: list[str], cells: list[str], decimal: str, fits: Callable[[str], object] = bool) -> str | None:
    """The first cell that shows how all cells are written, of those that fit; None if there is none."""
    for text in [cell for cell in candidates if fits(cell)][:TRIED]:
        try:
            style = Style(text)
        except GpumError:
            continue
        if all(style.plain(cell, decimal) is not None for cell in cells):
            return text
    return None


def _of_words(table: Table, name: str) -> Iterator[Advice]:
    """A column of words, truth values or cells of other types, as the encoding takes it."""
    column = table.columns[name]
    if column.dtype.kind in "iufb":
        return
    try:
        encoding = Encoding.of(Columns([name], [column]))
    except TextColumns as error:
        text = error.reasons[name].replace(" of X", "")
        yield Advice(text, drop=(name,))
        return
    except GpumError as error:
        yield Advice(str(error).replace(" of X", ""), drop=(name,))
        return
    words = encoding.columns[0].categories
    marks = [word for word in words if is_missing(word, among_words=False)]
    if marks:
        text = f"column {name!r} has the category {_quoted(marks)}; if it means that there is no value, add --missing"
        yield Advice(f"{text} {shlex.quote(marks[0])}", stops=False)


def _of_target(table: Table, name: str) -> Iterator[Advice]:
    """A target in which numbers are written with units, or no row has a value."""
    cells = _texts(table, name)
    if table.is_empty(name):
        yield Advice(f"no row has a value of the target {name!r}; fill in at least two")
    elif cells and table.holds_numbers(name) and not table.is_text(name, ignoring={"-1", "-1.0"}):
        digits = [cell for cell in cells if re.search(r"\d", cell)]
        for advice in _of_numbers(table, name, digits, [cell for cell in cells if cell not in digits]):
            if advice.given:  # nobody leaves the target out
                yield advice


def _of_rows(chosen: Chosen, used: list[str]) -> Iterator[Advice]:
    """Copies of columns and rows, and rows without any value."""
    table = chosen.table
    text = {name: tuple(table.text(name)) for name in used}
    first: dict[tuple[str, ...], str] = {}
    for name in used:
        same = first.setdefault(text[name], name)
        if same != name and len(set(text[name])) > 1:
            yield Advice(f"column {name!r} is a copy of {same!r}", drop=(name,), stops=False)
    rows = list(zip(*text.values(), strict=True)) if used else []
    copies = len(rows) - len(set(rows))
    if copies:
        are = "row is a copy" if copies == 1 else "rows are copies"
        yield Advice(f"{copies} {are} of other rows, which does no harm", stops=False)
    blank = [k for k, row in enumerate(rows) if all(is_missing(cell, among_words=False) for cell in row)]
    if blank:
        where = listed([table.row_name(k) for k in blank])
        yield Advice(f"{counted(len(blank), 'row')} without a value in any feature ({where}): remove them")


def _quoted(cells: list[str]) -> str:
    return ", ".join(repr(cell[:40]) for cell in cells[:SHOWN]) + (", ..." if len(cells) > SHOWN else "")
