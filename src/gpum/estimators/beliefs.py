"""Predictions for every row from the labels so far, for numbers and for classes.

After each label the user waits for the map, so predictions are made in two steps. `quick` uses the candidates that had
the largest weights before, and draws the map with the heaviest of them. `exact` uses all candidates, as `gpum fit`
does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..basics.checks import GpumError
from ..basics.formats import number, percent, short
from ..basics.workers import blas_threads, with_jobs
from ..fitted.relevance import BY_LENGTHS
from ..geometry.candidate_set import CandidateSet
from ..inference import classes, decisions, design, gp
from ..inference.class_posterior import correlation
from ..inference.left_out import leave_one_out
from ..inference.posterior import RowsInSpaces
from ..inference.regress import regress
from ..inference.target import Target
from ..persistence.store import Store
from .base import with_candidates
from .classifier import infer as infer_classes
from .targets import LARGEST_LABEL

# Candidates of the quick map: at least QUICK, and more if rows × candidates stays below POINTS.
QUICK, POINTS = 12, 25_000
CONSIDERED, MANY = 100, 6  # candidates from which they are chosen, if there are MANY labels
INTERVAL = np.array([0.025, 0.975])
NORMAL = 1.96  # standard deviations on each side of the middle that hold 95 % of a normal distribution
EXTREMES: dict[str, Callable[[np.ndarray], float]] = {"maximum": np.max, "minimum": np.min}
SHOWN = 40  # characters of what was typed
ENOUGH_FOR_ERROR = 3  # labels from which a left-out error is reported
HEAVIEST = 8  # components, over which correlations of rows are averaged
LISTED = 12  # columns of which the page says how relevant they are

Labels = dict[int, str]  # by row


@dataclass(frozen=True)
class Goal:
    """What labels are asked for: "information" on all rows, a "maximum" or "minimum" of y, or where y is at a level."""

    name: str = "information"
    level: float | None = None


Relevance = Sequence[tuple[str, float, str]]  # names of columns, relevance from 0 to 1, and in words


@dataclass(frozen=True)
class Belief:
    """Predictions for every row of the cloud.

    value : the mean, or the index of the likeliest class, [N].
    spread : standard deviation of a new observation, or the chance that this class is wrong, [N].
    left_out : the error of labels that are predicted from the others, or how many are correct, in words.
    weights : of each geometry, heaviest first.
    correlation : prior correlations of one row with others under the heaviest components; the largest belong to the
        rows that are nearest along the surface, whatever the geometry.
    relevance : of the columns that matter most, where a geometry with a length for each column has weight.
    """

    value: np.ndarray
    spread: np.ndarray
    left_out: str
    weights: dict[str, float]
    candidate_set: CandidateSet
    candidates: list[int]  # indices in that set, heaviest first
    exact: bool
    detail: Callable[[int], dict[str, Any]]  # more about one row
    correlation: Callable[[int, np.ndarray], np.ndarray]
    relevance: Relevance = ()


class LiveTarget(ABC):
    """A target whose labels come one by one: a fitted estimator with warm_start, and its candidates."""

    def __init__(self, model: Any, X: np.ndarray) -> None:
        self.model, self.X = model, X
        self.fitted = model.model_  # with the labels of the last exact fit
        self.geometries = self.fitted.geometries
        candidate_set, everything = self.geometries.labelled(np.arange(len(X)))  # also rows that are not of the subset
        self.candidate_set = replace(candidate_set, rows=[rows[everything] for rows in candidate_set.rows])
        titles = self.geometries.titles
        self.titles = [*titles, *(one for one in BY_LENGTHS if one not in titles)]  # labels add them, in this order

    def considered(self, before: Belief | None, labels: Labels) -> tuple[CandidateSet, list[int]]:
        """The candidate set of the quick step, and indices of the candidates that it uses."""
        candidate_set = self.candidate_set if before is None else before.candidate_set
        if before is None or len(labels) < MANY or not before.candidates:
            return candidate_set, list(range(len(candidate_set.candidates)))
        return candidate_set, before.candidates[:CONSIDERED]

    @staticmethod
    def candidates_of(posterior: Any, candidate_set: CandidateSet) -> list[int]:
        """Indices of a posterior's candidates in the set, heaviest first."""
        index = {id(candidate): k for k, candidate in enumerate(candidate_set.candidates)}
        heavy = sorted(posterior.components, key=lambda component: -component.weight)
        return [index[id(component.candidate)] for component in heavy if id(component.candidate) in index]

    @staticmethod
    def correlation_of(posterior: Any, candidate_set: CandidateSet) -> Callable[[int, np.ndarray], np.ndarray]:
        """The prior correlation of a row with others, averaged over the heaviest components of a posterior.

        Spaces with lengths of columns are left out for a large cloud, whose rows in these are not stored.
        """
        heavy = posterior.heaviest(HEAVIEST).components
        stored = [component for component in heavy if component.candidate.space < len(candidate_set.rows)]

        def of(row: int, others: np.ndarray) -> np.ndarray:
            total = np.zeros(len(others))
            for component in stored:
                rows = candidate_set.rows[component.candidate.space]
                total += component.weight * correlation(component.candidate.covariance, rows[[row]], rows[others])[0]
            return total

        return of

    def weights_of(self, posterior: Any, geometry_of: Sequence[int]) -> dict[str, float]:
        """Weight of each geometry, heaviest first."""
        weights = dict.fromkeys(self.geometries.titles, 0.0)
        for component in posterior.components:
            title = self.titles[geometry_of[component.candidate.space]]
            weights[title] = weights.get(title, 0.0) + component.weight
        return dict(sorted(weights.items(), key=lambda item: -item[1]))

    def suggest(self, n: int, among: np.ndarray, belief: Belief, goal: Goal) -> tuple[list[int], str, bool]:
        """The rows of `among` to label next by the exact fit, the expected gain in words, and whether to stop."""
        suggestions = self.fitted.suggestions(n, candidates=among, goal=goal.name, level=goal.level)
        text, stop = self.advice(suggestions, belief, goal)
        return [int(row) for row in suggestions.rows], text, stop

    @abstractmethod
    def advice(self, suggestions: design.Suggestions, belief: Belief, goal: Goal) -> tuple[str, bool]:
        """The expected gain of the best suggestion, in words, and whether further labels no longer pay."""


class Numbers(LiveTarget):
    """A target that is a number; `columns` are the names of the columns of X."""

    def __init__(self, model: Any, X: np.ndarray, columns: Sequence[str] = ()) -> None:
        super().__init__(model, X)
        self.columns = columns

    def parse(self, text: str) -> str:
        """A label in the form in which it is stored; an error if it is not a number."""
        return parse_number(text)

    def ready(self, labels: Labels) -> bool:
        """Whether the labels are enough for predictions."""
        return len(labels) > 1

    def quick(self, labels: Labels, before: Belief | None) -> Belief:
        """Predictions from few candidates, to be shown at once."""
        rows, y = _arrays(labels)
        mean, scale = gp.units(y)
        candidate_set, used = self.considered(before, labels)
        whole = gp.average(
            replace(candidate_set, candidates=[candidate_set.candidates[k] for k in used]), rows, (y - mean) / scale
        )
        drawn, located = whole.heaviest(max(QUICK, POINTS // len(self.X))), RowsInSpaces.exactly(candidate_set.rows)
        middle, variance = drawn.moments(located)

        def interval(row: int) -> np.ndarray:
            here = RowsInSpaces.exactly([r[[row]] for r in candidate_set.rows])
            return mean + scale * drawn.quantiles(here, INTERVAL)[0]

        values = mean + scale * middle, scale * np.sqrt(variance)
        return self._belief(whole, *values, interval, y, candidate_set, candidate_set.geometry_of, exact=False)

    def exact(self, labels: Labels, stop: Callable[[], bool]) -> Belief | None:
        """Predictions from all candidates; None if `stop` says that they are outdated."""
        rows, y = _arrays(labels)
        with blas_threads(len(rows)), with_jobs(self.fitted.settings.get("n_jobs")):
            labelled = with_candidates(self.geometries, y, rows, Target(), Store())
            output = regress(labelled.candidate_set, labelled.at, y, Target(), rows)
        if stop():
            return None
        self.fitted = fitted = replace(self.fitted, geometries=labelled.geometries, outputs=[output])
        candidate_set = labelled.candidate_set if fitted.cloud.subset is None else self.candidate_set  # has all rows
        interval = lambda row: fitted.predictive(self.X[[row]]).quantiles(INTERVAL)[0]
        values = fitted.of_cloud.mean, fitted.of_cloud.std
        return self._belief(
            output.posterior, *values, interval, y, candidate_set, labelled.candidate_set.geometry_of, exact=True
        )

    def _belief(
        self, whole: Any, mean: np.ndarray, spread: np.ndarray, interval: Callable[[int], np.ndarray], y: np.ndarray,
        candidate_set: CandidateSet, geometry_of: Sequence[int], exact: bool,
    ) -> Belief:  # fmt: skip
        left_out = _left_out(whole if exact else whole.heaviest(QUICK), y)
        return Belief(
            mean, spread, left_out, self.weights_of(whole, geometry_of), candidate_set,
            self.candidates_of(whole, candidate_set), exact,
            lambda row: {"interval": [float(end) for end in interval(row)]},
            self.correlation_of(whole, candidate_set), self._relevance() if exact else (),
        )  # fmt: skip

    def _relevance(self) -> Relevance:
        relevance = self.fitted.relevance
        if relevance is None:
            return ()
        names = self.columns or [f"column {j + 1}" for j in range(len(relevance))]
        most = np.argsort(-relevance, kind="stable")[:LISTED]
        return [(short(names[j]), round(float(relevance[j]), 4), percent(float(relevance[j]))) for j in most]

    def average(self, belief: Belief) -> str:
        """The average uncertainty in words."""
        return f"± {number(float(belief.spread.mean()))}"

    def advice(self, suggestions: design.Suggestions, belief: Belief, goal: Goal) -> tuple[str, bool]:
        """What the label of the suggested row is expected to give, in the units of the target."""
        if goal.name in EXTREMES:
            return self._advice_on_extreme(suggestions, goal)
        if goal.level is not None:
            return self._advice_on_level(suggestions, belief, goal.level)
        now = float(np.mean(belief.spread**2))
        before, after = np.sqrt(now), np.sqrt(max(now - float(suggestions.gain[0]), 0.0))
        if suggestions.enough:
            noise = np.sqrt(suggestions.floor / decisions.NEGLIGIBLE)
            return (
                f"Stop here: one more label is expected to lower the typical uncertainty, ± {number(before)}, by less "
                f"than one percent. The noise of the labels alone is ± {number(noise, 2)}."
            ), True
        return (
            f"A label of the suggested row is expected to lower the typical uncertainty from ± {number(before)} to "
            f"± {number(after)}, by {percent(1 - after / before)}."
        ), False

    def _advice_on_extreme(self, suggestions: design.Suggestions, goal: Goal) -> tuple[str, bool]:
        labels, gain = self.fitted.outputs[0].labels, float(suggestions.gain[0])
        best, beyond = EXTREMES[goal.name](labels), "exceed" if goal.name == "maximum" else "fall below"
        if suggestions.enough:
            return f"Stop here: no row is expected to {beyond} {number(best)} by more than the noise hides.", True
        return (
            f"The suggested row is expected to {beyond} the best value so far, {number(best)}, by {number(gain, 2)}.",
            False,
        )

    def _advice_on_level(self, suggestions: design.Suggestions, belief: Belief, level: float) -> tuple[str, bool]:
        open_ = int(np.sum(np.abs(belief.value - level) < NORMAL * belief.spread))
        state = f"{open_:,} of {len(self.X):,} rows may be on either side of {number(level)} (95 %)"
        if suggestions.enough:
            return f"Stop here: {state}, and one more label hardly changes that.", True
        return f"{state}. A label of the suggested row says most about that.", False


class Classes(LiveTarget):
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
        """Predictions from few candidates, to be shown at once."""
        rows, codes, seen = self._codes(labels)
        candidate_set, used = self.considered(before, labels)
        considered = replace(candidate_set, candidates=[candidate_set.candidates[k] for k in used])
        first = candidate_set is self.candidate_set
        dimensions = self.geometries.effective_dimensions[used] if first else classes.effective_dimensions(considered)
        atypical = 0.0 if self.geometries.cloud.many is None else decisions.ATYPICAL
        whole = classes.classify(considered, rows, codes, len(seen), dimensions, atypical)
        drawn = whole.heaviest(max(QUICK, POINTS // len(self.X)))
        p = drawn.probabilities(RowsInSpaces.exactly(candidate_set.rows))
        return self._belief(whole, p, codes, seen, candidate_set, candidate_set.geometry_of, exact=False)

    def exact(self, labels: Labels, stop: Callable[[], bool]) -> Belief | None:
        """Predictions from all candidates; None if `stop` says that they are outdated."""
        rows, codes, seen = self._codes(labels)
        labelled, output = infer_classes(self.geometries, rows, codes, len(seen))
        names = np.array(self.names)[seen]
        self.fitted = fitted = replace(self.fitted, geometries=labelled.geometries, outputs=[output], classes=names)
        if stop():
            return None
        whole, of_spaces = output.posterior, labelled.candidate_set.geometry_of
        candidate_set = labelled.candidate_set if fitted.cloud.subset is None else self.candidate_set  # has all rows
        return self._belief(whole, fitted.of_cloud.probabilities, codes, seen, candidate_set, of_spaces, exact=True)

    def _codes(self, labels: Labels) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Labelled rows, their classes as indices of `seen`, and `seen`: the classes that have a label."""
        rows = np.array(sorted(labels))
        numbers = [self.names.index(labels[row]) for row in rows]
        seen, codes = np.unique(numbers, return_inverse=True)
        return rows, codes, [int(k) for k in seen]

    def _belief(
        self, whole: Any, p: np.ndarray, codes: np.ndarray, seen: list[int], candidate_set: CandidateSet,
        geometry_of: Sequence[int], exact: bool,
    ) -> Belief:  # fmt: skip
        everyone = np.zeros((len(p), len(self.names)))
        everyone[:, seen] = p

        def detail(row: int) -> dict[str, Any]:
            return {"chances": [float(v) for v in everyone[row]]}

        value, left_out = np.argmax(everyone, 1).astype(float), _left_out_classes(whole.left_out, codes)
        weights, candidates = self.weights_of(whole, geometry_of), self.candidates_of(whole, candidate_set)
        spread, correlation = 1 - everyone.max(1), self.correlation_of(whole, candidate_set)
        return Belief(value, spread, left_out, weights, candidate_set, candidates, exact, detail, correlation)

    def average(self, belief: Belief) -> str:
        """The average uncertainty in words."""
        return percent(float(belief.spread.mean()))

    def advice(self, suggestions: design.Suggestions, belief: Belief, goal: Goal) -> tuple[str, bool]:
        """How many rows a label is expected to settle besides its own."""
        rows = float(suggestions.gain[0]) * len(self.X)
        missing = [name for name in self.names if name not in self.fitted.classes]
        label = "A label of the suggested row is expected to"
        if missing:
            first = ", ".join(missing[:3]) + " and others" * (len(missing) > 3)
            return f"No row has the label {first} yet: look for one, or go on with the suggested row.", False
        if not suggestions.trusted:
            return "Go on: left-out labels come out right less often than their probabilities say.", False
        if suggestions.enough:
            return (
                f"Stop here: {decisions.MORE} more labels would settle the class of hardly a row besides their own.",
                True,
            )
        if rows >= 1:
            return f"{label} settle the class of about {number(rows, 2)} rows.", False
        return f"{label} help a little: about {round(1 / rows)} such labels settle one row besides their own.", False


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
    mean, _, _ = leave_one_out(posterior, y, (0.5,))
    return number(float(np.sqrt(np.mean((mean - y) ** 2))))


def _left_out_classes(p: np.ndarray, codes: np.ndarray) -> str:
    """How many labels the others predict correctly, without classes that have one label only."""
    several = np.bincount(codes)[codes] > 1
    if several.sum() < ENOUGH_FOR_ERROR:
        return ""
    return f"{np.sum(p.argmax(1)[several] == codes[several]):,} of {several.sum():,}"
