"""Predictions for every row from the labels so far, for numbers and for classes.

After each label the user waits for the map, so predictions are made in two steps. `quick` uses the settings that had
the largest weights before, and draws the map with the heaviest of them. `exact` uses all settings, as `gpum fit` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...basics.checks import GpumError
from ...estimators.base import infer
from ...estimators.classifier import infer as infer_classes
from ...estimators.targets import LARGEST_LABEL
from ...inference import classes, gp
from ...inference.outputs import Target as TargetKind
from ...inference.posterior import RowsInSpaces
from ..findings import number, percent

QUICK, POINTS = 12, 25_000  # settings of the quick map: at least QUICK, and more if rows × settings stays below POINTS
CONSIDERED, MANY = 100, 6  # settings from which they are chosen, if there are MANY labels
INTERVAL = np.array([0.025, 0.975])
SHOWN = 40  # characters of what was typed
ENOUGH_FOR_ERROR = 3  # labels from which a left-out error is reported

Labels = dict[int, str]  # by row


@dataclass(frozen=True)
class Belief:
    """Predictions for every row of the cloud.

    value : the mean, or the index of the likeliest class, [N].
    spread : standard deviation of a new observation, or the chance that this class is wrong, [N].
    left_out : the error of labels that are predicted from the others, or how many are correct, in words.
    weights : of each geometry, heaviest first.
    """

    value: np.ndarray
    spread: np.ndarray
    left_out: str
    weights: dict[str, float]
    settings: list[int]  # indices in the family, heaviest first
    exact: bool
    detail: Callable[[int], dict[str, Any]]  # more about one row


class Target(ABC):
    """Base of numbers and classes: a fitted estimator with warm_start, and its family."""

    def __init__(self, model: Any, X: np.ndarray) -> None:
        self.model, self.X = model, X
        self.fitted = model.model_  # with the labels of the last exact fit
        self.geometries = self.fitted.geometries
        family, everything = self.geometries.labelled(np.arange(len(X)))  # also rows that are not of the subset
        self.family = replace(family, rows=[rows[everything] for rows in family.rows])
        self.titles = self.geometries.titles
        self.index = {id(setting): k for k, setting in enumerate(self.family.settings)}

    def considered(self, before: Belief | None, labels: Labels) -> list[int]:
        """Indices of the settings that the quick step uses."""
        if before is None or len(labels) < MANY:
            return list(range(len(self.family.settings)))
        return before.settings[:CONSIDERED]

    def heaviest(self, posterior: Any, n: int | None = None) -> Any:
        """The posterior with only its heaviest components."""
        n = n or max(QUICK, POINTS // len(self.X))
        return posterior.heaviest(n)

    def settings_of(self, posterior: Any) -> list[int]:
        """Indices of a posterior's settings, heaviest first."""
        return [
            self.index[id(component.setting)]
            for component in sorted(posterior.components, key=lambda component: -component.weight)
        ]

    def weights_of(self, posterior: Any) -> dict[str, float]:
        """Weight of each geometry, heaviest first."""
        found = dict.fromkeys(self.titles, 0.0)
        for component in posterior.components:
            found[self.titles[self.family.geometry_of[component.setting.space]]] += component.weight
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def suggest(self, n: int, among: np.ndarray) -> tuple[list[int], str, bool]:
        """The rows of `among` to label next by the exact fit, the expected gain in words, and whether to stop."""
        found = self.fitted.suggestions(n, candidates=among)
        return [int(row) for row in found.rows], self.gain_text(found), bool(found.enough)

    @abstractmethod
    def gain_text(self, found: Any) -> str:
        """The expected gain of the best suggestion, in words."""


class Numbers(Target):
    """A target that is a number."""

    def parse(self, text: str) -> str:
        """A label in the form in which it is stored; an error if it is not a number."""
        return parse_number(text)

    def ready(self, labels: Labels) -> bool:
        """Whether the labels are enough for predictions."""
        return len(labels) > 1

    def quick(self, labels: Labels, before: Belief | None) -> Belief:
        """Predictions from few settings, to be shown at once."""
        rows, y = _arrays(labels)
        mean, scale = gp.units(y)
        some = [self.family.settings[k] for k in self.considered(before, labels)]
        whole = gp.average(replace(self.family, settings=some), rows, (y - mean) / scale)
        return self._belief(whole, self.heaviest(whole), mean, scale, rows, y, exact=False)

    def exact(self, labels: Labels, stop: Callable[[], bool]) -> Belief | None:
        """Predictions from all settings; None if `stop` says that they are outdated."""
        rows, y = _arrays(labels)
        everyone = np.full(len(self.X), np.nan)
        everyone[rows] = y
        output = infer(self.fitted.geometries, everyone, TargetKind())
        self.fitted = replace(self.fitted, outputs=[output])
        return self._belief(output.posterior, output.posterior, output.mean, output.scale, rows, y, True, stop)

    def _belief(
        self, whole: Any, drawn: Any, mean: float, scale: float, rows: np.ndarray, y: np.ndarray, exact: bool,
        stop: Callable[[], bool] = lambda: False,
    ) -> Any:  # fmt: skip
        located = RowsInSpaces.exactly(self.family.rows)
        middle, square = np.zeros(len(self.X)), np.zeros(len(self.X))
        for component, means, variances in drawn.conditionals(located, True):
            if stop():
                return None
            middle += means @ component.weights
            square += (variances + means**2) @ component.weights
        spread = np.sqrt(np.maximum(square - middle**2, 0.0))

        def detail(row: int) -> dict[str, Any]:
            here = RowsInSpaces.exactly([r[[row]] for r in self.family.rows])
            low, high = mean + scale * drawn.quantiles(here, INTERVAL)[0]
            return {"interval": [float(low), float(high)]}

        left_out = _left_out(whole if exact else self.heaviest(whole, QUICK), y)
        weights, settings = self.weights_of(whole), self.settings_of(whole)
        return Belief(mean + scale * middle, scale * spread, left_out, weights, settings, exact, detail)

    def average(self, belief: Belief) -> str:
        """The average uncertainty in words."""
        return f"± {number(float(belief.spread.mean()))}"

    def gain_text(self, found: Any) -> str:
        """The expected gain of the best suggestion, in words."""
        gain, floor = number(float(found.gain[0]), 2), number(float(found.floor), 2)
        if found.enough:
            return (
                f"Stop here: one more label is expected to lower the average variance by {gain} only; below {floor} "
                "the noise of the labels hides it."
            )
        return f"A label of the suggested row is expected to lower the average variance by {gain}."


class Classes(Target):
    """A target that is one of some classes."""

    def __init__(self, model: Any, X: np.ndarray, names: list[str]) -> None:
        super().__init__(model, X)
        self.names = names

    def parse(self, text: str) -> str:
        """A label in the form in which it is stored; an error if it is not a class."""
        if text not in self.names:
            raise GpumError(f"{text!r} is none of the classes {', '.join(self.names)}; choose one of them")
        return text

    def ready(self, labels: Labels) -> bool:
        """Whether the labels are enough for predictions."""
        return len(set(labels.values())) > 1

    def quick(self, labels: Labels, before: Belief | None) -> Belief:
        """Predictions from few settings, to be shown at once."""
        rows, codes, seen = self._codes(labels)
        some = self.considered(before, labels)
        family = replace(self.family, settings=[self.family.settings[k] for k in some])
        atypical = 0.0 if self.geometries.cloud.many is None else classes.ATYPICAL
        whole = classes.classify(family, rows, codes, len(seen), self.geometries.effective_dimensions[some], atypical)
        drawn = self.heaviest(whole)
        p = drawn.probabilities(RowsInSpaces.exactly(self.family.rows))
        return self._belief(whole, p, codes, seen, exact=False)

    def exact(self, labels: Labels, stop: Callable[[], bool]) -> Belief | None:
        """Predictions from all settings; None if `stop` says that they are outdated."""
        rows, codes, seen = self._codes(labels)
        output = infer_classes(self.fitted.geometries, rows, codes, len(seen))
        self.fitted = replace(self.fitted, outputs=[output], classes=np.array(self.names)[seen])
        if stop():
            return None
        return self._belief(output.posterior, self.fitted.of_cloud.probabilities, codes, seen, exact=True)

    def _codes(self, labels: Labels) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Labelled rows, their classes as indices of `seen`, and `seen`: the classes that have a label."""
        rows = np.array(sorted(labels))
        numbers = [self.names.index(labels[row]) for row in rows]
        seen, codes = np.unique(numbers, return_inverse=True)
        return rows, codes, [int(k) for k in seen]

    def _belief(self, whole: Any, p: np.ndarray, codes: np.ndarray, seen: list[int], exact: bool) -> Belief:
        everyone = np.zeros((len(p), len(self.names)))
        everyone[:, seen] = p

        def detail(row: int) -> dict[str, Any]:
            return {"chances": [float(v) for v in everyone[row]]}

        value, left_out = np.argmax(everyone, 1).astype(float), _left_out_classes(whole.left_out, codes)
        weights, settings = self.weights_of(whole), self.settings_of(whole)
        return Belief(value, 1 - everyone.max(1), left_out, weights, settings, exact, detail)

    def average(self, belief: Belief) -> str:
        """The average uncertainty in words."""
        return percent(float(belief.spread.mean()))

    def gain_text(self, found: Any) -> str:
        """The expected gain of the best suggestion, in words."""
        if found.enough:
            return "Stop here: one more label is expected to change hardly any class of the other rows."
        return "The suggested row is the one whose label is expected to determine most of the others."


def parse_number(text: str) -> str:
    """A number in the form in which it is stored; an error if the text is not a number."""
    plain = text.strip().replace("−", "-")
    try:
        if "_" in plain:
            raise GpumError
        value = float(plain)
    except ValueError:
        comma = plain.replace(",", "", 1).lstrip("+-").isdigit() and "," in plain
        hint = "write a decimal point, not a comma" if comma else "write a number, such as 3.5 or 1e-3"
        what = f"{text.strip()[:SHOWN]!r} is not a number" if plain else "nothing is written"
        raise GpumError(f"{what}; {hint}") from None
    if not np.isfinite(value):
        raise GpumError(f"{plain} is not a finite number; skip the row if its value is not known")
    if abs(value) > LARGEST_LABEL:
        raise GpumError(f"{plain} is too large to calculate with (at most {LARGEST_LABEL:g}); check it")
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _arrays(labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    rows = np.array(sorted(labels))
    return rows, np.array([float(labels[row]) for row in rows])


def _left_out(posterior: Any, y: np.ndarray) -> str:
    if len(y) < ENOUGH_FOR_ERROR:
        return ""
    mean, _, _ = gp.leave_one_out(posterior, y, (0.5,))
    return number(float(np.sqrt(np.mean((mean - y) ** 2))))


def _left_out_classes(p: np.ndarray, codes: np.ndarray) -> str:
    """How many labels the others predict correctly, without classes that have one label only."""
    several = np.bincount(codes)[codes] > 1
    if several.sum() < ENOUGH_FOR_ERROR:
        return ""
    return f"{np.sum(p.argmax(1)[several] == codes[several]):,} of {several.sum():,}"
