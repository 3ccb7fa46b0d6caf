"""Compiled programs are cached between runs, and the process is as before once the last thread has left the scope."""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring

from gpum.basics import device
from gpum.persistence import programs

SETTINGS = (programs.FOLDER, *programs.WORTH)


def settings():
    return {name: getattr(jax.config, name) for name in SETTINGS}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "programs"))
    monkeypatch.setattr(programs, "WORTH", dict.fromkeys(programs.WORTH, 0.0))  # every program, however small
    return tmp_path / "programs" / programs.SUBFOLDER / programs._processor()


HITS = []
monitoring.register_event_listener(lambda event, **_: HITS.append(event) if event.endswith("cache_hits") else None)


def compiled(c=1.0):
    """Compile and run a program as a new process would; how many were found on the disk."""
    before = len(HITS)
    with programs.cached_programs():
        found = jax.jit(lambda x: jnp.sin(x) + c)(np.arange(4.0))
    np.testing.assert_allclose(found, np.sin(np.arange(4.0)) + c, rtol=1e-6)
    return len(HITS) - before


def files(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


def test_a_program_is_found_the_second_time(folder):
    assert compiled() == 0
    assert files(folder)
    assert compiled() == len(files(folder))


def test_a_folder_that_cannot_be_made_is_not_used(folder):
    folder.parents[1].write_text("a file where the folder should be")
    assert compiled() == compiled() == 0
    assert folder.parents[1].read_text() == "a file where the folder should be"


def test_a_folder_that_cannot_be_written_is_not_used(folder, monkeypatch):
    monkeypatch.setattr(programs.os, "access", lambda path, mode: mode & os.W_OK == 0)
    assert compiled() == compiled() == 0
    assert not files(folder)


def test_off_stores_nothing(folder, monkeypatch):
    monkeypatch.setenv(programs.VARIABLE, "off")
    assert compiled() == compiled() == 0
    assert not folder.exists()


def test_outside_of_the_scope_jax_is_as_before(folder):
    before = settings()
    with programs.cached_programs(), programs.cached_programs():
        assert settings()[programs.FOLDER] == str(folder)
    assert settings() == before
    with pytest.raises(ZeroDivisionError), programs.cached_programs():
        raise ZeroDivisionError
    assert settings() == before
    jax.jit(lambda x: x + 3)(1.0)
    assert not files(folder)


def test_the_last_thread_closes_the_scope(folder):
    """One thread leaves while another is inside: what that one compiles is still cached."""
    before, inside, leave = settings(), threading.Event(), threading.Event()

    def stay():
        with programs.cached_programs():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=stay)
    with programs.cached_programs():
        thread.start()
        assert inside.wait(30)
    assert settings()[programs.FOLDER] == str(folder)
    leave.set()
    thread.join()
    assert settings() == before


@pytest.mark.parametrize("when", ["before", "inside"])
def test_a_folder_that_the_user_gives_jax_is_left_alone(folder, tmp_path, when):
    before, own = settings(), str(tmp_path / "own")
    try:
        if when == "before":
            jax.config.update(programs.FOLDER, own)
        with programs.cached_programs():
            jax.config.update(programs.FOLDER, own)
            jax.jit(lambda x: x + 4)(1.0)
        assert settings() == {**before, programs.FOLDER: own}
        assert not files(folder) or when == "inside"
    finally:
        jax.config.update(programs.FOLDER, before[programs.FOLDER])
        programs.compilation_cache.reset_cache()


def test_programs_not_used_for_longest_go_first(tmp_path, monkeypatch):
    for k, key in enumerate("abcd"):
        file = tmp_path / f"{key}{programs.ENDING}"
        file.write_bytes(bytes(1000))
        os.utime(file, (10 if key == "a" else k, k))  # a was read last
    monkeypatch.setattr(programs, "LARGEST", 3500)
    programs.tidy(tmp_path)
    assert [file.name[0] for file in files(tmp_path)] == ["a", "c", "d"]


def test_files_of_the_user_are_never_removed(tmp_path, monkeypatch):
    """The folder that GPUM_CACHE names may hold anything, also old and large files, also in our own subfolder."""
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path))

    def large(path):
        with open(path, "wb") as file:
            file.truncate(programs.LARGEST + 2**20)  # sparse: it takes no room
        os.utime(path, (0, 0))
        return path

    outside = large(tmp_path / "thesis.tar")
    own = tmp_path / programs.SUBFOLDER / programs._processor()
    own.mkdir(parents=True)
    program = own / f"jit{programs.ENDING}"
    program.write_bytes(bytes(1000))
    link = own / f"a{program.name}"  # a name such as JAX's
    link.symlink_to(outside)
    inside = [large(own / "thesis.tar"), large(own / "notes.part"), link]
    compiled(2.0)
    assert all(path.exists() for path in (outside, program, *inside))
    programs.tidy(own)
    assert all(path.exists() for path in (outside, program, *inside))


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


def test_programs_in_memory_are_released_before_maps_run_out(folder, monkeypatch):
    """A process may have 65 530 memory maps, and a dozen go to each program: hundreds of shapes would crash it."""
    monkeypatch.setattr(programs, "COUNTED", 1)
    monkeypatch.setattr(programs, "FULL", 0.0)
    traced = {"package": 0, "user": 0}

    def counted(name):
        def run(x):
            traced[name] += 1
            return jnp.cos(x) * 3

        return run

    package, user = device.compiled(counted("package")), jax.jit(counted("user"))
    with programs.cached_programs():
        first = package(np.arange(5.0))
        with programs.cached_programs():
            pass
        package(np.arange(5.0))
        user(np.arange(5.0))
        assert traced == {"package": 1, "user": 1}  # another scope is open
    with programs.cached_programs():
        np.testing.assert_array_equal(package(np.arange(5.0)), first)  # from the disk
        user(np.arange(5.0))
    assert traced == {"package": 2, "user": 1}  # the user's own programs stay
    monkeypatch.setattr(programs, "FULL", 1.1)
    with programs.cached_programs():
        package(np.arange(5.0))
    with programs.cached_programs():
        package(np.arange(5.0))
    assert traced == {"package": 3, "user": 1}
    assert 0 < programs.maps_used() < 1


@pytest.mark.skipif(not programs.maps_used(), reason="this system does not say how many maps a process has")
def test_released_programs_give_their_memory_maps_back(monkeypatch):
    before = programs.maps_used()
    run = device.compiled(lambda x: jnp.cos(x) @ jnp.sin(x))
    for n in range(3, 23):
        run(np.arange(float(n)))
    full = programs.maps_used()
    device.release_programs()
    assert programs.maps_used() - before < 0.3 * (full - before)


def test_every_program_of_the_package_can_be_released():
    """`jax.jit` stands in one place: what is compiled elsewhere would stay in memory."""
    root = programs.Path(programs.__file__).parents[1]
    elsewhere = [path.name for path in root.rglob("*.py") if "jax.jit" in path.read_text()]
    assert elsewhere == ["device.py"]
