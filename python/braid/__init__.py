"""Braid compiles ONNX models, also those that run on several devices, and runs them.

    import braid

    program = braid.compile("model.onnx", dims={"batch": (1, 8)})
    with program.session() as session:
        y = session.run({"x": x})["y"]  # numpy.asarray(y) and torch.from_dlpack(y) share its memory

`docs/python.md` has more. `braid.InferenceSession` has ONNX Runtime's shape, `braid.backend` is a backend of
ONNX's.
"""

from ._braid import Session, Tensor
from ._braid import version as __version__
from ._errors import Error, InternalError
from ._inference import InferenceSession
from ._program import Memory, Program, TensorSpec, compile, load
from ._reports import Certificate, Explanation, Operator, check, explain, ops

__all__ = [
    "Certificate",
    "Error",
    "Explanation",
    "InferenceSession",
    "InternalError",
    "Memory",
    "Operator",
    "Program",
    "Session",
    "Tensor",
    "TensorSpec",
    "__version__",
    "check",
    "compile",
    "explain",
    "load",
    "ops",
]
