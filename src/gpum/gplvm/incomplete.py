"""Projection of a new row onto the chart, if some of its readings are missing.

As in `projection`, with sums over the columns O in which the row has a reading:

    beta s_OᵀW_Oᵀψ1 - beta/2 tr (W_O W_Oᵀ - |O| Lam) ψ2 - KL(q(x*) ‖ N(0, I)),

so that every pattern O of readings has its own matrix M = W_O W_Oᵀ - |O| Lam. Rows of all patterns are optimised
together. A row with few readings has a wide posterior.
"""

from __future__ import annotations

import jax
import numpy as np
from jax import Array

from ..basics import padding
from ..basics.device import compiled
from .mapping import Mapping
from .projection import BLOCK, ROOM, Decoder, project_rows, with_matrix


def project_incomplete(
    rows: np.ndarray, starts: np.ndarray, mapping: Mapping, as_points: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Latent means mu and variances s [n, q] of scaled rows [n, p] (NaN: missing reading), from starts [n, c, q].

    At most as many patterns as a block has rows are in memory at once. The result of a row does not depend on the other
    rows of its batch.
    """
    W = np.asarray(mapping.W / mapping.scale)
    patterns, pattern = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    held = min(BLOCK, max(1, ROOM // len(W) ** 2))
    mu, s = np.empty((2, len(rows), starts.shape[2]))
    for k in range(0, len(patterns), held):
        members = np.flatnonzero((pattern >= k) & (pattern < k + held))
        dec = _decoder(mapping, padding.fill(patterns[k : k + held].astype(float), held))
        products = np.nan_to_num(rows[members]) @ W.T
        mu[members], s[members] = project_rows(products, starts[members], dec, as_points, pattern[members] - k)
    return mu, s


@compiled
def _decoder(mapping: Mapping, patterns: Array) -> Decoder:
    """The `Decoder` with a matrix for each pattern [patterns, p] of ones and zeros."""
    W = mapping.W / mapping.scale
    return with_matrix(mapping, jax.lax.map(lambda seen: (W * seen) @ W.T - seen.sum() * mapping.Lam, patterns))
