"""A fitted model with the data it was fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Fitted:
    """A fitted regressor, its cloud and the names of what is in it."""

    model: Any  # the fitted GPUMRegressor
    features: list[str]
    targets: list[str]
    X: np.ndarray  # [N, p] the fitted cloud
    y: np.ndarray  # [N, k] labels, NaN where unlabelled
    rows: list[str]  # a name for each row
    about: dict[str, Any]  # source file name, gpum version, date, settings, seconds, warnings (list[str])
