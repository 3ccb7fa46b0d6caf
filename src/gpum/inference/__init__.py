"""From labels and the spaces of geometries to a posterior.

`gp` averages Gaussian process regression over candidates; `known_noise`, `likelihoods`, `angles` and `classes` (with
`probit`) are for other kinds of labels; `posterior` and `outputs` predict, `design` chooses the next label.
"""
