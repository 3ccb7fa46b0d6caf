"""Gaussian process latent variable models, as pure functions of arrays.

Notation, used in every module of this folder (that of the paper, with its errata corrected):

    S     [N, p]   the cloud, centred and scaled
    mu, s [N, q]   means and variances of q(X), the posterior of the latent rows
    Z     [m, q]   inducing inputs (the paper's X_u)
    ell   [q]      length scales of the squared-exponential kernel; 1/ell² is the ARD relevance
    gamma          signal variance
    beta           noise *precision*
    k(x, z) = gamma exp(-½ Σ_a (x_a - z_a)² / ell_a²)

Files, in the order the data flows: `starts` (PCA, Isomap), `kernel`, `psi` (ψ statistics), `bound` (the collapsed
bound), `precise` (the same with smaller rounding errors, and q(U)), `likelihood` (the maximum-likelihood model),
`models` (the two models), `optimise` (rounds of L-BFGS), `multistart` (the choice between starts), `mapping` (the
posterior of φ) and `projection` (latent coordinates of new rows). For clouds with missing readings: `patterns` (both
models, given the observed readings only) and `incomplete` (latent coordinates of incomplete new rows).
"""
