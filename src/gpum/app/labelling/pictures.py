"""Pictures of rows: files of a folder with the names of the rows, or rows whose columns are pixels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Protocol

import numpy as np

from gpum import GpumError
from gpum.tools import needs

from ..tables.folder import ENDINGS, pictures_of

LARGEST = 30_000_000  # bytes of a file that is shown


class Pictures(Protocol):
    """Pictures of all or some rows."""

    def has(self, row: int) -> bool:
        """Whether the row has a picture."""

    def get(self, row: int) -> tuple[str, bytes]:
        """The media type and the bytes of the picture of a row."""


class Folder:
    """Files of one folder, listed once; a file has the name of its row (with or without ending), or its number.

    Files are searched among those listed, never by a path made from a name; links to other folders are ignored.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        if not folder.is_dir():
            raise GpumError(f"--images is {folder}, which is no folder; give the folder that holds the pictures")
        files = pictures_of(folder)
        known = {p.stem: p for p in reversed(files)} | {p.name: p for p in files}
        found = ((row, known.get(name) or known.get(str(row + 1))) for row, name in enumerate(names))
        self.files = {row: path for row, path in found if path is not None}
        if not self.files:
            raise GpumError(
                f"no row has a picture in {folder}; files are called as the rows (--index), such as {names[0]}.png, or "
                f"1{next(iter(ENDINGS))} to {len(names)}{next(iter(ENDINGS))}; endings are {', '.join(ENDINGS)}"
            )

    def has(self, row: int) -> bool:
        """Whether the row has a picture."""
        return row in self.files

    def get(self, row: int) -> tuple[str, bytes]:
        """The media type and the bytes of the picture of a row."""
        path = self.files[row]
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise GpumError(f"{path.name} has more than {LARGEST // 10**6} MB; make it smaller")
        return ENDINGS[path.suffix.lower()], data


class Pixels:
    """Rows [N, p] whose columns are pixels, row by row of the picture; grey, or colours as the third side."""

    def __init__(self, X: np.ndarray, shape: Sequence[int]) -> None:
        self.X, self.shape = X, tuple(shape)
        self.low, self.high = float(np.nanmin(X)), float(np.nanmax(X))

    @classmethod
    def of(cls, X: np.ndarray, text: str) -> Pixels:
        """Pixels of a shape given as text, such as 28x28 (height, width) or 32x32x3."""
        match = re.fullmatch(r"(\d+)[x×](\d+)(?:[x×](3))?", text.strip().lower())
        shape = tuple(int(side) for side in match.groups() if side) if match else ()
        if not shape or not all(shape):
            raise GpumError(f"--image-shape is {text!r}; give height and width, such as 28x28, or 32x32x3 for colours")
        if int(np.prod(shape)) != X.shape[1]:
            raise GpumError(
                f"--image-shape is {text}, which has {int(np.prod(shape))} pixels, but there are {X.shape[1]} feature "
                "columns; give the shape of one row, or leave out the other columns (--drop, --index)"
            )
        return cls(X, shape)

    def has(self, row: int) -> bool:
        """Whether the row has a picture."""
        return 0 <= row < len(self.X)

    def get(self, row: int) -> tuple[str, bytes]:
        """The media type and the bytes of the picture of a row."""
        Image = needs("PIL.Image", "--image-shape")

        fraction = (np.nan_to_num(self.X[row], nan=self.low) - self.low) / ((self.high - self.low) or 1.0)
        buffer = BytesIO()
        Image.fromarray(np.round(255 * fraction).astype(np.uint8).reshape(self.shape)).save(buffer, "PNG")
        return ENDINGS[".png"], buffer.getvalue()
