"""Meshes: seconds of a spectrum, and how exact shortest paths are.

    python benchmarks/meshes.py [--vertices 35000] [--modes 200]

Seconds are processor time, over all threads: of the eigenpairs of a bumpy sphere whose vertices are drawn at random, of
the shortest paths on it from one vertex to five others, and on average of one on a sphere. Errors are relative to great
circles on a sphere of 2 562 vertices, and to straight lines on the unrolled Swiss roll, whose atlas has 800 rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from scipy.spatial import ConvexHull

from gpum import Atlas, Mesh, SwissRoll, datasets

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from shapes import sphere


def bumpy(n):
    """A closed mesh of n vertices in no order."""
    X = np.random.default_rng(0).standard_normal((n, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return Mesh(X * (1 + 0.2 * np.sin(5 * X[:, :1])), ConvexHull(X).simplices)


def errors(surface, X, exact):
    """Relative errors of the shortest paths from the first row to all others."""
    return np.abs(np.array([path.length for path in surface.geodesic(X[0], X[1:])]) / exact - 1)


def main():
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vertices", type=int, default=35_000)
    parser.add_argument("--modes", type=int, default=200)
    asked = parser.parse_args()
    mesh = bumpy(asked.vertices)
    start = time.process_time()
    spectrum = mesh.spectrum(asked.modes)
    print(f"{len(spectrum.values)} eigenpairs of {mesh}: {time.process_time() - start:.1f} s")
    start = time.process_time()
    mesh.geodesic(mesh.nodes[0], mesh.nodes[1:6])
    print(f"five shortest paths on it: {time.process_time() - start:.1f} s")
    X = np.random.default_rng(1).standard_normal((200, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    start = time.process_time()
    of_sphere = errors(Mesh(*sphere(4)), X, np.arccos(X[1:] @ X[0]))
    each = (time.process_time() - start) / len(of_sphere)
    cloud = datasets.make_swiss_roll(n_labeled=20, n_unlabeled=780, random_state=0)
    r, z = cloud.chart_coords.T
    flat = np.column_stack([SwissRoll().arc_length(r), z])[:200]
    of_roll = errors(Atlas(2).fit(cloud.X), cloud.X[:200], np.linalg.norm(flat[1:] - flat[0], axis=1))
    for name, found in (("sphere", of_sphere), ("roll", of_roll)):
        print(f"shortest paths on the {name}: error {np.median(found):.2%}, at most {found.max():.2%}")
    print(f"one on the sphere: {each:.3f} s")


if __name__ == "__main__":
    main()
