"""Writes ONNX graphs the way exporters do: scoped names, computed shapes, weights in a file beside the model."""

import contextlib
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Weights start at multiples of this in a data file, so that a mapped file gives pointers fit for vector loads.
WEIGHT_ALIGNMENT = 64
COLLECTIVE_DOMAIN = "com.microsoft"


class WeightFile:
    """The external data file of one model; weights are appended as they are made and never held in memory."""

    def __init__(self, path):
        self.location = os.path.basename(path)
        self._file = open(path, "wb")

    def append(self, tensor, array):
        """Writes `array` and makes `tensor` point to it."""
        self._file.write(b"\0" * (-self._file.tell() % WEIGHT_ALIGNMENT))
        offset = self._file.tell()
        self._file.write(array.tobytes())
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self.location), ("offset", offset), ("length", array.nbytes)):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)

    def close(self):
        self._file.close()


class GraphBuilder:
    """Collects nodes, weights, inputs and outputs of one graph.

    Values are plain strings. A node is named after its scope and operator ("/layers.0/mlp/MatMul", the second one
    "/layers.0/mlp/MatMul_1"), its outputs after the node. Names depend on the calls only, so that the graphs of all
    ranks, which are built by the same calls, carry the same names.
    """

    def __init__(self, opset, weight_file=None):
        self.opset = opset
        self._weight_file = weight_file  # None: weights go into the model itself
        self._scopes = []
        self._name_uses = {}
        self._constants = {}
        self._nodes, self._initializers, self._inputs, self._outputs, self._value_info = [], [], [], [], []
        self._domains = {""}

    @contextlib.contextmanager
    def scope(self, name):
        """Names inside get the prefix `name`."""
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def op(self, op_type, *inputs, outputs=1, domain="", **attributes):
        """Adds a node; returns its output, or a tuple where `outputs` is above 1. An input "" is an absent one."""
        path = "/" + "/".join([*self._scopes, op_type])
        uses = self._name_uses[path] = self._name_uses.get(path, 0) + 1
        name = path if uses == 1 else f"{path}_{uses - 1}"
        results = tuple(f"{name}_output_{i}" for i in range(outputs))
        self._domains.add(domain)
        self._nodes.append(helper.make_node(op_type, inputs, results, name=name, domain=domain, **attributes))
        return results[0] if outputs == 1 else results

    def collective(self, op_type, value, dims, **attributes):
        """A collective of ONNX Runtime's domain, with a value_info of the result: standard inference has none for it."""
        result = self.op(op_type, value, domain=COLLECTIVE_DOMAIN, **attributes)
        self._value_info.append(helper.make_tensor_value_info(result, TensorProto.FLOAT, dims))
        return result

    def constant(self, value, dtype):
        """A Constant node, one per distinct value. What decides a shape is a constant, never a weight."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            scopes, self._scopes = self._scopes, ["constants"]
            self._constants[key] = self.op("Constant", value=numpy_helper.from_array(array))
            self._scopes = scopes
        return self._constants[key]

    def ints(self, *values):
        """A vector of int64, as axes, split sizes and slice bounds are given."""
        return self.constant(values, np.int64)

    def int(self, value):
        """A scalar int64."""
        return self.constant(value, np.int64)

    def float(self, value):
        """A scalar float."""
        return self.constant(value, np.float32)

    def weight(self, name, array):
        """A trained parameter: an initializer called `name`."""
        tensor = TensorProto(
            name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape
        )
        array = np.asarray(array, order="C")
        if self._weight_file:
            self._weight_file.append(tensor, array)
        else:
            tensor.raw_data = array.tobytes()
        self._initializers.append(tensor)
        return name

    def input(self, name, dtype, dims):
        """A graph input; a dimension is a number, or a name when it is known at run time only."""
        self._inputs.append(
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims)
        )
        return name

    def output(self, value, name, dims, first=False):
        """Makes the float `value` an output of the graph, called `name`; `first`: before those there are."""
        for node in self._nodes:
            for field in (node.input, node.output):
                for i, used in enumerate(field):
                    if used == value:
                        field[i] = name
        for info in self._value_info:
            info.name = name if info.name == value else info.name
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        self._outputs.insert(0 if first else len(self._outputs), info)
        return name

    def dim(self, value, axis):
        """The size of `value` along `axis`, as a scalar computed in the graph."""
        return self.op("Gather", self.op("Shape", value), self.int(axis), axis=0)

    def shape(self, *parts):
        """A shape vector; a part is a number or a scalar computed in the graph."""
        return self.op(
            "Concat",
            *(self.ints(p) if isinstance(p, int) else self.op("Unsqueeze", p, self.ints(0)) for p in parts),
            axis=0,
        )

    def slice(self, value, start, end, axis):
        """value[start:end] along `axis`."""
        return self.op("Slice", value, self.ints(start), self.ints(end), self.ints(axis))

    def model(self, name):
        """The finished model."""
        graph = helper.make_graph(
            self._nodes, name, self._inputs, self._outputs, self._initializers, value_info=self._value_info
        )
        imports = [helper.make_opsetid(d, self.opset if d == "" else 1) for d in sorted(self._domains)]
        return helper.make_model(
            graph,
            producer_name="braid make_decoder",
            opset_imports=imports,
            ir_version=helper.find_min_ir_version_for(imports, ignore_unknown=True),
        )


def save_model(model, path):
    """Checks the model and writes it, the same bytes for the same graph."""
    with open(path, "wb") as file:
        file.write(model.SerializeToString(deterministic=True))
    onnx.checker.check_model(path)  # by path: external data are looked up beside the file
