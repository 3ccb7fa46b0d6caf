"""Mutated model files and tables: read, or refused in a sentence; never anything else, never for long."""

import pytest

from fuzz.mutate import LONG, fuzz


@pytest.mark.filterwarnings("ignore")
def test_a_few_mutated_files():
    seen, slowest = fuzz(150)
    assert {ending for ending, _ in seen} == {".gpum", ".csv", ".tsv", ".npz", ".parquet"}
    assert seen[".gpum", "refused"] > 100
    assert max(slowest.values()) < LONG, slowest


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_mutated_files():
    seen, slowest = fuzz(20_000, seed=1)
    assert sum(seen.values()) == 100_000
    assert max(slowest.values()) < LONG, slowest
