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
TEMPORARY_MODEL = "braid-model-"

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


def checked_ranks(ranks: Any, name: str = "ranks") -> int:
    if isinstance(ranks, bool) or not isinstance(ranks, int) or not 1 <= ranks <= 1024:
        raise Error(BAD_OPTION, f"{name}={ranks!r} is not a number of {'devices' if name == 'devices' else 'ranks'}", "pass a number from 1 to 1024")
    return ranks


def text(what: str, value: Any) -> str:
    """A string that can be told to the compiler. Errors: BR0003."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise Error(BAD_OPTION, f"{what} is {value!r}, not a string", f"pass {what} as a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Error(BAD_OPTION, f"{what} is {value!r}, which is not UTF-8", "use a name in UTF-8") from None
    if "\0" in value:
        raise Error(BAD_OPTION, f"{what} is {value!r}, which has a zero in it", "use a name without")
    return value


def texts(what: str, value: Any) -> list[str] | None:
    """One string or several. Errors: BR0003."""
    if value is None:
        return None
    return [text(what, one) for one in ([value] if isinstance(value, (str, os.PathLike)) or not isinstance(value, Sequence) else value)]


@contextlib.contextmanager
def model_file(model: Any) -> Iterator[str]:
    """The path of a model that is a path, bytes, or a message of the onnx package; errors name what was given."""
    if isinstance(model, (str, os.PathLike)):
        yield text("the model's path", model)
        return
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise Error(
            BAD_OPTION,
            f"a {type(model).__name__} is not a model",
            "pass a path, the bytes of an ONNX model, or an onnx.ModelProto",
        )
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_MODEL) as folder:
        path = pathlib.Path(folder, "model.onnx")
        path.write_bytes(model)
        try:
            yield str(path)
        except Error as error:
            message = error.message.replace(str(path), GIVEN_MODEL)
            raise Error(error.code, message, error.hint) from None


def mapping(what: str, value: Any) -> Mapping[Any, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise Error(BAD_OPTION, f"{what}={value!r} is not a dictionary", f"pass {what}={{name: value}}")
    return value or {}


def is_temporary(path: str) -> bool:
    return path.startswith(os.path.join(tempfile.gettempdir(), TEMPORARY_MODEL))


def options(
    path: str, ranks: int, dims: Mapping[str, Any] | None, target: str, **more: Any
) -> dict[str, Any]:
    """As the extension module reads them (python/options.cc)."""
    return {
        "model": path,
        "ranks": checked_ranks(ranks),
        "dims": [bounds(text("a dim", name), value) for name, value in mapping("dims", dims).items()],
        "target": text("target", target),
        # What a signal that ends the process removes.
        "temporary": [str(pathlib.Path(path).parent)] if is_temporary(path) else [],
        **{name: value for name, value in more.items() if value is not None},
    }
