"""Faults while a file is written: killed at any moment, or on a full disk, there is a whole old file or a new one."""

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gpum.app.tables import tables
from gpum.persistence import atomic as whole
from gpum.persistence import model_io

SAVE = """
import sys
import numpy as np
from gpum.app.tables import tables
from gpum.persistence import model_io
print("ready", flush=True)
k = 0
while True:  # until it is killed
    k += 1
    model_io.write(sys.argv[1], {"k": k, "numbers": np.full(200_000, float(k)) + np.arange(200_000) % 977}, force=True)
    print(k, flush=True)
"""


def killed(path, moments):
    """A process that saves all the time is killed at each of the moments (seconds after its first file)."""
    found = set()
    for wait in moments:
        process = subprocess.Popen([sys.executable, "-c", SAVE, str(path)], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        held = model_io.read(path)  # whole
        assert np.array_equal(held["numbers"], np.full(200_000, float(held["k"])) + np.arange(200_000) % 977)
        found.add(held["k"])
    return found


def test_killed_while_saving(tmp_path):
    killed(tmp_path / "m.gpum", np.random.default_rng(0).uniform(0, 0.1, 3))


@pytest.mark.slow
def test_killed_at_200_moments(tmp_path):
    found = killed(tmp_path / "m.gpum", np.random.default_rng(0).uniform(0, 0.3, 200))
    assert len(found) > 3  # old ones and new ones
    model_io.write(tmp_path / "m.gpum", 5, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m.gpum"]  # what the kills left is gone


def test_the_next_save_removes_what_a_kill_left(tmp_path):
    """But nothing that is being written, nor what is no such file."""
    path, others = tmp_path / "m.gpum", [".m.gpum.part", ".m.gpum.01234567.part.csv", ".n.gpum.01234567.part"]
    for name in [".m.gpum.01234567.part", *others]:
        (tmp_path / name).write_bytes(b"half")
    with whole.replacing(path) as file:
        file.write(b"first")
        with whole.replacing(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["m.gpum", *others])


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions_of_a_file_are_those_of_the_one_it_replaces(tmp_path):
    """They are never wider while it is written; new files follow the umask, and are no more open than another file."""
    mode = lambda path: path.stat().st_mode & 0o777
    umask = os.umask(0o022)
    try:
        for permission in (0o600, 0o640, 0o444, 0o666):
            path = tmp_path / f"{permission:o}.txt"
            path.write_text("old")
            path.chmod(permission)
            with whole.replacing(path) as file:
                (temporary,) = tmp_path.glob(".*.part")
                assert mode(temporary) == permission
                file.write(b"new")
            assert mode(path) == permission
            assert path.read_text() == "new"
        with whole.replacing(tmp_path / "new.txt"):
            pass
        assert mode(tmp_path / "new.txt") == 0o644
        for other, found in (
            (0o600, 0o600),
            (0o640, 0o640),
            (0o444, 0o644),
            (0o666, 0o644),
        ):  # and its owner's to write
            path = tmp_path / f"like-{other:o}.txt"
            with whole.replacing(path, like=tmp_path / f"{other:o}.txt"):
                pass
            assert mode(path) == found
    finally:
        os.umask(umask)


def fail_halfway(path):
    with whole.replacing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe_is_written_to_and_stays(tmp_path):
    """Directly and through a link; a failed block writes nothing, and the check beforehand does not open it."""
    pipe, link = tmp_path / "pipe.csv", tmp_path / "link.csv"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        whole.check_writable(path)
        with ThreadPoolExecutor(1) as pool:
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # so that no side waits for the other
            try:
                with pytest.raises(ZeroDivisionError):
                    fail_halfway(path)
                tables.write(path, {"a": [1, 2]})
                received = pool.submit(os.read, reader, 1000).result(timeout=10)
            finally:
                os.close(reader)
        assert received.split() == [b"a", b"1", b"2"]
        assert pipe.is_fifo()
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


@pytest.mark.skipif(
    not hasattr(os, "mkfifo") or os.access("/dev", os.W_OK), reason="a failure would replace the device itself"
)
def test_a_device_is_written_to_and_stays(tmp_path):
    """A model goes to a link to /dev/null; a device that is full says so by its name."""
    link = tmp_path / "nothing.gpum"
    link.symlink_to("/dev/null")
    model_io.write(link, {"numbers": np.arange(3.0)}, force=True)
    assert link.is_symlink()
    assert link.is_char_device()
    assert list(tmp_path.iterdir()) == [link]
    if os.path.exists("/dev/full"):
        full = tmp_path / "full.gpum"
        full.symlink_to("/dev/full")
        with pytest.raises(OSError, match="No space left") as error:
            model_io.write(full, 5, force=True)
        assert error.value.filename == str(full)
        assert full.is_char_device()


def test_writers_at_once_leave_one_whole_file(tmp_path):
    """Eight threads replace one file forty times; none takes another's for a leftover."""
    path = tmp_path / "m.txt"

    def write(k):
        for _ in range(40):
            with whole.replacing(path) as file:
                file.write(bytes([k]) * 5000)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert len(set(path.read_bytes())) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["m.txt"]


class Full:
    """A file on a disk that has room for some bytes only."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        if len(data) > self.room:
            self.file.write(data[: self.room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(data)
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()


@pytest.mark.parametrize("room", [0, 50, 500, 5000])
def test_a_full_disk(tmp_path, monkeypatch, room):
    path = tmp_path / "m.gpum"
    model_io.write(path, 5)
    beside = whole._open_beside

    def full(*args):
        temporary, file = beside(*args)
        return temporary, Full(file, room)

    monkeypatch.setattr(whole, "_open_beside", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*m\.gpum'"):
        model_io.write(path, np.random.default_rng(0).normal(size=10_000), force=True)
    monkeypatch.undo()
    assert model_io.read(path) == 5
    assert list(tmp_path.iterdir()) == [path]
