"""braid.InferenceSession: ONNX Runtime's, as far as scripts use it to run a model on the processor."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from . import _signature
from ._errors import Error
from ._options import mapping
from ._program import compile
from ._signature import NodeArg

# A size, an axis or a choice depends on the value of an input.
DEPENDS_ON_DATA = (116, 117, 119, 545)
# Sizes have another relation than the program assumes within its bounds: of two sizes that were equal, or one
# of which was 1 and was broadcast. All come before the step begins.
OTHER_RELATION = (302, 303, 305, 724)
MOST_EXACT = 8  # programs for single sizes that a session keeps


def contents(array: Any) -> tuple[Any, ...]:
    return array.dtype.str, array.shape, array.tobytes()


class InferenceSession:
    """Runs a model with ONNX Runtime's calls, so that a script changes one import.

    Dims without bounds in `dims` get some from the inputs of the first run, up to the next power of two, and
    wider ones when a later run needs them: each time the model is compiled again. Where a size depends on the
    values of inputs, it is compiled for these values. Sizes that no program with bounds can run, such as
    those of an axis that is broadcast in one run and not in another, get a program of their own. As with ONNX
    Runtime, inputs and outputs are copied where that is needed; outputs are NumPy arrays.

    path_or_bytes: as the model of compile(). providers and sess_options are accepted, and change nothing but
    the number of threads (sess_options.intra_op_num_threads). target and bind: as of compile(); inputs in
    `bind` are no inputs of the session. Errors: those of compile() and Session.run().
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        *,
        dims: Mapping[str, Any] | None = None,
        bind: Mapping[str, Any] | None = None,
        target: str = "cpu",
        **_: Any,
    ) -> None:
        self._model = path_or_bytes
        self._target = target
        self._dims: dict[str, Any] = dict(dims or {})
        self._bind = dict(mapping("bind", bind))
        self._threads = getattr(sess_options, "intra_op_num_threads", 0) or None
        inputs, self._outputs = _signature.read(path_or_bytes)
        self._inputs = [value for value in inputs if value.name not in self._bind]
        self._grown: dict[str, tuple[int, int]] = {}
        self._bound: dict[str, tuple[Any, ...]] = {}  # inputs that the program has as constants
        self._exact: dict[tuple[tuple[str, int], ...], Any] = {}  # sessions for single sizes, latest use last
        self._in_use = threading.Lock()  # ONNX Runtime's sessions may be run by several threads
        self._session: Any = None
        self._left: set[str] = set()  # inputs of the program: others are constants, or nothing reads them
        self._names = [value.name for value in self._outputs]
        named = {dim for value in self._inputs for dim in value.shape if isinstance(dim, str)}
        self._named = named - self._dims.keys()
        self._fixed = False  # the session serves whatever may come
        if not self._named:  # errors come now, not with the first run
            try:
                self._compile({}, {})
            except Error as error:
                if error.code not in DEPENDS_ON_DATA:
                    raise

    def get_inputs(self) -> list[NodeArg]:
        return self._inputs

    def get_outputs(self) -> list[NodeArg]:
        return self._outputs

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """Runs one step; returns the outputs of these names, all for None or [], as NumPy arrays.

        Several threads may call it; they run one after the other.
        """
        with self._in_use:
            return self._run(output_names, input_feed)

    def _run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> list[Any]:
        import numpy as np

        if not isinstance(input_feed, Mapping):
            raise Error(6, "the inputs are no dictionary", "pass {name: array}")
        arrays = {}
        for name, value in input_feed.items():
            try:
                arrays[name] = np.asarray(value)
            except ValueError as error:
                raise Error(730, f"input '{name}' is no array: {error}", "pass an array of NumPy") from error
        if self._bound or not self._fixed:
            for name in arrays.keys() ^ {value.name for value in self._inputs}:
                what = f"there is no input '{name}'" if name in arrays else f"input '{name}' is missing"
                raise Error(6, what, f"its inputs are {', '.join(v.name for v in self._inputs)}")
        results = self._results(arrays)
        if not output_names:
            output_names = self._names
        elif isinstance(output_names, str):
            raise Error(6, "the names of outputs are a sequence of strings", f"pass ['{output_names}']")
        elif not set(output_names) <= results.keys():
            unknown = next(name for name in output_names if name not in results)
            raise Error(6, f"there is no output '{unknown}'", f"its outputs are {', '.join(results)}")
        return [np.asarray(results[name]) for name in output_names]

    def _results(self, arrays: dict[str, Any]) -> dict[str, Any]:
        if self._fixed:
            return self._session.run(arrays, copy=True)
        sizes = tuple(
            (name, size)
            for name, size in sorted(_signature.sizes_of(self._inputs, arrays).items())
            if name in self._named
        )
        if sizes not in self._exact:
            try:
                session = self._session_for(arrays)
                feed = {name: value for name, value in arrays.items() if name in self._left}
                return session.run(feed, copy=True)
            except Error as error:
                if error.code not in OTHER_RELATION or not sizes:
                    raise
        return self._run_exactly(sizes, arrays)

    def _run_exactly(self, sizes: tuple[tuple[str, int], ...], arrays: dict[str, Any]) -> dict[str, Any]:
        """By a program for these sizes alone, which is kept if no input became a constant of it."""
        session = self._exact.pop(sizes, None)
        keep = True
        if session is None:
            dims = {**dict(sizes), **self._dims}
            try:
                program = compile(self._model, dims=dims, bind=self._bind, target=self._target)
            except Error as error:
                if error.code not in DEPENDS_ON_DATA:
                    raise
                program = compile(
                    self._model,
                    dims=dims,
                    bind=self._bind,
                    bindable=self._contiguous(arrays),
                    target=self._target,
                )
            names = {value.name for value in program.inputs}
            keep = names == arrays.keys()
            arrays = {name: value for name, value in arrays.items() if name in names}
            session = program.session(self._threads)
        results = session.run(arrays, copy=True)
        if keep:
            self._exact[sizes] = session
            while len(self._exact) > MOST_EXACT:
                del self._exact[next(iter(self._exact))]
        return results

    @staticmethod
    def _contiguous(arrays: dict[str, Any]) -> dict[str, Any]:
        import numpy as np

        return {name: np.ascontiguousarray(value).reshape(value.shape) for name, value in arrays.items()}

    def _session_for(self, arrays: dict[str, Any]) -> Any:
        sizes = _signature.sizes_of(self._inputs, arrays)
        needed = {
            name: size
            for name, size in sizes.items()
            if name not in self._dims and not self._fits(name, size)
        }
        same = all(contents(arrays[name]) == value for name, value in self._bound.items())
        if self._session is None or needed or not same:
            try:
                self._compile(needed, {})
            except Error as error:
                if error.code not in DEPENDS_ON_DATA:
                    raise
                self._compile(needed, arrays)
        return self._session

    def _fits(self, name: str, size: int) -> bool:
        low, high = self._grown.get(name, (1, 0))
        return low <= size <= high

    def _compile(self, needed: dict[str, int], bindable: dict[str, Any]) -> None:
        grown = dict(self._grown)
        for name, size in needed.items():
            low, high = grown.get(name, (1, 1))
            grown[name] = (min(low, size), max(high, 1 << (size - 1).bit_length() if size else 0))
        contiguous = self._contiguous(bindable)
        program = compile(
            self._model,
            dims={**grown, **self._dims},
            bind=self._bind,
            bindable=contiguous,
            target=self._target,
        )
        self._session = program.session(self._threads)
        self._grown = grown
        self._left = {value.name for value in program.inputs}
        self._bound = {name: contents(value) for name, value in contiguous.items() if name not in self._left}
        self._fixed = not self._named and self._left == {value.name for value in self._inputs}
