"""Small models of the tests."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def model(nodes, inputs, outputs, initializers=(), opset=20, more_opsets=()):
    """inputs and outputs: {name: (element type, shape)}."""

    def infos(values):
        return [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in values.items()]

    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), list(initializers))
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(*o) for o in more_opsets)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def elementwise(dtype=FLOAT, shape=("batch", 4), op="Add"):
    """y = x op x"""
    return model([helper.make_node(op, ["x", "x"], ["y"])], {"x": (dtype, shape)}, {"y": (dtype, shape)})


def positions():
    """y = NonZero(x) of [rows, 3], rest = x[number of rows of y:]"""
    end, axis = (numpy_helper.from_array(np.array([k], np.int64), name) for k, name in ((99, "end"), (0, "axis")))
    nodes = [
        helper.make_node("NonZero", ["x"], ["y"]),
        helper.make_node("Shape", ["y"], ["sizes"], start=1),
        helper.make_node("Slice", ["x", "sizes", "end", "axis"], ["rest"]),
    ]
    integers = TensorProto.INT64
    return model(nodes, {"x": (FLOAT, ("rows", 3))}, {"y": (integers, (2, None)), "rest": (FLOAT, (None, 3))}, [end, axis])


def ranges():
    """y = the integers from start up to limit"""
    integers = TensorProto.INT64
    one = numpy_helper.from_array(np.array(1, np.int64), "one")
    nodes = [helper.make_node("Range", ["start", "limit", "one"], ["y"])]
    return model(nodes, {"start": (integers, ()), "limit": (integers, ())}, {"y": (integers, (None,))}, [one])


def linear(rows="batch"):
    """y = x @ w + b, of 3 and 2 columns"""
    w = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2), "w")
    b = numpy_helper.from_array(np.array([1, -1], np.float32), "b")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
    return model(nodes, {"x": (FLOAT, (rows, 3))}, {"y": (FLOAT, (rows, 2))}, [w, b])


def linear_result(x):
    return x @ np.arange(6, dtype=np.float32).reshape(3, 2) + np.array([1, -1], np.float32)


def two_products(rows, hidden=64):
    """y = -(x + relu(x @ up) @ down), of whole numbers"""
    up = np.arange(2 * hidden * hidden).reshape(hidden, 2 * hidden) * 7 % 5 - 2
    weights = {"up": up.astype(np.float32), "down": up.T.copy().astype(np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["u"]),
        helper.make_node("Relu", ["u"], ["r"]),
        helper.make_node("MatMul", ["r", "down"], ["d"]),
        helper.make_node("Add", ["x", "d"], ["s"]),
        helper.make_node("Neg", ["s"], ["y"]),
    ]
    values = {"x": (FLOAT, (rows, hidden))}, {"y": (FLOAT, (rows, hidden))}
    return model(nodes, *values, [numpy_helper.from_array(array, name) for name, array in weights.items()])


def chain(steps=400, size=128):
    """y: x multiplied `steps` times with a matrix, so that a step takes a while"""
    w = numpy_helper.from_array(np.eye(size, dtype=np.float32), "w")
    nodes, last = [], "x"
    for k in range(steps):
        name = "y" if k == steps - 1 else f"v{k}"
        nodes.append(helper.make_node("MatMul", [last, "w"], [name]))
        last = name
    return model(nodes, {"x": (FLOAT, (size, size))}, {"y": (FLOAT, (size, size))}, [w])


def all_reduce(size=4):
    """y: the sum of x over 2 ranks"""
    node = helper.make_node("AllReduce", ["x"], ["y"], domain="com.microsoft")
    return model([node], {"x": (FLOAT, (size,))}, {"y": (FLOAT, (size,))}, more_opsets=[("com.microsoft", 1)])


def save_with_rank_weights(folder, ranks=2):
    """model.rank{rank}.onnx: y = x + rank, and total = sum of y over the ranks"""
    for rank in range(ranks):
        w = numpy_helper.from_array(np.full(4, rank, np.float32), "w")
        nodes = [
            helper.make_node("Add", ["x", "w"], ["y"]),
            helper.make_node("AllReduce", ["y"], ["total"], domain="com.microsoft"),
        ]
        onnx.save(
            model(nodes, {"x": (FLOAT, (4,))}, {"y": (FLOAT, (4,)), "total": (FLOAT, (4,))}, [w], more_opsets=[("com.microsoft", 1)]),
            folder / f"model.rank{rank}.onnx",
        )  # fmt: skip
    return str(folder / "model.rank{rank}.onnx")
