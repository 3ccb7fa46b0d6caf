"""A folder of pictures as a table: the column `picture` names the file of each row, the others are its pixels.

Pictures of one size of at most LARGEST pixels along a side are taken as they are; others are scaled to SIDE x SIDE.
They are grey if all of them are, else they have three colours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gpum import GpumError
from gpum.tools import needs

from .block import Block

NAME = "picture"  # the column with the names of the files
ENDINGS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
}
SIDE, LARGEST = 32, 64
GREY = ("1", "L", "LA", "I", "I;16", "F")  # modes of Pillow


def pictures_of(folder: Path) -> list[Path]:
    """The pictures in a folder, by name; links that lead out of it are left out."""
    home = folder.resolve()
    files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in ENDINGS]
    return [path for path in files if path.is_file() and path.resolve().is_relative_to(home)]


def read(folder: Path) -> Block:
    """Names and columns: the names of the files, then the pixels, row by row of the picture."""
    files = pictures_of(folder)
    if not files:
        raise GpumError(
            f"{folder} is a folder without pictures ({', '.join(ENDINGS)}); give a table, or a folder that has some"
        )
    image = needs("PIL.Image", "a folder of pictures")
    opened = [_header(image, path) for path in files]
    sizes, grey = {size for size, _ in opened}, all(mode in GREY for _, mode in opened)
    own = next(iter(sizes)) if len(sizes) == 1 else None
    size = own if own is not None and max(own) <= LARGEST else (SIDE, SIDE)
    pixels = np.stack([_pixels(image, path, size, grey) for path in files])
    names = np.array([path.name for path in files], object)
    return Block([NAME, *(f"pixel_{k + 1}" for k in range(pixels.shape[1]))], [names, *pixels.T], index=NAME)


def _header(image: Any, path: Path) -> tuple[tuple[int, int], str]:
    """The size and mode of a picture, whose pixels are not read."""
    try:
        with image.open(path) as picture:
            return picture.size, picture.mode
    except Exception as error:  # whatever Pillow raises at a file that is no picture
        raise _refused(path, error) from None


def _pixels(image: Any, path: Path, size: tuple[int, int], grey: bool) -> np.ndarray:
    """The pixels of a picture as numbers from 0 to 1."""
    try:
        with image.open(path) as picture:
            if picture.mode in ("I", "I;16", "F"):  # numbers of any range
                values = np.asarray(picture, float)
                scaled = (values - values.min()) / (np.ptp(values) or 1.0)
                picture = image.fromarray(np.round(255 * scaled).astype(np.uint8))
            plain = picture.convert("L" if grey else "RGB").resize(size, image.Resampling.BOX)
        return np.asarray(plain, float).ravel() / 255
    except Exception as error:
        raise _refused(path, error) from None


def _refused(path: Path, error: Exception) -> GpumError:
    return GpumError(f"{path} cannot be read as a picture ({type(error).__name__}); correct it, or move it away")
