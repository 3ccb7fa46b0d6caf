"""Mutated model files and tables: read, or refused in a sentence; never anything else, never for long."""

import pytest

from fuzz.mutate import ENDINGS, LONG, fuzz


def assert_stages_are_reached(seen, count):
    """Mutants stop at every stage of reading a model file, and enough of them at the last ones."""
    header, tree, builders, whole = (seen[".gpum", stage] for stage in ("header", "tree", "builders", "whole"))
    assert count > header > tree > builders > whole > 0
    assert header > 0.7 * count  # five kinds of mutants of six have a first line that is right
    assert builders > 0.35 * count  # three change the document or numbers only
    assert whole > 0.1 * count
    assert seen[".gpum", "read"] == whole
    assert seen[".gpum", "refused"] == count - whole


@pytest.mark.filterwarnings("ignore")
def test_a_few_mutated_files():
    seen, slowest = fuzz(150)
    assert {ending for ending, _ in seen} == {".gpum", ".csv", ".tsv", ".npz", ".parquet"}
    assert_stages_are_reached(seen, 150)
    assert max(slowest.values()) < LONG, slowest


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_mutated_files():
    seen, slowest = fuzz(20_000, seed=1)
    assert sum(seen[ending, how] for ending in ENDINGS for how in ("read", "refused")) == 100_000
    assert_stages_are_reached(seen, 20_000)
    assert max(slowest.values()) < LONG, slowest
