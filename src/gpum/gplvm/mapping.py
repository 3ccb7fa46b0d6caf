"""The posterior of the mapping φ from the chart to the data space.

Given q(U) (or, for the maximum-likelihood model, the latent rows themselves), column j of φ is a
Gaussian process with

    E φ_j(x)   = offset_j + k(x)ᵀ W_j
    Var φ_j(x) = scale_j² (gamma - k(x)ᵀ Lam k(x)),     k(x) = k(x, Z),

where scale_j undoes the scaling of column j (one number for all columns unless asked otherwise).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..basics import padding
from ..basics.device import of_arrays
from . import kernel


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["Z", "ell", "gamma", "beta", "W", "Lam", "R", "M", "offset", "scale"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Mapping:
    """Posterior of φ in the units of the data.

    W [m, p] are mean weights, Lam and R [m, m] with A⁻¹ = R Rᵀ as in `precise.inducing_posterior`,
    and M = W Wᵀ - (Σ_j scale_j²) Lam is the matrix on which the geometry depends.
    """

    Z: Any
    ell: Any
    gamma: Any
    beta: Any
    W: Any
    Lam: Any
    R: Any
    M: Any
    offset: Any
    scale: Any

    @classmethod
    def from_weights(cls, Z, ell, gamma, beta, W, Lam, R, offset, scale) -> Mapping:
        """A mapping whose M is computed from W, Lam and scale."""
        M = W @ W.T - (scale**2).sum() * Lam
        return cls(Z, ell, gamma, beta, W, Lam, R, M, offset, scale)

    def filled(self) -> Mapping:
        """The same φ, its arrays padded with inducing inputs of weight 0 (see `padding`)."""
        m = padding.size(len(self.Z), padding.INDUCING)
        square = {name: padding.fill(getattr(self, name), m, m) for name in ("Lam", "R", "M")}
        return replace(self, Z=padding.fill(self.Z, m), W=padding.fill(self.W, m), **square)

    def k(self, x: Any) -> Any:
        """k(x, Z) at points x [..., q], [..., m]."""
        return kernel.at(x, self.Z, self.ell, self.gamma)

    @of_arrays
    def mean(self, x: Any) -> Any:
        """E φ(x) at points [..., q], [..., p]."""
        return self.offset + self.k(x) @ self.W

    @of_arrays
    def variance(self, x: Any) -> Any:
        """Var φ(x) in the model's (scaled) units at points [..., q]: the paper's eq. (varb)."""
        k = self.k(x)
        return self.gamma - ((k @ self.Lam) * k).sum(-1)

    def draw(self, key: Array) -> Mapping:
        """One draw of U from q(U), as a mapping; the mean over draws is this mapping.

        Given U the weights are W + R eps, and φ is uncertain only between the inducing inputs,
        Lam = Kuu⁻¹.
        """
        eps = jax.random.normal(key, self.W.shape, self.W.dtype)
        W = self.W + self.R @ eps * self.scale
        return Mapping.from_weights(
            self.Z, self.ell, self.gamma, self.beta, W, self.Lam + self.R @ self.R.T,
            jnp.zeros_like(self.R), self.offset, self.scale,
        )  # fmt: skip
