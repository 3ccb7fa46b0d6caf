"""Imports go one way: numerics know nothing of what stands above them."""

import ast
import re
from pathlib import Path

import gpum
from gpum import tools

ROOT = Path(gpum.__file__).parent
# From the bottom up, as in CONTRIBUTING.md; a module may import from its own line and those before it.
LAYERS = [
    ["basics"],
    ["persistence"],
    ["gplvm"],
    ["manifold"],
    ["heat"],
    ["geometry"],
    ["inference"],
    ["fitted"],
    ["estimators"],
    ["datasets"],
    ["plots"],
    ["tools"],
    ["app"],
    ["report"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Packages that only some parts may import.
ONLY_IN = {
    "matplotlib": {"plots", "app"},
    "plotly": {"app"},
    "contourpy": {"app"},
    "typer": {"app"},
    "rich": {"app", "basics"},
    "pandas": {"app"},
    "pyarrow": {"app"},
}
NUMERICS = {"gplvm", "manifold", "geometry", "heat", "inference", "fitted"}
ESTIMATORS = {"sklearn.base", "sklearn.pipeline", "sklearn.frozen", "sklearn.utils.estimator_checks"}


def imports(path):
    """Imported names: ('gpum', module) for our own, ('', dotted module) for others."""
    here = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (("", alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield "", node.module
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level]
            target = [*base, *(node.module.split(".") if node.module else [])]
            yield from ((("gpum", target[0]),) if target else (("gpum", a.name) for a in node.names))


def modules():
    """Every module but the package's own `__init__` and `__main__`, with the part of the package that it belongs to."""
    for path in ROOT.rglob("*.py"):
        if path not in (ROOT / "__init__.py", ROOT / "__main__.py"):
            yield path, path.relative_to(ROOT).with_suffix("").parts[0]


def test_imports_go_down():
    for path, own in modules():
        for kind, name in imports(path):
            if kind == "gpum" and name != "__version__":
                assert LEVEL[name] <= LEVEL[own], f"{path.name} imports {name}, which stands above it"


def taken(path):
    """What a module of the app takes from outside of the app, as (module, name), with the depth that `..` leads to."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "gpum")
        elif isinstance(node, ast.ImportFrom):
            inside = len(path.relative_to(ROOT / "app").parts)
            if node.level > inside:
                yield "." * node.level, node.names[0].name
            elif not node.level and node.module.split(".")[0] == "gpum":
                yield from ((node.module, alias.name) for alias in node.names)


def test_the_app_uses_public_names_only():
    """So that it could live in another repository: names of `gpum`, of its public modules, or of `gpum.tools`."""
    public = {"gpum": set(gpum.__all__) | {"report", "tools"}, "gpum.tools": set(tools.__all__)}
    public |= {f"gpum.{name}": set(getattr(gpum, name).__all__) for name in ("datasets", "plots")}
    paths = list((ROOT / "app").rglob("*.py"))
    assert len(paths) > 30
    for path in paths:
        for module, name in taken(path):
            assert name in public.get(module, ()), f"{path.relative_to(ROOT)} takes {name} from {module}"


def test_every_name_for_applications_exists_and_is_used():
    words = {word for path in (ROOT / "app").rglob("*.py") for word in re.findall(r"\w+", path.read_text())}
    for name in tools.__all__:
        assert getattr(tools, name) is not None or name == "fcntl"
        assert name in words, f"{name} of gpum.tools is not used by the app"


def test_packages_stay_in_their_part():
    for path, own in modules():
        for kind, name in imports(path):
            top = name.split(".")[0]
            if not kind and top in ONLY_IN:
                assert own in ONLY_IN[top], f"{path.name} imports {name}"


def test_numerics_know_nothing_of_estimators():
    for path, own in modules():
        if own in NUMERICS:
            for kind, name in imports(path):
                assert kind or name not in ESTIMATORS, f"{path.name} imports {name}"


UNPICKLERS = {"pickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal"}
RUN_CODE = {"joblib.load", "joblib.dump", "joblib.Memory", "eval", "exec"}
MAY_RUN_CODE = {"np.load", "np.save", "np.lib.format.write_array", "np.lib.format.read_array"}  # unless told not to


def runs_code_of_files(path):
    """What in a module may run code that a file holds: unpickling in its many forms, and `eval`."""
    for kind, name in imports(path):
        if not kind and name.split(".")[0] in UNPICKLERS:
            yield f"import {name}"
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "joblib":
            yield from (f"joblib.{alias.name}" for alias in node.names if f"joblib.{alias.name}" in RUN_CODE)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            plain = any(key.arg == "allow_pickle" and ast.unparse(key.value) == "False" for key in node.keywords)
            if called in RUN_CODE or called.endswith("_pickle") or (called in MAY_RUN_CODE and not plain):
                yield called


def test_nothing_stored_is_a_pickle():
    found = {path.relative_to(ROOT).as_posix(): list(runs_code_of_files(path)) for path in ROOT.rglob("*.py")}
    assert not {name: what for name, what in found.items() if what}


def test_every_module_has_a_layer_and_stays_short():
    for path, own in modules():
        assert own in LEVEL, f"{path.name} has no layer"
        assert len(path.read_text().splitlines()) <= 400, f"{path.name} is too long: split it"


def test_the_pipeline_shows_in_the_file_list():
    """At most 15 entries at the root, what Python itself wants there apart; no folder with one module."""
    entries = [path for path in ROOT.iterdir() if path.name not in ("__pycache__", "py.typed", "__main__.py")]
    assert len(entries) <= 15, sorted(path.name for path in entries)
    for folder in (path for path in entries if path.is_dir()):
        assert len([path for path in folder.rglob("*.py") if path.name != "__init__.py"]) > 1, folder.name


FOREIGN = {"os"}  # other libraries that are reached into
ENTRY = {"_command"}  # the command line, beside the package's version


def private_names(path):
    """Names with a leading underscore that a module reads of another."""
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    of_self = [
        n
        for n in nodes
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id in ("self", "cls")
    ]
    own |= {node.attr for node in of_self} | {node.id for node in nodes if isinstance(node, ast.Name)}
    own |= {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    private = lambda name: name.startswith("_") and not name.startswith("__") and name not in own | ENTRY
    for node in nodes:
        if isinstance(node, ast.Attribute) and private(node.attr) and getattr(node.value, "id", "") not in FOREIGN:
            yield ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and node.level:
            yield from (alias.name for alias in node.names if alias.name.startswith("_") and private(alias.name))


def test_private_names_stay_private():
    """Only estimators and the fitted model know each other's inside."""
    for path, own in modules():
        if own not in ("estimators", "fitted"):
            assert not list(private_names(path)), path.name


def test_the_files_that_contributing_names_exist():
    text = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
    named = set(re.findall(rf"\b(?:{'|'.join(LEVEL)})/[a-z_/]+\.py", text))
    assert len(named) > 30
    assert not [name for name in named if not (ROOT / name).exists()]
