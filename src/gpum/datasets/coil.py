"""Seventy-two views of a toy cat on a turntable (COIL-100, object 14; Nene, Nayar and Murase 1996)."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from sklearn.utils import Bunch

from ..basics import checks
from ..basics.checks import GpumError
from ..basics.extras import needs
from .sources import Source, locate

SOURCE = Source(
    "coil-100.zip",
    "https://www.cs.columbia.edu/CAVE/databases/SLAM_coil-20_coil-100/coil-100/coil-100.zip",
    "fcb4b8b01c0778f416d8d7a09f45082c4f7075cc74743dcddd5c44307bd4afe7",
    ("coil100_obj14.npz", "coil_cat/coil100_obj14.npz", "coil-100"),
)
ANGLES = np.arange(0, 360, 5)
SUBSETS = {"paper": slice(3, 69), "all": slice(None)}  # the paper has the angles from 15 to 340 degrees
LUMINANCE = (0.299, 0.587, 0.114)
BLOCK = 4  # 128 × 128 to 32 × 32


def fetch_coil(*, subset: str = "paper", data_home: Any = None) -> Bunch:
    """Grey images of the cat and the angle of the turntable.

    Parameters
    ----------
    subset : "paper" (66 views, 15 to 340 degrees) or "all" (72).
    data_home : folder of the data; default the environment variable GPUM_DATA, else the user's cache. The archive
        `coil-100.zip` is downloaded into it if it is not there (131 MB), unless there is a folder `coil-100` with its
        images.

    Returns
    -------
    Bunch with X [N, 1024] (32 × 32 grey values from 0 to 1), y [N] (angle/360), angle_deg [N], images [N, 128, 128, 3]
    (the originals), DESCR.
    """
    checks.option(subset, "subset", SUBSETS)
    path = locate(SOURCE, data_home)
    rgb = (_from_archive if path.suffix == ".npz" else _from_images)(path)
    rows = SUBSETS[subset]
    images, angles = rgb[rows], ANGLES[rows]
    return Bunch(X=_grey(images) / 255, y=angles / 360, angle_deg=angles, images=images, DESCR=__doc__)


def _grey(images: np.ndarray) -> np.ndarray:
    """Luminance, means of 4 × 4 pixels, rounded: [N, 1024]."""
    n, height, width, _ = images.shape
    grey = (images @ np.array(LUMINANCE)).reshape(n, height // BLOCK, BLOCK, width // BLOCK, BLOCK).mean((2, 4))
    return np.rint(grey).reshape(n, -1)


def _from_images(path: Path) -> np.ndarray:
    """The 72 images, from the folder `coil-100` or from the archive that holds it, [72, 128, 128, 3]."""
    Image = needs("PIL.Image", "COIL-100 as pictures")

    names = [f"obj14__{angle}.png" for angle in ANGLES]
    images = []
    try:
        archive = None if path.is_dir() else ZipFile(path)
        for name in names:
            with (path / name).open("rb") if archive is None else archive.open(f"coil-100/{name}") as file:
                images.append(np.asarray(Image.open(file).convert("RGB")))
    except (KeyError, FileNotFoundError, BadZipFile) as error:
        raise GpumError(
            f"{path} does not hold the images {names[0]} to {names[-1]} of COIL-100 ({error}); delete it, then the "
            "archive is downloaded again"
        ) from None
    return np.stack(images)


def _from_archive(path: Path) -> np.ndarray:
    with np.load(path, allow_pickle=False) as data:
        if "rgb128" not in data or len(data["rgb128"]) != len(ANGLES):
            raise GpumError(f"{path} lacks the {len(ANGLES)} images 'rgb128'; use the published {SOURCE.name} instead")
        return data["rgb128"]
