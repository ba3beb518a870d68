"""Loop and Scan whose number of iterations is a size, compiled, beside ONNX Runtime."""

import unittest

import models
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from support import TestCase

import braid

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def infos(**values):
    return [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in values.items()]


class Loops(TestCase):
    def compare(self, proto, lengths, shapes):
        """Runs the program with each length, and ONNX Runtime with the same inputs."""
        theirs = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        program = braid.compile(proto, dims={"n": (0, max(lengths))})
        random = np.random.default_rng(1)
        with program.session(threads=2) as session:
            for n in lengths:
                feeds = {
                    name: random.standard_normal([n if d == "n" else d for d in shape]).astype(np.float32)
                    for name, shape in shapes.items()
                }
                want = theirs.run(None, feeds)
                got = session.run(feeds)
                for output, expected in zip(program.outputs, want):
                    with self.subTest(n=n, output=output.name):
                        np.testing.assert_allclose(np.asarray(got[output.name]), expected, rtol=1e-5, atol=1e-6)

    def test_scan_over_a_sequence_forwards_and_backwards(self):
        body = helper.make_graph(
            [
                helper.make_node("MatMul", ["s", "w"], ["m"]),
                helper.make_node("Add", ["m", "r"], ["a"]),
                helper.make_node("Tanh", ["a"], ["t"]),
                helper.make_node("Add", ["t", "q"], ["u"]),
            ],
            "body",
            infos(s=(FLOAT, (1, 4)), r=(FLOAT, (1, 4)), q=(FLOAT, (1, 4))),
            infos(t=(FLOAT, (1, 4)), u=(FLOAT, (1, 4))),
        )
        scan = helper.make_node("Scan", ["start", "x", "z"], ["y", "all"], num_scan_inputs=2, body=body,
                                scan_input_axes=[0, 1], scan_input_directions=[0, 1], scan_output_axes=[1],
                                scan_output_directions=[1])  # fmt: skip
        shapes = {"start": (1, 4), "x": ("n", 1, 4), "z": (1, "n", 4), "w": (4, 4)}
        proto = models.model([scan], {name: (FLOAT, shape) for name, shape in shapes.items()},
                             {"y": (FLOAT, (1, 4)), "all": (FLOAT, (1, "k", 4))}, opset=17)  # fmt: skip
        self.compare(proto, (1, 2, 7, 40), shapes)

    def test_loop_that_joins_as_many_results_as_an_input_has_rows(self):
        body = helper.make_graph(
            [
                helper.make_node("Identity", ["go"], ["again"]),
                helper.make_node("Gather", ["x", "i"], ["r"]),
                helper.make_node("Add", ["s", "r"], ["t"]),
                helper.make_node("Mul", ["t", "t"], ["u"]),
            ],
            "body",
            infos(i=(INT64, ()), go=(BOOL, ()), s=(FLOAT, (3,))),
            infos(again=(BOOL, ()), t=(FLOAT, (3,)), u=(FLOAT, (3,))),
        )
        nodes = [
            helper.make_node("Constant", [], ["zero"], value=helper.make_tensor("zero", INT64, [], [0])),
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "zero"], ["count"]),
            helper.make_node("Loop", ["count", "", "start"], ["y", "all"], body=body),
        ]
        shapes = {"x": ("n", 3), "start": (3,)}
        proto = models.model(nodes, {name: (FLOAT, shape) for name, shape in shapes.items()},
                             {"y": (FLOAT, (3,)), "all": (FLOAT, ("k", 3))}, opset=17)  # fmt: skip
        self.compare(proto, (0, 1, 5, 33), shapes)


if __name__ == "__main__":
    unittest.main()
