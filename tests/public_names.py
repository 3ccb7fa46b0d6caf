"""Every public name and its signature, one a line: what 1.x promises (docs/promises.md).

`python tests/public_names.py` writes them to public_names.txt, to be run when a name is added on purpose.
"""

import inspect
import re
from pathlib import Path
from pkgutil import resolve_name

import gpum

ROOT = Path(__file__).parents[1]
STORED = Path(__file__).with_suffix(".txt")
# Members without an underscore that other modules of the library need and users do not: no promise covers them.
EXCLUDED = {
    # The domain of a chart as a simplicial complex: finite elements and jump processes use it.
    *(f"{chart}.complex" for chart in ("Chart", "EmbeddedChart", "LearnedChart", "SwissRoll")),
    # Labelled rows in all spaces, and what the prior of classes depends on: the labelling page uses both.
    *(f"fitted.Geometries.{member}" for member in ("labelled", "effective_dimensions")),
}
# Properties that are now fields without a default: every object has them, and `dir` of the class does not.
FIELDS = {"spectral.Eigenpairs": {"surface"}}


def names():
    """The names in the reference, docs/api.md, as paths below `gpum`."""
    page = (ROOT / "docs" / "api.md").read_text()
    blocks = re.findall(r"```\{eval-rst\}\n\.\. autosummary::(.*?)```", page, re.DOTALL)
    return sorted({name for block in blocks for name in re.findall(r"^ +([A-Za-z][\w.]*)$", block, re.MULTILINE)})


def signature(thing):
    """Its parameters and their defaults, without annotations."""
    found = inspect.signature(thing)
    plain = [p.replace(annotation=p.empty) for p in found.parameters.values() if p.name != "self"]
    return str(found.replace(parameters=plain, return_annotation=found.empty))


def lines():
    """One line for each function, class, method and attribute."""
    found = []
    for name in names():
        thing = resolve_name(f"gpum.{name}")
        if not inspect.isclass(thing):
            found.append(f"{name}{signature(thing)}")
            continue
        by_users = name in gpum.__all__ and name != "LearnedChart" and not issubclass(thing, Exception)
        found.append(f"{name}{signature(thing)}" if by_users else name)
        kept = FIELDS.get(name, set()) & set(getattr(thing, "__dataclass_fields__", ()))
        found += [f"{name}.{field}" for field in kept]
        members = [m for m in dir(thing) if not m.startswith("_") and f"{name}.{m}" not in EXCLUDED]
        for member in sorted(m for m in members if _ours(thing, m)):
            value = inspect.getattr_static(thing, member)
            if isinstance(value, staticmethod | classmethod):
                value = value.__func__
            called = callable(value) and not isinstance(value, type)
            found.append(f"{name}.{member}{signature(value) if called else ''}")
        said = inspect.getdoc(thing) or ""
        for line in re.findall(r"^([a-z_, ]+_) : ", said.partition("Attributes")[2], re.MULTILINE):
            found += [f"{name}.{attribute.strip()}" for attribute in line.split(",")]
    return sorted(set(found))


def _ours(thing, member):
    """Whether a member is defined in this package, not in a library, and still there."""
    owner = next(cls for cls in thing.__mro__ if member in vars(cls))
    removed = (getattr(vars(owner)[member], "__doc__", None) or "").startswith("Removed:")
    return (
        owner.__module__.startswith("gpum") and not removed and not re.fullmatch(r"set_\w+_request|set_params", member)
    )


if __name__ == "__main__":
    STORED.write_text("\n".join(lines()) + "\n")
