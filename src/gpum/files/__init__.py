"""What touches the disk: `whole` (files that appear whole or not at all), `model_io` (the model file), `tables`."""

from .whole import check_writable, existing, replacing

__all__ = ["check_writable", "existing", "replacing"]
