"""Classes: another likelihood on the same family of covariances.

    f_c ~ GP(0, k),  c = 1..C      one function a class, k(x, x) = 1: the kernel of a setting without its constant,
                                   as a correlation (a row's class should not depend on how well connected it is)
    y(x) = argmax_c f_c(x) + ε_c   ε ~ N(0, r), r on a grid: the multinomial probit

Only differences of the f_c matter, so that everything lives in the C - 1 dimensions in which they sum to zero. No class
has a constant of its own: over the cloud each f_c is about zero, which keeps one class from taking all rows when labels
are few.

Inference is expectation propagation with sites that are the same in all of those directions,

    site_i ∝ exp(ν_i·f(x_i) - ½ τ_i |f(x_i)|²),   ν_i ∈ R^C, τ_i a number

so that all classes share one n × n matrix, and the posterior at x is Gaussian with one variance:

    α = (I + TK)⁻¹ν,  R = (I + TK)⁻¹T:   mean(x) = k(x)ᵀα  [C],   var(x) = k(x, x) - k(x)ᵀR k(x)

At few labels this has the evidence of a brute-force count to about 0.1; Laplace's (softmax) is off by several nats as
soon as the signal is strong, prefers weak signals for that reason alone, and leaves nearly even probabilities;
regression on codes takes distinct classes for distinct numbers, and its evidence prefers kernels that connect nothing.

What evidence cannot say with one label a class the prior must: a kernel cuts the cloud into about

    pieces = (tr K)² / tr K²

independent pieces, and log(pieces/C) ~ N(0, PIECES_SD²): about as many as there are classes.

Classes in data are purer than those of a Gaussian process: their borders run where there are few rows. Probabilities
are therefore sharpened, p_c ∝ p_c^γ, and averaged over γ. Its prior, log γ ~ N(0, SHARP_SD²), is that they are right as
they are, and two things are told of it by scores log p(class):

    labels         each as the others predict it, if others have its class
    the cloud      had the classes been those that are predicted, and as many labels been elsewhere: what would have
                   been said of the other rows. Where clusters are clear it does not matter which rows have labels, and
                   little was said too boldly. All rows together count as ELSEWHERE labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_ndtr, logsumexp, softmax

from .covariances import Covariance
from .family import Family, Setting
from .posterior import Located, Mixture, Share

RATIOS = np.array([0.01, 0.1, 1.0])  # r: ε of 10 %, 30 % and 100 % of the signal's sd
PIECES_SD = 0.7  # of log(pieces/C): give or take a factor of 2
PIECES_ROWS = 200  # of the cloud, in which pieces are counted
SHARPNESS = np.geomspace(1.0, 16.0, 13)  # γ
SHARP_SD = 0.5  # of log γ
ELSEWHERE = 30.0  # see the module: by simulation, `benchmarks/reliability.py`
TURNS, DRAWN, ASKED = 4, 24, 200  # label sets elsewhere, components of the mixture that see them, rows of the cloud
HOPELESS = 1e-3  # settings lighter than this, relative to the heaviest, are dropped
FIRST_SWEEPS, SWEEPS, SETTLED = 3, 30, 1e-2
DAMPING = 0.8  # and from sweep CALM half of it, lest sites swing
CALM = 10
NARROWEST = 0.01  # of the cavity's variance: a site that contradicts all others asks for less than quadrature knows
JITTER = 1e-6  # on the diagonal: rows that the kernel cannot tell apart
SCREEN = 150  # labels above which settings are screened on SCREENED of them
SCREENED = 100
FEW = 12  # settings that then see all labels
BLOCK = 4_000_000  # numbers in the largest array of a batch
NODES, LOG_WEIGHTS = hermegauss(16)
LOG_WEIGHTS = np.log(LOG_WEIGHTS / LOG_WEIGHTS.sum())
AS_THEY_ARE = np.eye(len(SHARPNESS))[0]  # weights of γ = 1
LINK = 1.702 / np.sqrt(2)  # Φ(d/√2V) ≈ 1/(1 + exp(-LINK d/√V)), within 0.01


@dataclass(frozen=True)
class Sites:
    """What EP found for B problems."""

    log_evidence: np.ndarray  # [B]
    alpha: np.ndarray  # [B, n, C]
    R: np.ndarray  # [B, n, n]
    without: np.ndarray  # class probabilities of each label, as the others predict it, [B, n, C]
    settled: np.ndarray  # [B], bool


@dataclass(frozen=True)
class Part(Share):
    """A setting with its share of the posterior, for each ratio r."""

    setting: Setting
    ratios: np.ndarray  # [J]
    weights: np.ndarray  # [J]
    alpha: np.ndarray  # [J, n, C]
    R: np.ndarray  # [J, n, n]


@dataclass(frozen=True)
class ClassPosterior(Mixture[Part]):
    """A mixture over settings and ratios, and the weights of each sharpness γ."""

    parts: list[Part]
    labels: list[np.ndarray]  # representation of the labelled rows in each space
    n_classes: int
    sharpness: np.ndarray  # weights of SHARPNESS
    log_evidence: float
    left_out: np.ndarray  # probabilities of each label's row as the other labels say, [n, C]
    notes: tuple[str, ...] = ()

    def probabilities(self, rows: Located) -> np.ndarray:
        """Of each class, [n, C]. A row far from a surface has even probabilities there."""
        found = np.zeros((len(rows), self.n_classes))
        for part in self.parts:
            k = part.setting.space
            at = rows.at[k]
            assert at is not None, "rows were not located in a space that the posterior uses"
            places = rows.around[k] or [at]
            p = sum(self._at(part, b) for b in places) / len(places)
            found += np.where(rows.far[k][:, None], part.weight / self.n_classes, p)
        return _sharpened(found / found.sum(1, keepdims=True), self.sharpness)

    def _at(self, part: Part, b: np.ndarray) -> np.ndarray:
        """Probabilities times the weights of a part, [n, C]."""
        K = correlation(part.setting.covariance, b, self.labels[part.setting.space])
        found = np.zeros((len(b), self.n_classes))
        for r, weight, alpha, R in zip(part.ratios, part.weights, part.alpha, part.R, strict=True):
            variance = np.maximum(1 - np.sum((K @ R) * K, 1), 0.0) + r
            found += weight * softmax(LINK * (K @ alpha) / np.sqrt(variance)[:, None], axis=1)
        return found


def correlation(covariance: Covariance, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The kernel without its constant, scaled to k(x, x) = 1, [n, m]."""
    of_a, of_b = (np.sqrt(np.maximum(covariance.diag(x) - 1, 1e-12)) for x in (a, b))
    return (covariance.gram(a, b) - 1) / of_a[:, None] / of_b


def pieces(family: Family) -> np.ndarray:
    """Into how many independent pieces each setting cuts the cloud, [settings]; from PIECES_ROWS rows."""
    some = np.random.default_rng(0).permutation(len(family.rows[0]))[:PIECES_ROWS]  # rows may come in an order
    rows = [r[some] for r in family.rows]
    found = []
    for setting in family.settings:
        K = correlation(setting.covariance, rows[setting.space], rows[setting.space])
        found.append(len(K) ** 2 / np.sum(K**2))
    return np.array(found)


def classify(family: Family, known: np.ndarray, y: np.ndarray, n_classes: int, n_pieces: np.ndarray) -> ClassPosterior:
    """The posterior given classes y [n] (0 to C - 1) of the rows `known`; `n_pieces` are those of the settings."""
    notes: list[str] = []
    prior = np.array([s.log_prior for s in family.settings]) - 0.5 * (np.log(n_pieces / n_classes) / PIECES_SD) ** 2
    chosen = np.flatnonzero(prior > prior.max() + log(HOPELESS))
    if len(known) > SCREEN:
        subset = _spread(y, n_classes, SCREENED)
        rough = _evidence(family, known[subset], y[subset], n_classes, chosen, FIRST_SWEEPS).log_evidence
        mass = logsumexp(rough.reshape(len(chosen), -1), axis=1) + prior[chosen]
        chosen = chosen[np.argsort(-mass, kind="stable")[:FEW]]
        notes.append(
            f"with {len(known)} labels the settings were screened on {len(subset)} of them, and the best {len(chosen)} "
            "saw all"
        )
    elif len(chosen) > FEW:
        rough = _evidence(family, known, y, n_classes, chosen, FIRST_SWEEPS).log_evidence
        mass = logsumexp(rough.reshape(len(chosen), -1), axis=1) + prior[chosen]
        chosen = chosen[mass > mass.max() + log(HOPELESS)]
    found = _evidence(family, known, y, n_classes, chosen, SWEEPS)
    usable = np.isfinite(found.log_evidence) & (found.settled | ~found.settled.any())
    if not usable.any():
        raise FloatingPointError("expectation propagation has no finite evidence for any setting; check X for outliers")
    log_p = (
        np.where(usable, found.log_evidence, -np.inf).reshape(len(chosen), -1)
        + prior[chosen][:, None]
        - log(len(RATIOS))
    )
    total = logsumexp(log_p) - logsumexp(prior)
    weights = np.exp(log_p - logsumexp(log_p))
    if not found.settled.all():
        lost = int(np.sum(~found.settled))
        end = "these are left out" if found.settled.any() else "what it found so far is used"
        notes.append(f"expectation propagation did not settle for {lost} of {len(found.settled)} settings: {end}")
    alpha, R = (
        np.where(usable[:, None, None], a, 0.0).reshape(*weights.shape, *a.shape[1:])  # no weight, so no NaN either
        for a in (found.alpha, found.R)
    )
    keep = weights.sum(1) > HOPELESS * weights.sum(1).max()
    scale = weights[keep].sum()
    parts = [Part(family.settings[chosen[i]], RATIOS, weights[i] / scale, alpha[i], R[i]) for i in np.flatnonzero(keep)]
    left_out = _left_out(found.without[usable], weights.ravel()[usable], y)
    labels = [rows[known] for rows in family.rows]
    posterior = ClassPosterior(parts, labels, n_classes, AS_THEY_ARE, float(total), left_out, tuple(notes))
    score = -0.5 * (np.log(SHARPNESS) / SHARP_SD) ** 2
    several = np.flatnonzero(np.bincount(y, minlength=n_classes)[y] > 1)
    score += _scores(left_out[several], y[several]).sum(1)
    if len(known) <= SCREEN:  # more labels speak for themselves
        score += ELSEWHERE * _elsewhere(posterior, family, known, y)
    sharpness = softmax(score)
    return replace(posterior, sharpness=sharpness, left_out=_sharpened(left_out, sharpness))


def _evidence(
    family: Family, known: np.ndarray, y: np.ndarray, n_classes: int, chosen: Sequence[int] | np.ndarray, sweeps: int
) -> Sites:
    """EP for each chosen setting with each ratio (the fastest index)."""
    found, J = [], len(RATIOS)
    size = max(1, BLOCK // (J * len(y) * max(len(y), n_classes * len(NODES))))
    for begin in range(0, len(chosen), size):
        some = [family.settings[i] for i in chosen[begin : begin + size]]
        K = np.array([correlation(s.covariance, *[family.rows[s.space][known]] * 2) for s in some])
        found.append(propagate(np.repeat(K, J, 0), np.tile(RATIOS, len(some)), y, n_classes, sweeps))
    return Sites(*(np.concatenate([getattr(s, name) for s in found]) for name in Sites.__dataclass_fields__))


def propagate(K: np.ndarray, r: np.ndarray, y: np.ndarray, n_classes: int, sweeps: int = SWEEPS) -> Sites:
    """Expectation propagation for B problems at once: K [B, n, n] with unit diagonal, ratios r [B], classes y [n]."""
    B, n, _ = K.shape
    K = K + JITTER * np.eye(n)
    order = np.array([[c, *(d for d in range(n_classes) if d != c)] for c in y])[None]  # the label's own class first
    back = np.argsort(order, 2)
    tau, nu = np.zeros((B, n)), np.zeros((B, n, n_classes))
    mean, variance = np.zeros((B, n, n_classes)), np.diagonal(K, axis1=1, axis2=2).copy()
    alpha, R, log_det = np.zeros_like(nu), np.zeros_like(K), np.zeros(B)
    active = np.arange(B)
    for sweep in range(sweeps):
        a = active
        cavity, at = _cavity(mean[a], variance[a], tau[a], nu[a])
        _, slope, bend = _tilted(np.take_along_axis(at, order, 2), cavity + r[a, None])
        slope = np.take_along_axis(slope, back, 2)
        narrow = np.clip(cavity + cavity**2 * bend, NARROWEST * cavity, cavity)
        step = 1.0 if sweep == 0 else DAMPING if sweep < CALM else DAMPING / 2
        change = step * (1 / narrow - 1 / cavity - tau[a])
        moved = (at + cavity[..., None] * slope) / narrow[..., None] - at / cavity[..., None]
        nu[a] += step * (moved - nu[a])
        tau[a] += change
        A = np.eye(n) + tau[a][:, :, None] * K[a]
        T = tau[a][:, :, None] * np.eye(n)
        both = np.linalg.solve(A, np.concatenate([nu[a], T], 2))
        alpha[a], R[a] = both[..., :n_classes], both[..., n_classes:]
        log_det[a] = np.linalg.slogdet(A)[1]
        mean[a] = K[a] @ alpha[a]
        variance[a] = np.maximum(1 + JITTER - np.sum((K[a] @ R[a]) * K[a], 2), 1e-9)
        active = a[np.abs(change).max(1) > SETTLED * tau[a].max(1)]
        if not len(active):
            break
    cavity, at = _cavity(mean, variance, tau, nu)
    log_z, _, _ = _tilted(np.take_along_axis(at, order, 2), cavity + r[:, None])
    D = n_classes - 1
    joined = np.sum((at / cavity[..., None] + nu) ** 2, 2) / (1 / cavity + tau) - np.sum(at**2, 2) / cavity
    log_evidence = np.sum(log_z + 0.5 * D * np.log1p(cavity * tau) - 0.5 * joined, 1)
    log_evidence += -0.5 * D * log_det + 0.5 * np.sum(nu * mean, (1, 2))
    without = softmax(LINK * at / np.sqrt(cavity + r[:, None])[..., None], axis=2)
    return Sites(log_evidence, alpha, R, without, ~np.isin(np.arange(B), active))


def _cavity(mean: np.ndarray, variance: np.ndarray, tau: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variance [B, n] and mean [B, n, C] at each label without its site; never wider than the prior."""
    cavity = 1 / np.maximum(1 / variance - tau, 1.0)
    return cavity, cavity[..., None] * (mean / variance[..., None] - nu)


def _tilted(m: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log Z = log P(u_0 is the largest of u ~ N(m, V I)), its gradient in m, and the mean of its second derivatives.

    Z = E_t Π_d Φ(t + a_d), a_d = (m_0 - m_d)/√V, by Gauss-Hermite quadrature about the integrand's
    middle; the mean is over C - 1 directions.
    """
    sd = np.sqrt(V)[..., None]
    a = (m[..., :1] - m[..., 1:]) / sd
    middle = 0.5 * np.maximum(-a.min(-1), 0.0)[..., None]  # about where the integrand is, if the class seems wrong
    x = a[..., None] + (middle + NODES)[..., None, :]  # [..., C-1, nodes]
    log_phi = log_ndtr(x)
    log_w = log_phi.sum(-2) + LOG_WEIGHTS - middle * NODES - 0.5 * middle**2
    log_z = logsumexp(log_w, axis=-1)
    w = np.exp(log_w - log_z[..., None])[..., None, :]
    ratio = np.exp(-0.5 * x**2 - 0.5 * log(2 * np.pi) - log_phi)
    q, d = np.sum(w * ratio, -1), -np.sum(w * x * ratio, -1)
    cross = np.sum(w[..., 0, :] * (ratio.sum(-2) ** 2 - np.sum(ratio**2, -2)), -1)
    own = cross + d.sum(-1) - q.sum(-1) ** 2
    bend = (own + np.sum(d - q**2, -1)) / V / (m.shape[-1] - 1)
    return log_z, np.concatenate([q.sum(-1, keepdims=True), -q], -1) / sd, bend


def _left_out(without: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Class probabilities of each label as the others predict it, [n, C], from those of each part [B, n, C]."""
    own = without[:, np.arange(len(y)), y]
    share = weights[:, None] / np.maximum(own, 1e-300)  # of each part, had the label not been there
    return np.einsum("bi,bic->ic", share / share.sum(0), without)


def _elsewhere(posterior: ClassPosterior, family: Family, known: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Mean of log p(class) for each of SHARPNESS, had the classes been as predicted and the labels elsewhere."""
    rng, C = np.random.default_rng(0), posterior.n_classes
    others = np.setdiff1d(np.arange(len(family.rows[0])), known)
    rows = np.concatenate([known, rng.permutation(others)[:ASKED]])
    cloud = Located.exactly([r[rows] for r in family.rows])
    truth = posterior.probabilities(cloud).argmax(1)
    truth[: len(known)] = y
    settings = [part.setting for part in posterior.parts for _ in part.ratios]
    ratios = np.concatenate([part.ratios for part in posterior.parts])
    share = np.cumsum(np.concatenate([part.weights for part in posterior.parts]))
    steps = (np.arange(DRAWN) + 0.5) / DRAWN * share[-1]  # components as often as they weigh
    drawn, times = np.unique(np.searchsorted(share, steps), return_counts=True)
    found = []
    for _ in range(TURNS if len(others) else 0):
        turn = rng.permutation(len(rows))
        chosen = np.concatenate([turn[truth[turn] == c][: np.sum(y == c)] for c in range(C)])
        labels = [r[rows[chosen]] for r in family.rows]
        K = np.array([correlation(settings[i].covariance, *[labels[settings[i].space]] * 2) for i in drawn])
        sites = propagate(K, ratios[drawn], truth[chosen], C, FIRST_SWEEPS)
        parts = [
            Part(settings[i], ratios[[i]], times[[j]] / DRAWN, sites.alpha[[j]], sites.R[[j]])
            for j, i in enumerate(drawn)
            if np.isfinite(sites.log_evidence[j])
        ]
        rest = np.setdiff1d(np.arange(len(rows)), chosen)
        if parts:
            p = replace(posterior, parts=parts, labels=labels).probabilities(cloud)[rest]
            found.append(_scores(p, truth[rest]).mean(1))
    return np.mean(found or [np.zeros(len(SHARPNESS))], 0)


def _scores(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log p(class), [SHARPNESS, n], of classes y [n] under sharpened probabilities p [n, C]."""
    z = SHARPNESS[:, None, None] * np.log(np.maximum(p, 1e-300))
    return z[:, np.arange(len(y)), y] - logsumexp(z, axis=2)


def _sharpened(p: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """p_c^γ, normalised, averaged over γ."""
    log_p = np.log(np.maximum(p, 1e-300))
    return sum(w * softmax(gamma * log_p, axis=1) for gamma, w in zip(SHARPNESS, weights, strict=True) if w)


def _spread(y: np.ndarray, n_classes: int, size: int) -> np.ndarray:
    """Indices of about `size` labels, as even over the classes as they allow."""
    rng = np.random.default_rng(0)
    order = [rng.permutation(np.flatnonzero(y == c)) for c in range(n_classes)]
    turns = [(turn, c) for c, some in enumerate(order) for turn in range(len(some))]
    return np.array(sorted(order[c][turn] for turn, c in sorted(turns)[: max(size, n_classes)]))
