"""Rows with missing readings: their nearest rows, and possible completions.

    x_i          a row; O_i the columns in which it has a reading
    v_k, s_kj    the rows of the cloud filled in, and the variance of what was filled in (0 for readings)
    d²_ik        p/|O_i| Σ_{j∈O_i} (x_ij - v_kj)² + s_kj,  the expected squared distance (Eirola et al. 2013)

A row is compared by its own readings only; if a row of the cloud lacks some of them, the variance of the filled-in
values is added to the squared distance. Each of the DONORS nearest rows completes the row with its own readings.
Several completions are used instead of their mean: if the readings do not determine on which of two sheets a row lies,
the mean lies between the sheets, but the completions lie on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from . import neighbours

DONORS = 5  # as scikit-learn's KNNImputer
MOST = 3  # donors whose completions are averaged: those that agree best
COMPONENTS = 10  # of the linear model of the first guess, at most
EM_STEPS = 50
FLOOR = 1e-6  # smallest noise, as a fraction of the variance
PASSES = 3  # from the second on, the donors themselves are filled in
SOUND = 1.5  # a filled-in row farther than this from the nearest row, in median distances, counts as off the surface
# Times the largest eigenvalue of independent gaps, which seldom exceed it; gaps with a common cause are far above it.
CHANCE = 1.5
BLOCK = 2**22  # distances, or readings of completions, in memory at once


@dataclass(frozen=True)
class Filled:
    """A cloud [N, p] with missing readings filled in.

    rows : the cloud; a missing reading is replaced by the mean of the completions that agree best.
    variance : of the completions, [N, p]; 0 for readings. [1, 1] where nothing is missing.
    axes, noise : of a linear model x = mean + axes z + noise of the whole cloud, [p, k] and the noise's variance.
    sound : rows that lie near others, [N] of bool: the surface can be learned from them. Complete rows always are.
    """

    rows: np.ndarray
    variance: np.ndarray
    sound: np.ndarray
    axes: np.ndarray
    noise: float

    @classmethod
    def complete(cls, rows: np.ndarray) -> Filled:
        """A cloud without missing readings."""
        return cls(rows, np.zeros((1, 1)), np.ones(len(rows), bool), np.zeros((rows.shape[1], 0)), 1.0)

    def nearest(self, X: np.ndarray, n: int) -> np.ndarray:
        """The n nearest rows of the cloud, nearest first, to rows X [m, p], NaN where a reading is missing, [m, n]."""
        n = min(n, len(self.rows))
        incomplete = np.isnan(X).any(1)
        index = np.empty((len(X), n), int)
        if not incomplete.all():
            index[~incomplete] = neighbours.nearest(self.rows, n, X[~incomplete])[1]
        if incomplete.any():
            index[incomplete] = self.donors(X[incomplete], n)
        return index

    def donors(
        self, X: np.ndarray, n: int = DONORS, position: np.ndarray | None = None, among: np.ndarray | None = None
    ) -> np.ndarray:
        """The n nearest rows of the cloud, nearest first, to rows X [m, p], NaN where a reading is missing, [m, n].

        `position` [m]: the row numbers of X in the cloud; no row is its own donor. `among` [N] of bool: only these may
        be donors.
        """
        asked = np.arange(len(self.rows)) if among is None else np.flatnonzero(among)
        n = min(n, len(asked) - (position is not None))
        middle = self.rows.mean(0)
        rows, square = self.rows[asked] - middle, (self.rows[asked] - middle) ** 2
        if self.variance.shape == self.rows.shape:
            square = square + self.variance[asked]
        index = np.empty((len(X), n), int)
        step = max(1, BLOCK // len(self.rows))
        for a in range(0, len(X), step):
            block = slice(a, a + step)
            seen = ~np.isnan(X[block])
            x = np.where(seen, X[block] - middle, 0.0)
            d2 = seen.astype(float) @ square.T - 2 * x @ rows.T  # and Σ x², the same for all
            if position is not None:
                d2[asked == position[block, None]] = np.inf
            index[block] = asked[np.argsort(d2, axis=1, kind="stable")[:, :n]]
        return index

    def completions(self, X: np.ndarray, donors: np.ndarray) -> np.ndarray:
        """Rows X [m, p] completed by each of their donors [m, n], [n, m, p].

        A completion is the donor, moved along the axes by the difference between the readings and those of the donor.
        """
        seen = (~np.isnan(X)).astype(float)
        k = self.axes.shape[1]
        pairs = (self.axes[:, :, None] * self.axes[:, None]).reshape(len(self.axes), -1)
        normal = (seen @ pairs).reshape(len(X), k, k) + max(self.noise, np.finfo(float).tiny) * np.eye(k)
        whole = np.empty((donors.shape[1], *X.shape))
        for n, donor in enumerate(donors.T):
            step = np.where(seen > 0, X - self.rows[donor], 0.0) @ self.axes
            moved = self.rows[donor] + np.linalg.solve(normal, step[..., None])[..., 0] @ self.axes.T
            whole[n] = np.where(seen > 0, X, moved)
        return whole


def fill_in(X: np.ndarray) -> Filled:
    """Fill in a cloud [N, p], NaN where a reading is missing, from the nearest rows."""
    missing = np.isnan(X)
    rows, variance, axes, noise = _linear(X)
    filled = Filled(rows, variance, np.ones(len(X), bool), axes, noise)
    incomplete = np.flatnonzero(missing.any(1))
    for _ in range(PASSES if len(incomplete) else 0):
        donors = filled.donors(X[incomplete], position=incomplete)
        whole = filled.completions(X[incomplete], donors)
        rows, spread = filled.rows.copy(), filled.variance.copy()
        rows[incomplete] = np.where(missing[incomplete], _likely(whole), X[incomplete])
        # A donor's own reading may be filled in, too: its variance is added.
        spread[incomplete] = np.where(missing[incomplete], whole.var(0) + filled.variance[donors].mean(1), 0.0)
        filled = replace(filled, rows=rows, variance=spread)
    return replace(filled, sound=_sound(filled.rows, missing.any(1))) if len(incomplete) else filled


def fill_in_others(filled: Filled, X: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows X [M, p] of a cloud of which `filled` is a subset, filled in, and which of them are sound, [M] of bool.

    `position` [M] is theirs in the subset, -1 for other rows. These are filled in from the subset, and are sound
    if they lie within SOUND times the median distance of other rows to it.
    """
    rows, sound, others = X.copy(), np.ones(len(X), bool), position < 0
    rows[~others], sound[~others] = filled.rows[position[~others]], filled.sound[position[~others]]
    incomplete = np.flatnonzero(others & np.isnan(X).any(1))
    step = max(1, BLOCK // (DONORS * X.shape[1]))
    for begin in range(0, len(incomplete), step):
        part = incomplete[begin : begin + step]
        likely = _likely(filled.completions(X[part], filled.donors(X[part])))
        rows[part] = np.where(np.isnan(X[part]), likely, X[part])
    if len(incomplete):
        away = neighbours.nearest(filled.rows[filled.sound], 1, rows[others])[0][:, 0]
        sound[others] = ~np.isnan(X[others]).any(1) | (away <= SOUND * np.median(away))
    return rows, sound


def together(X: np.ndarray) -> bool:
    """Whether gaps in the columns of X [N, p] are dependent, so that the pattern of gaps tells something about a row.

    Compares the largest eigenvalue of the correlations of the gap indicators with that of N rows of independent gaps
    (Marchenko and Pastur 1967). Columns of two values with gaps in the same rows count as one: they are categories of
    one column of the user's table.
    """
    gone = np.isnan(X).astype(float)
    partly = (gone.mean(0) > 0) & (gone.mean(0) < 1)
    two = np.array([len(np.unique(column[~np.isnan(column)])) <= 2 for column in X.T[partly]], bool)
    gone = gone[:, partly]
    gone = np.concatenate([gone[:, ~two], np.unique(gone[:, two], axis=1)], 1)
    if gone.shape[1] < 2:
        return False
    gone = (gone - gone.mean(0)) / gone.std(0)
    N, p = gone.shape
    return bool(np.linalg.norm(gone, 2) ** 2 / N > CHANCE * (1 + np.sqrt(p / N)) ** 2)


def _linear(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Rows filled in and variances [N, p], axes W [p, k] and noise of probabilistic PCA.

    x = mean + W z + noise with z ~ N(0, I): EM over the readings alone (Tipping and Bishop 1999), with a ridge on W.
    """
    seen = (~np.isnan(X)).astype(float)
    N, p = X.shape
    mean = np.nanmean(X, axis=0)
    unit = float(np.sqrt(np.mean(np.nanvar(X, axis=0))))
    if not unit > 0:  # all rows are equal
        return np.where(seen > 0, X, mean), np.zeros((N, p)), np.zeros((p, 0)), 1.0
    centred = np.where(seen > 0, (X - mean) / unit, 0.0)
    k = max(1, min(COMPONENTS, p // 2, N // 4))
    _, size, axes = np.linalg.svd(centred, full_matrices=False)
    W = axes[:k].T * size[:k] / np.sqrt(N)  # [p, k]
    noise, distinct = 1.0, 1 if seen.all() else N
    for _ in range(EM_STEPS):
        pairs = (W[:, :, None] * W[:, None]).reshape(p, -1)
        # Covariance of each z; rows without a gap have the same.
        S = noise * np.linalg.inv(noise * np.eye(k) + (seen[:distinct] @ pairs).reshape(-1, k, k))
        S = np.broadcast_to(S, (N, k, k))
        z = np.einsum("nab,nb->na", S, centred @ W) / noise
        moment = z[:, :, None] * z[:, None] + S
        normal = (seen.T @ moment.reshape(N, -1)).reshape(p, k, k)
        spread = S.reshape(N, -1) @ pairs.T
        noise = float(np.sum(seen * ((centred - z @ W.T) ** 2 + spread)) / seen.sum())
        noise = max(noise, FLOOR)
        W = np.linalg.solve(normal + noise * np.eye(k), (centred.T @ z)[..., None])[..., 0]
    filled = np.where(seen > 0, X, mean + unit * (z @ W.T))
    spread = S.reshape(N, -1) @ (W[:, :, None] * W[:, None]).reshape(p, -1).T
    return filled, np.where(seen > 0, 0.0, unit**2 * (spread + noise)), unit * W, unit**2 * noise


def _likely(whole: np.ndarray) -> np.ndarray:
    """The mean [m, p] of the MOST completions [n, m, p] that are closest together, so that it lies on one sheet."""
    whole = whole.transpose(1, 0, 2)
    apart = np.array([np.sum((rows[:, None] - rows) ** 2, -1) for rows in whole])  # [m, n, n]
    order = np.argsort(apart, axis=2, kind="stable")[:, :, :MOST]
    best = np.take_along_axis(apart, order, 2).sum(2).argmin(1)
    chosen = order[np.arange(len(whole)), best]
    return np.take_along_axis(whole, chosen[:, :, None], 1).mean(1)


def _sound(rows: np.ndarray, incomplete: np.ndarray) -> np.ndarray:
    """Which rows lie within SOUND times the median nearest-neighbour distance of another row."""
    away = neighbours.spacing(rows)
    return ~incomplete | (away <= SOUND * np.median(away))
