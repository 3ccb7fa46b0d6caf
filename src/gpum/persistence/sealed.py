"""An object inside a model file that is read when it is first asked for, such as a latent model, which needs JAX."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Sealed:
    """Bytes of an object, as `model_io.packed` makes them; or, before it was stored, the object itself."""

    payload: np.ndarray | None = None  # int8

    @classmethod
    def of(cls, content: Any) -> Sealed:
        """An object that is in memory."""
        sealed = cls()
        vars(sealed)["content"] = content
        return sealed

    @cached_property
    def content(self) -> Any:
        """The object."""
        from .model_io import unpacked

        assert self.payload is not None
        return unpacked(self.payload.tobytes())

    def __gpum_state__(self) -> dict[str, Any]:
        """The bytes."""
        from .model_io import packed

        if self.payload is not None:
            return {"payload": self.payload}
        return {"payload": np.frombuffer(packed(self.content)[0], np.int8)}
