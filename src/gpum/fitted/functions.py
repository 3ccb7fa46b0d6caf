"""Draws of the function of a fitted model, which can be called with any rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..basics import checks
from ..basics.checks import GpumError
from ..inference.draws import Draw, NearestDraw, draws
from ..inference.outputs import Angle
from .rows import SpaceRows

if TYPE_CHECKING:
    from .model import FittedModel

BLOCK = 2048  # rows at once


@dataclass(frozen=True, eq=False)
class SampledFunction:
    """One draw of the function from the posterior: call it with rows X, [n] or, for several outputs, [n, k].

    Called again with a row it gives the same number. A row far from a surface has the value of its nearest point there.
    """

    _model: FittedModel
    _draws: list[Draw | NearestDraw]  # one for each output
    _checked: Callable[[Any], np.ndarray]

    def __call__(self, X: Any) -> np.ndarray:
        """The function at rows X."""
        X = self._checked(X)
        values = [self._of_output(X, k) for k in range(len(self._draws))]
        return np.stack(values, -1) if self._model.several else values[0]

    def __repr__(self) -> str:
        return f"<a function of {self._model.cloud.X.shape[1]} columns, drawn from a posterior>"

    def _of_output(self, X: np.ndarray, k: int) -> np.ndarray:
        draw, output, geometries = self._draws[k], self._model.outputs[k], self._model.geometries
        projected = geometries._project_rows(X, frozenset([draw.space]))
        at = SpaceRows(projected, draw.space)
        blocks = [np.arange(b, min(b + BLOCK, len(X))) for b in range(0, max(len(X), 1), BLOCK)]
        values: np.ndarray = output.values(np.concatenate([draw.at(at[block]) for block in blocks]))
        return values


def functions(
    model: FittedModel, n: int, random_state: Any, checked: Callable[[Any], np.ndarray]
) -> list[SampledFunction]:
    """n draws; `checked` makes an array of the rows that they are called with."""
    checks.integer(n, "n", 1, None, "it is the number of functions")
    if any(isinstance(output, Angle) for output in model.outputs):
        raise GpumError("period is given, and draws of angles are not made as functions; use sample_y")
    rng = np.random.default_rng(checks.random_state(random_state).randint(2**31 - 1))
    of_outputs = [draws(output.posterior, rng, n) for output in model.outputs]
    return [SampledFunction(model, list(of), checked) for of in zip(*of_outputs, strict=True)]
