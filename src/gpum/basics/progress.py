"""Progress on the screen, shown only on request: a bar with the remaining time, or lines of text.

In a terminal, and in a notebook with ipywidgets, there is a bar that moves, by rich. Without rich, and in a notebook
without ipywidgets, there are lines of text instead: after 2, 4, 8, ... seconds, and at the end.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from types import TracebackType
from typing import Any

WIDTH = 16  # characters of a bar
Shown = str | tuple[str, Any]  # a column beside the bar, by its name in rich.progress; or its name and what it shows
FIRST = 2.0  # seconds until the first line of text; the next one follows when the time has doubled


class Bar:
    """A bar that moves; in a terminal it is gone when the work ends."""

    def __init__(self, total: float | None, title: str, *columns: Shown) -> None:
        from rich import get_console, progress

        made = [getattr(progress, c)() if isinstance(c, str) else getattr(progress, c[0])(c[1]) for c in columns]
        text, gone = progress.TextColumn("{task.description}"), not get_console().is_jupyter
        self._bar = progress.Progress(text, *made, transient=gone)
        self._task = self._bar.add_task(title, total=total)

    def start(self) -> None:
        """The work begins."""
        self._bar.start()

    def advance(self, text: str, steps: float) -> None:
        """Advance by `steps`; `text` says what is done now."""
        self._bar.update(self._task, description=text, advance=steps)

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        self._bar.console.print(text)

    def stop(self, finished: bool) -> None:
        """The work ends, perhaps after fewer steps than the total."""
        if finished:
            self._bar.update(self._task, total=1, completed=1)
        if self._bar.console.is_jupyter:  # where rich would leave the bar as it was a moment before the end
            self._bar.refresh()
        self._bar.stop()


class Lines:
    """A few lines of text; work of less than FIRST seconds prints none, unless it has no `total`."""

    def __init__(self, total: float | None, title: str) -> None:
        self._title, self._counted = title, total is not None

    def start(self) -> None:
        """The work begins."""
        self._begun = time.monotonic()
        self._next = FIRST
        if not self._counted:
            self.say(self._title)

    def advance(self, text: str, steps: float) -> None:
        """Print a line, if it is time for one; `text` says what is done now."""
        seconds = self._seconds()
        if seconds >= self._next:
            self._next = 2 * seconds
            now = self._title if text in ("", self._title) else f"{self._title}: {text}"
            self.say(f"{now} ({seconds:.0f} s)")

    def say(self, text: str) -> None:
        """Print one line."""
        print(text, flush=True)

    def stop(self, finished: bool) -> None:
        """The work ends."""
        if finished and self._seconds() >= FIRST:
            self.say(f"{self._title}: done in {self._seconds():.0f} s")

    def _seconds(self) -> float:
        return round(time.monotonic() - self._begun, 3)


class Reporter:
    """Progress over iterations (`total=None`: their number is unknown); with `verbose=0` it shows nothing."""

    def __init__(self, verbose: int, total: float | None, title: str = "starting", time_left: str = "at most") -> None:
        left: list[Shown] = [("TextColumn", time_left), "TimeRemainingColumn", ("TextColumn", "left")] if total else []
        columns: list[Shown] = [("BarColumn", WIDTH), "TimeElapsedColumn", *left]
        self._display = _display(total, title, *columns) if verbose else None

    def __enter__(self) -> Reporter:
        if self._display is not None:
            self._display.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._display is not None:
            self._display.stop(finished=kind is None)

    def advance(self, text: str, steps: float) -> None:
        """Show `text` and move on by `steps`."""
        if self._display is not None:
            self._display.advance(text, steps)

    def say(self, text: str) -> None:
        """Print one line that stays."""
        if self._display is not None:
            self._display.say(text)


class DownloadBar:
    """Progress over the bytes of a file, with the interface that pooch requires."""

    def __init__(self, name: str) -> None:
        self.total = 0
        self._title = f"downloading {name}"
        self._display: Bar | Lines | None = None
        self._complete = False

    def update(self, size: int) -> None:
        """Advance by `size` bytes."""
        if self._display is None:
            self._display = _display(self.total, self._title, "BarColumn", "DownloadColumn", "TimeRemainingColumn")
            self._display.start()
        if not self._complete:
            self._display.advance(self._title, size)

    def reset(self) -> None:
        """Called by pooch at the end, before it reports the total once more."""
        self._complete = True

    def close(self) -> None:
        """Stop the display."""
        if self._display is not None:
            self._display.stop(self._complete)


def _display(total: float | None, title: str, *columns: Shown) -> Bar | Lines:
    """Lines of text without rich, and in a notebook without ipywidgets; otherwise a bar with these columns."""
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        return Lines(total, title)
    plain = Console().is_jupyter and find_spec("ipywidgets") is None
    return Lines(total, title) if plain else Bar(total, title, *columns)
