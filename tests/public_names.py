"""Every public name and its signature, one a line: what 1.x promises (docs/promises.md).

`python tests/public_names.py` writes them to public_names.txt, to be run when a name is added on purpose.
"""

import inspect
import re
from pathlib import Path
from pkgutil import resolve_name

ROOT = Path(__file__).parents[1]
STORED = Path(__file__).with_suffix(".txt")


def names():
    """The names in the reference, docs/api.md, as paths below `gpum`."""
    blocks = re.findall(
        r"```\{eval-rst\}\n\.\. autosummary::(.*?)```", (ROOT / "docs" / "api.md").read_text(), re.DOTALL
    )
    return sorted(
        {line.strip() for block in blocks for line in block.splitlines() if re.match(r" +[A-Za-z][\w.]*$", line)}
    )


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
        found.append(name if issubclass(thing, Exception) else f"{name}{signature(thing)}")
        for member in sorted(m for m in dir(thing) if not m.startswith("_") and _ours(thing, m)):
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
    """Whether a member is defined in this package, not in a library."""
    owner = next(cls for cls in thing.__mro__ if member in vars(cls))
    return owner.__module__.startswith("gpum")


if __name__ == "__main__":
    STORED.write_text("\n".join(lines()) + "\n")
