"""The experiments of the paper, with all their tables and figures: `gpum reproduce`.

`tasks` holds the protocol and the printed numbers, `methods` the methods of the tables, `splits` runs them, `kernels`
compares heat kernels, `tables` and the modules of figures write the results.
"""

from .run import EXPERIMENTS, reproduce

__all__ = ["EXPERIMENTS", "reproduce"]
