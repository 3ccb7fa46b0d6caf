"""Gaussian process latent variable models, as pure functions of arrays.

Notation, used in every module of this folder (the paper's, with its errata mended):

    S     [N, p]   the cloud, centred and scaled
    mu, s [N, q]   means and variances of q(X), the posterior of the latent rows
    Z     [m, q]   inducing inputs (the paper's X_u)
    ell   [q]      length scales of the squared-exponential kernel; 1/ell² is the ARD relevance
    gamma          signal variance
    beta           noise *precision*
    k(x, z) = gamma exp(-½ Σ_a (x_a - z_a)² / ell_a²)

Files, in the order the data flows: `starts` (PCA, Isomap), `kernel`, `psi` (ψ statistics), `bound` (the collapsed bound
and q(U)), `likelihood` (the maximum-likelihood model), `models` (what a model supplies, and the two that do), `lbfgs`
(an optimiser's run as one program), `optimise` (rounds of runs), `race` (which start wins), `mapping` (the posterior of
φ) and `projection` (latent coordinates of new rows). For clouds with missing readings: `patterns` (both models given the
readings alone), `incomplete` (latent coordinates of such new rows).
"""
