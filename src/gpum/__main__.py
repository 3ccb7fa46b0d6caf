"""`python -m gpum` is the command `gpum`."""

from . import _command

_command()
