"""braid.explain, braid.check and braid.ops."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _braid
from ._errors import Error
from ._options import BAD_OPTION, compiler_options, given_options, model_file, takes_options, text
from ._program import DTYPES, NO_PROGRAM, STORAGE_DTYPES, Program

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import Keywords


class Explanation:
    """What compiling a model gives: print it, or show it in a notebook.

    data: the facts as dictionaries and lists: dims, inputs, outputs, guards; operations before and after the
    passes; passes; kernels in order with their ONNX nodes; memory in bytes of each rank, at the upper bounds
    of all dims; and, with collectives, "communication": times in ns, sizes in bytes.
    page: with collectives, one HTML page with timelines before and after the passes; otherwise "".
    """

    def __init__(self, facts: str, communication: str, page: str) -> None:
        self.data: dict[str, Any] = json.loads(facts)
        self.page = page
        self._communication = communication

    def _rows(self) -> list[tuple[str, str]]:
        d = self.data
        rows = [("program", f"{d['program']}, {d['ranks']} rank{'s' * (d['ranks'] > 1)}")]
        rows += [(f"dim {name}", f"{low} to {high}") for name, (low, high) in d["dims"].items()]
        rows += [
            (f"input {t['name']}", t["type"] + ", written by a step" * t["written"]) for t in d["inputs"]
        ]
        rows += [(f"output {t['name']}", t["type"]) for t in d["outputs"]]
        rows += [("guard", f"{g['condition']} ({g['origin']})") for g in d["guards"]]
        for label, key in (("operations as lowered", "operations_as_lowered"),
                           ("operations after the passes", "operations_after_the_passes")):  # fmt: skip
            rows.append((label, ", ".join(f"{count} {kind}" for kind, count in d[key].items())))
        rows.append(("kernels and communication steps", str(len(d["kernels"]))))
        rows += [
            (f"memory: {name.replace('_', ' ')}", f"{size:,} bytes") for name, size in d["memory"].items()
        ]
        return rows

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(label) for label, _ in rows)
        text = "".join(f"{label:<{width}}  {value}\n" for label, value in rows)
        return text + (f"\n{self._communication}" if self._communication else "")

    def __repr__(self) -> str:
        return f"<braid.Explanation of {self.data['program']}: {len(self.data['kernels'])} kernels>"

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for label, value in self._rows()
        )
        table = f"<table>{cells}</table>"
        if not self.page:
            return table
        frame = (
            f"<iframe style='width:100%;height:40em;border:0' srcdoc=\"{html.escape(self.page)}\"></iframe>"
        )
        return table + frame


class ProgramExplanation(Explanation):
    """What the folder of a compiled program tells, as `braid explain DIR` does: print it, or show it in a
    notebook.

    data: name, target, ranks, dims, inputs, outputs, planned (bytes of a rank), weight_bytes of all ranks,
    collectives by kind and in the order of issue, files; and kernels, of a CPU program whose library is
    built.
    """

    def __init__(self, facts: str) -> None:
        super().__init__(facts, "", "")
        self._lines = self.data.pop("collective_lines")
        try:
            self._told = self._read()
        except (AttributeError, KeyError, TypeError) as error:
            raise Error(
                NO_PROGRAM, f"not the manifest of a compiled program: {error!r}", "compile the model again"
            ) from None

    def _rows(self) -> list[tuple[str, str]]:
        return self._told

    def _read(self) -> list[tuple[str, str]]:
        def tensor(t: Mapping[str, Any]) -> str:
            sizes = ", ".join(str(size) for size in t["shape"])
            return f"{t['dtype']}[{sizes}]" + ", written by a step" * t.get("written", False)

        d = self.data
        rows = [("program", f"{d['name']} for {d['target']}, {d['ranks']} rank{'s' * (d['ranks'] > 1)}")]
        rows += [(f"dim {dim['name']}", f"{dim['min']} to {dim['max']}") for dim in d["dims"]]
        rows += [(f"input {t['name']}", tensor(t)) for t in d["inputs"]]
        rows += [(f"output {t['name']}", tensor(t)) for t in d["outputs"]]
        rows.append(("weights, of all ranks", f"{d['weight_bytes']:,} bytes"))
        rows += [
            (f"memory of a rank: {name.replace('_', ' ')}", f"{size:,}")
            for name, size in d.get("planned", {}).items()
            if isinstance(size, int)
        ]
        rows += [(f"collective {place}", line) for place, line in enumerate(self._lines)]
        rows += [
            (f"kernel {place}", f"{kernel['name']} {kernel['label']}")
            for place, kernel in enumerate(d.get("kernels", []))
        ]
        for file in d["files"]:
            size = file["bytes"]
            rows.append((f"file {file['name']}", "not built" if size is None else f"{size:,} bytes"))
        return rows

    def __repr__(self) -> str:
        return f"<braid.Explanation of the program {self.data['name']}>"


class Certificate(NamedTuple):
    """A proof that ranks agree on their collectives and cannot deadlock. str() gives it as `braid check`
    does."""

    text: str
    ranks: int
    channels: str  # the channel policy
    groups: list[tuple[str, int, int]]  # what, number of collectives, hash of the trace
    order: list[str]  # names of the collectives, in an order in which all can begin

    def __str__(self) -> str:
        return self.text


class Operator(NamedTuple):
    """An ONNX operator that can be compiled. types: of its first input, NumPy's names."""

    domain: str
    name: str
    first_version: int
    last_version: int
    types: tuple[str, ...]


@takes_options
def explain(
    model: str | os.PathLike[str] | bytes | Program | Any,
    *,
    dims: Mapping[str, Any] | None = None,
    **options: Unpack[Keywords],
) -> Explanation:
    """Compiles a model up to its source and tells what became of it. Arguments and errors: as of compile().

    Of a compiled program or its folder it tells what that holds; such a program has its arguments in it.
    """
    given = given_options("explain", options)
    folder = model.folder if isinstance(model, Program) else model
    if isinstance(model, Program) and folder is None:
        raise Error(BAD_OPTION, "a program of the interpreter has no folder", "explain its model")
    if isinstance(folder, (str, os.PathLike)) and os.path.isdir(text("the folder", folder)):
        if given or dims:
            raise Error(
                BAD_OPTION, f"{os.fspath(folder)} is a compiled program", "leave out what is for models"
            )
        return ProgramExplanation(_braid.explain_program(os.fspath(folder)))
    with model_file(model) as path:
        return Explanation(*_braid.explain(compiler_options(path, dims, **given)))


@takes_options
def check(
    *models: str | os.PathLike[str] | Program,
    dims: Mapping[str, Any] | None = None,
    **options: Unpack[Keywords],
) -> Certificate:
    """Proves that all ranks agree on their collectives and cannot deadlock.

    models: compiled programs or their folders, models or IR texts: one for all ranks, or one for each in
    their order.
    Errors: BR0900 the ranks disagree, BR0901 they can deadlock, BR0902 they are not the ranks of one program,
    each with a witness; and those of compile().
    """
    if not models:
        raise Error(BAD_OPTION, "there is nothing to check", "pass a program, a model, or one for each rank")
    given = given_options("check", options)
    paths = []
    for model in models:
        path = model.folder if isinstance(model, Program) else text("a model's path", model)
        if path is None:
            raise Error(BAD_OPTION, "a program of the interpreter has no folder", "check its model")
        paths.append(path)
    return Certificate(**_braid.check(paths, [compiler_options(path, dims, **given) for path in paths]))


def ops(plugins: Sequence[str] = ()) -> list[Operator]:
    """Every operator that can be compiled, by domain, name and version."""
    rows = _braid.operators(list(plugins))
    names = DTYPES | STORAGE_DTYPES
    return [Operator(d, n, first, last, tuple(names[t] for t in types)) for d, n, first, last, types in rows]
