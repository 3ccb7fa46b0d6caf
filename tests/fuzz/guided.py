"""Mutations that atheris (libFuzzer) chooses by which lines of the readers they reach; it needs Linux.

pip install -c constraints.txt -e '.[fuzz]'
python tests/fuzz/guided.py .csv -runs=100000      one of .gpum, .csv, .tsv, .npz, .parquet, then libFuzzer's options

Of a model file the payload is mutated, and gets a first line that is right. What is found is written to crash-*.
"""

import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["gpum.persistence", "gpum.app.tables", "zipfile", "json", "csv"]):
    from mutate import CORPUS, MEMORY, read_model, read_table, sealed

    from gpum import GpumError


def main(ending):
    """Fuzz the reader of one kind of file until libFuzzer has had enough."""
    warnings.simplefilter("ignore")
    is_model = ending == ".gpum"
    read = read_model if is_model else read_table
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        seeds, path = Path(folder) / "seeds", Path(folder) / f"m{ending}"
        seeds.mkdir()
        for sound in CORPUS.glob(f"*{ending}"):
            read(sound)  # libraries are imported now
            data = sound.read_bytes()
            (seeds / sound.name).write_bytes(data.split(b"\n", 1)[1] if is_model else data)

        def one(data):
            path.write_bytes(sealed(data) if is_model else data)
            with suppress(GpumError, OSError):
                read(path)

        atheris.Setup([sys.argv[0], *sys.argv[2:], "-timeout=5", str(seeds)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1])
