"""Nodes between the rows of an atlas, by which its mesh is more even than its rows lie.

    x(b) = Σ b_k x_k + Σ_{k<l} 4 b_k b_l s_kl    points over a simplex at barycentric weights b
    s_kl = ⅛(T_k v_kl + T_l v_lk)                from the chord to the arc from k to l that has their tangents

The error of linear elements is that of the largest empty ball, and rows scattered at random leave balls several
spacings wide. Nodes in the middle of these make the mesh even.
"""

from __future__ import annotations

from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
from sklearn.neighbors import NearestNeighbors

from ..basics import neighbours
from . import tangents
from .stars import NEAR, Stars, delaunay_stars, steps

POOL = 3  # candidate rows for every neighbour along the surface
HALVINGS = {1: 2, 2: 0, 3: 0}  # of the steps of a curve
PASSES = {1: 0, 2: 3, 3: 0}  # how often empty balls are filled
WIDE = 0.55  # radius of an empty ball, in spacings, above which it gets a node
RESOLVED = np.pi / 8  # largest angle of a side with the planes at its ends, where nodes may be added between
APART = 0.8  # least distance between new nodes, over that radius
MAX_NODES = 10_000  # up to which nodes are added


class Refined(NamedTuple):
    """Nodes [n, p] with frames [n, p, q], spacings [n] and stars."""

    nodes: np.ndarray
    frame: np.ndarray
    h: np.ndarray
    stars: Stars


def charts(nodes: np.ndarray, pool: np.ndarray, frame: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Around each node: the nearest along the surface [N, k], their coordinates v, and which are on the same sheet."""
    k = min(NEAR[frame.shape[2]], len(nodes))
    index = tangents.along_surface(nodes, pool[:, : POOL * k], frame, k)
    return index, *tangents.normal_coordinates(nodes, index, frame)


def finer(
    nodes: np.ndarray, frame: np.ndarray, h: np.ndarray, smooth: np.ndarray, stars: Stars, beyond: float
) -> Refined:  # fmt: skip
    """The mesh with more nodes, where rows are smooth [N] and there is room; `beyond` is what `stars.rim` returns."""
    q = frame.shape[2]
    for _ in range(HALVINGS[q]):
        if len(nodes) + len(stars.simplices) > MAX_NODES:
            break
        halves = smooth[stars.simplices].all(1)
        nodes, frame, h, stars = halved_curve(nodes, frame, h, smooth, stars)
        smooth = np.append(smooth, halves)
    for _ in range(PASSES[q]):
        more = fill(nodes, frame, h, smooth, stars)
        if more is None or len(more[0]) > MAX_NODES:
            break
        nodes, frame, h = more
        smooth = np.append(smooth, np.ones(len(nodes) - len(smooth), bool))
        index, v, near = charts(nodes, tangents.neighbourhoods(nodes, POOL * NEAR[q]), frame)
        near[~smooth] = True
        stars = delaunay_stars(v, index, near, h, beyond)
    return Refined(nodes, frame, h, stars)


def between(
    nodes: np.ndarray, frame: np.ndarray, corners: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Points [m, p] on the curved surface over simplices [m, c] at barycentric weights b, and the frames there.

    x(b) = Σ b_k x_k + Σ_{k<l} 4 b_k b_l s_kl; the middle of the arc from k to l that has their tangents is
    s_kl = ⅛(T_k v_kl + T_l v_lk) off the chord.
    """
    point = np.einsum("mc,mcp->mp", weights, nodes[corners])
    first = frame[corners[:, 0]]
    mean = weights[:, 0, None, None] * first
    for k in range(1, corners.shape[1]):
        other = frame[corners[:, k]]
        mean = mean + weights[:, k, None, None] * (other @ (other.swapaxes(1, 2) @ first))
    for k, l in combinations(range(corners.shape[1]), 2):
        a, b = corners[:, k], corners[:, l]
        step = (nodes[b] - nodes[a])[:, None]
        bend = frame[a] @ tangents.lift(step, frame[a])[0].swapaxes(1, 2)
        bend = bend + frame[b] @ tangents.lift(-step, frame[b])[0].swapaxes(1, 2)
        point = point + (weights[:, k] * weights[:, l] / 2)[:, None] * bend[..., 0]
    return point, np.linalg.qr(mean)[0]


def fill(
    nodes: np.ndarray, frame: np.ndarray, h: np.ndarray, smooth: np.ndarray, stars: Stars
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Nodes, frames and spacings with nodes in the middle of large empty balls; None where none is large.

    The middle of a ball that lies outside its simplex is replaced by that of the simplex's longest side.
    """
    simplices, weights, radii = stars.simplices, stars.centres.copy(), stars.radii
    inner = ~stars.outer[simplices[:, 0]] & smooth[simplices].all(1)
    wide = inner & (radii > WIDE * h[simplices].mean(1))
    wide[wide] = resolved(nodes, frame, simplices[wide])
    simplices, weights, radii = simplices[wide], weights[wide], radii[wide]
    if not len(radii):
        return None
    outside = np.flatnonzero(weights.min(1) < 0)
    sides = np.array(list(combinations(range(simplices.shape[1]), 2)))
    corner = nodes[simplices[outside]]
    longest = sides[np.argmax(np.linalg.norm(corner[:, sides[:, 0]] - corner[:, sides[:, 1]], axis=-1), 1)]
    halves = np.zeros((len(outside), simplices.shape[1]))
    np.put_along_axis(halves, longest, 0.5, 1)
    weights[outside] = halves
    point, tangent = between(nodes, frame, simplices, weights)
    room = np.minimum(radii, neighbours.nearest(nodes, 1, point)[0][:, 0])
    order = np.argsort(-room, kind="stable")
    order = order[room[order] > 0.5 * WIDE * h[simplices[order]].mean(1)]
    if not len(order):
        return None
    chosen = order[sparse_choice(point[order], room[order] * APART)]
    spacing_there = np.einsum("mc,mc->m", weights[chosen], h[simplices[chosen]])
    return np.concatenate([nodes, point[chosen]]), np.concatenate([frame, tangent[chosen]]), np.append(h, spacing_there)


def resolved(nodes: np.ndarray, frame: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Whether the sides of simplices [m, c] are close to the planes at both their ends, [m]."""
    flat = np.ones(len(corners), bool)
    for k, other in permutations(range(corners.shape[1]), 2):
        step = (nodes[corners[:, other]] - nodes[corners[:, k]])[:, None]
        flat &= tangents.lift(step, frame[corners[:, k]])[1][:, 0] <= RESOLVED
    return flat


def sparse_choice(points: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Numbers of points [m, p] that are chosen in turn, unless an earlier one is closer than its room [m]."""
    near = NearestNeighbors().fit(points).radius_neighbors(points, radius=float(room.max(initial=0)))
    free = np.ones(len(points), bool)
    for i, (distance, other) in enumerate(zip(*near, strict=True)):
        if free[i]:
            free[other[(other > i) & (distance < room[i])]] = False
    return np.flatnonzero(free)


def halved_curve(nodes: np.ndarray, frame: np.ndarray, h: np.ndarray, smooth: np.ndarray, stars: Stars) -> Refined:
    """A curve with a node in the middle of each step: on the arc between smooth rows, on the chord between others."""
    n, pairs = len(nodes), stars.simplices
    point, tangent = between(nodes, frame, pairs, stars.centres)
    point = np.where(smooth[pairs].all(1)[:, None], point, nodes[pairs].mean(1))
    middle = n + np.arange(len(pairs))
    a, b = np.concatenate([pairs[:, 0], middle]), np.concatenate([middle, pairs[:, 1]])
    nodes, frame = np.concatenate([nodes, point]), np.concatenate([frame, tangent])
    h = np.append(h, h[pairs].mean(1))
    return Refined(nodes, frame, h, steps(a, b, np.tile(stars.radii, 2), len(nodes), stars.n_gaps))
