"""Everything on the disk, and what is computed once.

`model_io` writes and reads model files: `tree` turns objects into numbers and words, `registry` says which classes,
`container` is the format of the file. `store` holds results in memory or in a folder, `programs` the folder of compiled
programs. `atomic` writes files completely or not at all.
"""
