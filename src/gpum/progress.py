"""Progress on the terminal, with time left; silent unless asked for."""

from __future__ import annotations

from types import TracebackType

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Reporter:
    """A progress bar over iterations (`total=None`: nobody knows how many); with `verbose=0` it shows nothing."""

    def __init__(self, verbose: int, total: float | None, title: str = "starting", time_left: str = "at most") -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TimeElapsedColumn(),
            *([TextColumn(time_left), TimeRemainingColumn(), TextColumn("left")] if total else []),
            disable=not verbose,
        )
        self._task = self._bar.add_task(title, total=total)

    def __enter__(self) -> Reporter:
        self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:  # done, perhaps in fewer steps than allowed
            self._bar.update(self._task, total=1, completed=1)
        self._bar.stop()

    def advance(self, text: str, steps: float) -> None:
        """Show `text` and move on by `steps`."""
        self._bar.update(self._task, description=text, advance=steps)

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        if not self._bar.disable:
            self._bar.console.print(text)


class DownloadBar:
    """A bar over the bytes of a file, in the form that pooch asks for."""

    def __init__(self, name: str) -> None:
        self.total = 0
        self._name = name
        self._bar = Progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())

    def update(self, size: int) -> None:
        """So many bytes more."""
        if not self._bar.tasks:
            self._bar.start()
            self._bar.add_task(f"downloading {self._name}", total=self.total)
        self._bar.advance(self._bar.task_ids[0], size)

    def reset(self) -> None:
        """Called by pooch before it tells the whole again; the bar knows."""
        self._bar.stop()

    def close(self) -> None:
        """The end."""
        self._bar.stop()
