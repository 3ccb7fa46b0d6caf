"""What one fit computes for several questions is computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Memory:
    """Results of a fit by their name. It lives as long as the fit; no fitted model refers to it.

    Threads may use it at once: two that ask for the same result at the same time may both compute it.
    """

    def __init__(self) -> None:
        self._found: dict[Hashable, object] = {}

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """The result called `name`, which `make()` computes on first use."""
        if name not in self._found:
            self._found[name] = make()
        return self._found[name]  # type: ignore[return-value]


def digest(a: np.ndarray) -> bytes:
    """A name of 16 bytes for the entries of an array; different entries have different names."""
    return blake2b(np.ascontiguousarray(a).data, digest_size=16).digest()
