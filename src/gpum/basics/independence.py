"""Whether the columns of a cloud are independent of each other: then its rows fill a box, and lie near no surface.

    r(x)     distance of a row to its NEIGHBOUR-th neighbour, with ranks in the place of the values of each column
    excess   mean log r of the rows after every column was shuffled on its own, less mean log r of the rows

Shuffling leaves independent columns as they are, and the excess is 0 up to chance (at most 0.015 in 100 rows). What
ties columns together (a surface, clusters, correlations) brings rows closer to each other. Times the number of columns,
the excess estimates their total correlation in nats (Kozachenko and Leonenko 1987).

Many independent columns hide a few that are tied: a circle and seven columns of noise have no excess. So columns are
compared in pairs as well: 2N times the mutual information of two, in GRADES classes of equal size each, follows χ² if
they are independent.

Two to four columns are not judged: there a wall as thin as the distance between rows is no excess to speak of, and a
Swiss roll of 250 rows hardly has one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy
from scipy.stats import chi2, rankdata

from . import neighbours

NEIGHBOUR = 10
SHUFFLES = 3
TIED = 0.02  # excess above which columns depend on each other; correlations of 0.2 between six columns have 0.03
GRADES = 4
CHANCE = 1e-3  # probability that some pair of independent columns seems to be tied
LEAST_ROWS, MOST_ROWS = 100, 1500  # of more rows some are drawn
LEAST_COLUMNS, MOST_COLUMNS = 5, 200  # hundreds of columns are measurements of one kind, and never independent


def independent(rows: np.ndarray, seed: int) -> bool:
    """Whether no two columns of rows [N, p] depend on each other; rows with a missing reading (NaN) are left out."""
    rng = np.random.default_rng(seed)
    if not LEAST_COLUMNS <= rows.shape[1] <= MOST_COLUMNS:
        return False
    if len(rows) > 2 * MOST_ROWS:  # some may be copies, or have a gap
        rows = rows[rng.choice(len(rows), 2 * MOST_ROWS, replace=False)]
    rows = np.unique(rows[~np.isnan(rows).any(1)], axis=0)
    if len(rows) < LEAST_ROWS:
        return False
    rows = rng.permutation(rows)[:MOST_ROWS]
    rows = rows[:, np.ptp(rows, axis=0) > 0]
    return rows.shape[1] >= LEAST_COLUMNS and excess(rows, rng) <= TIED and chance_of_pairs(rows) > CHANCE


def excess(rows: np.ndarray, rng: np.random.Generator) -> float:
    """How much farther neighbours are when every column of rows [N, p] is shuffled; see the module."""
    rows = rankdata(rows, axis=0)
    shuffled = [_mean_log_distance(rng.permuted(rows, axis=0)) for _ in range(SHUFFLES)]
    return float(np.mean(shuffled)) - _mean_log_distance(rows)


def chance_of_pairs(rows: np.ndarray) -> float:
    """A bound on the probability that the most dependent pair of independent columns [N, p] is as much so as here."""
    n, p = rows.shape
    grade = (GRADES * (rankdata(rows, axis=0) - 0.5) / n).astype(int)
    member = (grade[:, :, None] == np.arange(GRADES)).reshape(n, -1).astype(float)
    count, together = member.sum(0), member.T @ member
    expected = np.maximum(np.outer(count, count), 1) / n
    G = 2 * xlogy(together, together / expected).reshape(p, GRADES, p, GRADES).sum((1, 3))
    freedom = (count.reshape(p, GRADES) > 0).sum(1) - 1
    i, j = np.triu_indices(p, 1)
    return len(i) * float(chi2.sf(G[i, j], freedom[i] * freedom[j]).min())


def _mean_log_distance(rows: np.ndarray) -> float:
    """The mean of log r over distinct rows; shuffling may have made copies."""
    rows = np.unique(rows, axis=0)
    return float(np.mean(np.log(neighbours.nearest(rows, min(NEIGHBOUR, len(rows) - 1))[0][:, -1])))
