"""What a further label is wanted for: information, a maximum, a minimum, or where the function crosses a level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..basics import checks
from ..basics.checks import GpumError
from . import design
from .outputs import Angle, ClassOutput, CountOutput


def criterion_of(outputs: Sequence[Any], criterion: str, goal: Any, level: Any) -> str:
    """The criterion of `design` for a goal, which must suit the outputs."""
    checks.option(goal, "goal", design.GOALS)
    if goal != "level" and level is not None:
        raise GpumError(f"level is {checks.shown(level)}, but goal is {goal!r}; use goal='level', or leave level out")
    if goal == "information":
        return criterion
    if criterion != "variance":
        raise GpumError(f"criterion is {criterion!r}, but goal is {goal!r}; a criterion is for goal='information'")
    if len(outputs) > 1:
        raise GpumError(f"goal is {goal!r}, but y has {len(outputs)} columns; fit the column whose {goal} you want")
    for kind, said in ((ClassOutput, "y is classes"), (Angle, "y is angles")):
        if isinstance(outputs[0], kind):
            raise GpumError(f"goal is {goal!r}, but {said}; use goal='information'")
    if goal != "level":
        return str(goal)
    if isinstance(outputs[0], CountOutput):
        raise GpumError("goal is 'level', but y is counts; use goal='maximum', 'minimum' or 'information'")
    if level is None or isinstance(level, bool) or not _is_number(level):
        raise GpumError(f"goal is 'level', and level is {checks.shown(level)}; give the number that y shall cross")
    return "variance"


def _is_number(value: Any) -> bool:
    try:
        return abs(float(value)) < float("inf")
    except (TypeError, ValueError):
        return False
