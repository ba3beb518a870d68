"""Sessions: their steps, results and threads, and what is refused."""

import gc
import pathlib
import subprocess
import sys
import threading
import unittest
import warnings
import weakref

import numpy as np
import onnx
from onnx import TensorProto

import braid
import models
from support import LinearTestCase, TestCase


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


class Run(LinearTestCase):
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

    def test_memory_of_results_is_used_again_when_it_is_dropped(self):
        program = braid.compile(models.linear(), dims={"batch": (1, 1 << 16)})
        x = np.ones((1 << 16, 3), np.float32)
        with program.session() as session:

            def address(result):
                return np.asarray(result).__array_interface__["data"][0]

            first = session.run({"x": x})["y"]
            view = np.asarray(first)[1:2]
            kept = view.copy()
            second = session.run({"x": 2 * x})["y"]
            self.assertNotEqual(address(first), address(second))
            del first
            third = session.run({"x": 3 * x})["y"]  # a view still holds the first
            np.testing.assert_array_equal(view, kept)
            dropped = address(second)
            del second
            fourth = session.run({"x": 4 * x})["y"]
            self.assertEqual(address(fourth), dropped)
            np.testing.assert_array_equal(view, kept)
        for result in (third, fourth):  # outlive the session
            self.assertEqual(np.asarray(result).shape[0], 1 << 16)

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

    def test_a_step_uses_no_more_threads_than_the_session_was_opened_for(self):
        # In a process of its own with a time-out: without the limit, the step writes where it must not, or hangs.
        script = pathlib.Path(__file__).parent / "more_threads.py"
        subprocess.run([sys.executable, "-B", script], check=True, timeout=60)


class SizesThatTheDataDecide(TestCase):
    def test_results_have_the_sizes_that_there_are(self):
        for target in ("cpu", "interpreter"):
            program = braid.compile(models.positions(), dims={"rows": (0, 5)}, target=target)
            with program.session() as session:
                for rows, found in ((5, 4), (3, 0), (0, 0), (2, 1), (5, 5)):
                    x = np.zeros((rows, 3), np.float32)
                    x.reshape(-1)[:found] = 1
                    self.assertEqual(session.output_shapes({"x": x}), {"y": (2, 15), "rest": (5, 3)})
                    results = session.run({"x": x})
                    np.testing.assert_array_equal(results["y"], np.nonzero(x))
                    np.testing.assert_array_equal(results["rest"], x[found:])

    def test_memory_of_the_caller_has_room_and_the_result_is_its_part(self):
        for target in ("cpu", "interpreter"):
            program = braid.compile(models.ranges(), capacity=["y=4"], target=target)
            with program.session() as session:
                out = np.full(4, 7, np.int64)
                result = session.run({"start": np.array(2), "limit": np.array(5)}, out={"y": out})["y"]
                np.testing.assert_array_equal(result, [2, 3, 4])
                np.testing.assert_array_equal(out, [2, 3, 4, 7])
                reference = weakref.ref(out)
                del out
                gc.collect()
                self.assertIsNotNone(reference())  # the result keeps it
                np.testing.assert_array_equal(result, [2, 3, 4])

    def test_more_than_the_capacity_fails_the_step_only(self):
        for target, code in (("cpu", "BR0724"), ("interpreter", "BR0302")):
            program = braid.compile(models.ranges(), capacity=["4"], target=target)
            with program.session() as session:
                with self.refused(code, "'y' is 5, more than its capacity of 4"):
                    session.run({"start": np.array(0), "limit": np.array(5)})
                result = session.run({"start": np.array(0), "limit": np.array(4)})["y"]
                np.testing.assert_array_equal(result, [0, 1, 2, 3])

    def test_what_cannot_be_compiled_is_refused(self):
        with self.refused("BR0116", "known only at run time"):
            braid.compile(models.ranges())
        with self.refused("BR0311", "'z'"):
            braid.compile(models.ranges(), capacity=["y=4", "z=4"])
        for capacity in (["y="], ["=4"], ["y=-1"], ["y"], ["y=4", "y=5"], ["4", "5"]):
            with self.refused("BR0003", "capacity"):
                braid.compile(models.ranges(), capacity=capacity)
        with self.refused("BR0640", "the size 'y'"):
            braid.compile(models.ranges(), capacity=["y=4"], target="cuda")


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


if __name__ == "__main__":
    unittest.main()
