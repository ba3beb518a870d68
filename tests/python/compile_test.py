"""compile and load: models, bounds, folders, texts, and what is refused."""

import gc
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np
import onnx

import braid
import models
from support import TestCase


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

    def test_options_of_a_wrong_type_are_named(self):
        for options in ({"name": 5}, {"memory_cap": "1G"}, {"memory_cap": 2**70}, {"aliases": {"y": 3}}):
            with self.refused("BR0003", next(iter(options))):
                braid.compile(models.linear(4), **options)


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


class Folders(TestCase):
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


class Signals(TestCase):
    def test_a_signal_during_compile_leaves_nothing(self):
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


if __name__ == "__main__":
    unittest.main()
