"""The list of mutants (`make mutations`) names lines that are there."""

from collections import Counter
from pathlib import Path

from mutations import MUTANTS

SOURCE = Path(__file__).parents[1] / "src"


def test_every_mutant_breaks_one_line():
    assert max(Counter(one.name for one in MUTANTS).values()) == 1
    for one in MUTANTS:
        found = sum(path.read_text().count(one.old) for path in SOURCE.rglob(one.file))
        assert found == 1, one.name
        assert one.old != one.new
        assert all((SOURCE.parent / test).is_file() for test in one.tests), one.name
