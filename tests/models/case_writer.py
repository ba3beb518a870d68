"""Test cases from ONNX's textual form: a model, random inputs from a seed, expected outputs of an independent runtime.

A case becomes a folder in the layout of ONNX's backend tests:

    NAME/model.onnx                                      or model.rank{r}.onnx where ranks have weights of their own
    NAME/dims.json                                       {"batch": [1, 8]}: bounds of named dimensions, if there are any
    NAME/test_data_set_0/input_0.pb, output_0.pb ...     or test_data_set_0/rank{r}/... where there are several ranks
"""

import dataclasses
import json
import os
import sys
import zlib

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "tensor_parallel"))
import lockstep  # noqa: E402
from test_vectors import write_data_set  # noqa: E402


@dataclasses.dataclass
class Case:
    """A small model: `graph` is ONNX text without a name, e.g. "(float[2,3] x) => (float y) { y = Abs(x) }".

    Shapes of outputs are filled in. An input whose name begins with "w_" becomes an initializer.
    """

    name: str
    graph: str
    dims: dict = dataclasses.field(default_factory=dict)  # bounds of named dimensions: {"batch": (1, 8)}
    sizes: tuple = ({},)  # one data set each: sizes of the named dimensions
    ranges: dict = dataclasses.field(
        default_factory=dict
    )  # input name -> (low, high), uniform; default: see random_array
    values: dict = dataclasses.field(default_factory=dict)  # input name -> the array itself
    opset: int = 17
    ranks: int = 1
    weights_per_rank: bool = False  # one file per rank, with different values in the "w_" initializers


def random_array(case, value, sizes, *seed):
    """A value for one input: normal floats, integers from 0 to 3, fair booleans, unless the case says otherwise."""
    if value.name in case.values:
        return np.asarray(case.values[value.name])
    tensor = value.type.tensor_type
    shape = [d.dim_value if d.HasField("dim_value") else sizes[d.dim_param] for d in tensor.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    generator = np.random.Generator(
        np.random.PCG64([zlib.crc32(f"{case.name}/{value.name}".encode()), *seed])
    )
    if value.name in case.ranges:
        low, high = case.ranges[value.name]
        if dtype.kind in "iu":
            return generator.integers(low, high, shape).astype(dtype)
        return generator.uniform(low, high, shape).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return generator.integers(0, 4, shape).astype(dtype)
    return generator.standard_normal(shape, np.float32).astype(dtype)


def parse(case):
    """The case's model, with named nodes; the "w_" inputs still inputs, the outputs as written."""
    header = f'<ir_version: {8 if case.opset < 19 else 9}, opset_import: ["": {case.opset}'
    header += ', "com.microsoft": 1' if "com.microsoft" in case.graph else ""
    model = onnx.parser.parse_model(f"{header}]>\n{case.name} {case.graph}")
    counts = {}
    for node in model.graph.node:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
        node.name = node.name or f"{node.op_type}_{counts[node.op_type]}"
    return model


def with_weights(case, model, rank):
    """A copy of `model` whose "w_" inputs are initializers."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    weights = [v for v in result.graph.input if v.name.startswith("w_")]
    for value in weights:
        array = random_array(case, value, {}, rank if case.weights_per_rank else 0)
        result.graph.initializer.append(numpy_helper.from_array(array, value.name))
        result.graph.input.remove(value)
    return result


def run(model, inputs):
    """Outputs by name, by ONNX Runtime, or by ONNX's reference evaluator where ONNX Runtime lacks an operator or type."""
    names = [o.name for o in model.graph.output]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return dict(zip(names, ReferenceEvaluator(model).run(None, inputs)))
    return dict(zip(names, session.run(None, inputs)))


def run_ranks(models, inputs, folder):
    """Outputs of each rank, by name; ranks run in lock-step."""
    if len(models) == 1:
        return [run(models[0], inputs[0])]
    paths = [os.path.join(folder, f"lockstep{r}.onnx") for r in range(len(models))]
    for path, model in zip(paths, models):
        onnx.save(model, path)
    results = lockstep.run_ranks(paths, inputs)
    for path in paths:
        os.remove(path)
    return results


def declare_outputs(case, models, outputs):
    """Gives the outputs their shapes: the actual ones, or what inference finds where a dimension has a name."""
    for model in models:
        inferred = {}
        if case.dims:
            inferred = {
                o.name: o for o in onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
            }
        for value in model.graph.output:
            array = outputs[value.name]
            dims = array.shape
            if case.dims:
                known = inferred[value.name].type.tensor_type.shape.dim
                known = known if len(known) == array.ndim else [None] * array.ndim
                dims = [
                    d and (d.dim_value if d.HasField("dim_value") else d.dim_param) or None for d in known
                ]
            elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
            value.CopyFrom(helper.make_tensor_value_info(value.name, elem_type, dims))


def write_dims(folder, dims):
    """Writes the bounds of the named dimensions, if there are any."""
    if dims:
        with open(os.path.join(folder, "dims.json"), "w") as file:
            json.dump({name: list(bounds) for name, bounds in dims.items()}, file)
            file.write("\n")


def write(root, case):
    """Writes one case below `root`."""
    folder = os.path.join(root, case.name)
    os.makedirs(folder, exist_ok=True)
    parsed = parse(case)
    for value in parsed.graph.output:  # as written they look like scalars
        value.type.tensor_type.ClearField("shape")
    models = [with_weights(case, parsed, rank) for rank in range(case.ranks)]
    for i, sizes in enumerate(case.sizes):
        inputs = [
            {v.name: random_array(case, v, sizes, i, rank) for v in models[0].graph.input}
            for rank in range(case.ranks)
        ]
        outputs = run_ranks(models, inputs, folder)
        if i == 0:
            declare_outputs(case, models, outputs[0])
        for rank in range(case.ranks):
            subfolder = f"test_data_set_{i}" + (f"/rank{rank}" if case.ranks > 1 else "")
            write_data_set(os.path.join(folder, subfolder), inputs[rank], outputs[rank])
    names = [f"model.rank{r}.onnx" for r in range(case.ranks)] if case.weights_per_rank else ["model.onnx"]
    for name, model in zip(names, models):
        onnx.checker.check_model(model)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(model.SerializeToString(deterministic=True))
    write_dims(folder, case.dims)
