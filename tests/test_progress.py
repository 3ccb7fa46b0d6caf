"""Progress: a bar in a terminal, a few plain lines in a notebook without widgets, nothing unless asked for."""

import builtins
import sys
import time
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import rich

from gpum.basics.progress import DownloadBar, Reporter


class ZMQInteractiveShell:
    """What a notebook's interpreter is called."""


@pytest.fixture
def notebook(monkeypatch):
    """As in a notebook without ipywidgets; the clock is what the fixture returns."""
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    return clock


def test_a_notebook_without_widgets_has_a_few_plain_lines(notebook, capsys):
    """A line after 2, 4, 8 … seconds, and the end; no warning, no empty output."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Reporter(1, 1000, "learning") as report:
            for step in range(1000):
                notebook[0] += 0.1
                report.advance(f"step {step + 1}", 1)
            report.say("two of three dimensions are relevant")
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "learning: step 20 (2 s)",
        "learning: step 40 (4 s)",
        "learning: step 80 (8 s)",
        "learning: step 160 (16 s)",
        "learning: step 320 (32 s)",
        "learning: step 640 (64 s)",
        "two of three dimensions are relevant",
        "learning: done in 100 s",
    ]


def test_what_nobody_can_count_says_that_it_begins(notebook, capsys):
    with Reporter(1, None, "building geometry: atlas"):
        notebook[0] += 7
    assert capsys.readouterr().out.splitlines() == ["building geometry: atlas", "building geometry: atlas: done in 7 s"]


def test_short_work_and_silent_work_say_nothing(notebook, capsys):
    for verbose, seconds in ((1, 0.5), (0, 60.0)):
        with Reporter(verbose, 10, "learning") as report:
            notebook[0] += seconds
            report.advance("step", 5)
    assert capsys.readouterr().out == ""


def test_a_failure_is_not_called_done(notebook, capsys):
    def fail():
        with Reporter(1, 10, "learning") as report:
            notebook[0] += 5
            report.advance("step", 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert capsys.readouterr().out.splitlines() == ["learning: step (5 s)"]


def test_downloads_in_a_notebook(notebook, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bar = DownloadBar("coil.zip")
        bar.total = 100
        for _ in range(10):
            bar.update(10)
            notebook[0] += 1.0
        bar.reset()
        bar.update(100)  # as pooch does at the end
        bar.close()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "downloading coil.zip (2 s)"
    assert lines[-1] == "downloading coil.zip: done in 10 s"
    assert len(lines) <= 5


def test_a_notebook_with_widgets_shows_the_end_of_the_bar(monkeypatch):
    """The bar is drawn once more when the work ends, also if that was too quick for any other drawing."""
    shown = []

    class Output:
        """The widget that rich draws in."""

        def clear_output(self, wait=False):
            shown.clear()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    display = ModuleType("IPython.display")
    display.display = lambda *things, **_: shown.extend(str(getattr(thing, "text", "")) for thing in things)
    for name, module in (
        ("IPython", ModuleType("IPython")), ("IPython.display", display), ("ipywidgets", ModuleType("ipywidgets")),
    ):  # fmt: skip
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["ipywidgets"].Output = Output
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setattr(rich, "_console", None)  # rich asks once where it runs
    with Reporter(1, 10, "learning") as report:
        report.advance("last step", 10)
    assert "last step" in "".join(shown)


def test_a_terminal_has_a_bar(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(rich, "_console", None)  # rich asks once where it runs
    with Reporter(1, 10, "learning") as report:
        report.advance("step 5", 5)
        assert "━" in capsys.readouterr().out
    assert capsys.readouterr().out.endswith("\x1b[2K")  # the line is cleared at the end
