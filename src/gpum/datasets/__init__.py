"""Data sets: the paper's Swiss roll, WiFi readings and images."""

from .coil import fetch_coil
from .swiss_roll import make_swiss_roll
from .wifi import fetch_wifi

__all__ = ["fetch_coil", "fetch_wifi", "make_swiss_roll"]
