"""Inputs and expected outputs of a transformer in the layout of ONNX's backend tests.

    DIR/test_data_set_0/input_0.pb, output_0.pb ...           of the plain model
    DIR/test_data_set_0/rank0/input_0.pb, output_0.pb ...     of each rank of the split model

Expected outputs come from ONNX Runtime on the plain model; a rank's keys and values are its heads of the plain ones.
"""

import os
import zlib

import numpy as np
import onnxruntime
from onnx import numpy_helper


def make_inputs(model, config, sizes, seed):
    """Random inputs of the plain `model` by name, for the run-time sizes `sizes` of its named dimensions."""
    result = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = tuple(d.dim_value if d.HasField("dim_value") else sizes[d.dim_param] for d in dims)
        generator = np.random.Generator(np.random.PCG64([seed, zlib.crc32(value.name.encode())]))
        if value.name == "input_ids":
            array = generator.integers(0, config.vocab, shape, np.int64)
        elif value.name == "token_type_ids":
            array = generator.integers(0, 2, shape, np.int64)
        elif value.name == "position_ids":
            past = dict(config.fixed_dims).get("past_sequence", sizes.get("past_sequence", 0))
            array = np.broadcast_to(np.arange(past, past + shape[1], dtype=np.int64), shape)
        elif value.name == "attention_mask":
            lengths = generator.integers(1, shape[1] + 1, shape[0])
            array = (np.arange(shape[1]) < lengths[:, None]).astype(np.int64)
        else:
            array = generator.standard_normal(shape, np.float32)
        result[value.name] = np.ascontiguousarray(array)
    return result


def part_of_rank(name, array, shard):
    """What rank `shard.rank` has of a value of the plain model: its heads of keys and values, all of the rest."""
    return shard.part(array, 1) if name.startswith(("past_", "present_")) else array


def run_plain(path, inputs):
    """Outputs of a plain model by name, by ONNX Runtime on one thread without optimisation."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))


def write_data_set(folder, inputs, outputs):
    """Writes input_i.pb and output_i.pb, in the order of the dictionaries."""
    os.makedirs(folder, exist_ok=True)
    for kind, values in (("input", inputs), ("output", outputs)):
        for i, (name, array) in enumerate(values.items()):
            with open(os.path.join(folder, f"{kind}_{i}.pb"), "wb") as file:
                tensor = numpy_helper.from_array(np.asarray(array, order="C"), name)
                file.write(tensor.SerializeToString(deterministic=True))


def write_transformer_data_set(folder, inputs, outputs, shards):
    """One data set, for the plain model (no `shards`) or for each rank."""
    if not shards:
        write_data_set(folder, inputs, outputs)
    for shard in shards:
        cut = [{n: part_of_rank(n, a, shard) for n, a in values.items()} for values in (inputs, outputs)]
        write_data_set(os.path.join(folder, f"rank{shard.rank}"), *cut)
