"""CUDA programs from Python, on the emulated device: with arrays of NumPy, as on a machine without a GPU, and with tensors in
the device's memory, as on a GPU."""

import ctypes
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

import braid
import models
from device_arrays import CUDA, Device, DeviceArray, Interface, from_dlpack
from support import TestCase

NO_GPU = braid._braid.default_device()[0] == "emulated"


def on_device(program, stream=None):
    """A session that takes and gives tensors in the device's memory alone, as on a GPU."""
    return braid._braid.open_session(program._core, 0, "emulated", stream, False)


class Emulated(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = braid.compile(models.linear(), dims={"batch": (0, 8)}, target="cuda")
        cls.x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
        cls.y = models.linear_result(cls.x)

    def test_arrays_of_numpy_go_in_and_out(self):
        with self.program.session(device="emulated") as session:
            for rows in (1, 8, 3, 0, 8):
                x = np.full((rows, 3), rows, np.float32)
                y = session.run({"x": x})["y"]
                self.assertEqual((y.shape, y.device), ((rows, 2), "cpu"))
                np.testing.assert_allclose(y, models.linear_result(x), rtol=1e-6)
            self.assertEqual(session.output_shapes({"x": self.x}), {"y": (4, 2)})
            out = np.zeros((4, 2), np.float32)
            self.assertIs(session.run({"x": self.x}, out={"y": out})["y"], out)
            np.testing.assert_allclose(out, self.y, rtol=1e-6)
            np.testing.assert_allclose(session.run({"x": self.x.astype(np.float64)}, copy=True)["y"], self.y, rtol=1e-6)
        np.testing.assert_allclose(y, models.linear_result(x), rtol=1e-6)  # its memory stays
        with self.refused("BR0733"):
            session.run({"x": self.x})

    @unittest.skipUnless(NO_GPU, "there is a GPU")
    def test_it_is_chosen_with_a_warning_where_there_is_no_gpu(self):
        with self.assertWarnsRegex(UserWarning, "emulated device") as caught, self.program.session() as session:
            np.testing.assert_allclose(session.run({"x": self.x})["y"], self.y, rtol=1e-6)
        self.assertEqual(caught.filename, __file__)
        for device in ("gpu", "gpu:1"):
            with self.refused("BR0013", "GPU", "emulated"):
                self.program.session(device=device)

    def test_bad_inputs_are_refused_as_on_the_cpu(self):
        with self.program.session(device="emulated") as session:
            for inputs, code, words in (
                ({}, "BR0006", ("'x' is missing",)),
                ({"x": self.x.astype(np.float64)}, "BR0723", ("float64",)),
                ({"x": self.x[:, :2].copy()}, "BR0723", ("shape",)),
                ({"x": np.zeros((9, 3), np.float32)}, "BR0724", ("batch",)),
                ({"x": self.x[::2]}, "BR0731", ("strides",)),
                ({"x": [1, 2]}, "BR0730", ("list",)),
            ):
                with self.refused(code, *words):
                    session.run(inputs)
            with self.refused("BR0723", "shape"):
                session.run({"x": self.x}, out={"y": np.zeros((2, 2), np.float32)})
            np.testing.assert_allclose(session.run({"x": self.x})["y"], self.y, rtol=1e-6)

    def test_devices_and_streams_that_are_none(self):
        for device in ("cpu", "gpu:", "gpu:x", "gpu:-1", "", 0):
            with self.refused("BR0003", "device"):
                self.program.session(device=device)
        for stream in (True, -1, 1.5, "0", 2**70, object(), type("S", (), {"cuda_stream": "no"})()):
            with self.refused("BR0735", "stream"):
                self.program.session(device="emulated", stream=stream)
        with self.program.session(device="emulated"):
            pass
        with self.refused("BR0735", "stream 12345"):
            self.program.session(device="emulated", stream=12345)
        for target in ("cpu", "interpreter"):
            program = braid.compile(models.linear(4), target=target)
            for options in ({"device": "emulated"}, {"stream": 1}):
                with self.refused("BR0003", next(iter(options)), "CUDA"):
                    program.session(**options)
            with self.refused("BR0003", "device"):
                program.launch(device="emulated")

    def test_types_aliases_and_written_inputs(self):
        for dtype, proto in ((np.float16, TensorProto.FLOAT16), (ml_dtypes.bfloat16, TensorProto.BFLOAT16), (np.int64, TensorProto.INT64)):  # fmt: skip
            program = braid.compile(models.elementwise(proto, (4,)), aliases={"y": "x"}, target="cuda")
            with program.session(device="emulated") as session:
                x = np.arange(4).astype(dtype)
                self.assertIs(session.run({"x": x})["y"], x)
                np.testing.assert_array_equal(x.astype(np.float32), [0, 2, 4, 6])
                with self.refused("BR0723", "memory of input"):
                    session.run({"x": x}, out={"y": np.zeros(4, dtype)})
                x.flags.writeable = False
                with self.refused("BR0731", "read-only"):
                    session.run({"x": x})

    def test_a_failed_step_names_its_node_and_the_session_ends(self):
        model = models.model(
            [helper.make_node("Gather", ["table", "i"], ["row"], name="pick")],
            {"table": (models.FLOAT, (4, 2)), "i": (TensorProto.INT64, (1,))},
            {"row": (models.FLOAT, (1, 2))},
        )
        with braid.compile(model, target="cuda").session(device="emulated") as session:
            table = np.arange(8, dtype=np.float32).reshape(4, 2)
            np.testing.assert_array_equal(session.run({"table": table, "i": np.array([3])})["row"], table[3:])
            for index in (9, 3):
                with self.assertRaises(braid.Error) as caught:
                    session.run({"table": table, "i": np.array([index])})
                self.assertEqual(caught.exception.code, 725)
                self.assertIn("pick", str(caught.exception))

    def test_a_second_thread_is_refused(self):
        program = braid.compile(models.chain(60, 32), target="cuda")
        x = np.ones((32, 32), np.float32)
        with program.session(device="emulated") as session:
            session.run({"x": x})
            refusals, steps, done = [], [], threading.Event()

            def work():
                while not done.is_set():
                    try:
                        session.run({"x": x})
                        steps.append(1)
                    except braid.Error as error:
                        refusals.append(error.code)

            threads = [threading.Thread(target=work) for _ in range(2)]
            for thread in threads:
                thread.start()
            while not refusals or not steps:
                pass
            done.set()
            for thread in threads:
                thread.join()
            self.assertEqual(set(refusals), {732})
            np.testing.assert_allclose(session.run({"x": x})["y"], x)

    def test_a_folder_may_be_compiled_into_again(self):
        x = np.full((1, 3), 3, np.float32)
        with tempfile.TemporaryDirectory() as folder:
            for op, result in (("Add", x + x), ("Mul", x * x), ("Sub", x - x)):
                program = braid.compile(
                    models.elementwise(shape=(1, 3), op=op), output=folder, name="model", target="cuda"
                )
                with program.session(device="emulated") as session:
                    np.testing.assert_array_equal(session.run({"x": x})["y"], result)

    def test_a_fork_is_refused_and_ends(self):
        with self.program.session(device="emulated") as session:
            session.run({"x": self.x})
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    session.run({"x": self.x})
                except braid.Error as error:
                    code = 0 if error.code == 733 else 2
                del session
                gc.collect()
                os._exit(code)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            np.testing.assert_allclose(session.run({"x": self.x})["y"], self.y, rtol=1e-6)

    def test_a_broken_host_compiler_is_an_error(self):
        program = braid.compile(models.linear(3), target="cuda")
        script = (
            "import braid, sys\n"
            "try: braid.load(sys.argv[1]).session(device='emulated')\n"
            "except braid.Error as error: print(error.code)"
        )
        environment = {**os.environ, "CXX": "/bin/false"}
        command = [sys.executable, "-c", script, program.folder]
        self.assertEqual(subprocess.check_output(command, env=environment, text=True), "603\n")


class OnDevice(TestCase):
    """What a session on a GPU takes and gives."""

    @classmethod
    def setUpClass(cls):
        cls.program = braid.compile(models.linear(), dims={"batch": (0, 8)}, target="cuda")
        cls.x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
        cls.y = models.linear_result(cls.x)
        cls.program.session(device="emulated").close()  # loads the library
        cls.device = Device()

    def test_device_tensors_go_in_and_out_without_a_copy(self):
        with on_device(self.program) as session:
            x = self.device.array(self.x)
            y = session.run({"x": x})["y"]
            self.assertEqual((y.device, y.shape, y.dtype), ("cuda:0", (4, 2), "float32"))
            self.assertIn("on cuda:0", repr(y))
            self.assertNotIn(x.asked[0], (None, 0, 1))  # the session's own stream
            np.testing.assert_allclose(y.cpu(), self.y, rtol=1e-6)
            np.testing.assert_allclose(y.copy(), self.y, rtol=1e-6)
            out = self.device.array(np.zeros((4, 2), np.float32))
            self.assertIs(session.run({"x": x}, out={"y": out})["y"], out)
            np.testing.assert_allclose(out.numpy(), self.y, rtol=1e-6)
            # A result is an input again.
            program = braid.compile(models.elementwise(shape=(4, 2)), target="cuda")
            with on_device(program) as twice:
                np.testing.assert_allclose(twice.run({"x": y})["y"].cpu(), 2 * self.y, rtol=1e-6)
        np.testing.assert_allclose(y.cpu(), self.y, rtol=1e-6)  # after the session

    def test_the_emulated_sessions_take_them_as_well(self):
        with self.program.session(device="emulated") as session:
            y = session.run({"x": self.device.array(self.x)})["y"]
            self.assertEqual(y.device, "cpu")
            np.testing.assert_allclose(y, self.y, rtol=1e-6)
            out = self.device.array(np.zeros((4, 2), np.float32))
            session.run({"x": self.x}, out={"y": out})
            np.testing.assert_allclose(out.numpy(), self.y, rtol=1e-6)

    def test_outputs_go_on_by_dlpack_and_the_cuda_array_interface(self):
        with on_device(self.program) as session:
            y = session.run({"x": self.device.array(self.x)})["y"]
            self.assertEqual(y.__dlpack_device__(), (CUDA, 0))
            for options in ({}, {"stream": None}, {"stream": -1}, {"stream": self.device.stream()}):
                place, address, shape = from_dlpack(y, **options)
                self.assertEqual((place, shape), ((CUDA, 0), (4, 2)))
                np.testing.assert_allclose(self.device.read(address, shape, np.float32), self.y, rtol=1e-6)
            interface = y.__cuda_array_interface__
            self.assertEqual((interface["typestr"], interface["shape"], interface["data"][0]), ("<f4", (4, 2), address))
            for stream in (0, -2, "1"):
                with self.refused("BR0735", "stream"):
                    y.__dlpack__(stream=stream)
            np.testing.assert_allclose(np.from_dlpack(y, device="cpu"), self.y, rtol=1e-6)
            with self.assertRaises(BufferError):
                y.__dlpack__(dl_device=(CUDA, 3))
            with self.assertRaises(BufferError):
                memoryview(y)
            for read in (y.numpy, lambda: np.asarray(y)):
                with self.refused("BR0731", "CUDA device 0", "cpu()"):
                    read()
            self.assertFalse(hasattr(y.cpu(), "__cuda_array_interface__"))

    def test_host_memory_is_refused_or_copied(self):
        with on_device(self.program) as session:
            with self.refused("BR0731", "this process's memory", "CUDA device 0", "copy=True"):
                session.run({"x": self.x})
            for x in (self.x, self.x.astype(np.float64), np.asfortranarray(self.x)):
                np.testing.assert_allclose(session.run({"x": x}, copy=True)["y"].cpu(), self.y, rtol=1e-6)
            with self.refused("BR0731", "this process's memory"):
                session.run({"x": self.x}, out={"y": np.zeros((4, 2), np.float32)}, copy=True)

    def test_what_is_not_the_sessions_memory_is_refused(self):
        x = self.device.array(self.x)
        elsewhere = Device(1).array(self.x)
        host = DeviceArray(self.device, self.x.ctypes.data, self.x.shape, self.x.dtype)
        liar = DeviceArray(self.device, elsewhere.address, self.x.shape, self.x.dtype)
        strided = DeviceArray(self.device, x.address, (2, 3), np.float32, strides=(6, 1))
        wide = self.device.array(self.x.astype(np.float64))
        unaligned = self.device.array(self.x, offset=4)
        freed = self.device.array(self.x)
        self.device.call("cudaFree", ctypes.c_void_p(freed.address))
        metal = DeviceArray(self.device, x.address, self.x.shape, self.x.dtype, place=(8, 0))
        null = DeviceArray(self.device, None, self.x.shape, self.x.dtype)
        for session in (on_device(self.program), self.program.session(device="emulated")):
            for given, code, words in (
                (elsewhere, "BR0731", ("CUDA device 1", "CUDA device 0")),
                (host, "BR0723", ("not device memory",)),
                (liar, "BR0723", ("memory of device 1",)),
                (strided, "BR0731", ("strides", "contiguous()")),
                (wide, "BR0723", ("float64",)),
                (unaligned, "BR0731", ("16 bytes",)),
                (freed, "BR0723", ("not device memory",)),
                (metal, "BR0731", ("device 8:0",)),
                (null, "BR0730", ("no memory",)),
            ):
                for copy in (False, True):
                    with self.refused(code, *words):
                        session.run({"x": given}, copy=copy)
            np.testing.assert_allclose(session.run({"x": x})["y"].cpu(), self.y, rtol=1e-6)
            session.close()
        with braid.compile(models.linear(), dims={"batch": 4}).session() as session:
            with self.refused("BR0731", "CUDA device 0"):
                session.run({"x": x})

    def test_the_cuda_array_interface(self):
        x = self.device.array(self.x)
        with on_device(self.program) as session:
            for more in ({}, {"stream": None}, {"strides": (12, 4)}, {"stream": 1}, {"stream": self.device.stream()}):
                np.testing.assert_allclose(session.run({"x": Interface(x, **more)})["y"].cpu(), self.y, rtol=1e-6)
            for more, code, words in (
                ({"typestr": "<f8"}, "BR0723", ("float64",)),
                ({"typestr": ">f4"}, "BR0723", (">f4",)),
                ({"strides": (24, 8)}, "BR0731", ("strides",)),
                ({"mask": x}, "BR0730", ("mask",)),
                ({"stream": 0}, "BR0730", ("stream",)),
                ({"stream": 54321}, "BR0735", ("stream",)),
                ({"data": (self.x.ctypes.data, False)}, "BR0723", ("not device memory",)),
            ):
                with self.refused(code, *words):
                    session.run({"x": Interface(x, **more)})
            np.testing.assert_allclose(session.run({"x": x})["y"].cpu(), self.y, rtol=1e-6)

    def test_tensors_without_elements(self):
        with on_device(self.program) as session:
            empty = DeviceArray(self.device, None, (0, 3), np.float32)
            y = session.run({"x": empty})["y"]
            self.assertEqual((y.shape, y.cpu().shape), ((0, 2), (0, 2)))

    def test_a_step_on_a_stream_of_the_caller_follows_it_and_is_only_enqueued(self):
        stream, other = self.device.stream(), self.device.stream()
        held = threading.Event()
        hold = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: held.wait() and None)
        handle = type("Stream", (), {"cuda_stream": stream})()
        with on_device(self.program, handle) as session:
            x = self.device.array(self.x)
            out = self.device.array(np.zeros((4, 2), np.float32))
            session.run({"x": x}, out={"y": out})
            self.assertEqual(x.asked, [stream])
            self.device.synchronize(stream)
            np.testing.assert_allclose(out.numpy(), self.y, rtol=1e-6)
            self.device.call("cudaLaunchHostFunc", ctypes.c_void_p(stream), hold, None)
            y = session.run({"x": x})["y"]  # returns, although the stream stands
            _, address, shape = from_dlpack(y, stream=other)
            held.set()
            self.device.synchronize(other)  # follows the step
            np.testing.assert_allclose(self.device.read(address, shape, np.float32), self.y, rtol=1e-6)
            np.testing.assert_allclose(y.cpu(), self.y, rtol=1e-6)
            # What needs host memory is done when it returns.
            np.testing.assert_allclose(session.run({"x": self.x}, copy=True)["y"].cpu(), self.y, rtol=1e-6)
        np.testing.assert_allclose(y.cpu(), self.y, rtol=1e-6)

    def test_the_default_stream(self):
        for stream in (0, 1):
            with on_device(self.program, stream) as session:
                x = self.device.array(self.x)
                np.testing.assert_allclose(session.run({"x": x})["y"].cpu(), self.y, rtol=1e-6)
                self.assertEqual(x.asked, [1])  # DLPack's number


class SeveralRanks(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = braid.compile(models.all_reduce(), ranks=2, target="cuda")
        cls.x = np.arange(4, dtype=np.float32)

    def test_launched_from_here(self):
        with self.program.launch(device="emulated") as ranks:
            for step in (1, 2):
                for rank in ranks.run({"x": self.x * step}):
                    np.testing.assert_array_equal(rank["y"], 2 * step * self.x)
            for rank in ranks.run([{"x": self.x}, {"x": 10 * self.x}]):
                np.testing.assert_array_equal(rank["y"], 11 * self.x)
            with self.refused("BR0723"):
                ranks.run({"x": self.x[:3]})
            np.testing.assert_array_equal(ranks.run({"x": self.x})[1]["y"], 2 * self.x)

    def test_a_killed_rank_is_named(self):
        with self.program.launch(device="emulated") as ranks:
            ranks.run({"x": self.x})
            os.kill(ranks.pids[1], 9)
            with self.refused("BR0007", "rank 1 (process ", "was killed by signal 9 (Killed)"):
                ranks.run({"x": self.x})

    def test_under_torchruns_variables(self):
        script = (
            "import braid, numpy, sys\n"
            "with braid.load(sys.argv[1]).session(device='emulated') as s:\n"
            "    y = numpy.asarray(s.run({'x': numpy.full(4, s.rank + 1, 'f4')})['y']).tolist()\n"
            "print(s.run if False else y)\n"
        )

        def start(rank):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": f"cuda-{os.getpid()}"}
            return subprocess.Popen(
                [sys.executable, "-c", script, self.program.folder],
                env={**os.environ, **variables},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip

        processes = [start(0), start(1)]
        self.assertEqual([p.communicate(timeout=120)[0] for p in processes], ["[3.0, 3.0, 3.0, 3.0]\n"] * 2)

    def test_a_session_without_a_launcher_says_what_to_do(self):
        with self.refused("BR0734", "2 ranks", "launch()"):
            self.program.session(device="emulated")
        with self.refused("BR0003", "gpu:1"):
            self.program.launch(device="gpu:1")

    @unittest.skipUnless(NO_GPU, "there is a GPU")
    def test_without_a_gpu(self):
        with self.refused("BR0013"):
            self.program.launch(device="gpu")
        with self.assertWarnsRegex(UserWarning, "emulated device"), self.program.launch() as ranks:
            np.testing.assert_array_equal(ranks.run({"x": self.x})[0]["y"], 2 * self.x)


if __name__ == "__main__":
    unittest.main()
