"""An ONNX backend: onnx.backend.test.BackendTest(braid.backend, __name__) runs ONNX's suite through Braid.

prepare() takes target="cpu" (the default) or "interpreter", and other options of braid.compile.
"""

from __future__ import annotations

import os
import unittest
from collections.abc import Sequence
from typing import Any

from onnx.backend.base import Backend, BackendRep, namedtupledict

from . import _signature
from ._errors import Error
from ._program import DTYPES, STORAGE_DTYPES, compile

# What Braid does not implement, as opposed to what is wrong: `braid test` calls such a case refused.
UNSUPPORTED = (103, 109, 110, 115, 116, 117, 119, 122, 601)
UNSUPPORTED_TYPE = 115


class Unsupported(Error, unittest.SkipTest):
    """A model with something that Braid does not implement. Test runners take it for a skipped case."""


class BraidRep(BackendRep):
    """A model, compiled for the inputs that it is run with: sizes, and values on which sizes depend, are
    constants."""

    def __init__(self, model: Any, options: dict[str, Any]) -> None:
        self._model = model.SerializeToString() if hasattr(model, "SerializeToString") else model
        self._options = options
        self._inputs, self._outputs = _signature.read(self._model)
        for value in (*self._inputs, *self._outputs):
            if not value.type.startswith("tensor("):
                raise Unsupported(UNSUPPORTED_TYPE, f"'{value.name}' is a {value.type}", "use tensors")

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model once. inputs: arrays in the model's order, one array, or a dictionary by name."""
        import numpy as np

        names = [value.name for value in self._inputs]
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if isinstance(inputs, dict):
            given = inputs
            for name in given.keys() - set(names):
                raise Error(6, f"there is no input '{name}'", f"its inputs are {', '.join(names)}")
        elif len(inputs) > len(names):
            raise Error(6, f"{len(inputs)} inputs for {len(names)}", f"its inputs are {', '.join(names)}")
        else:
            given = dict(zip(names, inputs))
        given = {name: as_bytes(np.asarray(value)) for name, value in given.items()}
        known = set(DTYPES.values())
        bindable = {
            name: np.ascontiguousarray(value).reshape(value.shape)
            for name, value in given.items()
            if value.dtype.name in known
        }
        dims = _signature.sizes_of(self._inputs, given)
        try:
            program = compile(self._model, dims=dims, bindable=bindable, **self._options)
        except Error as error:
            if error.code in UNSUPPORTED:
                raise Unsupported(error.code, error.message, error.hint) from None
            raise
        left = {value.name for value in program.inputs}
        with program.session() as session:
            results = session.run({name: value for name, value in bindable.items() if name in left})
        arrays = [from_bytes(results[value.name].numpy(), value.type) for value in self._outputs]
        return namedtupledict("Outputs", [value.name for value in self._outputs])(*arrays)


def as_bytes(array: Any) -> Any:
    """An array of a type that programs only store as they take it: the numbers of integers, the bits of
    others."""
    if array.dtype.name not in STORAGE_DTYPES.values():
        return array
    if array.dtype.name.startswith("float"):
        return array.view("uint8")
    return array.astype("uint8" if array.dtype.name.startswith("u") else "int8")


def from_bytes(array: Any, kind: str) -> Any:
    """The opposite for an output of type `kind`: "tensor(int4)"."""
    element = kind.removeprefix("tensor(").removesuffix(")")
    name = {onnx_name(stored): stored for stored in STORAGE_DTYPES.values()}.get(element)
    if name is None:
        return array
    import ml_dtypes

    dtype = getattr(ml_dtypes, name)
    return array.view(dtype) if name.startswith("float") else array.astype(dtype)


def onnx_name(stored: str) -> str:
    """How ONNX's types write it: float8e4m3fn for float8_e4m3fn."""
    name = stored.replace("_", "")
    return {"float8e8m0fnu": "float8e8m0", "float4e2m1fn": "float4e2m1"}.get(name, name)


def inputs_of(node: Any, inputs: Sequence[Any]) -> dict[str, Any]:
    """The inputs of one operator by name. A missing optional one is None or left out; one that is given twice
    must be the same. Errors: BR0006."""
    names = list(node.input) if len(inputs) == len(node.input) else [name for name in node.input if name]
    if len(inputs) != len(names):
        raise Error(6, f"{len(inputs)} inputs for {len(names)}", f"its inputs are {', '.join(names)}")
    values: dict[str, Any] = {}
    for name, value in zip(names, inputs):
        if value is None and name:
            raise Error(6, f"input '{name}' is None", "name it '' in the node, or give its value")
        if value is not None and not name:
            raise Error(6, "a value was given for an input that the node leaves out", "pass None there")
        if name in values and value is not values[name]:
            raise Error(6, f"input '{name}' was given twice, as two objects", "pass the same array twice")
        if name:
            values[name] = value
    return values


class BraidBackend(Backend):
    @classmethod
    def prepare(
        cls,
        model: Any,
        device: str = "CPU",
        *,
        target: str | None = None,
        rtol: Any = None,
        atol: Any = None,
        **options: Any,
    ) -> BraidRep:
        """The model, to be run. target: by default the variable BRAID_BACKEND_TARGET, else "cpu".

        rtol and atol, which test runners pass to everyone, are ignored. Errors: Unsupported, or as of
        braid.compile.
        """
        if not cls.supports_device(device):
            raise Error(3, f"there is no device {device}", "use CPU")
        return BraidRep(model, {"target": target or os.environ.get("BRAID_BACKEND_TARGET", "cpu"), **options})

    @classmethod
    def run_node(
        cls, node: Any, inputs: Sequence[Any], device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Runs one operator. Its output types follow from shape inference, or from outputs_info."""
        import numpy as np
        import onnx
        from onnx import helper

        def info(name: str, dtype: Any, shape: Any) -> Any:
            return helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
            )

        values = inputs_of(node, inputs)
        arrays = {name: np.asarray(value) for name, value in values.items()}
        given = [info(name, a.dtype, a.shape) for name, a in arrays.items()]
        outputs = [name for name in node.output if name]
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        opsets = [helper.make_opsetid(node.domain, version)]
        if outputs_info is None:
            graph = helper.make_graph(
                [node], "node", given, [helper.make_empty_tensor_value_info(n) for n in outputs]
            )
            inferred = onnx.shape_inference.infer_shapes(
                helper.make_model(graph, opset_imports=opsets), data_prop=True
            )
            declared = list(inferred.graph.output)
        else:
            declared = [info(name, *o) for name, o in zip(outputs, outputs_info)]
        graph = helper.make_graph([node], "node", given, declared)
        model = helper.make_model(graph, opset_imports=opsets)
        return cls.prepare(model, device, **kwargs).run(list(arrays.values()))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


is_compatible = BraidBackend.is_compatible
prepare = BraidBackend.prepare
run_model = BraidBackend.run_model
run_node = BraidBackend.run_node
supports_device = BraidBackend.supports_device
