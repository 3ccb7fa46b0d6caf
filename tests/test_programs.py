"""Compiled programs are cached between runs, and no state of the folder is an error or a warning."""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import compilation_cache, monitoring

from gpum.persistence import programs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "programs"))
    monkeypatch.setattr(programs, "WORTH", 0.0)  # every program, however small
    return tmp_path / "programs" / programs.OWN_FOLDER


def compiled(c=1.0):
    """Compile and run a program as a new process would; how many were found on the disk."""
    hits = []
    listen = lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None
    monitoring.register_event_listener(listen)
    try:
        with programs.cached_programs():
            found = jax.jit(lambda x: jnp.sin(x) + c)(np.arange(4.0))
    finally:
        monitoring.unregister_event_listener(listen)
    np.testing.assert_allclose(found, np.sin(np.arange(4.0)) + c, rtol=1e-6)
    return len(hits)


def files(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


def test_a_program_is_found_the_second_time(folder):
    assert compiled() == 0
    assert files(folder)
    assert compiled() == len(files(folder))


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data[:-1] + bytes([data[-1] ^ 1])]
)
def test_a_damaged_program_is_compiled_again_and_mended(folder, damage):
    compiled()
    whole = {file: file.read_bytes() for file in files(folder)}
    for file, data in whole.items():
        file.write_bytes(damage(data))
    assert compiled() == 0
    assert compiled() == len(whole)


def test_a_folder_that_cannot_be_written_is_no_error(folder):
    folder.parent.write_text("a file where the folder should be")
    assert compiled() == compiled() == 0
    assert folder.parent.read_text() == "a file where the folder should be"


def test_a_folder_that_can_only_be_read_is_read(folder, monkeypatch):
    compiled()

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    for where, name in ((programs.os, "utime"), (programs.os, "replace"), (programs.Path, "write_bytes")):
        monkeypatch.setattr(where, name, refuse)
    assert compiled() == len(files(folder))
    assert compiled(2.0) == 0


def test_off_keeps_nothing(folder, monkeypatch):
    monkeypatch.setenv(programs.VARIABLE, "off")
    assert compiled() == compiled() == 0
    assert not folder.exists()


def test_outside_of_the_scope_nothing_is_cached(folder):
    before = programs.LEAST.value
    with programs.cached_programs(), programs.cached_programs():
        assert compilation_cache._cache == programs.Programs(folder)
    assert compilation_cache._cache is None
    assert programs.LEAST.value == before
    jax.jit(lambda x: x + 3)(1.0)
    assert not folder.exists()


def test_the_last_thread_closes_the_scope(folder):
    """One thread leaves while another is inside: what that one compiles is still cached."""
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with programs.cached_programs():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=stay)
    with programs.cached_programs():
        thread.start()
        assert inside.wait(30)
    assert compilation_cache._cache == programs.Programs(folder)
    leave.set()
    thread.join()
    assert compilation_cache._cache is None


def test_a_cache_of_the_users_own_is_left_alone(folder, tmp_path):
    with programs.OWN(str(tmp_path / "own")), programs.cached_programs():
        assert compilation_cache._cache is None


def test_programs_not_used_for_longest_go_first(folder, monkeypatch):
    store = programs.Programs(folder)
    for k, key in enumerate("abc"):
        store.put(key, bytes(1000))
        os.utime(store._file(key), (k, k))
    assert store.get("a") == bytes(1000)  # used: now the youngest
    monkeypatch.setattr(programs, "LARGEST", 3500)
    store.put("d", bytes(1000))
    assert [store.get(key) is not None for key in "abcd"] == [True, False, True, True]
    assert not list(folder.glob("*-part"))


def test_files_of_the_user_are_never_removed(tmp_path, monkeypatch):
    """The folder that GPUM_CACHE names may hold anything, also old and large files, also in our own subfolder."""
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path))
    monkeypatch.setattr(programs, "WORTH", 0.0)

    def large(path):
        with open(path, "wb") as file:
            file.truncate(programs.LARGEST + 2**20)  # sparse: it takes no room
        os.utime(path, (0, 0))
        return path

    outside = large(tmp_path / "thesis.tar")
    compiled()
    assert outside.exists()
    (own,) = (path for path in tmp_path.iterdir() if path.is_dir())
    program = next(own.iterdir())
    link = own / f"a{program.name}"  # a name such as ours
    link.symlink_to(outside)
    inside = [large(own / "thesis.tar"), large(own / "notes.part"), link]
    assert compiled(2.0) == 0  # it puts a program, and tidies
    assert all(path.exists() for path in (outside, *inside))
    assert compiled(2.0) > 0  # nor do they push programs out


def test_without_jaxs_private_parts_programs_are_compiled(folder, monkeypatch):
    monkeypatch.setattr(programs, "AVAILABLE", False)
    assert compiled() == compiled() == 0
    assert not folder.exists()


FORKING = """
import multiprocessing, sys
from gpum import ForkedProcess, SwissRoll
from gpum.manifold import evaluate, magnification

def use(kind):
    chart = SwissRoll()
    try:
        evaluate(chart, magnification, chart.bounds[:, :1].T)
    except ForkedProcess as error:
        return str(error)
    return "it works"

if __name__ == "__main__":
    forking = multiprocessing.get_context("fork")
    with forking.Pool(1) as pool:  # JAX has not run yet
        print(pool.apply_async(use, ("before",)).get(60))
    print(use("here"))
    with forking.Pool(1) as pool:
        print(pool.apply_async(use, ("after",)).get(60))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_says_so_instead_of_waiting_for_ever(tmp_path):
    """JAX's threads are not there in a child; one that was forked before JAX ran works."""
    (tmp_path / "forking.py").write_text(FORKING)
    done = subprocess.run([sys.executable, "forking.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    before, here, after = done.stdout.splitlines()
    assert before == here == "it works", done.stderr
    assert "forked" in after
    assert "forkserver" in after


def test_programs_in_memory_are_let_go_before_maps_run_out(folder, monkeypatch):
    """A process may have 65 530 memory maps, and a dozen go to each program: hundreds of shapes would crash it."""
    monkeypatch.setattr(programs, "COUNTED", 1)
    monkeypatch.setattr(programs, "FULL", 0.0)
    cleared, clear = [], jax.clear_caches
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True) or clear())
    run = jax.jit(lambda x: jnp.cos(x) * 3)
    with programs.cached_programs():
        first = run(np.arange(5.0))
        with programs.cached_programs():
            pass
        assert not cleared  # another scope is open
    assert cleared
    with programs.cached_programs():
        np.testing.assert_array_equal(run(np.arange(5.0)), first)  # from the disk
    monkeypatch.setattr(programs, "FULL", 1.1)
    cleared.clear()
    compiled(2.0)
    assert not cleared
    assert 0 < programs.maps_used() < 1
