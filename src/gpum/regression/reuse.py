"""What was computed for an object is kept as long as the object lives, so that refits do not repeat it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

_kept: dict[int, dict[Hashable, Any]] = {}


def remembered(owner: Any, key: Hashable, make: Callable[[], Any]) -> Any:
    """`make()`, or what it returned the last time for this owner and key."""
    if id(owner) not in _kept:
        _kept[id(owner)] = {}
        weakref.finalize(owner, _kept.pop, id(owner), None)
    store = _kept[id(owner)]
    if key not in store:
        store[key] = make()
    return store[key]
