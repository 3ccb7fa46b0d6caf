"""Tables of results, written as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpum.tools import replacing

from .methods import METHODS
from .splits import Records
from .tasks import Task


@dataclass(frozen=True)
class ResultTable:
    """A title, named columns and rows of text; `values` has the same numbers unformatted."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    values: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [
            f"**{self.title}**", "", "| " + " | ".join(self.columns) + " |",
            "|" + "---|" + "---:|" * (len(self.columns) - 1),
        ]  # fmt: skip
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join([*lines, "", *self.notes])


def regression_table(task: Task, records: Records) -> ResultTable:
    """RMSE in print and ours, mean (sd) over label sets; NLPD, coverage and seconds of ours."""
    n = len(task.splits)
    means = {key: records.values(key, "rmse", n).mean() for key in METHODS}
    best = min(means, key=means.__getitem__)
    rows, values, said = [], [], set()
    for key, method in METHODS.items():
        rmse, nlpd, coverage, seconds = (records.values(key, k, n) for k in ("rmse", "nlpd", "coverage", "seconds"))
        mean, sd = task.printed[method.printed]
        mark = "*" if key == best else ""
        name = method.name(task.X.shape[1])
        rows.append(
            (name, f"{mean:.3g} ({sd:.2g})", f"{rmse.mean():.3g} ({rmse.std():.2g}){mark}", f"{nlpd.mean():.3g}",
             f"{coverage.mean():.0%}", f"{seconds.max():.1f}")
        )  # fmt: skip
        values.append(
            {"task": task.key, "method": key, "name": name, "paper_rmse": mean, "paper_sd": sd,
             "rmse": float(rmse.mean()), "rmse_sd": float(rmse.std()), "rmse_se": float(rmse.std() / np.sqrt(n)),
             "nlpd": float(nlpd.mean()), "coverage": float(coverage.mean()), "first_seconds": float(seconds.max()),
             "seconds": float(np.median(seconds)), "splits": n}
        )  # fmt: skip
        said |= {f"{key}: {w}" for k in range(n) for w in records.methods[key][str(k)]["warnings"]}
    columns = ("method", "in print", "ours", "NLPD", "in 95 %", "first fit, s")
    return ResultTable(f"{task.title}: RMSE, mean (sd) over {n} label sets", columns, rows, values, _counted(len(said)))


def _counted(n: int) -> list[str]:
    return [f"Warnings of {n} kinds were raised; results.json has them."] if n else []


def warnings_of(records: Records) -> dict[str, list[str]]:
    """All warnings of the methods."""
    return {
        key: sorted({w for found in splits.values() for w in found["warnings"]})
        for key, splits in records.methods.items()
    }


def write(tables: Sequence[ResultTable], folder: Path, about: dict[str, Any]) -> list[Path]:
    """Results as results.md, results.csv and results.json in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row for table in tables for row in table.values]
    listed = io.StringIO()
    writer = csv.DictWriter(listed, sorted({k for row in rows for k in row}))
    writer.writeheader()
    writer.writerows(rows)
    texts = {
        "md": "\n\n".join(table.markdown() for table in tables) + "\n",
        "csv": listed.getvalue(),
        "json": json.dumps({"about": about, "results": rows}, indent=1) + "\n",
    }
    made = []
    for kind, text in texts.items():
        made.append(folder / f"results.{kind}")
        with replacing(made[-1]) as file:
            file.write(text.encode())
    return made
