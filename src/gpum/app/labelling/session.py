"""A session of labelling one target of a table: labels, predictions, and which row to label next.

The session holds the state, which pages show. A label is on the disk before `label` returns. Then two threads update
the predictions: one the quick map, the other the exact one and the next suggestions (see `beliefs`). Every change
increases `version`, and `wait` returns the new state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from threading import Condition, Thread
from typing import Any

import numpy as np

from gpum.tools import Belief, Classes, Goal, Labels, Numbers, is_missing, number, option, parse_number, percent, short

from ..report.findings import the
from ..tables import labelled
from ..tables.labels import Kind, LabelFile, Line, RowFinder
from ..tables.table import Table
from .pictures import Pictures

AHEAD = 5  # suggestions that are computed in advance
SETTLE = 0.3  # seconds without a new label, after which the exact fit starts
CANDIDATES, WITNESSES = 300, 1000  # rows that are compared, and rows to which distances are computed, without a model
NEIGHBOURS = 5  # labelled rows that are shown beside a row
LISTED = 60  # columns of a row that are shown
GOALS = ("information", "maximum", "minimum", "level")
EXTREMES: dict[str, Callable[..., int]] = {"maximum": max, "minimum": min}


class Refused(ValueError):
    """A request that cannot be fulfilled, with a sentence for the user; a conflict if the row was changed meanwhile."""

    def __init__(self, sentence: str, conflict: bool = False) -> None:
        super().__init__(sentence)
        self.conflict = conflict


@dataclass(frozen=True)
class Work:
    """The task: rows and columns of a table, and the labels that it has."""

    path: Path
    table: Table
    target: str
    X: np.ndarray  # columns that are not numbers are encoded
    features: list[str]
    names: list[str]
    start: Labels
    pictures: Pictures | None = None
    encoded: list[str] | None = None  # names of the columns of X, if they are not the features


class Session:
    """The state of labelling one target, and the actions of users. `close` ends its threads."""

    def __init__(self, work: Work, target: Numbers | Classes, file: LabelFile) -> None:
        self.work, self.target, self.file = work, target, file
        self.finder = RowFinder(work.table, file.path)
        self.checks = self.finder.checks(tuple(work.features))
        middle = np.nanmean(work.X, 0)
        self._unit = float(np.nanmax(np.abs(work.X - middle))) or 1.0
        self._rows = (work.X - middle) / self._unit  # numbers whose squares are exact enough for distances
        if file.columns() != work.features:
            file.add(Line(token_hex(8), "columns", "", value=json.dumps(work.features)))
        self.kind = Kind(tuple(target.names) if isinstance(target, Classes) else None)
        if file.kind(work.target) not in (None, self.kind):  # labels so far, and from now on, are of this kind
            file.add(self.kind.line(token_hex(8), work.target))
        self.changed = Condition()
        self.version = self.round = 0  # `version` counts all changes, `round` changes of the labels
        self.belief: Belief | None = None
        self.belief_number, self.belief_round = 0, -1
        self.run = token_hex(4)  # distinguishes versions of different runs
        self.goal = self.queue_goal = Goal()  # the chosen one, and that of the present suggestions
        self.trouble = self.advice = ""
        self.stop_here = self.closed = False
        self._read()
        self.queue = self._spread_out()
        self.threads = [Thread(target=run, daemon=True) for run in (self._quick, self._exact)]
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        """End the threads."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        for thread in self.threads:
            thread.join()

    # Actions of users. Each is one line of the file; the sender chooses `id`, so that a repeated request has no effect.

    def label(self, id: str, row: Any, text: str, previous: str) -> None:
        """Give a row a label; `previous` is the label that the page shows for it, "" for none."""
        row = self._row(row)
        with self.changed:
            if id in self.file:
                return
            value = self.target.parse(text)
            has = self.labels.get(row, "")
            if previous != has:
                now = f"has the label {has} by now" if has else "has no label any more"
                raise Refused(f"{self.work.names[row]} {now}: it was changed in another tab. Enter replaces it.", True)
            self._add(Line(id, "label", self.work.target, row, self.work.names[row], value, self.checks[row]), row)

    def undo(self, id: str, of: str) -> None:
        """Cancel the label with the id `of`."""
        with self.changed:
            if id in self.file:
                return
            line = self.given.order.get(of)
            if line is None:
                raise Refused("That label is taken back already, or written into the table.", True)
            self._add(Line(id, "undo", self.work.target, line.row, line.name, of, line.check))

    def skip(self, id: str, row: Any) -> None:
        """Do not suggest a row again."""
        row = self._row(row)
        with self.changed:
            if id not in self.file:
                self._add(Line(id, "skip", self.work.target, row, self.work.names[row], "", self.checks[row]), row)

    def aim(self, name: str, level: str) -> None:
        """Choose what labels are asked for; `level` is a number where the goal is one, else ""."""
        if option(name, "goal", GOALS) != "information" and isinstance(self.target, Classes):
            raise Refused("Classes have no largest and no smallest value.")
        goal = Goal(name, float(parse_number(level)) if name == "level" else None)
        with self.changed:
            self.goal = goal
            if self.belief is None:
                self.queue_goal = goal  # without a model rows are spread out, whatever the goal
            self._notify()

    def export(self) -> str:
        """Write the labels into the table; what was done, in a sentence."""
        with self.changed:
            try:
                n = labelled.export(
                    self.work.path, self.work.target, decimal=self.work.table.decimal, encoding=self.work.table.encoding
                )
            except (ValueError, OSError) as error:
                raise Refused(f"Nothing was exported: {error}") from error
            if n:
                self.work.start.update(self.given.values)
                self._add(Line(token_hex(8), "exported", self.work.target))
        return f"{n} label{'s' * (n != 1)} written into {self.work.path.name}." if n else "There is nothing to export."

    def _add(self, line: Line, row: int | None = None) -> None:
        """Write a line to the disk, then update the state."""
        try:
            if line.action == "label" and self.file.kind(line.target) != self.kind:
                self.file.add(self.kind.line(token_hex(8), line.target))
            self.file.add(line)
        except OSError as error:
            raise Refused(f"It could not be written to {self.file.path.name} ({error.strerror or error}).") from error
        before = self.labels
        self._read()
        self.queue = [r for r in self.queue if r != row and r not in self.labels] or self._spread_out()
        self.round += self.labels != before
        self._notify()

    def _read(self) -> None:
        self.given = self.file.given(self.work.target, self.finder)
        self.labels: Labels = {**self.work.start, **self.given.values}

    def _row(self, row: Any) -> int:
        if not isinstance(row, int) or isinstance(row, bool) or not 0 <= row < len(self.work.X):
            raise Refused(f"There is no row {row!r:.20}; rows are 0 to {len(self.work.X) - 1}.")
        return row

    def _notify(self) -> None:
        self.version += 1
        self.changed.notify_all()

    # Updates after a label.

    def _quick(self) -> None:
        self._follow(lambda labels, done: self.target.quick(labels, self.belief), lambda labels, belief: None)

    def _exact(self) -> None:
        def settled(labels: Labels, outdated: Callable[[], bool]) -> Belief | None:
            with self.changed:  # the quick map is computed first
                self.changed.wait_for(lambda: outdated() or self.belief_round == self.round or self.trouble)
                if self.changed.wait_for(outdated, SETTLE):
                    return None
            return self.target.exact(labels, outdated)

        self._follow(settled, self._suggest)

    def _follow(
        self, find: Callable[[Labels, Callable[[], bool]], Belief | None], then: Callable[[Labels, Belief], None]
    ) -> None:
        """Compute predictions after every change of the labels, and publish them unless better ones exist already.

        After a change of the goal alone, `then` is called again.
        """
        seen, goal, belief = -1, self.goal, None
        outdated = lambda: self.closed or self.round != seen
        stale = lambda: outdated() or self.goal != goal
        while True:
            with self.changed:
                self.changed.wait_for(stale)
                if self.closed:
                    return
                goal, same = self.goal, self.round == seen
                seen, labels = self.round, dict(self.labels)
            if same:
                if belief is not None:
                    then(labels, belief)
                continue
            belief = None
            if not self.target.ready(labels):
                self._publish(None, seen)
                continue
            try:
                belief = find(labels, outdated)
                if belief is not None:
                    self._publish(belief, seen)
                    if not outdated():
                        then(labels, belief)
            except Exception as error:  # labelling goes on after any error, which is shown to the user
                with self.changed:
                    self.trouble = f"The labels are stored, but the fit failed: {error or type(error).__name__}"
                    self._notify()

    def _publish(self, belief: Belief | None, of: int) -> None:
        with self.changed:
            newer = of > self.belief_round or (belief is not None and (self.belief is None or belief.exact))
            if of >= self.belief_round and newer:
                self.belief, self.belief_round, self.trouble = belief, of, ""
                self.belief_number += 1
                if belief is None:
                    self.advice, self.stop_here, self.queue = "", False, self._spread_out()
                self._notify()

    def _suggest(self, labels: Labels, belief: Belief) -> None:
        with self.changed:
            among = np.setdiff1d(self._open(), list(labels))  # a label may have been cancelled since
            goal = self.goal
        found = (
            self.target.suggest(AHEAD, among, belief, goal)
            if len(among)
            else ([], "Every row has a label or is skipped.", True)
        )
        with self.changed:
            (rows, self.advice, self.stop_here), self.queue_goal = found, goal
            self.queue = [row for row in rows if row in self._open()] or self._spread_out()
            self._notify()

    def _open(self) -> np.ndarray:
        """Rows without a label that were not skipped."""
        mask = np.ones(len(self.work.X), bool)
        mask[[*self.labels, *self.given.skipped]] = False
        return np.flatnonzero(mask)

    def _spread_out(self) -> list[int]:
        """Rows whose labels would minimise the distances of all rows to a labelled row; suggestions without a model."""
        X, open_ = self._rows, self._open()
        if not len(open_):  # skipped rows are suggested again when no other row is left
            return [row for row in self.given.skipped if row not in self.labels][:AHEAD]
        rng = np.random.default_rng(0)
        some = lambda rows, n: rows if len(rows) <= n else np.sort(rng.choice(rows, n, replace=False))
        candidates, witnesses = some(open_, CANDIDATES), some(np.arange(len(X)), WITNESSES)
        away = _distances(X[candidates], X[witnesses])
        farthest = np.max(away, where=np.isfinite(away), initial=0.0) + 1.0  # also for rows without common readings
        away, known = np.minimum(away, farthest), list(self.labels)
        nearest = np.full(len(witnesses), farthest)
        if known:
            nearest = np.minimum(_distances(X[known], X[witnesses]).min(0), farthest)
        found: list[int] = []
        for _ in range(min(AHEAD, len(candidates))):
            gain = np.maximum(nearest - away, 0.0).sum(1)
            gain[[k for k, row in enumerate(candidates) if int(row) in found]] = -1.0
            best = int(np.argmax(gain))
            found.append(int(candidates[best]))
            nearest = np.minimum(nearest, away[best])
        return found

    # Content of pages.

    def wait(self, version: str, belief: str, seconds: float) -> dict[str, Any]:
        """The state, as soon as its version differs from `version`."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or f"{self.run}.{self.version}" != version, seconds)
            return self.state(belief)

    def state(self, known: str) -> dict[str, Any]:
        """The state; with arrays only if the page does not have the current predictions (`known`)."""
        with self.changed:
            return self._state(known)

    def _state(self, known: str) -> dict[str, Any]:
        belief, name = self.belief, f"{self.run}.{self.belief_number}"
        last = next(reversed(self.given.order.values()), None)
        found = {
            "version": f"{self.run}.{self.version}",
            "labels": sorted([row, value] for row, value in self.labels.items()),
            "skipped": self.given.skipped,
            "new": len(self.given.order),
            "last": None if last is None else {"id": last.id, "row": last.row, "name": last.name, "value": last.value},
            "queue": self.queue,
            "fitting": self.belief_round != self.round
            or self.queue_goal != self.goal
            or (belief is not None and not belief.exact),
            "advice": self.advice,
            "stop": self.stop_here,
            "goal": [self.queue_goal.name, self.queue_goal.level],
            "trouble": self.trouble,
            "figures": self._figures(belief),
            "relevance": [] if belief is None else list(belief.relevance),
            "belief": name,
        }
        if known != name:
            found["value"] = None if belief is None else _rounded(belief.value)
            found["spread"] = None if belief is None else _rounded(belief.spread)
        return found

    def _figures(self, belief: Belief | None) -> list[list[str]]:
        """Key figures, as in the report: what, how much, a note."""
        n, N = len(self.labels), len(self.work.X)
        found = [["Labels", f"{n:,}", f"of {N:,} rows; {len(self.given.order)} new"]]
        if belief is not None:
            words = isinstance(self.target, Classes)
            note = "estimate for all rows" if words else "one standard deviation, over all rows"
            found.append(["Wrong classes" if words else "Typical error", self.target.average(belief), note])
            # The page asks for the rows that are hardest to predict, so labelled rows do worse than others.
            if belief.left_out and words:
                found.append(["Left-out labels right", belief.left_out, "labelled rows only, the hard ones"])
            elif belief.left_out:
                found.append(["Left-out error", belief.left_out, "labelled rows only, the hard ones"])
            if self.goal.name in EXTREMES:
                row = EXTREMES[self.goal.name](self.labels, key=lambda row: float(self.labels[row]))
                found.append(["Best so far", number(float(self.labels[row])), f"row {self.work.names[row]}"])
            title, weight = next(iter(belief.weights.items()))
            found.append(["Geometry", percent(weight), f"of the weight is on {the(title)}"])
        return found

    def about(self, row: int) -> dict[str, Any]:
        """Everything that the page shows about one row."""
        row = self._row(row)
        with self.changed:
            belief, labels = self.belief, dict(self.labels)
        names = self.work.names
        known = np.array([r for r in labels if r != row], int)
        away = self._unit * _distances(self._rows[[row]], self._rows[known])[0] if len(known) else np.zeros(0)
        # Along the surface: by the correlation, rounded so that rows without any are in the order of their distance.
        along = np.zeros(len(known)) if belief is None or not len(known) else belief.correlation(row, known)
        order = np.lexsort((away, -np.round(along, 6)))
        nearest = [int(k) for k in order[:NEIGHBOURS] if np.isfinite(away[k])]
        shown = [] if self.work.pictures is not None else self._cells(row)
        return {
            "row": row,
            "name": names[row],
            "picture": self.work.pictures is not None and self.work.pictures.has(row),
            "columns": shown[:LISTED],
            "more": max(len(shown) - LISTED, 0),
            "near": [[int(known[k]), names[known[k]], labels[int(known[k])], float(away[k])] for k in nearest],
            "along": belief is not None,
            **({} if belief is None else belief.detail(row)),
        }

    def _cells(self, row: int) -> list[list[Any]]:
        """Names and values of the columns of a row: numbers, or the words of the table; None where one is missing."""
        work = self.work
        if work.encoded is None:
            values = work.X[row].tolist()
            return [[name, v if np.isfinite(v) else None] for name, v in zip(work.features, values, strict=True)]
        cells = [work.table.columns[name][row] for name in work.features]
        return [
            [
                name,
                None if is_missing(cell, among_words=True) else cell if isinstance(cell, int | float) else short(cell),
            ]
            for name, cell in zip(work.features, cells, strict=True)
        ]


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distances between rows, [a, b]; columns that a row lacks are left out, infinite if no column is in both."""
    if np.isnan(a).any() or np.isnan(b).any():
        from sklearn.metrics import nan_euclidean_distances

        return np.nan_to_num(nan_euclidean_distances(a, b), nan=np.inf)
    square = np.sum(a**2, 1)[:, None] + np.sum(b**2, 1) - 2 * a @ b.T
    return np.sqrt(np.maximum(square, 0.0))


def _rounded(values: Sequence[float] | np.ndarray) -> list[float]:
    from gpum.tools import column

    return column(np.asarray(values))  # type: ignore[return-value]
