"""Everything on the disk: `atomic` (files written completely or not at all), `model_io` (the model file), `tables`."""

from .atomic import check_writable, existing, replacing

__all__ = ["check_writable", "existing", "replacing"]
