"""The geometries of a cloud: learned charts, atlases, graphs and flat space.

Each geometry is built from a cloud, projects rows onto itself, and has spaces with settings on them (`base`). `build`
chooses which geometries are built. `spaces`, `path_spaces` and `graphs` represent points as rows of numbers, and
`family` collects the settings on these spaces. `incomplete` handles missing readings, and `recipes` describes what a
model file stores.
"""
