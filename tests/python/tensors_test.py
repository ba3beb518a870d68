"""Tensors that go into a step and come out of it: types, protocols, and what would need a copy."""

import array
import ctypes
import types
import unittest

import ml_dtypes
import numpy as np
from onnx import TensorProto

import braid
import device_arrays
import models
from support import LinearTestCase, TestCase

DTYPES = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
    "int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int16": TensorProto.INT16, "uint16": TensorProto.UINT16,
    "int32": TensorProto.INT32, "uint32": TensorProto.UINT32, "int64": TensorProto.INT64, "uint64": TensorProto.UINT64,
    "bfloat16": TensorProto.BFLOAT16,
}  # fmt: skip


def numpy_type(name):
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


class OnDevice:
    """A tensor on a GPU, as far as DLPack says before it gives anything away."""

    def __dlpack_device__(self):
        return (2, 1)

    def __dlpack__(self, **_):
        raise AssertionError("asked for memory that is not the processor's")


class WithoutBuffer:
    """An array that only speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Tensors(LinearTestCase):
    def test_all_types_go_in_and_out(self):
        for name, dtype in DTYPES.items():
            for target in (
                ("interpreter",) if name not in ("bfloat16", "float16", "int64") else ("interpreter", "cpu")
            ):
                with self.subTest(dtype=name, target=target):
                    program = braid.compile(models.elementwise(dtype, (2, 4)), target=target)
                    self.assertEqual(program.inputs[0].dtype, name)
                    x = np.arange(8).reshape(2, 4).astype(numpy_type(name))
                    with program.session() as session:
                        y = session.run({"x": x})["y"]
                    self.assertEqual(y.dtype, name)
                    self.assertEqual(np.asarray(y).dtype, numpy_type(name))
                    np.testing.assert_array_equal(np.asarray(y), x + x)

    def test_bool_scalar_and_empty_tensors(self):
        program = braid.compile(models.elementwise(TensorProto.BOOL, (3,), "And"), target="interpreter")
        with program.session() as session:
            x = np.array([True, False, True])
            np.testing.assert_array_equal(session.run({"x": x})["y"], x)
        for target in ("cpu", "interpreter"):
            with braid.compile(models.elementwise(shape=()), target=target).session() as session:
                y = session.run({"x": np.float32(4)})["y"]
                self.assertEqual((y.shape, float(np.asarray(y))), ((), 8.0))
            with braid.compile(
                models.elementwise(), dims={"batch": (0, 4)}, target=target
            ).session() as session:
                y = session.run({"x": np.zeros((0, 4), np.float32)})["y"]
                self.assertEqual((y.shape, np.asarray(y).shape, y.nbytes), ((0, 4), (0, 4), 0))

    def test_any_protocol_goes_in(self):
        flat = array.array("f", range(4))
        for given in (
            memoryview(flat).cast("B").cast("f", (1, 4)),
            WithoutBuffer(np.arange(4, dtype=np.float32).reshape(1, 4)),
            np.arange(4, dtype=np.float32).reshape(1, 4),
            np.arange(4, dtype=np.float32).reshape(4, 1).T,  # as dense one way as the other
        ):
            with self.subTest(type=type(given).__name__):
                with braid.compile(
                    models.elementwise(shape=(1, 4)), target="interpreter"
                ).session() as session:
                    np.testing.assert_array_equal(session.run({"x": given})["y"], [[0, 2, 4, 6]])
        for session in self.sessions():  # a result of one step is an input of another
            x = session.run({"x": self.x})["y"]
            with braid.compile(models.elementwise(shape=(4, 2)), target="interpreter").session() as second:
                np.testing.assert_allclose(second.run({"x": x})["y"], 2 * self.y, rtol=1e-6)

    def test_what_would_be_copied_is_refused_unless_asked_for(self):
        wide = np.zeros((4, 6), np.float32)
        wide[:, ::2] = self.x
        unaligned = np.frombuffer(b"\0" + self.x.tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 3)
        for session in self.sessions():
            for given, code, words in (
                (wide[:, ::2], "BR0731", ("'x'", "strides of (24, 8) bytes", "copy=True")),
                (self.x[::-1], "BR0731", ("strides of (-12, 4) bytes",)),
                (np.asfortranarray(self.x), "BR0731", ("strides",)),
                (WithoutBuffer(wide[:, ::2]), "BR0731", ("strides of (24, 8) bytes",)),
                (self.x.astype(np.float64), "BR0723", ("is float64, expected float32", "copy=True")),
                (self.x.astype(">f4"), "BR0723", ("expected float32",)),
                (unaligned, "BR0731", ("multiple of 4",)),
            ):
                with self.refused(code, *words):
                    session.run({"x": given})
                expected = models.linear_result(np.asarray(getattr(given, "array", given)).astype(np.float32))
                np.testing.assert_allclose(session.run({"x": given}, copy=True)["y"], expected, rtol=1e-5)
            with self.refused("BR0731", "CUDA device 1"):
                session.run({"x": OnDevice()})
            with self.refused("BR0731", "complex64", "does not convert"):
                session.run({"x": self.x.astype(np.complex64)}, copy=True)


class Versioned:
    """An array that speaks DLPack of version 1."""

    def __init__(self, array, **capsule):
        self.array, self.capsule = array, capsule

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, max_version):
        assert max_version >= (1, 0)
        tensor = device_arrays.describe(
            self.array.ctypes.data, self.array.shape, self.array.dtype, self.__dlpack_device__()
        )
        return device_arrays.versioned_capsule(tensor, **self.capsule)


class Described:
    """An array whose capsule says something else than it is."""

    def __init__(self, array, place, fields, versioned, name=None):
        self.array, self.place, self.fields, self.versioned, self.name = array, place, fields, versioned, name

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, **_):
        tensor = device_arrays.describe(self.array.ctypes.data, self.array.shape, self.array.dtype, (1, 0))
        for name, value in self.fields.items():
            setattr(tensor, name, value)
        if self.name:
            return device_arrays.new_capsule(1, self.name, None)
        return device_arrays.versioned_capsule(tensor) if self.versioned else device_arrays.capsule(tensor)


class VersionedDlpack(TestCase):
    def test_inputs_and_outputs(self):
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        for target in ("cpu", "interpreter"):
            with braid.compile(models.linear(4), target=target).session() as session:
                for flags in (0, 1):  # 1: read-only
                    y = session.run({"x": Versioned(x, flags=flags)})["y"]
                    np.testing.assert_allclose(y, models.linear_result(x))
                out = np.zeros((4, 2), np.float32)
                session.run({"x": x}, out={"y": Versioned(out)})
                np.testing.assert_allclose(out, models.linear_result(x))
                with self.refused("BR0731", "read-only"):
                    session.run({"x": x}, out={"y": Versioned(out, flags=1)})
                with self.refused("BR0730", "version 2"):
                    session.run({"x": Versioned(x, major=2)})

    def test_a_written_input_must_not_be_read_only(self):
        x = np.ones(4, np.float32)
        with braid.compile(models.elementwise(shape=(4,)), aliases={"y": "x"}).session() as session:
            session.run({"x": Versioned(x)})
            np.testing.assert_array_equal(x, 2)
            with self.refused("BR0731", "read-only"):
                session.run({"x": Versioned(x, flags=1)})
            np.testing.assert_array_equal(x, 2)

    def test_capsules_that_describe_no_memory_of_the_session_are_refused(self):
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        nowhere = {"data": None}
        huge = (ctypes.c_int64 * 2)(2**40, 2**40)
        negative = (ctypes.c_int64 * 2)(4, -3)
        for target in ("cpu", "interpreter"):
            with braid.compile(models.linear(4), target=target).session() as session:
                for code, words, place, fields in (
                    ("BR0730", ("device 2:0", "says 1:0"), (1, 0), {"device_type": 2}),
                    ("BR0730", ("device 1:1", "says 1:0"), (1, 0), {"device_id": 1}),
                    ("BR0730", ("device 13:0", "says 1:0"), (1, 0), {"device_type": 13}),
                    ("BR0730", ("device 1:0", "says 3:0"), (3, 0), {}),
                    ("BR0731", ("CUDA device 0",), (2, 0), {"device_type": 2}),
                    ("BR0731", ("device 13:0",), (13, 0), {"device_type": 13}),
                    ("BR0730", ("65 dimensions",), (1, 0), {"ndim": 65}),
                    ("BR0730", ("2147483647 dimensions",), (1, 0), {"ndim": 2**31 - 1}),
                    ("BR0730", ("-1 dimensions",), (1, 0), {"ndim": -1}),
                    ("BR0730", ("2 dimensions",), (1, 0), {"shape": None}),
                    ("BR0730", ("size -3",), (1, 0), {"shape": negative}),
                    ("BR0730", ("more elements",), (1, 0), {"shape": huge}),
                    ("BR0730", ("no memory",), (1, 0), nowhere),
                    ("BR0730", ("no memory",), (1, 0), {**nowhere, "byte_offset": 4}),
                    ("BR0730", ("offset",), (1, 0), {"byte_offset": 2**64 - 4}),
                    ("BR0731", ("multiple of 4",), (1, 0), {"byte_offset": 2}),
                    ("BR0723", ("2 lanes",), (1, 0), {"lanes": 2}),
                    ("BR0723", ("0 lanes",), (1, 0), {"lanes": 0}),
                    ("BR0723", ("4 bits",), (1, 0), {"bits": 4}),
                    ("BR0723", ("0 bits",), (1, 0), {"bits": 0}),
                    ("BR0723", ("type 77",), (1, 0), {"code": 77}),
                    ("BR0731", ("strides",), (1, 0), {"strides": (ctypes.c_int64 * 2)(-3, 1)}),
                    ("BR0731", ("strides",), (1, 0), {"strides": (ctypes.c_int64 * 2)(0, 0)}),
                    ("BR0731", ("strides",), (1, 0), {"strides": (ctypes.c_int64 * 2)(2**62, 2**62)}),
                ):
                    for versioned in (True, False):
                        with self.subTest(target=target, place=place, fields=fields, versioned=versioned):
                            with self.refused(code, *words):
                                session.run({"x": Described(x, place, fields, versioned)})
                with self.refused("BR0730", "no capsule"):
                    session.run({"x": Described(x, (1, 0), {}, True, b"used_dltensor_versioned")})
                for versioned in (True, False):
                    y = session.run({"x": Described(x, (3, 0), {"device_type": 3}, versioned)})["y"]  # pinned memory
                    np.testing.assert_allclose(y, models.linear_result(x))

    def test_array_interfaces_that_contradict_themselves_are_refused(self):
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        with braid.compile(models.linear(4)).session() as session:
            for words, fields in (
                ("1 strides for 2 dimensions", {"strides": (12,)}),
                ("size -4", {"shape": (-4, 3)}),
                ("more elements", {"shape": (2**60, 2**60)}),
                ("no memory", {"data": (0, False)}),
            ):
                array = types.SimpleNamespace(
                    dtype=x.dtype, __array_interface__={**x.__array_interface__, **fields}
                )
                with self.subTest(words), self.refused("BR0730", words):
                    session.run({"x": array})

    def test_outputs_speak_both(self):
        with braid.compile(models.linear(4)).session() as session:
            y = session.run({"x": np.ones((4, 3), np.float32)})["y"]
        self.assertIn("dltensor_versioned", repr(y.__dlpack__(max_version=(1, 0))))
        self.assertNotIn("versioned", repr(y.__dlpack__()))
        for stream in ("no", 1.5):
            with self.refused("BR0735"):
                y.__dlpack__(stream=stream)
        np.testing.assert_array_equal(np.from_dlpack(y), y)


if __name__ == "__main__":
    unittest.main()
