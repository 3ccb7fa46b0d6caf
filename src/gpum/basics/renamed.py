"""Spellings of earlier versions: a removed parameter or attribute raises a sentence that names the new spelling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from .checks import GpumTypeError

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


def arguments(**new: str) -> Callable[[F], F]:
    """A decorator of a function whose arguments `new` are gone; each value is what to write instead."""

    def decorate(function: F) -> F:
        @wraps(function)  # scikit-learn reads parameters from the signature, which stays that of `function`
        def checked(*args: Any, **given: Any) -> Any:
            _refuse(given, new, function.__qualname__.removesuffix(".__init__"))
            return function(*args, **given)

        return checked  # type: ignore[return-value]

    return decorate


def parameters(**new: str) -> Callable[[C], C]:
    """A class decorator of an estimator: parameters that are gone are refused by its constructor and `set_params`."""

    def decorate(cls: C) -> C:
        cls.__init__ = arguments(**new)(cls.__init__)  # type: ignore[misc]
        set_params = cls.set_params  # type: ignore[attr-defined]

        @wraps(set_params)
        def checked(self: Any, **given: Any) -> Any:
            _refuse(given, new, type(self).__name__)
            return set_params(self, **given)

        cls.set_params = checked  # type: ignore[attr-defined]
        return cls

    return decorate


def attribute(instead: str) -> property:
    """An attribute that is gone; reading it says what to use instead."""

    def missing(self: Any) -> Any:
        raise AttributeError(f"{type(self).__name__!r} has no such attribute any more; use {instead}")

    return property(missing, doc=f"Removed: use {instead}.")


def _refuse(given: Mapping[str, Any], new: Mapping[str, str], name: str) -> None:
    for old in given.keys() & new.keys():
        raise GpumTypeError(f"{name} has no parameter {old!r} any more; use {new[old]}")
