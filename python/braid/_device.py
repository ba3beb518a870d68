"""Where sessions of CUDA programs run."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from . import _braid
from ._errors import Error
from ._options import BAD_OPTION

if TYPE_CHECKING:
    from ._program import Program


def chosen(program: Program, device: str | None, stacklevel: int) -> str:
    """The device of a session; "" for programs that have none. Warns if it is the emulated one and nobody
    asked for it."""
    if device is not None and not isinstance(device, str):
        raise Error(BAD_OPTION, f"device={device!r} is not a device", "write 'gpu', 'gpu:N' or 'emulated'")
    if program.target != "cuda" or device is not None:
        return device or ""
    found, why = _braid.default_device()
    if found == "emulated":
        warnings.warn(
            f"{why}: the program runs on the emulated device, which checks all accesses and is slow; "
            "device='emulated' says so without this warning",
            stacklevel=stacklevel + 1,
        )
    return found
