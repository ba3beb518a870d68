"""braid.compile, braid.load, and what they return."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _braid
from ._device import chosen
from ._errors import Error
from ._options import BAD_OPTION, compiler_options, given_options, mapping, model_file, takes_options, text

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import Keywords
    from ._launch import Ranks

# The compiler's names of element types, and NumPy's.
DTYPES = {
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "bool": "bool",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
# Those that programs store and do not compute with, and ml_dtypes' names. Inputs and outputs hold them as
# bytes.
STORAGE_DTYPES = {
    "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2", "f4e2m1": "float4_e2m1fn",
    "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu",
}  # fmt: skip


NO_PROGRAM = 8


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """An input or output. dtype: NumPy's name. shape: sizes, as numbers or as expressions over the program's
    dims."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    written: bool = False  # inputs: a step changes their contents
    alias_of: str | None = None  # outputs: the input whose memory they are
    # The shape of the array of which it is a slice, from 0 along every axis: of inputs and outputs that share
    # memory and have different sizes. None: dense.
    capacities: tuple[int, ...] | None = None
    # What a rank has of the plain model's tensor: its state on the axes of the mesh, as plans write it ("S(1)
    # on tp"), and the whole tensor's shape. None: it is whole, or not known to be a part.
    part: str | None = None
    whole: tuple[int | str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Memory:
    """Planned bytes of each rank, at the upper bounds of all dims."""

    weights: int  # mapped from files
    arena: int  # activations
    communication: int  # memory that peers read
    live_peak: int  # the most that is in use at once, of arena and communication


class Program:
    """A compiled model. Several sessions may run it at once."""

    def __init__(self, core: _braid.Program, folder: str | None) -> None:
        self._core = core
        self.folder = folder
        try:
            self._read(json.loads(core.manifest))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Error(
                NO_PROGRAM,
                f"{folder}: not the manifest of a compiled program: {error!r}",
                "compile the model again",
            ) from None

    def _read(self, manifest: Any) -> None:
        self.name: str = manifest["name"]
        self.target: str = manifest["target"]
        self.ranks: int = manifest["ranks"]
        self.dims: dict[str, tuple[int, int]] = {d["name"]: (d["min"], d["max"]) for d in manifest["dims"]}
        self.inputs: list[TensorSpec] = [_spec(t) for t in manifest["inputs"]]
        self.outputs: list[TensorSpec] = [_spec(t) for t in manifest["outputs"]]
        planned = manifest["planned"]
        self.memory = Memory(
            weights=sum(w["bytes"] for w in manifest["weights"]),
            arena=planned.get("arena_bytes", 0),
            communication=planned.get("comm_bytes", 0),
            live_peak=planned.get("live_peak_bytes", 0),
        )

    def session(
        self, threads: int | None = None, *, device: str | None = None, stream: Any = None
    ) -> _braid.Session:
        """Opens the program in this process: as its one rank, or as the rank that torchrun, mpirun or srun
        made of it.

        threads: of each step, at most; by default those of OpenMP, or cores / ranks of this machine.
        device: of CUDA programs: "gpu", "gpu:N", or "emulated", which takes and gives arrays in this
        process's memory; by default "gpu" if there is one.
        stream: a CUDA stream of yours, as a number or as PyTorch's and CuPy's objects: steps follow what it
        was given before, and run() only enqueues them. By default run() returns when its step is done.

        Errors: BR0721 and BR0725 it cannot be opened, BR0011, BR0726 and BR0734 the ranks are not there,
        BR0013 there is no such GPU, BR0735 no such stream.
        """
        where = chosen(self, device, 2)
        # The emulated device takes and gives arrays of NumPy.
        return _braid.open_session(self._core, checked_threads(threads), where, stream, where == "emulated")

    def launch(self, threads: int | None = None, *, device: str | None = None) -> Ranks:
        """Starts all ranks of the program as processes on this machine.

        threads: per rank; by default cores / ranks. device: as of session(), but each rank has a GPU of its
        own.
        Errors: BR0007 with the rank that could not start.
        """
        from ._launch import start

        return start(self, checked_threads(threads), chosen(self, device, 2))

    def __repr__(self) -> str:
        def tensors(specs: Sequence[TensorSpec]) -> str:
            return ", ".join(f"{t.name}: {t.dtype}{list(t.shape)}".replace("'", "") for t in specs)

        ranks = f", {self.ranks} ranks" if self.ranks > 1 else ""
        interface = f"{tensors(self.inputs)} -> {tensors(self.outputs)}"
        return f"<braid.Program {self.name} ({self.target}{ranks}): {interface}>"


def _spec(tensor: Mapping[str, Any]) -> TensorSpec:
    return TensorSpec(
        tensor["name"],
        DTYPES[tensor["dtype"]],
        tuple(tensor["shape"]),
        tensor.get("written", False),
        tensor.get("alias_of"),
        tuple(tensor["capacities"]) if "capacities" in tensor else None,
        tensor["part"]["state"] if "part" in tensor else None,
        tuple(tensor["part"]["whole"]) if "part" in tensor else None,
    )


def checked_threads(threads: int | None) -> int:
    if threads is None:
        return 0
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 1024:
        raise Error(
            BAD_OPTION, f"threads={threads!r} is not a number of threads", "pass a number from 1 to 1024"
        )
    return threads


@takes_options
def compile(  # noqa: A001
    model: str | os.PathLike[str] | bytes | Any,
    *,
    dims: Mapping[str, Any] | None = None,
    aliases: Mapping[str, str] | None = None,
    bind: Mapping[str, Any] | None = None,
    bindable: Mapping[str, Any] | None = None,
    output: str | os.PathLike[str] | None = None,
    **options: Unpack[Keywords],
) -> Program:
    """Compiles a model.

    model: a path, bytes, or an onnx.ModelProto; "m.rank{rank}.onnx" is one file per rank.
    dims: for each named dimension its size, or its bounds: (1, 8), "1..8". An unnamed one is INPUT_AXIS.
    aliases: {output: input} that share memory, such as a cache that grows in place.
    bind: values of inputs that become constants: arrays of the input's type and shape, or numbers and lists.
    bindable: values of inputs that become constants if a size, an axis or a choice depends on them.
    output: folder for the program, which load() opens; without, it lives as long as the Program.

    Sizes in bytes are numbers; options that may be given several times take one string or several. The target
    may also be "interpreter", slow, which needs no host compiler.
    OPTIONS

    Errors: BR0003 an option; 1xx to 3xx the model; 5xx the passes; BR0603 the host compiler.
    """
    given = given_options("compile", options)
    pairs = [
        (text("an output of aliases", o), text("an input of aliases", i))
        for o, i in mapping("aliases", aliases).items()
    ]
    values = {text("an input of bindable", i): v for i, v in mapping("bindable", bindable).items()}
    fixed = {text("an input of bind", i): fixed_value(i, v) for i, v in mapping("bind", bind).items()}
    with model_file(model) as path:
        given = compiler_options(
            path, dims, aliases=pairs or None, bindable=values or None, fixed=fixed or None, **given
        )
        if given.get("target") == "interpreter":
            if output is not None:
                raise Error(BAD_OPTION, "the interpreter's programs have no folder", "leave output= out")
            if given.get("checked"):
                raise Error(BAD_OPTION, "checked= is for compiled programs", "leave checked= out")
            return Program(_braid.compile_for_interpreter(given), None)
        if output is not None:
            folder = text("output", output)
            return Program(_braid.compile({**given, "output": folder}), folder)
        folder = tempfile.mkdtemp(prefix="braid-")
        try:
            given["temporary"] = [*given["temporary"], folder]
            program = Program(_braid.compile({**given, "output": folder}), folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        # Sessions have what they need of it in memory.
        weakref.finalize(program, remove_folder, folder, os.getpid())
        return program


def fixed_value(name: str, value: Any) -> tuple[Any, bool]:
    """The array for an input of bind=, and whether its type is that of the input. Errors: BR0003."""
    is_literal = isinstance(value, (bool, int, float, list, tuple))
    if not is_literal:
        return value, False
    import numpy as np

    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ValueError
        return array.astype(np.float64 if array.dtype.kind == "f" else np.int64, casting="same_kind"), True
    except (TypeError, ValueError, OverflowError):
        hint = "pass an array, a number, or lists of numbers that are nested evenly"
        raise Error(BAD_OPTION, f"bind={{'{name}': {value!r}}}: malformed", hint) from None


def remove_folder(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not a fork of it
        shutil.rmtree(folder, ignore_errors=True)


def load(folder: str | os.PathLike[str]) -> Program:
    """Opens a program that compile(output=folder) or `braid compile -o folder` wrote; builds its library if
    that is missing.

    Errors: BR0008 no program, BR0016 an unfinished one, BR0721 one of another version.
    """
    path = text("the folder", folder)
    return Program(_braid.load(path), path)
