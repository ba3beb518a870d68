"""compile, load, session and run: results, and what is refused."""

import gc
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
import weakref

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

import braid
import device_arrays
import models
from support import TestCase

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


class Failing:
    """Claims to be a tensor."""

    def __init__(self, device=(1, 0), capsule=None, error=None):
        self.device, self.capsule, self.error = device, capsule, error

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        if self.error:
            raise self.error
        return self.capsule() if callable(self.capsule) else self.capsule


class Compile(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_path_bytes_and_a_proto_give_the_same_program(self):
        proto = models.linear()
        onnx.save(proto, self.folder / "linear.onnx")
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        for model in (
            str(self.folder / "linear.onnx"),
            self.folder / "linear.onnx",
            proto.SerializeToString(),
            proto,
        ):
            program = braid.compile(model, dims={"batch": (1, 8)})
            with program.session() as session:
                np.testing.assert_array_equal(session.run({"x": x})["y"], models.linear_result(x))

    def test_the_interface_is_described(self):
        program = braid.compile(models.linear(), dims={"batch": "1..8"}, name="line")
        self.assertEqual(program.inputs, [braid.TensorSpec("x", "float32", ("batch", 3))])
        self.assertEqual(program.outputs, [braid.TensorSpec("y", "float32", ("batch", 2))])
        self.assertEqual((program.name, program.ranks, program.dims), ("line", 1, {"batch": (1, 8)}))
        self.assertGreaterEqual(program.memory.weights, 8 * 4)
        self.assertIn("x: float32[batch, 3] -> y: float32[batch, 2]", repr(program))

    def test_forms_of_bounds(self):
        for bounds, expected in (
            (4, (4, 4)),
            ((1, 4), (1, 4)),
            ("1..4", (1, 4)),
            (range(1, 5), (1, 4)),
            ("4", (4, 4)),
        ):
            program = braid.compile(models.linear(), dims={"batch": bounds}, target="interpreter")
            self.assertEqual(program.dims, {"batch": expected} if expected[0] != expected[1] else {}, bounds)
        for bounds in (-1, "a..b", (1, 2, 3), 1.5, None, "1.."):
            with self.refused("BR0003", "batch"):
                braid.compile(models.linear(), dims={"batch": bounds}, target="interpreter")

    def test_a_compiled_folder_is_loaded(self):
        braid.compile(models.linear(), dims={"batch": (1, 8)}, output=self.folder / "out")
        program = braid.load(self.folder / "out")
        x = np.ones((1, 3), np.float32)
        with program.session(threads=1) as session:
            np.testing.assert_array_equal(session.run({"x": x})["y"], models.linear_result(x))

    def test_a_temporary_folder_goes_with_the_program_and_results_stay(self):
        program = braid.compile(models.linear(4))
        folder = pathlib.Path(program.folder)
        self.assertTrue((folder / "manifest.json").exists())
        session = program.session()
        del program
        gc.collect()
        self.assertFalse(folder.exists())
        x = np.ones((4, 3), np.float32)
        y = session.run({"x": x})["y"]
        session.close()
        del session
        gc.collect()
        np.testing.assert_array_equal(y, models.linear_result(x))

    def test_bad_models_folders_and_options_are_refused(self):
        with self.refused("BR0008", "nowhere"):
            braid.load(self.folder / "nowhere")
        with self.refused("BR0008"):
            braid.load(self.folder)
        with self.refused("BR0001", "missing.onnx"):
            braid.compile(self.folder / "missing.onnx")
        with self.refused("BR0101", "the given model"):
            braid.compile(b"this is no model")
        with self.refused("BR0003", "list"):
            braid.compile([1, 2])
        with self.refused("BR0310", "batch"):
            braid.compile(models.linear())
        with self.refused("BR0003", "gpu"):
            braid.compile(models.linear(4), target="gpu")
        with self.refused("BR0003", "architectures"):
            braid.compile(models.linear(4), target="cpu:sm_90")
        for ranks in (0, "2", True):
            with self.refused("BR0003", "ranks"):
                braid.compile(models.linear(4), ranks=ranks)
        with self.refused("BR0540", "no_such_pass"):
            braid.compile(models.linear(4), passes="no_such_pass")
        unsupported = models.elementwise(op="NoSuchOperator")
        with self.refused("BR0109", "NoSuchOperator"):
            braid.compile(unsupported, dims={"batch": 1})

    def test_a_library_of_other_bytes_is_refused(self):
        braid.compile(models.linear(4), output=self.folder / "out", name="line")
        shutil.copytree(self.folder / "out", self.folder / "copy")  # the library of the first stays loaded
        library = self.folder / "copy" / "line.so"
        library.write_bytes(library.read_bytes()[:2000])
        with self.refused("BR0721"):
            braid.load(self.folder / "copy")
        shutil.copy("/bin/true", library)
        with self.refused("BR0721"):
            braid.load(self.folder / "copy")

    def test_a_broken_host_compiler_is_an_error(self):
        import os

        before = os.environ.get("CXX")
        os.environ["CXX"] = "/bin/false"
        try:
            with self.refused("BR0603", "/bin/false"):
                braid.compile(models.linear(5))
            program = braid.compile(models.linear(5), target="interpreter")  # needs none
        finally:
            os.environ.pop("CXX") if before is None else os.environ.update(CXX=before)
        x = np.ones((5, 3), np.float32)
        with program.session() as session:
            np.testing.assert_array_equal(session.run({"x": x})["y"], models.linear_result(x))

    def test_a_plain_model_is_split(self):
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        for target in ("cpu", "interpreter"):
            program = braid.compile(models.linear(4), tp=2, target=target)
            self.assertEqual(program.ranks, 2)
            with program.launch(threads=1) as ranks:
                for result in ranks.run({"x": x}):
                    np.testing.assert_array_equal(result["y"], models.linear_result(x))
        # So small a model is the fastest alone.
        self.assertEqual(braid.compile(models.linear(4), devices=2, machine="h100", target="interpreter").ranks, 1)
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder) / "w.plan"
            plan.write_text('plan 1\nranks 2\n"w" -> "m" = S(1)\n"m" = S(1)\n"b" -> "y" = S(0)\n"y" = S(1)\n')
            program = braid.compile(models.linear(4), plan=plan, target="interpreter")
        with program.launch() as ranks:
            for result in ranks.run({"x": x}):
                np.testing.assert_array_equal(result["y"], models.linear_result(x))
        for devices in (0, True, "2"):
            with self.refused("BR0003", "devices"):
                braid.compile(models.linear(4), devices=devices)
        with self.refused("BR0484", "--tp"):
            braid.compile(models.linear(4), devices=2, tp=2)

    def test_programs_of_the_same_weights_are_split_together(self):
        with tempfile.TemporaryDirectory() as folder:
            prefill, decode = pathlib.Path(folder) / "prefill.onnx", pathlib.Path(folder) / "decode.onnx"
            onnx.save(models.two_products(256), prefill)
            onnx.save(models.two_products(1), decode)
            out = [pathlib.Path(folder) / name for name in ("alone", "both", "other")]
            braid.compile(prefill, tp=2, output=out[0])
            both = braid.compile(prefill, tp=2, with_=f"{decode}*100", output=out[1])
            other = braid.compile(decode, tp=2, at="*100", with_=[prefill], output=out[2])
            # Many rows are cut while weights stay whole, which costs the other program more than this one gains.
            self.assertFalse((out[0] / "weights.rank0.bin").exists())
            for rank in (0, 1):
                half = 2 * 64 * 128 * 4 // 2  # behind a header with the program's number
                parts = [(path / f"weights.rank{rank}.bin").read_bytes()[-half:] for path in out[1:]]
                self.assertTrue(len(parts[0]) == half and parts[0] == parts[1])
            x = np.arange(256 * 64, dtype=np.float32).reshape(256, 64) % 7 - 3
            for program, rows in ((both, x), (other, x[:1])):
                with braid.compile(models.two_products(len(rows)), target="interpreter").session() as plain:
                    expected = plain.run({"x": rows})["y"].numpy()
                with program.launch(threads=1) as ranks:
                    for result in ranks.run({"x": rows}):
                        np.testing.assert_array_equal(result["y"], expected)
            for options, code, what in (
                ({"with_": decode}, "BR0003", "with_="),
                ({"at": "*2"}, "BR0003", "at="),
                ({"split_caches": True}, "BR0003", "split_caches="),
                ({"tp": 2, "with_": f"{decode}*0"}, "BR0003", "steps"),
                ({"tp": 2, "with_": 3}, "BR0003", "with_"),
                ({"tp": 2, "with_": prefill}, "BR0494", "given already"),
            ):
                with self.refused(code, what):
                    braid.compile(prefill, **options)


class Run(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = {
            target: braid.compile(models.linear(), dims={"batch": (1, 8)}, target=target)
            for target in ("cpu", "interpreter")
        }
        cls.x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
        cls.y = models.linear_result(cls.x)

    def sessions(self):
        for program in self.programs.values():
            with program.session() as session:
                yield session

    def test_sizes_may_change_between_steps(self):
        for session in self.sessions():
            for rows in (1, 8, 3, 8):
                x = np.full((rows, 3), rows, np.float32)
                np.testing.assert_allclose(session.run({"x": x})["y"], models.linear_result(x))

    def test_out_is_written_without_a_copy(self):
        for session in self.sessions():
            out = np.zeros((4, 2), np.float32)
            results = session.run({"x": self.x}, out={"y": out})
            self.assertIs(results["y"], out)
            np.testing.assert_allclose(out, self.y, rtol=1e-6)

    def test_outputs_share_their_memory_and_keep_it(self):
        for session in self.sessions():
            tensor = session.run({"x": self.x})["y"]
            self.assertEqual((tensor.shape, tensor.dtype, tensor.nbytes), ((4, 2), "float32", 32))
            views = [
                np.from_dlpack(tensor),
                np.asarray(tensor),
                tensor.numpy(),
                np.asarray(memoryview(tensor)),
            ]
            views[0].flags.writeable or self.fail("read-only")
            views[0][0, 0] = 77
            gone = weakref.ref(views[0])
            del tensor
            gc.collect()
            for view in views:
                self.assertEqual(view[0, 0], 77)
                self.assertEqual(view.ctypes.data % 64, 0)
            self.assertIsNotNone(gone())

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
        import array

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

    def test_bad_inputs_are_refused(self):
        for session in self.sessions():
            with self.refused("BR0006", "'x' is missing"):
                session.run({})
            with self.refused("BR0006", "no input 'z'", "its inputs are x"):
                session.run({"x": self.x, "z": self.x})
            for value in (None, 3.0, [[1.0, 2.0, 3.0]], "text", object()):
                with self.refused("BR0730", "not a tensor that can be passed"):
                    session.run({"x": value})
            with self.refused("BR0730", "requires grad"):
                session.run({"x": Failing(error=BufferError("requires grad"))})
            with self.refused("BR0730", "__dlpack_device__"):
                session.run({"x": Failing(device="here")})
            with self.refused("BR0730", "no capsule"):
                session.run({"x": Failing(capsule=3)})
            with self.refused("BR0732"):  # from within a step's own preparation
                session.run({"x": Failing(capsule=lambda session=session: session.run({"x": self.x}))})
            with self.assertRaises(KeyError):  # the object's own errors pass
                session.run({"x": Failing(error=KeyError("mine"))})
            with warnings.catch_warnings(), self.assertRaises(TypeError):  # never made, only allocated
                warnings.simplefilter("ignore")
                session.run({"x": braid.Tensor.__new__(braid.Tensor)})
            with self.refused("BR0723", "expected float32"):
                session.run({"x": self.x.astype(np.complex64)})
            with self.assertRaises(TypeError):
                session.run([self.x])
            for shape in ((4, 2), (4,), (4, 3, 1), (9, 3), (0, 3)):
                with self.assertRaises(braid.Error) as caught:
                    session.run({"x": np.zeros(shape, np.float32)})
                self.assertIn(caught.exception.code, (302, 303, 305, 701, 723, 724))
            np.testing.assert_allclose(session.run({"x": self.x})["y"], self.y, rtol=1e-6)  # it still works

    def test_bad_outputs_are_refused(self):
        for session in self.sessions():
            readonly = np.zeros((4, 2), np.float32)
            readonly.flags.writeable = False
            for out, code, words in (
                ({"y": readonly}, "BR0731", ("read-only",)),
                ({"y": np.zeros((4, 4), np.float32)[:, ::2]}, "BR0731", ("strides",)),
                ({"y": np.zeros((4, 2))}, "BR0723", ("float64",)),
                ({"y": np.zeros((2, 2), np.float32)}, "BR0723", ("shape",)),
                ({"z": np.zeros((4, 2), np.float32)}, "BR0006", ("no output 'z'",)),
                ({"y": self.x.reshape(-1)[:8].reshape(4, 2)}, "BR0731", ("shares memory with input 'x'",)),
                ([np.zeros((4, 2), np.float32)], "BR0730", ("dictionary",)),
            ):
                with self.refused(code, *words):
                    session.run({"x": self.x}, out=out)

    def test_a_closed_session_is_refused(self):
        for program in self.programs.values():
            with program.session() as session:
                pass
            with self.refused("BR0733", "closed"):
                session.run({"x": self.x})
            session.close()  # again: nothing happens

    def test_threads_must_be_a_number(self):
        for threads in (0, -1, "2", 1.0):
            with self.refused("BR0003", "threads"):
                self.programs["cpu"].session(threads=threads)


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

    def test_outputs_speak_both(self):
        with braid.compile(models.linear(4)).session() as session:
            y = session.run({"x": np.ones((4, 3), np.float32)})["y"]
        self.assertIn("dltensor_versioned", repr(y.__dlpack__(max_version=(1, 0))))
        self.assertNotIn("versioned", repr(y.__dlpack__()))
        for stream in ("no", 1.5):
            with self.refused("BR0735"):
                y.__dlpack__(stream=stream)
        np.testing.assert_array_equal(np.from_dlpack(y), y)


class Texts(TestCase):
    def test_what_is_not_utf8_is_an_error(self):
        bad = "a\udcff"
        for options in ({"dims": {bad: 4}}, {"target": bad}, {"name": bad}, {"output": bad}, {"aliases": {bad: "x"}}, {"aliases": {"y": bad}}, {"bindable": {bad: np.zeros(2)}}, {"passes": bad}, {"machine": bad}, {"plugins": [bad]}):  # fmt: skip
            with self.refused("BR0003"):
                braid.compile(models.linear(4), **options)
        for call in (braid.compile, braid.load, braid.explain, braid.check, braid.InferenceSession):
            with self.refused("BR0003", "UTF-8"):
                call(bad)
            with self.refused("BR0003", "zero"):
                call("a\0b")
        with braid.compile(models.linear(4)).session() as session:
            for name in (bad, 5, None, b"x", "x" * 100_000):
                for inputs in ({name: np.zeros(2)}, {"x": np.zeros((4, 3), np.float32), name: np.zeros(2)}):
                    with self.refused("BR0006"):
                        session.run(inputs)
                with self.refused("BR0006"):
                    session.run({"x": np.zeros((4, 3), np.float32)}, out={name: np.zeros(2)})

    def test_a_model_whose_names_are_not_utf8_is_refused(self):
        data = models.elementwise(shape=("dimension", 4)).SerializeToString()
        for old in (b"dimension", b"x", b"y", b"Add"):
            broken = data.replace(old, b"\xff" * len(old))
            for target in ("cpu", "interpreter"):
                with self.refused("BR0101", "UTF-8", "\\xff"):
                    braid.compile(broken, target=target, dims={"dimension": 2})
            with self.refused("BR0101"):
                braid.InferenceSession(broken)

    def test_names_beyond_ascii_work(self):
        model = models.elementwise(shape=("größe", 2))
        model.graph.input[0].name = model.graph.node[0].input[0] = model.graph.node[0].input[1] = "入力 '\""
        x = np.ones((3, 2), np.float32)
        for target in ("cpu", "interpreter", "cuda"):
            program = braid.compile(model, dims={"größe": (1, 4)}, target=target)
            device = {"device": "emulated"} if target == "cuda" else {}
            with program.session(**device) as session:
                np.testing.assert_array_equal(session.run({"入力 '\"": x})["y"], 2 * x)


class Threads(TestCase):
    def test_a_step_runs_without_the_interpreter_lock_and_refuses_a_second_thread(self):
        x = np.ones((128, 128), np.float32)
        program = braid.compile(models.chain())
        with program.session(threads=1) as session:
            session.run({"x": x})
            refusals, steps = [], []

            def work(done):
                while not done.is_set():
                    try:
                        session.run({"x": x})
                        steps.append(1)
                    except braid.Error as error:
                        refusals.append(error)

            done = threading.Event()
            threads = [threading.Thread(target=work, args=(done,)) for _ in range(2)]
            for thread in threads:
                thread.start()
            # This thread goes on while they run; without the lock released, no step could be refused.
            while len(refusals) < 3 or len(steps) < 3:
                pass
            done.set()
            for thread in threads:
                thread.join()
            self.assertEqual({error.code for error in refusals}, {732})
            np.testing.assert_array_equal(session.run({"x": x})["y"], x)

    def test_sessions_of_one_program_run_at_once(self):
        program = braid.compile(models.linear(), dims={"batch": (1, 8)})
        results = {}

        def work(rows):
            x = np.full((rows, 3), rows, np.float32)
            with program.session(threads=1) as session:
                for _ in range(200):
                    y = session.run({"x": x})["y"]
                results[rows] = np.array_equal(y, models.linear_result(x))

        threads = [threading.Thread(target=work, args=(rows,)) for rows in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {1: True, 2: True, 3: True, 4: True})


class Aliases(TestCase):
    def test_an_aliased_output_is_its_input(self):
        for target in ("cpu", "interpreter"):
            program = braid.compile(models.elementwise(shape=(4,)), aliases={"y": "x"}, target=target)
            self.assertTrue(program.inputs[0].written)
            self.assertEqual(program.outputs[0].alias_of, "x")
            with program.session() as session:
                x = np.ones(4, np.float32)
                self.assertIs(session.run({"x": x})["y"], x)
                np.testing.assert_array_equal(x, 2)
                self.assertIs(session.run({"x": x}, out={"y": x})["y"], x)
                np.testing.assert_array_equal(x, 4)
                x.flags.writeable = False
                with self.refused("BR0731", "read-only"):
                    session.run({"x": x})
                with self.refused("BR0731", "strides"):  # a copy would not be written back
                    session.run({"x": np.ones(8, np.float32)[::2]}, copy=True)


class Hostile(TestCase):
    def test_an_input_that_is_written_shares_memory_with_no_other(self):
        model = models.model(
            [onnx.helper.make_node("Add", ["x", "x"], ["y"]), onnx.helper.make_node("Exp", ["z"], ["w"])],
            {"x": (TensorProto.FLOAT, (4,)), "z": (TensorProto.FLOAT, (4,))},
            {"y": (TensorProto.FLOAT, (4,)), "w": (TensorProto.FLOAT, (4,))},
        )
        with braid.compile(model, aliases={"y": "x"}).session(threads=1) as session:
            memory = np.ones(7, np.float32)
            for x, z in ((memory[:4], memory[:4]), (memory[:4], memory[3:])):
                with self.refused("BR0731", "input 'x'", "input 'z'"):
                    session.run({"x": x, "z": z})
            np.testing.assert_array_equal(memory, 1)
            session.run({"x": memory[:4], "z": np.ones(4, np.float32)})
            np.testing.assert_array_equal(memory, [2, 2, 2, 2, 1, 1, 1])

    def test_a_step_uses_no_more_threads_than_the_session_was_opened_for(self):
        # In a process of its own with a time-out: without the limit, the step writes where it must not, or hangs.
        script = pathlib.Path(__file__).parent / "more_threads.py"
        subprocess.run([sys.executable, "-B", script], check=True, timeout=60)

    def test_a_folder_may_be_compiled_into_again(self):
        x = np.ones((1, 3), np.float32)
        with tempfile.TemporaryDirectory() as folder:
            programs = [
                braid.compile(models.elementwise(shape=(1, 3), op=op), output=folder, name="model")
                for op in ("Add", "Mul", "Sub", "Add")
            ]
            np.testing.assert_array_equal(programs[-1].session().run({"x": x})["y"].numpy(), x + x)
            for op, result in (("Sub", x - x), ("Mul", x * x), ("Add", x + x)):
                program = braid.compile(models.elementwise(shape=(1, 3), op=op), output=folder, name="model")
                session = program.session()
                np.testing.assert_array_equal(session.run({"x": x})["y"].numpy(), result)

    def test_options_of_a_wrong_type_are_named(self):
        for options in ({"name": 5}, {"memory_cap": "1G"}, {"memory_cap": 2**70}, {"aliases": {"y": 3}}):
            with self.refused("BR0003", next(iter(options))):
                braid.compile(models.linear(4), **options)

    def test_a_signal_during_compile_leaves_nothing(self):
        import os
        import signal
        import time

        with tempfile.TemporaryDirectory() as folder:
            compiler = pathlib.Path(folder, "slow")
            started = pathlib.Path(folder, "started")
            compiler.write_text(f"#!/bin/sh\ntouch {started}\nexec sleep 60\n")
            compiler.chmod(0o755)
            temporary = pathlib.Path(folder, "tmp")
            temporary.mkdir()
            script = (
                "import sys\n"
                f"sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
                "import braid, models\n"
                "braid.compile(models.linear(4).SerializeToString())"
            )
            for number in (signal.SIGTERM, signal.SIGHUP):
                environment = {**os.environ, "CXX": str(compiler), "TMPDIR": str(temporary)}
                process = subprocess.Popen([sys.executable, "-c", script], env=environment)
                deadline = time.monotonic() + 60
                while not started.exists():
                    self.assertIsNone(process.poll())
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)
                process.send_signal(number)
                self.assertEqual(process.wait(60), -number)
                started.unlink()
                self.assertEqual(list(temporary.rglob("*")), [])

    def test_a_handler_of_ones_own_stays(self):
        import signal

        got = []
        before = signal.signal(signal.SIGTERM, lambda *_: got.append(1))
        try:
            braid.compile(models.linear(4))
            signal.raise_signal(signal.SIGTERM)
            self.assertEqual(got, [1])
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            braid.compile(models.linear(4))
            self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)
        finally:
            signal.signal(signal.SIGTERM, before)

    def test_a_fork_does_not_remove_the_programs_folder(self):
        script = (
            "import os, sys\n"
            f"sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
            "import braid, models\n"
            "program = braid.compile(models.linear(4))\n"
            "child = os.fork()\n"
            "if child == 0: sys.exit()\n"  # runs what Python does at its end
            "os.waitpid(child, 0)\n"
            "print(program.session().run({'x': __import__('numpy').ones((4, 3), 'f4')})['y'].shape)"
        )
        output = subprocess.check_output([sys.executable, "-c", script], text=True)
        self.assertEqual(output, "(4, 2)\n")


if __name__ == "__main__":
    unittest.main()
