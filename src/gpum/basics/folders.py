"""Where a user's files that can be made again are stored."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache() -> Path:
    """The folder of this package in the user's cache: of the XDG standard, or as macOS and Windows have it."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "gpum" / "gpum"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gpum"
    named = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(named) if named else Path.home() / ".cache") / "gpum"
