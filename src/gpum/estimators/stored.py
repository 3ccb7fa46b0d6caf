"""Estimators in files."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..files import model_io


class Stored:
    """`save` and `load`."""

    def save(self, path: Any, *, force: bool = False) -> None:
        """Write the fitted estimator to a file, whole or not at all; one that is there is replaced only with `force`.

        The file holds numbers and words, no code. Fitted again, the loaded estimator learns its surfaces anew.
        """
        check_is_fitted(self)
        model_io.write(path, self, force=force)

    @classmethod
    def load(cls, path: Any) -> Any:
        """Read an estimator that `save` or `gpum fit` wrote; no code of the file runs."""
        found = model_io.read(path)
        if isinstance(found, model_io.Fitted):
            found = found.model
        if not isinstance(found, cls):
            raise TypeError(f"{path} holds a {type(found).__name__}, not a {cls.__name__}; load it with its own class")
        return found
