"""The geometries of a cloud: learned charts, atlases, graphs and flat space.

Each is made from a cloud, says where rows lie on it, and hands out its spaces with the settings on them (`base`).
`build` says which of them stand side by side; `spaces`, `path_spaces` and `graphs` are the representations of points,
`family` the settings on these; `incomplete` is for missing readings, `recipes` for files.
"""
