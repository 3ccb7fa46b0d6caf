"""Mutated files: bits, bytes and pieces of a sound file changed at random, with or without a checksum that is right.

python tests/fuzz/mutate.py 100000 [seed] [.csv ...]     so many of each kind; prints what was refused, and the slowest
"""

import io
import json
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from functools import cache, wraps
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import numpy as np

from gpum import GpumError
from gpum.app.tables import tables
from gpum.persistence import container, model_io, tree

CORPUS = Path(__file__).parent / "corpus"
MEMORY = Path("/dev/shm")  # noqa: S108  (of this user's own files a folder is made there)
ENDINGS = (".gpum", ".csv", ".tsv", ".npz", ".parquet")
ODD = [
    None, True, -1, 0, 1, 10**12, 1e308, "", "../x", "nan", [], {}, [[]], {"object": 0}, {"object": -1},
    {"array": ["float64", 0, [3]]}, {"array": ["int64", 0, [1 << 40]]}, {"tuple": [{}]}, {"dict": [[[], 1]]},
]  # fmt: skip
LONG = 1.0  # seconds of the processor for one file
NUMBERS = [
    np.array(n).tobytes() for n in (np.nan, np.inf, -np.inf, -0.0, 1e308, -1, 0, 1, 1 << 31, 1 << 62, -(1 << 63))
]
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
    line = f"{container.FORMAT}, gpum 0, {len(payload)} bytes, sha256 {sha256(payload).hexdigest()}\n"
    return container.MAGIC + line.encode() + payload


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


def spots_of(node, path=()):
    """Where the values of a document stand: for each the keys that lead there."""
    found = []
    for key in node if isinstance(node, dict) else range(len(node)):
        found.append((*path, key))
        if isinstance(node[key], dict | list):
            found += spots_of(node[key], found[-1])
    return found


def at(node, path):
    """The value that stands there."""
    for key in path:
        node = node[key]
    return node


def node_of(rng, node, spots):
    """A document in which one value is another, is gone, or stands elsewhere; `spots` are those of the sound one."""
    *way, key = spots[rng.integers(len(spots))]
    there = spots[rng.integers(len(spots))]
    how = rng.integers(4)
    with suppress(LookupError, TypeError):  # an earlier change took it away
        part = at(node, way)
        if how == 0:
            part[key] = deepcopy(ODD[rng.integers(len(ODD))])  # each its own
        elif how == 1:
            part[key] = deepcopy(at(node, there))
        elif how == 2 and isinstance(part, dict):
            part[str(there[-1])] = part.pop(key)
        else:
            del part[key]


def numbers_of(rng, member):
    """A flat array in which a few numbers are others; its size and header stay."""
    start = member.index(b"\n") + 1
    numbers = bytearray(member[start:])
    for _ in range(int(rng.integers(1, 4))):
        position, size = 8 * rng.integers(len(numbers) // 8 + 1), int(rng.choice([1, 4, 8]))
        numbers[position : position + size] = NUMBERS[rng.integers(len(NUMBERS))][:size][: len(numbers) - position]
    return member[:start] + bytes(numbers)


def model_of(rng, sound):
    """A mutated model file: its bytes; its payload, members, numbers or document under a right checksum."""
    how = rng.integers(6)
    if how == 0:
        return bytes_of(rng, sound.data)
    if how == 1:
        return sealed(bytes_of(rng, sound.data.split(b"\n", 1)[1]))
    changed = dict(sound.members)
    if how == 2:
        name = list(changed)[rng.integers(len(changed))]
        changed[name] = bytes_of(rng, changed[name])
    elif how == 3:
        name = rng.choice([name for name in changed if name.endswith(".npy")])
        changed[name] = numbers_of(rng, changed[name])
    else:
        document = json.loads(changed["model.json"])
        for _ in range(int(rng.integers(1, 4))):
            node_of(rng, document, sound.spots)
        changed["model.json"] = json.dumps(document)
    return sealed(zipped(changed))


def npz_of(rng, sound):
    """A mutated NPZ: its bytes, or those of an array under a right checksum."""
    if rng.integers(3) == 0:
        return bytes_of(rng, sound.data)
    name = list(sound.members)[rng.integers(len(sound.members))]
    return zipped({**sound.members, name: bytes_of(rng, sound.members[name])})


MUTATED = {".gpum": model_of, ".npz": npz_of}  # others: bytes


class Sound:
    """A sound file, taken apart once."""

    def __init__(self, path):
        self.data = path.read_bytes()
        self.members = members_of(self.data) if path.suffix in MUTATED else {}
        self.spots = spots_of(json.loads(self.members["model.json"])) if path.suffix == ".gpum" else []


STAGES = {
    "header": (container, "_payload"),  # the first line and the checksum are right
    "tree": (container, "read"),  # so are the zip, the document's syntax and the flat arrays
    "builders": (tree.Reader, "_made"),  # at least one object was built, and completed itself
    "whole": (model_io, "read"),  # everything was built
}


@contextmanager
def stages_noted(passed):
    """Add to the set `passed` the stages that reading a model file passes: the functions of STAGES that return."""
    with ExitStack() as patches:
        for stage, (owner, name) in STAGES.items():
            patches.enter_context(patch.object(owner, name, _noted(passed, stage, getattr(owner, name))))
        yield


def _noted(passed, stage, function):
    @wraps(function)
    def noted(*args, **kwargs):
        result = function(*args, **kwargs)
        passed.add(stage)
        return result

    return noted


def read_model(path):
    """A model file in every way in which it is read."""
    with suppress(GpumError):
        model_io.summary(path)
    model_io.read(path)


def read_table(path):
    """A table, and its columns as numbers."""
    table = tables.read(path)
    for name in table.columns:
        table.words(name)
        table.text(name)
        with suppress(GpumError):
            table.numbers(name, "")


def fuzz(count, seed=0, endings=ENDINGS):
    """Read `count` mutated files of each ending; anything but a GpumError or OSError gets through to the caller.

    Returns how many were read and refused, how many model files passed each of the STAGES, and for each ending the most
    seconds of the processor that one file took, sound ones too. A file that took more than LONG is kept. The files lie
    in memory where the system has a folder there: to open one on a disk takes longer than to read it.
    """
    rng, seen, slowest = np.random.default_rng(seed), Counter(), {}
    kept = Path(tempfile.gettempdir())
    in_memory = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
    known_types = patch.object(tree, "get_type_hints", cache(tree.get_type_hints))  # a fifth of the time of a file
    passed: set[str] = set()
    with in_memory as folder, known_types, stages_noted(passed):
        for ending in endings:
            paths = sorted(CORPUS.glob(f"*{ending}"))
            read = read_model if ending == ".gpum" else read_table
            mutated = MUTATED.get(ending, lambda rng, sound: bytes_of(rng, sound.data))
            for path in paths:  # libraries are imported now
                read(path)
            slowest[ending] = max(_seconds(read, path) for path in paths)
            sound, path = [Sound(path) for path in paths], Path(folder) / f"m{ending}"
            for _ in range(count):
                data = mutated(rng, sound[rng.integers(len(sound))])
                path.write_bytes(data)
                passed.clear()
                begin = time.process_time()
                try:
                    read(path)
                    seen[ending, "read"] += 1
                except (GpumError, OSError):
                    seen[ending, "refused"] += 1
                except BaseException:
                    (kept / f"gpum-fuzz{ending}").write_bytes(data)
                    raise
                seen.update((ending, stage) for stage in passed)
                took = time.process_time() - begin
                if took > LONG:
                    (kept / f"gpum-fuzz-slow{ending}").write_bytes(data)
                slowest[ending] = max(slowest[ending], took)
    return seen, slowest


def _seconds(read, path):
    begin = time.process_time()
    read(path)
    return time.process_time() - begin


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found, longest = fuzz(int(sys.argv[1]), int([*sys.argv, 0][2]), tuple(sys.argv[3:]) or ENDINGS)
    print(dict(found), "slowest, in seconds:", {ending: round(seconds, 3) for ending, seconds in longest.items()})
