"""What applications on top of the library use beside its public names: the app in `app` takes nothing else.

These names are for tools that read tables, report on fits or let people label rows. They may change in a minor version,
and the changelog says so. Each is imported on first use, so that commands start quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .basics.annotated import cell_advice, cell_columns
    from .basics.cells import MARKERS, are_words, as_number, could_be_number, is_date, is_missing, number_advice
    from .basics.checks import counted, option
    from .basics.encoding import Column, Columns, Encoding, TextColumns
    from .basics.extras import needs
    from .basics.formats import column, columns, number, percent, short
    from .basics.missing import fill_in
    from .basics.neighbours import nearest, spacing
    from .basics.progress import Reporter
    from .basics.workers import as_worker
    from .datasets.swiss_roll import swiss_roll_function, swiss_roll_points
    from .estimators import learned
    from .estimators.beliefs import Belief, Classes, Goal, Labels, Numbers, parse_number
    from .estimators.blocks import Sent
    from .estimators.features import by_column
    from .estimators.shell import check_rows
    from .estimators.unlabelled import split_labels
    from .geometry.candidate_set import NO_BOUNDARY
    from .geometry.graphs import bandwidth_grid, diffusion_space
    from .inference.decisions import CONTRADICTED, MORE
    from .inference.design import Suggestions, surplus
    from .manifold import evaluate, magnification, straighten, variance_boundary
    from .persistence.atomic import (
        check_writable,
        close_to_other_groups,
        existing,
        fcntl,
        mode_like,
        permissions,
        replacing,
    )

_HOMES = {
    "basics.annotated": "cell_advice cell_columns",
    "basics.cells": "MARKERS are_words as_number could_be_number is_date is_missing number_advice",
    "basics.checks": "counted option",
    "basics.encoding": "Column Columns Encoding TextColumns",
    "basics.extras": "needs",
    "basics.formats": "column columns number percent short",
    "basics.missing": "fill_in",
    "basics.neighbours": "nearest spacing",
    "basics.progress": "Reporter",
    "basics.workers": "as_worker",
    "datasets.swiss_roll": "swiss_roll_function swiss_roll_points",
    "estimators.beliefs": "Belief Classes Goal Labels Numbers parse_number",
    "estimators.blocks": "Sent",
    "estimators.features": "by_column",
    "estimators.shell": "check_rows",
    "estimators.unlabelled": "split_labels",
    "geometry.candidate_set": "NO_BOUNDARY",
    "geometry.graphs": "bandwidth_grid diffusion_space",
    "inference.decisions": "CONTRADICTED MORE",
    "inference.design": "Suggestions surplus",
    "manifold": "evaluate magnification straighten variance_boundary",
    "persistence.atomic": "check_writable close_to_other_groups existing fcntl mode_like permissions replacing",
}
__all__ = [
    "CONTRADICTED",
    "MARKERS",
    "MORE",
    "NO_BOUNDARY",
    "Belief",
    "Classes",
    "Column",
    "Columns",
    "Encoding",
    "Goal",
    "Labels",
    "Numbers",
    "Reporter",
    "Sent",
    "Suggestions",
    "TextColumns",
    "are_words",
    "as_number",
    "as_worker",
    "bandwidth_grid",
    "by_column",
    "cell_advice",
    "cell_columns",
    "check_rows",
    "check_writable",
    "close_to_other_groups",
    "column",
    "columns",
    "could_be_number",
    "counted",
    "diffusion_space",
    "evaluate",
    "existing",
    "fcntl",
    "fill_in",
    "is_date",
    "is_missing",
    "learned",
    "magnification",
    "mode_like",
    "nearest",
    "needs",
    "number",
    "number_advice",
    "option",
    "parse_number",
    "percent",
    "permissions",
    "replacing",
    "short",
    "spacing",
    "split_labels",
    "straighten",
    "surplus",
    "swiss_roll_function",
    "swiss_roll_points",
    "variance_boundary",
]


def __getattr__(name: str) -> Any:
    if name == "learned":
        return import_module("gpum.estimators.learned")
    home = next((home for home, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"gpum.{home}"), name)
