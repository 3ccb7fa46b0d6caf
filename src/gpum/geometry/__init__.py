"""The geometries of a cloud: learned charts, atlases, graphs and flat space.

Each geometry is built from a cloud, projects rows onto itself, and has spaces with candidates on them (`base`). `build`
chooses which geometries are built. `spaces`, `path_spaces` and `graphs` represent points as rows of numbers, and
`candidate_set` collects the candidates on these spaces. `incomplete` handles missing readings.
"""
