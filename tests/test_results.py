"""Numbers in the pages: each comes from a file in results/, and the files are of this version (`make results`)."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpum import __version__

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import pages  # noqa: E402
import results  # noqa: E402

FILES = sorted(path for path in (ROOT / "results").rglob("*.json") if path.name != "peers.json")
SOURCE = re.compile(r"<!-- source: (\S+)[^\n]* -->\n\s*")  # of the paragraph or table that follows
UNIT = r"(?:s|ms|µs|ns|min|h|MB|GiB|seconds?|minutes?|hours?)\b"
MEASURED = re.compile(
    rf"\b(?:RMSE|NLPD|accuracy|log loss|calibration error)\b (?:(?:is|was|of|from|an \w+) ){{0,3}}[−-]?\d+\.\d"
    rf"|\b(?:takes?|took|within|after|median|in|costs?) (?:about |up to )?\d[\d.,]*(?: to \d[\d.,]*)? {UNIT}"
    rf"|\d\.\d+ {UNIT}|\d ± \d",
    re.IGNORECASE,
)
CELL = re.compile(rf"\*{{0,2}}[−-]?(?:\d+\.\d+(?:e-?\d+)?|\d+(?: {UNIT}|\.\d+ ?%))(?:[ ;,(±].*)?")


def unsourced(text):
    """Lines of a page that look like measurements, outside of blocks, code and what has a source that exists."""
    text = pages.BLOCK.sub("", text)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"(?m)^    .*$", "", text)  # commands and what they print
    kept = []
    for paragraph in re.split(r"\n\s*\n(?!\s*\|)", text):
        source = SOURCE.match(paragraph.lstrip())
        if source and (ROOT / source[1]).exists():
            continue
        for line in paragraph.splitlines():
            cells = [cell.strip() for cell in line.strip("| ").split("|")] if line.startswith("|") else []
            if any(CELL.fullmatch(cell) for cell in cells) or MEASURED.search(re.sub(r"`[^`]*`", "", line)):
                kept.append(line)
    return kept


@pytest.mark.parametrize("page", pages.pages(ROOT), ids=lambda page: page.name)
def test_blocks_hold_what_the_files_give(page):
    text = page.read_text()
    assert pages.filled(ROOT, text) == text, "python benchmarks/results.py --pages"
    named = [match[2] for match in pages.BLOCK.finditer(text)]
    assert text.count("<!-- results:") == text.count("<!-- end -->") == len(named)
    assert set(named) <= {*results.parts(), *pages.BLOCKS}


@pytest.mark.parametrize("page", pages.pages(ROOT), ids=lambda page: page.name)
def test_no_page_holds_a_measured_number_without_a_source(page):
    assert not unsourced(page.read_text())


@pytest.mark.parametrize("page", pages.pages(ROOT), ids=lambda page: page.name)
def test_pages_are_short(page):
    """Generated blocks and the lists of the reference do not count."""
    text = re.sub(r"```\{eval-rst\}.*?```", "", pages.BLOCK.sub("", page.read_text()), flags=re.DOTALL)
    assert text.count("\n") <= 150


def test_the_picture_is_drawn_from_the_files():
    assert not pages.scores(ROOT) or pages.digest(ROOT) in (ROOT / pages.PICTURE).read_text()


def test_files_are_of_this_version():
    """Files of other code of the same version are named as a skip, so that a release can decide to repeat them."""
    assert FILES
    stale = []
    for path in FILES:
        found = json.loads(path.read_text())
        assert found["version"] == __version__, f"{path.name} is of {found['version']}: {found['command']}"
        assert {"date", "machine", "command", "seconds"} <= set(found)
        assert set(found["machine"]) == {"cores", "python", "jax"}  # and no name of a host
        if found["code"] != results.code(tuple(found["folders"])):
            stale.append(path.relative_to(ROOT / "results").as_posix())
    if stale:
        pytest.skip(f"measured with other code of this version: {', '.join(stale)}")


def test_changed_numbers_are_noticed(tmp_path):
    """In a copy: a number of a page, a number of a file, and a sentence with a measurement and no source."""
    for name in ("docs", "results"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("_build", "gallery", "api", "*.png")
        )
    shutil.copy(ROOT / "README.md", tmp_path)
    page = tmp_path / "README.md"
    text = page.read_text()
    number = re.search(r"\| (0\.\d+) \|", text)[1]
    assert pages.filled(tmp_path, text) == text
    changed = text.replace(f"| {number} |", "| 0.001 |")
    assert pages.filled(tmp_path, changed) == text != changed
    stored = tmp_path / "results" / "demo.json"
    stored.write_text(stored.read_text().replace(f'"{number}"', '"0.002"'))
    assert pages.write(tmp_path) == ["README.md"]
    assert "| 0.002 |" in page.read_text()
    for line in (
        *("It has RMSE 0.063 there.", "A fit takes 12 s on two cores.", "It takes 0.2 to 3 s.", "| roll | 0.07 |"),
        *("Coverage is 94 ± 1.", "| roll | 3 s |", "The accuracy is 0.95.", "| ring | −1.3 (95 %) |"),
    ):
        assert unsourced(text + f"\n{line}\n") == [line]
        assert unsourced(text + f"\n<!-- source: tests/test_gp.py -->\n{line}\n") == []
        assert unsourced(text + f"\n<!-- source: no/such.py -->\n{line}\n") == [line]


def test_a_part_is_measured_once_for_the_same_code(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    runs = []
    part = results.Part(lambda: runs.append(1) or {"tables": [], "notes": []}, ("gplvm",))
    assert results.measure("group/one", part, False).endswith("s")
    assert results.measure("group/one", part, False) == "done before"
    assert results.measure("group/one", part, True).endswith("s")
    assert len(runs) == 2
    stored = json.loads((tmp_path / "group" / "one.json").read_text())
    assert (stored["version"], stored["command"]) == (__version__, "make results PART=group/one")
    monkeypatch.setattr(results, "code", lambda folders: "other")
    assert results.measure("group/one", part, False).endswith("s")
    absent = results.Part(results.script("latent_model.py", library="no_such_library"))
    assert results.measure("two", absent, False) == "skipped: no_such_library is not installed"
    assert not (tmp_path / "two.json").exists()


def test_what_a_script_prints_is_recorded(tmp_path):
    """The tables of rich, and the lines after the first."""
    (tmp_path / "one.py").write_text(
        "import sys\nfrom rich.console import Console\nfrom rich.table import Table\n"
        "table = Table('a', 'b', title='T')\ntable.add_row('x', sys.argv[1])\n"
        "console = Console()\nconsole.print('before')\nconsole.print(table)\nconsole.print('after')\n"
    )
    command = [sys.executable, results.__file__, "--record", tmp_path / "out.json", tmp_path / "one.py", "0.5"]
    subprocess.run(command, check=True, capture_output=True)
    found = json.loads((tmp_path / "out.json").read_text())
    assert found == {"tables": [{"title": "T", "columns": ["a", "b"], "rows": [["x", "0.5"]]}], "notes": ["after"]}


def test_parts_are_chosen_by_name_and_by_group():
    names = lambda *given: [name for name, _ in results.chosen(*given)]
    assert names(["demo", "calibration"], []) == ["demo", "calibration/shapes", "calibration/settings"]
    assert names(["scaling"], ["subset"]) == names(["scaling/subset"], []) == ["scaling/subset"]
    with pytest.raises(SystemExit, match="no part 'swiss'"):
        names(["swiss"], [])
