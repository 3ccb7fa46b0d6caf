"""The oldest version of each dependency that pyproject.toml admits, as constraints for pip (`make test-oldest`)."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def oldest():
    """Lines `name==version`, of the package and of its optional parts that the tests use."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *extras["app"], *extras["plots"]]
    return [re.sub(r">=", "==", requirement) for requirement in listed if not requirement.startswith("gpum")]


if __name__ == "__main__":
    print("\n".join(oldest()))
