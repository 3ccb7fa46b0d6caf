"""Docstrings of this library as reStructuredText, and members that scikit-learn wrote left out.

In a docstring `name` is code, an entry of a section is

    name, other name : one or more lines of text

(names may run on to the next line), and an indented block is an equation or code. Nothing else is markup.
"""

import re

RULE = re.compile(r"-{3,}$")
ENTRY = re.compile(r"(\S.*?) : (.*)")


def to_rst(lines):
    """The lines of a docstring as lines of reStructuredText."""
    lines, found, entries, k = list(lines), [], False, 0
    while k < len(lines):
        line = lines[k]
        if k + 1 < len(lines) and RULE.match(lines[k + 1].strip()) and line.strip():
            entries = line.strip() != "Returns"
            found += ["", f".. rubric:: {line.strip()}", ""]
            k += 2
        elif entries and line.endswith(",") and ":" not in line:
            lines[k + 1] = f"{line} {lines[k + 1].strip()}"
            k += 1
        elif entries and (entry := ENTRY.match(line)):
            text = [entry[2]]
            while k + 1 < len(lines) and lines[k + 1].startswith(" "):
                k += 1
                text.append(lines[k].strip())
            for part in re.split(r"; (?=\w+ : )", f"{entry[1]} : {' '.join(text)}"):
                name, _, said = part.partition(" : ")
                found.append(f"- ``{name}``: {_escaped(said)}")
            k += 1
        elif line.startswith("    ") and not (found and found[-1].strip()):
            found += ["::", ""]
            while k < len(lines) and (lines[k].startswith("    ") or not lines[k].strip()):
                found.append(lines[k])
                k += 1
        else:
            found.append(_escaped(line))
            k += 1
    return found


def _escaped(text):
    parts = text.split("`")  # code is every other part
    for k, part in enumerate(parts):
        if k % 2 == 0:
            parts[k] = re.sub(r"([\\*|_])", r"\\\1", part)
        else:
            parts[k] = f":py:obj:`{part}`" if re.fullmatch(r"[A-Za-z][\w.]*", part) else f"``{part}``"
    return "".join(parts)


def _process(app, what, name, obj, options, lines):
    lines[:] = to_rst(lines)


def _skip(app, what, name, obj, skip, options):
    function = getattr(obj, "fget", None) or obj
    return True if str(getattr(function, "__module__", "")).startswith("sklearn") else None


def setup(app):
    """Listen to autodoc."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
