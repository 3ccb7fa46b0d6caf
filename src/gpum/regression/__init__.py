"""Gaussian process regression, given spaces in which points are represented.

`covariances` on a space, `spaces` of a chart with the settings to choose from, `graphs` on the cloud, and `gp`, the
posterior averaged over settings.
"""
