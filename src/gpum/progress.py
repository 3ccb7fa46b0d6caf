"""Progress on the terminal, with time left; silent unless asked for."""

from __future__ import annotations

from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Reporter:
    """A progress bar over iterations (`total=None`: nobody knows how many); with `verbose=0` it shows nothing."""

    def __init__(self, verbose: int, total: int | None, title: str = "starting") -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TimeElapsedColumn(),
            *([TextColumn("at most"), TimeRemainingColumn(), TextColumn("left")] if total else []),
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

    def advance(self, text: str, steps: int) -> None:
        """Show `text` and move on by `steps`."""
        self._bar.update(self._task, description=text, advance=steps)

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        if not self._bar.disable:
            self._bar.console.print(text)
