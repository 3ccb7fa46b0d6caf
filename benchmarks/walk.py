"""Which files of the library a fit and a prediction go through: the fewer, the easier it is to follow a row.

A default fit of a curve of ROWS rows and a prediction of new rows run under a profiler, in all threads. A file counts
if one of its functions runs; all modules are imported before, so that what runs on import does not count. Lines are
those of the functions that ran. Programs of JAX count where they are traced.

    python benchmarks/walk.py          numbers of files and lines
    python benchmarks/walk.py files    each file with its functions
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import gpum
from gpum import GPUMRegressor

ROOT = Path(gpum.__file__).parent
ROWS, LABELS, NEW = 80, 12, 20
ANONYMOUS = "<"  # lambdas and comprehensions belong to the function around them


def curve(n: int) -> tuple[np.ndarray, np.ndarray]:
    """n rows [n, 3] of a spiral with noise, and its angle [n]."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 3 * np.pi, n))
    return np.column_stack([t * np.cos(t), t * np.sin(t), t]) + 0.05 * rng.standard_normal((n, 3)), t


def import_all() -> None:
    """Import every module of the library but its application and those of packages that are not installed."""
    for module in pkgutil.walk_packages(gpum.__path__, "gpum."):
        if not module.name.startswith(("gpum.app", "gpum.__main__", "gpum.report", "gpum.heat.space")):
            import_module(module.name)


@contextmanager
def walked() -> Iterator[set[CodeType]]:
    """The functions of the library that run in this scope, in any thread that starts there."""
    codes: set[CodeType] = set()

    def seen(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # no body of a module or class
            codes.add(frame.f_code)

    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        yield codes
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def by_file(codes: set[CodeType]) -> dict[str, dict[str, int]]:
    """For each file of the library, its functions that ran with how many lines each has."""
    files: dict[str, dict[str, int]] = defaultdict(dict)
    for code in codes:
        path = Path(code.co_filename)
        if path.is_relative_to(ROOT) and not code.co_name.startswith(ANONYMOUS):
            lines = [line for *_, line in code.co_lines() if line is not None]
            files[path.relative_to(ROOT).as_posix()][code.co_qualname] = max(lines) - min(lines) + 1
    return dict(sorted(files.items()))


def show(title: str, work: Callable[[], Any], in_full: bool) -> Any:
    """Print what `work` goes through, and return its result."""
    with walked() as codes:
        result = work()
    files = by_file(codes)
    lines = {name: sum(functions.values()) for name, functions in files.items()}
    count = sum(map(len, files.values()))
    print(f"{title}: {len(files)} files, {count} functions, {sum(lines.values())} lines of these")
    for name, functions in files.items() if in_full else ():
        print(f"    {name} {lines[name]}: {', '.join(sorted(functions))}")
    return result


def main() -> None:
    """A fit, and predictions of the fitted model and of the same from a file."""
    in_full = "files" in sys.argv[1:]
    import_all()
    X, t = curve(ROWS + NEW)
    y = np.full(ROWS, np.nan)
    y[:: ROWS // LABELS] = np.sin(t[:ROWS][:: ROWS // LABELS])
    model = show("fit", lambda: GPUMRegressor(random_state=0).fit(X[:ROWS], y), in_full)
    show("predict", lambda: model.predict(X[ROWS:], return_std=True), in_full)


if __name__ == "__main__":
    main()
