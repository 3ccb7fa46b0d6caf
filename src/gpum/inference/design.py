"""Which rows to label next: how much a label is expected to tell about the whole cloud, in closed form.

    C(x, x')    covariance of f given the labels and one candidate
    s(x)        variance of what a label at x says of f(x): the noise; for classes that of a Gaussian label which
                would tell as much of f(x) as the class does on average
    v(x')       what a unit of variance of f counts at x': 1; for classes |∂p/∂f|²

A label at x lowers the covariance by C(x', x) C(x, x'')/(C(x, x) + s(x)), whatever its value, so that

    variance       Σ_x' v(x') C(x, x')²/(C(x, x) + s(x)) / rows     the drop of the average predictive variance
    information    ½ D log(1 + C(x, x)/s(x))                        nats that the label carries on f (D functions)

    maximum        E max(f(x) - f*, 0) + EXPLORATION √C(x, x), the expected improvement on f*, the largest mean of f at
                   a row that has a label, and a little of what is not known
    minimum        the same of -f

Labels that climb one hill prefer kernels on which all is flat beyond it. The expected improvement is then too small
everywhere else, and alone it would never leave the hill: the second term is there in case the kernels are wrong.

For the goal "level", the variance is that of the side of the level on which f is: v = (∂P(f > level)/∂ mean f)².

They are averaged over the posterior's candidates by weight. A batch is greedy: each row is chosen given that those
before it will have labels, so that no two of them say the same.

Classes have p = softmax(a f), a = LINK/√(C(x, x) + r) (see `classes`). The class y of x moves the mean of f(x) by
C(x, x) ∇log p_y, and the variance of that move is by how much C(x, x) falls: 1/(C(x, x) + s(x)) = a² (1 - Σp²)/D in
each of D = C - 1 directions. The "variance" is that of the class, 1 - Σp², the chance that two draws of it differ;
"information" is BALD (what the class tells of the functions, not how uncertain it is) of that Gaussian label. One class
tells little about f, and a second row at the same point would tell as much as the first. So that a batch spreads over
the cloud, f counts as known, up to the smallest r, at rows that were chosen before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from .class_posterior import ClassComponent, ClassPosterior, correlation
from .decisions import (
    CANDIDATES,
    CLASS_RATIOS,
    COMPONENTS,
    COMPONENTS_OF_EXTREMES,
    ENDS,
    EXPLORATION,
    KNOWN,
    MORE,
    NEGLIGIBLE,
    OF_EXTREMES,
    SMALL,
    SURE,
    TARGETS,
)
from .nearest import Nearest, near
from .posterior import Component, Posterior, RowsInSpaces
from .probit import LINK

CRITERIA = ("variance", "information")
GOALS = ("information", "maximum", "minimum", "level")

FARTHEST = 38.0  # standard deviations: the density there is the smallest number of float64


@dataclass(frozen=True)
class Suggestions:
    """Rows of the cloud to label, best first, and what each is expected to give on top of those before it.

    Attributes
    ----------
    rows : indices of rows of the cloud (of `candidates`, where these were rows of numbers), [n].
    gain : criterion "variance": by how much the average predictive variance over the cloud falls (of the function, in
        squared units of y, summed over outputs; for classes of 1 - Σp²; for a level of the side on which f is);
        "information": nats; "maximum", "minimum": the expected improvement and a little of the standard deviation, in
        units of y.
    floor : a gain below which one more label no longer helps.
    notes : what was left out.
    trusted : whether the gain can be relied on: not where left-out labels of classes come out right less often than
        their probabilities say.
    """

    rows: np.ndarray
    gain: np.ndarray
    floor: float
    criterion: str = "variance"
    notes: tuple[str, ...] = ()
    trusted: bool = True

    @property
    def enough(self) -> bool:
        """Whether more labels no longer help: the best of them is expected to give less than `floor`."""
        return not len(self.gain) or (self.trusted and bool(self.gain[0] < self.floor))


@dataclass(frozen=True)
class Asked:
    """Candidates [m] and the rows over which the variance is averaged [T], as indices of the cloud.

    An `extreme`, a maximum or minimum, is looked for without these rows, but in more candidates.
    """

    candidates: np.ndarray
    targets: np.ndarray
    notes: tuple[str, ...] = ()
    extreme: bool = False

    @classmethod
    def of(cls, candidates: np.ndarray, n_rows: int, extreme: bool = False) -> Asked:
        """CANDIDATES of the candidates and TARGETS of the cloud's rows, at random but always the same.

        For an `extreme`, a maximum or minimum, OF_EXTREMES and one.
        """
        drawn = lambda rows, size: np.sort(np.random.default_rng(0).permutation(rows)[:size])
        most = OF_EXTREMES if extreme else CANDIDATES
        left = len(candidates) - most
        notes = (f"{left} of {len(candidates)} rows without a label were not compared",) if left > 0 else ()
        return cls(drawn(candidates, most), drawn(np.arange(n_rows), 1 if extreme else TARGETS), notes, extreme)

    def of_cloud(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Candidates and targets out of an array over the cloud."""
        return rows[self.candidates], rows[self.targets]


@dataclass
class Gains:
    """What labels are expected to give under one candidate: f given the labels, and the rows chosen so far.

    cross : C between candidates and targets, [m, T];   variance : C(x, x) of candidates, [m];   noise : s, [m]
    counts : v of targets, [T];   column(i) : C between the candidates and the i-th, before any was chosen, [m]
    mean : of f at candidates, [m];   highest, lowest : the largest and the smallest mean at a row with a label
    """

    weight: float
    cross: np.ndarray
    variance: np.ndarray
    noise: np.ndarray
    counts: np.ndarray
    column: Callable[[int], np.ndarray]
    dims: int = 1
    chosen_noise: float = np.inf  # of rows chosen before, at most
    chosen: list[np.ndarray] = field(default_factory=list)
    mean: np.ndarray | None = None
    highest: float = -np.inf
    lowest: float = np.inf

    def gain(self, criterion: str) -> np.ndarray:
        """The expected gain from a label of each candidate, [m]."""
        if criterion == "information":
            return 0.5 * self.dims * np.log1p(self.variance / self.noise)
        if criterion in ("maximum", "minimum"):
            assert self.mean is not None
            ahead = self.mean - self.highest if criterion == "maximum" else self.lowest - self.mean
            return improvement(ahead, self.variance) + EXPLORATION * np.sqrt(self.variance)
        return (self.cross**2 @ self.counts) / (self.cross.shape[1] * (self.variance + self.noise))

    def condition(self, i: int) -> None:
        """Condition on a label of the i-th candidate, which is expected to be its mean."""
        if self.mean is not None:
            self.highest, self.lowest = max(self.highest, self.mean[i]), min(self.lowest, self.mean[i])
        total = np.sqrt(self.variance[i] + min(self.noise[i], self.chosen_noise))
        column = (self.column(i) - sum(c * c[i] for c in self.chosen)) / total
        self.cross = self.cross - np.outer(column, self.cross[i] / total)
        self.variance = np.maximum(self.variance - column**2, 0.0)
        self.chosen.append(column)


def choose(
    outputs: Sequence[Sequence[Gains]], useful: Sequence[np.ndarray], n: int, criterion: str = "variance"
) -> tuple[np.ndarray, np.ndarray]:
    """n candidates, as indices among them, and their gains; `useful` [m] says where each output lacks a label.

    Gains of outputs add up. Fewer than n are found where there are no more candidates.
    """
    m = len(useful[0])
    left, chosen, gains = np.ones(m, bool), [], []
    weights = [np.array([of_candidate.weight for of_candidate in of_output]) for of_output in outputs]
    for _ in range(min(n, m)):
        score = np.zeros(m)
        for of_output, weight, mask in zip(outputs, weights, useful, strict=True):
            gain = np.array([of_candidate.gain(criterion) for of_candidate in of_output])
            score += mask * (weight @ gain / weight.sum())
        i = int(np.argmax(np.where(left, score, -np.inf)))
        chosen.append(i)
        gains.append(score[i])
        left[i] = False
        for of_output, mask in zip(outputs, useful, strict=True):
            for of_candidate in of_output if mask[i] and len(chosen) < n else ():
                of_candidate.condition(i)
    return np.array(chosen, int), np.array(gains)


def improvement(ahead: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E max(z, 0) of z ~ N(ahead, variance), [m]."""
    sd = np.maximum(np.sqrt(variance), np.finfo(float).tiny)
    with np.errstate(over="ignore"):  # where f is certain; the density there is 0
        density = np.exp(-0.5 * (ahead / sd) ** 2) / np.sqrt(2 * np.pi)
        return np.maximum(ahead * ndtr(ahead / sd) + sd * density, 0.0)


def floor(
    outputs: Sequence[Sequence[Gains]], criterion: str, n_rows: int | None = None, of_side: bool = False
) -> float:  # fmt: skip
    """The gain below which one more label no longer helps; `n_rows` is how many rows a cloud of classes has,
    `of_side` says that gains are of the side of a level.

    Labels of classes help as long as MORE of them are expected to settle one row besides their own, of a large cloud a
    fraction SMALL of its rows. Fewer than one row for each label is no reason to stop: of 400 handwritten digits,
    labels that settled 0.3 rows each halved the number of wrong classes within twenty labels.
    """
    if n_rows is not None:
        return SURE if criterion == "information" else max(1 / n_rows, SMALL) / MORE
    if criterion == "information":
        return KNOWN * len(outputs)
    if of_side:
        return NEGLIGIBLE / 4  # 1/4 is the variance where both sides of a level are equally likely
    extreme = criterion in ("maximum", "minimum")  # an improvement is in units of y, not of its variance
    noise = [
        np.average([b.noise[0] ** (0.5 if extreme else 1.0) for b in one], weights=[b.weight for b in one])
        for one in outputs
    ]
    return (NEGLIGIBLE + EXPLORATION if extreme else NEGLIGIBLE) * float(np.sum(noise))


def surplus(probabilities: np.ndarray, codes: np.ndarray) -> float:
    """How many more left-out labels come out right than their probabilities [n, C] say, in standard deviations.

    Labels that are the only ones of their class are not counted, and half a label of difference is none.
    """
    several = np.bincount(codes)[codes] > 1
    p, right = probabilities.max(1)[several], (probabilities.argmax(1) == codes)[several].sum()
    more = float(right - p.sum())
    return np.sign(more) * max(abs(more) - 0.5, 0.0) / max(float(np.sqrt(np.sum(p * (1 - p)))), 1e-9)


def of_function(
    posterior: Posterior, cloud: Sequence[np.ndarray], asked: Asked, scale: float = 1.0, level: float | None = None
) -> list[Gains]:
    """Gains under each candidate of a regression; `cloud` are its rows in every space, `scale` is the unit of y.

    Each candidate has one noise ratio here, the geometric mean of its own. With a `level`, in units of y above the mean
    of the labels, the variance is that of the side of it.
    """
    most = max(COMPONENTS, COMPONENTS_OF_EXTREMES // len(asked.candidates)) if asked.extreme else COMPONENTS
    heavy = sorted(posterior.components, key=lambda component: -component.weight)[:most]
    return [_of_component(component, posterior.labels, cloud, asked, scale, level) for component in heavy]


def _of_component(
    component: Component, labels: Sequence[np.ndarray | None], cloud: Sequence[np.ndarray], asked: Asked, scale: float,
    level: float | None,
) -> Gains:  # fmt: skip
    weights = component.weights / component.weight
    ratio = float(np.exp(weights @ np.log(component.ratios)))
    signal = scale**2 * float(weights @ component.signal)
    covariance, k = component.candidate.covariance, component.candidate.space
    a, b = asked.of_cloud(cloud[k])
    known = labels[k]
    assert known is not None
    d = component.d
    if isinstance(d, Nearest):  # the extreme labels are seen too: improvements are on the largest mean at one of them
        ends = np.argsort(d.y)
        d, known = near(component, known, a, b, known[ends[:ENDS]], known[ends[-ENDS:]])
    of_a, of_b, of_known = (d.times(covariance, x, known) for x in (a, b, known))
    along = scale * d.z / (d.S + ratio)
    at_known, counts = of_known @ along, np.ones(len(b))
    if level is not None:
        var_b = signal * np.maximum(covariance.diag(b) - of_b**2 @ (1 / (d.S + ratio)), 1e-12)
        counts = np.exp(-((of_b @ along - level) ** 2) / var_b) / (2 * np.pi * var_b)
    scaled = of_a / (d.S + ratio)
    return Gains(
        component.weight,
        signal * (covariance.gram(a, b) - scaled @ of_b.T),
        signal * np.maximum(covariance.diag(a) - np.sum(scaled * of_a, 1), 0.0),
        np.full(len(a), signal * ratio),
        counts,
        lambda i: signal * (covariance.gram(a, a[[i]])[:, 0] - scaled @ of_a[i]),
        mean=of_a @ along, highest=float(at_known.max()), lowest=float(at_known.min()),
    )  # fmt: skip


def of_classes(posterior: ClassPosterior, cloud: Sequence[np.ndarray], asked: Asked) -> list[Gains]:
    """Gains under each candidate of a classifier, with its heaviest ratio; `cloud` are its rows in every space."""
    at_a, at_b = (
        RowsInSpaces.exactly([None if r is None else r[x] for r in cloud]) for x in (asked.candidates, asked.targets)
    )
    p, q = posterior.probabilities(at_a), posterior.probabilities(at_b)
    square = np.sum(q**2, 1)
    swing = square - 2 * np.sum(q**3, 1) + square**2  # |diag(q) - qqᵀ|²
    heavy = sorted(posterior.components, key=lambda component: -component.weight)[:COMPONENTS]
    differ = np.maximum(1 - np.sum(p**2, 1), 1e-12)
    return [_of_class_component(component, posterior, cloud, asked, differ, swing) for component in heavy]


def _of_class_component(
    component: ClassComponent, posterior: ClassPosterior, cloud: Sequence[np.ndarray], asked: Asked,
    differ: np.ndarray, swing: np.ndarray,
) -> Gains:  # fmt: skip
    covariance, k, j = component.candidate.covariance, component.candidate.space, int(np.argmax(component.weights))
    R, D = component.R[j], posterior.n_classes - 1
    a, b = asked.of_cloud(cloud[k])
    of_a, of_b = (posterior.known(component, x) for x in (a, b))
    scaled = of_a @ R
    var_a = np.maximum(1 - np.sum(scaled * of_a, 1), 1e-9)
    var_b = np.maximum(1 - np.sum((of_b @ R) * of_b, 1), 1e-9)
    steep_a, steep_b = (LINK**2 / (v + component.ratios[j]) for v in (var_a, var_b))
    return Gains(
        component.weight,
        correlation(covariance, a, b) - scaled @ of_b.T,
        var_a,
        D / (steep_a * differ) - var_a,
        steep_b * swing,
        lambda i: correlation(covariance, a, a[[i]])[:, 0] - scaled @ of_a[i],
        D,
        float(CLASS_RATIOS.min()),
    )
