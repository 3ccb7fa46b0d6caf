"""Find public files in a local folder, or download them into it, and check their checksum."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..basics.checks import GpumError
from ..basics.extras import needs
from ..basics.progress import DownloadBar
from ..persistence.atomic import user_cache

VARIABLE = "GPUM_DATA"


@dataclass(frozen=True)
class Source:
    """A file on the web, and paths in the data folder where a local copy of it, or of its content, may be."""

    name: str
    url: str
    sha256: str
    others: Sequence[str]  # searched first: the same data in another form


def locate(source: Source, data_home: Any = None) -> Path:
    """The source's file, or one of its other forms, in the data folder; it is downloaded if there is none.

    The folder is `data_home`, else that of the environment variable GPUM_DATA, else the user's cache.
    """
    folder = Path(data_home or os.environ.get(VARIABLE) or user_cache()).expanduser()
    for other in source.others:
        if (folder / other).exists():
            return folder / other
    path = folder / source.name
    if path.is_file():
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != source.sha256:
            raise GpumError(
                f"{path} is not the file that was published: its sha256 is {digest}, not {source.sha256}; delete it, "
                "then it is downloaded again"
            )
        return path
    pooch = needs("pooch", f"the download of {source.name}")
    try:
        bar = DownloadBar(source.name)
        pooch.retrieve(
            source.url, f"sha256:{source.sha256}", fname=source.name, path=folder,
            downloader=pooch.HTTPDownloader(progressbar=bar, timeout=60),
        )  # fmt: skip
    except OSError as error:  # no network, or a folder that cannot be written
        raise OSError(
            f"{source.name} is not in {folder} and could not be downloaded from {source.url} "
            f"({type(error).__name__}); put the file into {folder}, or name the folder that holds it by the "
            f"environment variable {VARIABLE}"
        ) from error
    except ValueError as error:  # pooch has removed the file
        raise GpumError(
            f"what {source.url} sent is not {source.name}: its checksum is not {source.sha256}; nothing was stored. "
            f"Try again, or put the published file into {folder}"
        ) from error
    return path
