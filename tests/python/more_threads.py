"""A step after omp_set_num_threads(16) in a session that was opened for 1 thread; a test of session_test.py runs this."""

import ctypes

import numpy as np
import onnx
from onnx import TensorProto

import braid
import models

openmp = ctypes.CDLL("libgomp.so.1")
rows = (64, 20000)  # too long for the stack: each thread has memory of its own for them
model = models.model(
    [
        onnx.helper.make_node("Exp", ["x"], ["e"]),
        onnx.helper.make_node("Softmax", ["e"], ["y"], axis=1),
    ],
    {"x": (TensorProto.FLOAT, rows)},
    {"y": (TensorProto.FLOAT, rows)},
)
program = braid.compile(model)
x = np.random.default_rng(1).random(rows, np.float32)
openmp.omp_set_num_threads(1)
session = program.session()
openmp.omp_set_num_threads(16)
y = np.asarray(session.run({"x": x})["y"])
assert openmp.omp_get_max_threads() == 16
e = np.exp(np.exp(x) - np.exp(x).max(1, keepdims=True))
np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-4)
