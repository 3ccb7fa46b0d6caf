"""Write the figures of results/*.json into the pages, between `<!-- results: NAME -->` and `<!-- end -->`.

NAME is that of a file, whose tables, notes and origin are then shown, or one of BLOCKS below, which has a form of its
own. `python benchmarks/results.py --pages` calls `write`; tests/test_results.py compares the pages with the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- results: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
PICTURE = "docs/_static/how_good.svg"
TASKS = {  # in the order of the page
    "swissroll_250": "Swiss roll, 250 points",
    "swissroll_450": "Swiss roll, 450 points",
    "swissroll_800": "Swiss roll, 800 points",
    "wifi36_x": "WiFi along a walk: east to west",
    "wifi36_y": "WiFi along a walk: north to south",
    "coil_cat": "pictures of a toy cat: its angle",
    "mnist_rot3": "pictures of a turned 3: its angle",
    "sphere": "sphere in R¹⁰",
    "flat_torus": "flat torus in R¹⁰",
    "pancake": "full box in R¹⁰",
    "roll_3d": "solid roll in R⁴",
    "table_airfoil": "noise of aerofoils (UCI)",
    "table_concrete": "strength of concrete (UCI)",
    "table_energy": "heating load of buildings (UCI)",
    "table_housing": "prices of houses in Boston",
    "table_kin40k": "a robot's arm (kin40k)",
    "table_pol": "telecommunication (pol)",
    "table_wine": "quality of red wine (UCI)",
}
OURS = "**GPUM**"


def stored(root: Path, name: str) -> Any:
    """The content of a file of results; None where it was not measured."""
    path = root / "results" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in (columns, ["---"] * len(columns), *rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def origin(found: Any) -> str:
    """Where the figures of a file come from."""
    machine = found["machine"]
    device = "" if machine["jax"] == "cpu" else f" and a {machine['jax'].upper()}"
    where = f"{machine['cores']} cores{device}, Python {machine['python']}"
    return f"*GPUM {found['version']}, {found['date']}, {where}: `{found['command']}`.*"


def unmeasured(name: str) -> str:
    """The text of a block without a file."""
    return f"*Not measured with this version yet: `make results PART={name}`.*"


def plain(root: Path, name: str) -> str:
    """All tables of a file, with titles, notes and origin."""
    found = stored(root, name)
    if found is None:
        return unmeasured(name)
    shown = []
    for one in found["tables"]:
        shown += [f"**{one['title']}**"] if one["title"] else []
        shown.append(table(one["columns"], [[re.sub(r"^(.*) !$", r"**\1**", c) for c in r] for r in one["rows"]]))
    shown += ["\n".join(f"- {note.strip()}" for note in found["notes"])] if found["notes"] else []
    return "\n\n".join([*shown, origin(found)])


def demo(root: Path, _: str) -> str:
    """README's table, without seconds."""
    names = {
        "GPUM": "GPUM, which sees the points only",
        "exact heat kernel": "GP with the exact heat kernel of the roll",
    }
    names["GP in R³"] = "GP in R³, which does not use the surface"
    if (found := stored(root, "demo")) is None:
        return unmeasured("demo")
    rows = [[names[row[0]], *row[1:3]] for row in found["tables"][0]["rows"]]
    return table(("method", "RMSE", "in 95 % interval"), rows)


# --- how good is it? --------------------------------------------------------------------------------------------------


def scores(root: Path) -> dict[str, dict[str, dict[str, float]]]:
    """{task: {method: figures}} of the regression tasks that were measured, ours first; tables in units of the sd."""
    peers, all_scores = stored(root, "peers")["regression"], {}
    for name in TASKS:
        if (found := stored(root, f"tasks/{name}")) is None:
            continue
        figures = in_units(name, found)
        ours = {key: float(np.mean(values)) for key, values in figures.items()}
        all_scores[name] = {OURS: {**ours, "rmse_sd": float(np.std(figures["rmse"]))}, **peers[name]}
    return all_scores


def in_units(name: str, found: Any) -> dict[str, np.ndarray]:
    """The figures of a regression task; those of tables in units of the target's standard deviation."""
    figures = {key: np.array(values) for key, values in found["figures"].items()}
    if name.startswith("table_"):
        figures |= {"rmse": figures["rmse"] / found["sd"], "nlpd": figures["nlpd"] - np.log(found["sd"])}
    return figures


def _number(value: float | None, sd: float | None = None) -> str:
    if value is None:
        return ""
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return (text if sd is None else f"{text} ± {sd:.2g}").replace("-", "−")


def wins(root: Path, _: str) -> str:
    """For every task our figures, our rank, and the best peer."""
    all_scores, rows, first = scores(root), [], {"rmse": 0, "nlpd": 0}
    for name, by_method in all_scores.items():
        ours, row = by_method[OURS], [TASKS[name]]
        for key in ("rmse", "nlpd"):
            others = {m: f[key] for m, f in by_method.items() if key in f and m != OURS}
            best = min(others, key=lambda m: others[m])
            rank = 1 + sum(value < ours[key] for value in others.values())
            first[key] += rank == 1
            mine = _number(ours[key], ours["rmse_sd"] if key == "rmse" else None)
            row += [
                f"**{mine}**" if rank == 1 else mine,
                f"{rank} of {len(others) + 1}",
                f"{_number(others[best])} ({best})",
            ]
        rows.append([*row, f"{100 * ours['coverage']:.0f}"])
    missing = [name for name in TASKS if name not in all_scores]
    text = (
        f"GPUM has the smallest RMSE on {first['rmse']} of {len(rows)} tasks and the smallest NLPD on {first['nlpd']}."
        if rows
        else unmeasured("tasks")
    )
    if rows and missing:
        text += f" Not measured with this version yet: {', '.join(missing)}."
    columns = ("task", "RMSE", "rank", "best peer", "NLPD", "rank", "best peer", "in 95 %")
    return "\n\n".join([text, *([table(columns, rows)] if rows else []), *_origin_of_tasks(root)])


def every_peer(root: Path, _: str) -> str:
    """All methods on all tasks, one row each."""
    rows = []
    for name, by_method in scores(root).items():
        for method, f in sorted(by_method.items(), key=lambda one: one[1]["rmse"]):
            ratio = f["rmse"] / by_method[OURS]["rmse"]
            covered = f"{100 * f['coverage']:.0f}" if "coverage" in f else ""
            rmse = _number(f["rmse"], f.get("rmse_sd"))
            rows.append(
                [TASKS[name], method, rmse, "" if method == OURS else f"{ratio:.2f}", _number(f.get("nlpd")), covered]
            )
    columns = ("task", "method", "RMSE", "over ours", "NLPD", "in 95 %")
    return table(columns, rows) if rows else unmeasured("tasks")


def seeds(root: Path, _: str) -> str:
    """For every task the mean figures over seeds, and their standard deviation from seed to seed."""
    rows, newest = [], None
    for name, title in TASKS.items():
        if (found := stored(root, f"seeds/{name}")) is None:
            continue
        newest, figures = found, in_units(name, found)
        both = (figures[key] for key in ("rmse", "nlpd"))
        rows.append([title, *(_number(float(v.mean()), float(v.std(ddof=1).round(9))) for v in both)])
    if newest is None:
        return unmeasured("seeds")
    return "\n\n".join([table(("task", "RMSE", "NLPD"), rows), origin(newest | {"command": "make results PART=seeds"})])


def digits(root: Path, _: str) -> str:
    """Classes: ours and every peer."""
    peers, names = stored(root, "peers")["classes"], ("digits_1_class", "digits_5_class")
    found = {name: stored(root, f"tasks/{name}") for name in names}
    if None in found.values():
        return unmeasured("tasks")
    ours = {name: {k: float(np.mean(v)) for k, v in found[name]["figures"].items()} for name in names}
    rows = []
    for method in ("`GPUMClassifier`", *peers[names[0]]):
        row = [method]
        for name in names:
            f = peers[name].get(method, ours[name])
            row.append(f"{f['accuracy']:.3f}" + (f"; {f['log_loss']:.3g} ({f['ece']:.2f})" if "log_loss" in f else ""))
        rows.append(row)
    return "\n\n".join([table(("", "one label a class", "five"), rows), *_origin_of_tasks(root)])


def large(root: Path, _: str) -> str:
    """Whole clouds of pictures: the means over label sets, ours and every peer."""
    peers, found = stored(root, "peers"), stored(root, "scaling/pictures")
    if found is None:
        return unmeasured("scaling/pictures")
    classes, angles = (one["rows"] for one in found["tables"])
    shown = [["MNIST, accuracy", f"{n} a class", *_large_classes(classes, n, peers)] for n in ("1", "5")]
    for n, rmse, nlpd, *_ in angles:
        others = [f"{name} {f['rmse']:g}; {f['nlpd']:g}" for name, f in peers["rotated"][n].items()]
        shown.append(["turned 3s and 4s, RMSE; NLPD", n, f"{float(rmse):.3g}; {float(nlpd):.3g}", ", ".join(others)])
    return "\n\n".join([table(("cloud", "labels", "GPUM", "others"), shown), origin(found)])


def _large_classes(rows: list[list[str]], n: str, peers: Any) -> tuple[str, str]:
    ours = np.mean([float(row[2]) for row in rows if row[0] == n])
    return f"{ours:.3f}", ", ".join(f"{name} {np.mean(sets):.3f}" for name, sets in peers["mnist_accuracy"][n].items())


def _origin_of_tasks(root: Path) -> list[str]:
    dates = [json.loads(path.read_text()) for path in sorted((root / "results" / "tasks").glob("*.json"))]
    newest = max(dates, key=lambda one: one["date"], default=None)
    return [origin(newest | {"command": "make results PART=tasks"})] if newest else []


def digest(root: Path) -> str:
    """A digest of what the picture shows."""
    shown = {TASKS[name]: by_method for name, by_method in scores(root).items()}
    return sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


def draw(root: Path) -> None:
    """Every method's RMSE over ours, and the coverage of its intervals, as an SVG that names the digest of its data."""
    import matplotlib.pyplot as plt

    all_scores = scores(root)
    names = list(all_scores)[::-1]
    kinds = {"GL-GP": "#000000", "graph": "#56B4E9", "GPy": "#A6611A", "IMGP": "#CC79A7", "forest": "#E69F00"}
    kinds |= {"neighbours": "#E69F00", "mean": "#999999", "GP": "#009E73"}
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gpum", "font.size": 9, "font.family": "sans-serif"}):
        fig, (error, inside) = plt.subplots(
            1, 2, figsize=(8, 0.26 * len(names) + 1.6), sharey=True, layout="constrained"
        )
        for at, name in enumerate(names):
            ours = all_scores[name][OURS]
            for method, f in all_scores[name].items():
                if method == OURS:
                    continue
                colour = next((c for kind, c in kinds.items() if kind in method), "#009E73")
                error.plot(f["rmse"] / ours["rmse"], at, "o", color=colour, ms=4, alpha=0.8)
                if "coverage" in f:
                    inside.plot(100 * f["coverage"], at, "o", color=colour, ms=4, alpha=0.8)
            error.plot(1, at, "D", color="#D55E00", ms=6)
            inside.plot(100 * ours["coverage"], at, "D", color="#D55E00", ms=6)
        labels = {"GPUM": "#D55E00", "GP": "#009E73", "GP in the latent space": "#A6611A", "graph Matérn": "#56B4E9"}
        labels |= {
            "GL-GP": "#000000",
            "IMGP": "#CC79A7",
            "forest, neighbours": "#E69F00",
            "mean of the labels": "#999999",
        }
        for label, colour in labels.items():
            error.plot([], [], "D" if label == "GPUM" else "o", color=colour, ms=5, label=label)
        error.axvline(1, color="0.6", lw=0.8, zorder=0)
        inside.axvline(95, color="0.6", lw=0.8, zorder=0)
        error.set(xscale="log", xlabel="RMSE over that of GPUM (right: ours is less)", yticks=range(len(names)))
        ticks = [0.7, 1, 2, 5, 10, 20]
        error.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        error.minorticks_off()
        error.set_yticklabels([TASKS[name] for name in names])
        inside.set(xlabel="per cent of the values in 95 % intervals")
        fig.legend(loc="outside lower center", ncols=4, frameon=False)
        about = {"Date": None, "Description": f"data {digest(root)}"}
        fig.savefig(root / PICTURE, metadata=about)
        plt.close(fig)


BLOCKS: dict[str, Callable[[Path, str], str]] = {
    "demo": demo,
    "how_good/wins": wins,
    "how_good/every_peer": every_peer,
    "how_good/digits": digits,
    "how_good/seeds": seeds,
    "how_good/large": large,
}


# --- pages ------------------------------------------------------------------------------------------------------------


def pages(root: Path) -> list[Path]:
    """The pages that may have blocks."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def filled(root: Path, text: str) -> str:
    """A page with the content that its blocks should have."""
    return BLOCK.sub(lambda m: f"{m[1]}\n{BLOCKS.get(m[2], plain)(root, m[2])}\n\n{m[3]}", text)


def write(root: Path = ROOT) -> list[str]:
    """Bring all blocks, and the picture, up to date; returns the names of what was written."""
    written = []
    for page in pages(root):
        text = page.read_text()
        if (new := filled(root, text)) != text:
            page.write_text(new)
            written.append(page.name)
    picture = root / PICTURE
    if scores(root) and not (picture.exists() and digest(root) in picture.read_text()):
        draw(root)
        written.append(picture.name)
    return written
