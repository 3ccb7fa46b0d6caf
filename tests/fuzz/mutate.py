"""Mutated files: bits, bytes and pieces of a sound file changed at random, with or without a checksum that is right.

python tests/fuzz/mutate.py 100000 [seed]     so many of each kind; prints what was refused and the slowest
"""

import io
import json
import sys
import tempfile
import time
import zipfile
from collections import Counter
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np

from gpum.files import model_io, tables

CORPUS = Path(__file__).parent / "corpus"
ODD = [
    None, True, -1, 0, 1, 10**12, 1e308, "", "../x", "nan", [], {}, [[]], {"object": 0}, {"object": -1},
    {"array": ["float64", 0, [3]]}, {"array": ["int64", 0, [1 << 40]]}, {"tuple": [{}]}, {"dict": [[[], 1]]},
]  # fmt: skip
BYTES = [b"\x00", b"\xff", b"\x80", b"\n", b",", b'"', b"PK\x01\x02", b"\x93NUMPY", b"1e999", b"9" * 40, b"\x80\x04."]


def bytes_of(rng, data):
    """A few places of a file changed: bits, odd bytes, pieces cut, doubled or moved."""
    data = bytearray(data)
    for _ in range(int(rng.geometric(0.4))):
        if not data:
            break
        a, b = sorted(rng.integers(0, len(data) + 1, 2))
        b = min(b, a + int(rng.geometric(0.05)))
        how = rng.integers(6)
        if how == 0:
            data[min(a, len(data) - 1)] ^= 1 << int(rng.integers(8))
        elif how == 1:
            data[a:b] = rng.bytes(b - a)
        elif how == 2:
            del data[a:b]
        elif how == 3:
            data[a:a] = data[a:b]
        elif how == 4:
            data[a:a] = BYTES[rng.integers(len(BYTES))]
        else:
            data[a:b] = BYTES[rng.integers(len(BYTES))]
    return bytes(data)


def sealed(payload):
    """A payload below a first line that is right."""
    line = f"GPUM model, format 2, gpum 0, {len(payload)} bytes, sha256 {sha256(payload).hexdigest()}\n"
    return line.encode() + payload


def members_of(data):
    """What a model file or an NPZ holds, by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members):
    """The other way round."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def node_of(rng, node):
    """A document in which one value is another, is gone, or stands elsewhere."""
    spots = []

    def walk(part):
        for key in part if isinstance(part, dict) else range(len(part)):
            spots.append((part, key))
            if isinstance(part[key], dict | list):
                walk(part[key])

    walk(node)
    part, key = spots[rng.integers(len(spots))]
    other, there = spots[rng.integers(len(spots))]
    how = rng.integers(4)
    if how == 0:
        part[key] = json.loads(json.dumps(ODD[rng.integers(len(ODD))]))  # each its own
    elif how == 1:
        part[key] = json.loads(json.dumps(other[there]))
    elif how == 2 and isinstance(part, dict):
        part[str(there)] = part.pop(key)
    else:
        del part[key]
    return node


def model_of(rng, data, members):
    """A mutated model file: its bytes; its payload, its members or its document under a right checksum."""
    how = rng.integers(5)
    if how == 0:
        return bytes_of(rng, data)
    if how == 1:
        return sealed(bytes_of(rng, data.split(b"\n", 1)[1]))
    changed = dict(members)
    if how == 2:
        name = list(changed)[rng.integers(len(changed))]
        changed[name] = bytes_of(rng, changed[name])
    else:
        document = json.loads(changed["model.json"])
        for _ in range(int(rng.integers(1, 4))):
            document = node_of(rng, document)
        changed["model.json"] = json.dumps(document)
    return sealed(zipped(changed))


def npz_of(rng, data, members):
    """A mutated NPZ: its bytes, or those of an array under a right checksum."""
    if rng.integers(3) == 0:
        return bytes_of(rng, data)
    name = list(members)[rng.integers(len(members))]
    return zipped({**members, name: bytes_of(rng, members[name])})


def read_model(path):
    """A model file in every way in which it is read."""
    model_io.summary(path)
    model_io.read(path)


def read_table(path):
    """A table, and its columns as numbers."""
    table = tables.read(path)
    for name in table.columns:
        table.words(name)
        table.text(name)
        with suppress(ValueError):
            table.numbers(name, "")


def fuzz(count, seed=0, endings=(".gpum", ".csv", ".tsv", ".npz", ".parquet")):
    """Read `count` mutated files of each ending; anything but a ValueError or OSError gets through to the caller.

    Returns how many were read and refused, and the longest time of one.
    """
    rng, seen, slowest = np.random.default_rng(seed), Counter(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for ending in endings:
            sound = [path.read_bytes() for path in sorted(CORPUS.glob(f"*{ending}"))]
            path = Path(folder) / f"m{ending}"
            read = read_model if ending == ".gpum" else read_table
            mutated = {".gpum": model_of, ".npz": npz_of}.get(ending, lambda rng, data, _: bytes_of(rng, data))
            for data in sound:  # libraries are imported now
                path.write_bytes(data)
                read(path)
            taken = [members_of(data) if ending in (".gpum", ".npz") else None for data in sound]
            for _ in range(count):
                k = rng.integers(len(sound))
                data = mutated(rng, sound[k], taken[k])
                path.write_bytes(data)
                begin = time.perf_counter()
                try:
                    read(path)
                    seen[ending, "read"] += 1
                except (ValueError, OSError):
                    seen[ending, "refused"] += 1
                except BaseException:
                    (Path(tempfile.gettempdir()) / f"gpum-fuzz{ending}").write_bytes(data)
                    raise
                slowest = max(slowest, time.perf_counter() - begin)
    return seen, slowest


if __name__ == "__main__":
    some = tuple(sys.argv[3:]) or (".gpum", ".csv", ".tsv", ".npz", ".parquet")
    found, longest = fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, some)
    print(dict(found), f"slowest {longest:.3f} s")
