"""Imports go one way: numerics know nothing of what stands above them."""

import ast
from pathlib import Path

import gpum

ROOT = Path(gpum.__file__).parent
# From the bottom up; a module may import from its own line and those before it.
LAYERS = [
    ["precision", "checks", "files"],
    ["model_io"],
    ["gplvm"],
    ["geometry"],
    ["brownian", "mesh"],
    ["spectral", "paths"],
    ["heat"],
    ["histograms", "covariances", "reuse", "progress"],
    ["gp", "graphs"],
    ["spaces"],
    ["latent_base", "regression"],
    ["latent_models"],
    ["estimators", "baselines"],
    ["diagnostics"],
    ["datasets", "tables", "plots"],
    ["findings"],
    ["report", "reproduce"],
    ["cli"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
ONE_FILE_ONLY = {
    "matplotlib": {"plots", "reproduce", "cli"},
    "plotly": {"report"},
    "typer": {"cli"},
    "rich": {"cli", "progress"},
}
NUMERICS = {"precision", "gplvm", "geometry"}


def imports(path):
    """Imported names: ('gpum', module) for our own, ('', top-level package) for others."""
    here = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (("", alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield "", node.module.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level]
            target = [*base, *(node.module.split(".") if node.module else [])]
            yield from ((("gpum", target[0]),) if target else (("gpum", a.name) for a in node.names))


def modules():
    return [p for p in ROOT.rglob("*.py") if p.name != "__init__.py" or p.parent != ROOT]


def test_imports_go_down():
    for path in modules():
        own = path.relative_to(ROOT).with_suffix("").parts[0]
        for kind, name in imports(path):
            if kind == "gpum" and name in LEVEL:
                assert LEVEL[name] <= LEVEL[own], f"{path.name} imports {name}, which stands above it"


def test_heavy_packages_stay_in_their_file():
    for path in modules():
        own = path.relative_to(ROOT).with_suffix("").parts[0]
        for kind, name in imports(path):
            if not kind and name in ONE_FILE_ONLY:
                assert own in ONE_FILE_ONLY[name], f"{path.name} imports {name}"


def test_every_module_has_a_layer_and_stays_short():
    for path in modules():
        assert path.relative_to(ROOT).with_suffix("").parts[0] in LEVEL, f"{path.name} has no layer"
        assert len(path.read_text().splitlines()) <= 400, f"{path.name} is too long: split it"
