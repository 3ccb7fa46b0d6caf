"""The app: command line, tables in files, report and labelling page. It uses public names of `gpum` only.

`cli` has the commands, `tables` reads and writes files, `report` and `labelling` make pages, and `reproduce` runs the
experiments of the paper. What it takes beside the public names is listed in `gpum.tools`.
"""
