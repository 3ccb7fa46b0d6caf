"""WiFi signal strengths of a tour through a building (Ferris, Fox and Lawrence 2007), the paper's first real data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ..basics import checks
from ..basics.checks import GpumError
from .sources import Source, locate

SOURCE = Source(
    "uw-floor.txt",
    "https://raw.githubusercontent.com/lawrennd/datasets_mirror/2eb6dce7501464457465facc7ef9334250efe4b4/"
    "robot_wireless/uw-floor.txt",
    "8daa925f365d9101c75ee89ccf51519159e6d105b19827bb60a30f1042a41ad6",
    ("uw_floor.npz", "wifi_uw_floor/uw_floor.npz"),
)
UNHEARD = -92.0  # dBm
SUBSETS = {"paper": slice(0, 215, 6), "tour": slice(0, 215), "all": slice(None)}


def fetch_wifi(*, subset: str = "paper", data_home: Any = None) -> Bunch:
    """Signal strengths of 30 access points, and the positions of the readings.

    Parameters
    ----------
    subset : "paper" (36 positions: every sixth of the first tour), "tour" (its 215 positions) or "all" (394, with a
        second tour).
    data_home : folder of the data; default the environment variable GPUM_DATA, else the user's cache. The file
        `uw-floor.txt` is downloaded into it if it is not there (284 kB).

    Returns
    -------
    Bunch with X [N, 30] ((dBm + 85)/15, unheard access points at -92 dBm), y [N, 2] (x and y on the map, presumably
    metres), rssi_dbm [N, 30] (NaN where unheard), time [N] (seconds), feature_names, target_names, DESCR.
    """
    checks.option(subset, "subset", SUBSETS)
    path = locate(SOURCE, data_home)
    time, rssi, xy = _from_archive(path) if path.suffix == ".npz" else _from_text(path)
    rows = SUBSETS[subset]
    time, rssi, xy = time[rows], rssi[rows], xy[rows]
    return Bunch(
        X=(np.where(np.isnan(rssi), UNHEARD, rssi) + 85) / 15,
        y=xy,
        rssi_dbm=rssi,
        time=time,
        feature_names=[f"ap{k:02d}" for k in range(rssi.shape[1])],
        target_names=["x", "y"],
        DESCR=__doc__,
    )


def _from_text(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times [T], strengths [T, access points in order of their address] and positions [T, 2].

    A line is: time, address, x, y, strength.
    """
    seen: list[tuple[float, str, float, float, float]] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        cells = line.split()
        if not cells:
            continue
        try:
            time, address, x, y, strength = cells
            seen.append((float(time), address, float(x), float(y), float(strength)))
        except ValueError:
            raise GpumError(
                f"{path}, line {number}: expected 'time address x y strength', got {line!r}; is it the published file?"
            ) from None
    if not seen:
        raise GpumError(f"{path} is empty; delete it, then it is downloaded again")
    times, row = np.unique([s[0] for s in seen], return_inverse=True)
    addresses, column = np.unique([s[1] for s in seen], return_inverse=True)
    rssi, xy = np.full((len(times), len(addresses)), np.nan), np.empty((len(times), 2))
    rssi[row, column] = [s[4] for s in seen]
    xy[row] = [s[2:4] for s in seen]
    return times - times[0], rssi, xy


def _from_archive(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with np.load(path, allow_pickle=False) as data:
        missing = {"time_s", "rssi_dbm", "xy"} - set(data)
        if missing:
            raise GpumError(f"{path} lacks {', '.join(sorted(missing))}; use the published {SOURCE.name} instead")
        return data["time_s"], data["rssi_dbm"].astype(float), data["xy"].astype(float)
