#!/usr/bin/env python3
"""Writes what ONNX Runtime's optimisers make of small transformers, as test cases:

    optimised.py DIR             by a session, while it loads a model
    optimised.py DIR --fusions   by onnxruntime.transformers, which also needs the package sympy: writes tests/corpus/optimised

A BERT with its embeddings, its mask of padding and two layers, and a GPT-2 layer with a cache, in the form of PyTorch's older exporter,
which the fusions of ONNX Runtime look for: Attention, EmbedLayerNormalization, SkipLayerNormalization, BiasGelu, FastGelu, FusedMatMul.
Weights are small integers over a power of two. The outputs of a case are those of the plain model, run without optimisation.
"""

import argparse
import json
import os
import shutil

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

OPSET = 12
EXTENDED = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
NONE = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
HEADS, SIZE = 2, 4
HIDDEN = HEADS * SIZE


class Graph:
    def __init__(self, seed):
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []
        self.random = np.random.Generator(np.random.PCG64(seed))

    def op(self, kind, *inputs, **attributes):
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, value, dtype=np.float32):
        name = f"w_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape):
        return self.constant(self.random.integers(-8, 9, shape) / 16)

    def linear(self, x, inputs, outputs):
        return self.op("Add", self.op("MatMul", x, self.weight(inputs, outputs)), self.weight(outputs))

    def normalised(self, x, epsilon):
        mean = self.op("ReduceMean", x, axes=[-1])
        centered = self.op("Sub", x, mean)
        variance = self.op("ReduceMean", self.op("Pow", centered, self.constant(2)), axes=[-1])
        deviation = self.op("Sqrt", self.op("Add", variance, self.constant(epsilon)))
        scaled = self.op("Mul", self.op("Div", centered, deviation), self.constant(1 + self.random.integers(0, 8, HIDDEN) / 8))
        return self.op("Add", scaled, self.weight(HIDDEN))

    def heads(self, x, perm):
        shape = self.constant([0, 0, HEADS, SIZE], np.int64)
        return self.op("Transpose", self.op("Reshape", x, shape), perm=perm)

    def joined(self, x):
        x = self.op("Transpose", x, perm=[0, 2, 1, 3])
        return self.op("Reshape", x, self.constant([0, 0, HIDDEN], np.int64))

    def input(self, name, dtype, shape):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def model(self, outputs):
        declared = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs]
        graph = helper.make_graph(self.nodes, "optimised", self.inputs, declared, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 7
        return model


def bert():
    g = Graph(1)
    shape = ["batch", "sequence"]
    ids, segments, mask = (g.input(n, TensorProto.INT64, shape) for n in ("input_ids", "token_type_ids", "attention_mask"))
    sequence = g.op("Gather", g.op("Shape", ids), g.constant(1, np.int64))
    end = g.op("Unsqueeze", sequence, axes=[0])
    positions = g.op("Slice", g.constant(np.arange(16)[None], np.int64), g.constant([0], np.int64), end, g.constant([1], np.int64))
    words = g.op("Add", g.op("Gather", g.weight(11, HIDDEN), ids), g.op("Gather", g.weight(2, HIDDEN), segments))
    x = g.normalised(g.op("Add", words, g.op("Gather", g.weight(16, HIDDEN), positions)), 1e-12)
    wide = g.op("Cast", g.op("Unsqueeze", g.op("Unsqueeze", mask, axes=[1]), axes=[2]), to=TensorProto.FLOAT)
    padding = g.op("Mul", g.op("Sub", g.constant(1), wide), g.constant(-10000))
    for _ in range(2):
        q = g.heads(g.linear(x, HIDDEN, HIDDEN), [0, 2, 1, 3])
        k = g.heads(g.linear(x, HIDDEN, HIDDEN), [0, 2, 3, 1])
        v = g.heads(g.linear(x, HIDDEN, HIDDEN), [0, 2, 1, 3])
        scores = g.op("Add", g.op("Div", g.op("MatMul", q, k), g.constant(2)), padding)
        y = g.joined(g.op("MatMul", g.op("Softmax", scores, axis=3), v))
        x = g.normalised(g.op("Add", g.linear(y, HIDDEN, HIDDEN), x), 1e-12)
        y = g.linear(x, HIDDEN, 2 * HIDDEN)
        bent = g.op("Add", g.op("Erf", g.op("Div", y, g.constant(np.sqrt(2)))), g.constant(1))
        y = g.op("Mul", g.op("Mul", y, bent), g.constant(0.5))
        x = g.normalised(g.op("Add", g.linear(y, 2 * HIDDEN, HIDDEN), x), 1e-12)
    g.nodes[-1].output[0] = "last_hidden_state"
    data = [dict(input_ids=[[1, 2, 3, 4, 0], [5, 6, 7, 0, 0]], token_type_ids=[[0, 0, 1, 1, 0], [0, 1, 1, 0, 0]],
                 attention_mask=[[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]]),
            dict(input_ids=[[10]], token_type_ids=[[1]], attention_mask=[[1]])]  # fmt: skip
    data = [{name: np.array(values, np.int64) for name, values in step.items()} for step in data]
    return g.model([("last_hidden_state", [*shape, HIDDEN])]), data


def gpt2():
    g = Graph(2)
    x = g.input("hidden", TensorProto.FLOAT, ["batch", "sequence", HIDDEN])
    past = g.input("past", TensorProto.FLOAT, [2, "batch", HEADS, "past", SIZE])
    normal = g.normalised(x, 1e-5)
    together = g.op("MatMul", normal, g.weight(HIDDEN, 3 * HIDDEN))
    together = g.op("Add", together, g.weight(3 * HIDDEN))
    parts = [f"part_{k}" for k in range(3)]
    g.nodes.append(helper.make_node("Split", [together], parts, name="split", axis=2, split=[HIDDEN] * 3))
    q, k, v = (g.heads(part, [0, 2, 1, 3]) for part in parts)
    old_k, old_v = (g.op("Squeeze", g.op("Gather", past, g.constant([i], np.int64), axis=0), axes=[0]) for i in (0, 1))
    k, v = g.op("Concat", old_k, k, axis=2), g.op("Concat", old_v, v, axis=2)
    present = [g.op("Unsqueeze", t, axes=[0]) for t in (k, v)]
    g.nodes.append(helper.make_node("Concat", present, ["present"], name="present", axis=0))
    scores = g.op("Div", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])), g.constant(2))
    unsqueezed = lambda n: g.op("Unsqueeze", n, axes=[0])
    length = lambda t, axis: g.op("Gather", g.op("Shape", t), g.constant(axis, np.int64))
    total = length(scores, 3)
    first = g.op("Sub", total, length(scores, 2))
    table = g.constant(np.tri(32)[None, None], np.uint8)
    step = g.constant([1], np.int64)
    rows = g.op("Slice", table, unsqueezed(first), unsqueezed(total), g.constant([2], np.int64), step)
    allowed = g.op("Slice", rows, g.constant([0], np.int64), unsqueezed(total), g.constant([3], np.int64), step)
    scores = g.op("Where", g.op("Cast", allowed, to=TensorProto.BOOL), scores, g.constant(-10000))
    y = g.joined(g.op("MatMul", g.op("Softmax", scores, axis=3), v))
    x = g.op("Add", x, g.linear(y, HIDDEN, HIDDEN))
    y = g.linear(g.normalised(x, 1e-5), HIDDEN, 2 * HIDDEN)
    cube = g.op("Mul", g.op("Pow", y, g.constant(3)), g.constant(0.044715))
    bent = g.op("Tanh", g.op("Mul", g.op("Add", y, cube), g.constant(np.sqrt(2 / np.pi))))
    y = g.op("Mul", g.op("Mul", y, g.constant(0.5)), g.op("Add", bent, g.constant(1)))
    x = g.op("Add", x, g.linear(y, 2 * HIDDEN, HIDDEN))
    g.normalised(x, 1e-5)
    g.nodes[-1].output[0] = "y"
    whole = lambda *shape: (g.random.integers(-8, 9, shape) / 4).astype(np.float32)
    data = [dict(hidden=whole(2, 3, HIDDEN), past=whole(2, 2, HEADS, 4, SIZE)),
            dict(hidden=whole(1, 1, HIDDEN), past=whole(2, 1, HEADS, 0, SIZE))]  # fmt: skip
    outputs = [("y", ["batch", "sequence", HIDDEN]), ("present", [2, "batch", HEADS, "total", SIZE])]
    return g.model(outputs), data


def with_sizes(built):
    """The same with fixed sizes, those of the first data: other fusions apply."""
    model, data = built
    sizes = {}
    for value in model.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, data[0][value.name].shape):
            sizes[dim.dim_param] = size
    sizes["total"] = sizes.get("past", 0) + sizes["sequence"]
    for value in [*model.graph.input, *model.graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = sizes[dim.dim_param]
    return model, data[:1]


def session(path, level, written=None):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads = level, 1
    if written is not None:
        options.optimized_model_filepath = written
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def write(folder, model, data, optimise):
    """The case of the model that `optimise` writes from one file to another."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    plain = os.path.join(folder, "plain.onnx")
    onnx.save(model, plain)
    optimise(plain, os.path.join(folder, "model.onnx"))
    reference = session(plain, NONE)
    for k, feeds in enumerate(data):
        step = os.path.join(folder, f"test_data_set_{k}")
        os.makedirs(step)
        arrays = [("input", a) for a in feeds.values()] + [("output", a) for a in reference.run(None, feeds)]
        for kind in ("input", "output"):
            for i, a in enumerate(a for what, a in arrays if what == kind):
                with open(os.path.join(step, f"{kind}_{i}.pb"), "wb") as f:
                    f.write(numpy_helper.from_array(a).SerializeToString())
    os.remove(plain)
    names = {dim.dim_param for value in [*model.graph.input, *model.graph.output] for dim in value.type.tensor_type.shape.dim}
    bounds = {"batch": [1, 2], "past": [0, 8], "sequence": [1, 8], "total": [1, 16]}
    if used := {name: limits for name, limits in bounds.items() if name in names}:
        with open(os.path.join(folder, "dims.json"), "w", encoding="utf-8") as f:
            json.dump(used, f)


def fused(folder):
    """The operators of com.microsoft in the case's model."""
    model = onnx.load(os.path.join(folder, "model.onnx"))
    return {node.op_type for node in model.graph.node if node.domain == "com.microsoft"}


def fuse(source, target):
    """What onnxruntime.transformers makes of a BERT."""
    from onnxruntime.transformers import optimizer  # noqa: PLC0415

    optimizer.optimize_model(source, "bert", num_heads=HEADS, hidden_size=HIDDEN, opt_level=0).save_model_to_file(target)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--fusions", action="store_true")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(3)
    by_session = lambda source, target: session(source, EXTENDED, target)
    cases = {
        "bert": (bert(), by_session, {"Attention", "BiasGelu"}),
        "bert_static": (with_sizes(bert()), by_session, {"SkipLayerNormalization", "FusedMatMul", "Gelu"}),
        "gpt2": (gpt2(), by_session, {"FusedMatMul", "FastGelu"}),
        "gpt2_static": (with_sizes(gpt2()), by_session, {"SkipLayerNormalization", "FusedMatMul", "FastGelu"}),
    }
    if arguments.fusions:
        wanted = {"Attention", "EmbedLayerNormalization", "SkipLayerNormalization", "BiasGelu"}
        cases = {"bert_fusions": (bert(), fuse, wanted)}
    for name, (built, optimise, operators) in cases.items():
        folder = os.path.join(arguments.folder, name)
        write(folder, *built, optimise)
        print(f"{name}: {', '.join(sorted(fused(folder)))}")
        if missing := operators - fused(folder):
            raise SystemExit(f"{name}: this ONNX Runtime does not fuse {', '.join(sorted(missing))}")


if __name__ == "__main__":
    main()
