"""The geometries of a cloud: learned charts, atlases, meshes, graphs and flat space.

A builder (of `chart`, `atlas`, `graphs`, `flat`) makes of a cloud a geometry, onto which rows are projected
(`base`), and candidates on its spaces (`candidate_set`). `build` runs the builders, `options` says what parameters
mean, `priors` what is assumed before there are labels. Spaces represent points as rows of numbers (`features`):
`chart` and `chart_mesh` make those of charts, `path_spaces` those of Brownian paths, `graphs` those of graphs.
"""
