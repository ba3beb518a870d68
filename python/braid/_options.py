"""The options that compile, explain and check share."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._errors import Error

BAD_OPTION = 3
GIVEN_MODEL = "the given model"

Bounds = "int | tuple[int, int] | str | range"


def bounds(name: str, value: Any) -> tuple[str, int, int]:
    """8, (1, 8), range(1, 9) or "1..8" as (name, 1, 8)."""
    low: Any
    high: Any
    if isinstance(value, str):
        low, dots, high = value.partition("..")
        high = high if dots else low
    elif isinstance(value, range):
        low, high = value.start, value.stop - 1
    elif isinstance(value, Sequence) and len(value) == 2:
        low, high = value
    else:
        low = high = value
    try:
        ends = (int(low), int(high))
        if ends[0] < 0 or isinstance(low, float) or isinstance(high, float):
            raise ValueError
    except (TypeError, ValueError):
        raise Error(
            BAD_OPTION,
            f"dims={{'{name}': {value!r}}}: malformed",
            "write a size, (MIN, MAX) or 'MIN..MAX', with sizes of at least 0",
        ) from None
    return (name, *ends)


def checked_ranks(ranks: Any) -> int:
    if isinstance(ranks, bool) or not isinstance(ranks, int) or not 1 <= ranks <= 1024:
        raise Error(BAD_OPTION, f"ranks={ranks!r} is not a number of ranks", "pass a number from 1 to 1024")
    return ranks


@contextlib.contextmanager
def model_file(model: Any) -> Iterator[str]:
    """The path of a model that is a path, bytes, or a message of the onnx package; errors name what was given."""
    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model)
        return
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise Error(
            BAD_OPTION,
            f"a {type(model).__name__} is not a model",
            "pass a path, the bytes of an ONNX model, or an onnx.ModelProto",
        )
    with tempfile.TemporaryDirectory(prefix="braid-") as folder:
        path = pathlib.Path(folder, "model.onnx")
        path.write_bytes(model)
        try:
            yield str(path)
        except Error as error:
            message = error.message.replace(str(path), GIVEN_MODEL)
            raise Error(error.code, message, error.hint) from None


def options(
    path: str, ranks: int, dims: Mapping[str, Any] | None, target: str, **more: Any
) -> dict[str, Any]:
    """As the extension module reads them (python/options.cc)."""
    return {
        "model": path,
        "ranks": checked_ranks(ranks),
        "dims": [bounds(name, value) for name, value in (dims or {}).items()],
        "target": target,
        **{name: value for name, value in more.items() if value is not None},
    }
