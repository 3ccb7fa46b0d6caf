"""`gpum info`: describe a model file, or this installation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpum import GpumError
from gpum.tools import counted

from .messages import as_options, brief, duration, listed, size, the, weighed
from .models import Debug
from .system import system as of_system

NO_MAP = "none: no chart has weight"


def info(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="File of `gpum fit` or of `model.save`.")
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="Describe this installation instead: versions, devices, threads.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Describe a model file, or with --system this installation (for bug reports).

    Examples:

    `gpum info model.gpum`

    `gpum info --system`
    """
    if system == (model is not None):
        raise GpumError("gpum info takes either a model file or --system, and not both; see gpum info --help")
    _show(of_system() if model is None else _of_model(model))


def _of_model(model: Path) -> list[tuple[str, str]]:
    """What is in a model file: names and values."""
    from gpum import model_io

    found = model_io.summary(model)
    settings, about, targets = (found.get(key, {}) for key in ("settings", "about", "targets"))
    chosen = ("geometry", "latent_dim", "scale", "kernel", "smoothness", "hyperparameters", "random_state")
    names = found.get("names") or (["y"] if len(targets) == 1 else [f"y_{k + 1}" for k in range(len(targets))])
    features = found.get("features")
    lines = [
        ("file", f"{model} ({size(model)}), gpum {found.get('version')}" + _after(", ", about.get("date"))),
        ("holds", str(found.get("kind"))),
        ("fitted to", f"{about['source']} in {duration(about['seconds'])}" if "seconds" in about else "arrays"),
        ("rows", f"{found.get('rows')}" + _after(", named by ", about.get("index"))),
        ("features", f"{len(features)}: {listed(features)}" if features else f"{found.get('n_features')}, no names"),
        ("map", f"{found['map']} ({settings['latent_model']})" if found.get("map") else NO_MAP),
        ("settings", ", ".join(f"{name} {settings[name]}" for name in chosen if name in settings)),
    ]
    if found.get("columns"):
        lines.append(("columns", found["columns"]))
    for name, target in zip(names, targets, strict=True):
        best = target["best"]
        level = f", boundary level {brief(best['level'])}" if "level" in best else ""
        level = ", no boundary" if best.get("level") == "none" else level
        span = f" from {target['range'][0]:.4g} to {target['range'][1]:.4g}" if "range" in target else ""
        if "classes" in target:
            span = " of " + listed([f"{name} ({n})" for name, n in target["classes"]])
        lines += [
            (f"target {name}", f"{counted(target['labels'], 'label')}{span}"),
            ("", f"geometry: {weighed(target['geometry'])}"),
            ("", f"log evidence {target['log_evidence']:.4g}"),
            ("", f"heaviest setting: {best['smoothness']}, scale {best['scale']:.3g}{level}, on {the(target['on'])}"),
        ]
    lines += [("warning", as_options(text)) for text in about.get("warnings", [])]
    lines += [("note", as_options(text)) for text in found.get("notes", [])]
    return lines


def _show(lines: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        typer.echo(f"{name:{width}}  {text}")


def _after(joint: str, text: str | None) -> str:
    return f"{joint}{text}" if text else ""
