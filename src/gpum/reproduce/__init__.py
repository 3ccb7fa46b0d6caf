"""The paper's experiments, number by number and figure by figure: `gpum reproduce`.

`tasks` holds the protocol and the numbers in print, `methods` the columns of the tables, `splits` runs them, `kernels`
compares heat kernels, `tables` and the figures' modules write what was found.
"""

from .run import EXPERIMENTS, reproduce

__all__ = ["EXPERIMENTS", "reproduce"]
