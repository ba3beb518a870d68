"""The options that compile, explain and check share."""

from __future__ import annotations

import contextlib
import inspect
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from . import _braid
from ._errors import Error

BAD_OPTION = 3
GIVEN_MODEL = "the given model"
TEMPORARY_MODEL = "braid-model-"

Function = TypeVar("Function", bound=Callable[..., Any])


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


def texts(what: str, value: Any) -> list[str]:
    """One string or several. Errors: BR0003."""
    single = isinstance(value, (str, bytes, os.PathLike)) or not isinstance(value, Iterable)
    return [text(what, one) for one in ([value] if single else value)]


@contextlib.contextmanager
def model_file(model: Any) -> Iterator[str]:
    """The path of a model that is a path, bytes, or a message of the onnx package; errors name what was
    given."""
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


class Keyword(NamedTuple):
    """An option of compiling. kind: of its values; "texts" are one string or several. default: None, it is
    not given."""

    name: str
    kind: str
    default: Any
    help: str
    least: float
    most: float
    choices: str
    of_programs: bool  # only for compile: what is written

    def is_default(self, value: Any) -> bool:
        none = value is None or (isinstance(value, (list, tuple)) and not value)
        return none or (type(value) is type(self.default) and value == self.default)

    def checked(self, value: Any) -> Any:
        """The value as the extension module takes it, which checks the types that this does not. Errors:
        BR0003."""
        if self.kind == "texts":
            return texts(self.name, value)
        if self.kind == "str":
            value = text(self.name, value)
            if self.choices and value not in self.choices.split(","):
                raise Error(
                    BAD_OPTION, f"{self.name}={value!r} is none of {self.choices}", "pass one of these"
                )
        elif self.least < self.most:
            types = (int, float) if self.kind == "float" else int
            if (
                isinstance(value, bool)
                or not isinstance(value, types)
                or not self.least <= value <= self.most
            ):
                what = {"devices": " of devices", "ranks": " of ranks", "tp": " of ranks"}.get(self.name, "")
                hint = f"pass a number from {self.least:.0f} to {self.most:.0f}"
                raise Error(BAD_OPTION, f"{self.name}={value!r} is not a number{what}", hint)
        return value


# Of the compiler's table, as are those of the command line.
KEYWORDS = {
    name: Keyword(name, kind, default if kind == "bool" else default or None, *more)
    for name, kind, default, *more in _braid.options()
}


def keywords_of(function: str) -> dict[str, Keyword]:
    return {name: k for name, k in KEYWORDS.items() if function == "compile" or not k.of_programs}


def takes_options(function: Function) -> Function:
    """Writes the keywords into the signature and the documentation of a function that has them as
    **options."""
    own = inspect.signature(function)
    parameters = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    for keyword in keywords_of(function.__name__).values():
        parameters.append(
            inspect.Parameter(keyword.name, inspect.Parameter.KEYWORD_ONLY, default=keyword.default)
        )
    function.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    # Type checkers read the source. At run time the names of this annotation are not there.
    function.__annotations__.pop("options", None)
    lines = "\n".join(f"{keyword.name}: {keyword.help}" for keyword in KEYWORDS.values())
    function.__doc__ = inspect.cleandoc(function.__doc__ or "").replace("OPTIONS", lines)
    return function


def given_options(function: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are not the default. Raises TypeError for a name that no option has."""
    known = keywords_of(function)
    for name in given:
        if name not in known:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
    return {
        name: known[name].checked(value) for name, value in given.items() if not known[name].is_default(value)
    }


def compiler_options(path: str, dims: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    """As the extension module reads them (python/options.cc)."""
    return {
        "model": path,
        "dims": [bounds(text("a dim", name), value) for name, value in mapping("dims", dims).items()],
        # What a signal that ends the process removes.
        "temporary": [str(pathlib.Path(path).parent)] if is_temporary(path) else [],
        **{name: value for name, value in more.items() if value is not None},
    }
