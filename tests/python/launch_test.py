"""Programs of several ranks: started by launch(), under torchrun's variables, and when a rank fails."""

import contextlib
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import numpy as np
from onnx import TensorProto, helper

import braid
import models
from support import TestCase

# One rank, whoever started it: prints its rank and the sum of 1 and 2.
LAUNCHED = """
import braid, numpy, sys
with braid.load(sys.argv[1]).session(threads=1) as s:
    y = numpy.asarray(s.run({"x": numpy.full(4, s.rank + 1, "f4")})["y"]).tolist()
    print(f"{s.rank} {y}\\n", end="", flush=True)  # in one piece, as lines of ranks may mix
"""


class Launch(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x = np.arange(4, dtype=np.float32)
        cls.program = braid.compile(models.all_reduce(), ranks=2)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_all_ranks_get_the_sum(self):
        for target in ("cpu", "interpreter"):
            program = braid.compile(models.all_reduce(), ranks=2, target=target)
            self.assertEqual(program.ranks, 2)
            with program.launch(threads=1) as ranks:
                self.assertEqual(len(ranks.pids), 2)
                for step in (1, 2):
                    for rank in ranks.run({"x": self.x * step}):
                        np.testing.assert_array_equal(rank["y"], 2 * step * self.x)
                for rank in ranks.run([{"x": self.x}, {"x": 10 * self.x}]):
                    np.testing.assert_array_equal(rank["y"], 11 * self.x)
            with self.refused("BR0733", "ended"):
                ranks.run({"x": self.x})

    def test_ranks_may_have_their_own_weights(self):
        path = models.save_with_rank_weights(self.folder)
        for target in ("cpu", "interpreter"):
            with braid.compile(path, ranks=2, target=target).launch() as ranks:
                results = ranks.run({"x": self.x})
            for rank, result in enumerate(results):
                np.testing.assert_array_equal(result["y"], self.x + rank)
                np.testing.assert_array_equal(result["total"], 2 * self.x + 1)

    def test_one_rank_half_types_and_aliases_travel(self):
        program = braid.compile(
            models.elementwise(TensorProto.BFLOAT16, ("n",)), dims={"n": (0, 8)}, aliases={"y": "x"}
        )
        with program.launch() as ranks:
            for size in (8, 3, 0):
                x = np.arange(size).astype(np.float32)
                (result,) = ranks.run({"x": x}, copy=True)
                self.assertEqual(result["y"].dtype, "bfloat16")
                np.testing.assert_array_equal(np.asarray(result["y"]).astype(np.float32), 2 * x)

    def test_bad_inputs_leave_the_ranks_ready(self):
        with self.program.launch(threads=1) as ranks:
            with self.refused("BR0006", "rank 0: input 'x' is missing"):
                ranks.run({})
            with self.refused("BR0006", "rank 1: there is no input 'z'"):
                ranks.run([{"x": self.x}, {"x": self.x, "z": self.x}])
            with self.refused("BR0006", "inputs of 3 ranks"):
                ranks.run([{"x": self.x}] * 3)
            with self.refused("BR0723", "float64"):
                ranks.run({"x": self.x.astype(np.float64)})
            with self.refused("BR0723", "rank 0"):
                ranks.run({"x": self.x[:2]})
            with self.refused("BR0724", "beyond"):
                ranks.run({"x": np.zeros(5, np.float32)})
            np.testing.assert_array_equal(ranks.run({"x": self.x})[1]["y"], 2 * self.x)

    def test_a_killed_rank_is_named(self):
        with self.program.launch(threads=1) as ranks:
            ranks.run({"x": self.x})
            os.kill(ranks.pids[1], signal.SIGKILL)
            with self.refused("BR0007", "rank 1 (process ", "was killed by signal 9"):
                ranks.run({"x": self.x})
            with self.refused("BR0733"):
                ranks.run({"x": self.x})

    def test_a_rank_killed_in_a_step_is_named(self):
        nodes = [
            helper.make_node("MatMul", ["x" if k == 0 else f"v{k - 1}", "x"], [f"v{k}"]) for k in range(300)
        ]
        nodes.append(helper.make_node("AllReduce", ["v299"], ["y"], domain="com.microsoft"))
        shape = (models.FLOAT, (128, 128))
        program = braid.compile(
            models.model(nodes, {"x": shape}, {"y": shape}, more_opsets=[("com.microsoft", 1)]), ranks=2
        )  # fmt: skip
        with program.launch(threads=1) as ranks:
            killer = threading.Timer(0.05, os.kill, (ranks.pids[0], signal.SIGKILL))
            killer.start()
            with self.refused("BR0007", "rank 0 (process ", "was killed by signal 9"):
                while True:
                    ranks.run({"x": np.eye(128, dtype=np.float32)})

    def test_a_failed_step_names_its_rank(self):
        node = helper.make_node("Gather", ["table", "i"], ["row"])
        reduce = helper.make_node("AllReduce", ["row"], ["y"], domain="com.microsoft")
        model = models.model(
            [node, reduce],
            {"table": (models.FLOAT, (4, 2)), "i": (TensorProto.INT64, (1,))}, {"y": (models.FLOAT, (1, 2))},
            more_opsets=[("com.microsoft", 1)],
        )  # fmt: skip
        table = np.zeros((4, 2), np.float32)
        with braid.compile(model, ranks=2).launch(threads=1) as ranks:
            good, bad = ({"table": table, "i": np.array([i], np.int64)} for i in (1, 9))
            with self.assertRaises(braid.Error) as caught:
                ranks.run([good, bad])
            self.assertEqual(caught.exception.code, 725)
            self.assertIn("rank 1: ", str(caught.exception))

    def test_processes_end_with_their_object(self):
        ranks = self.program.launch(threads=1)
        pids = ranks.pids
        del ranks
        self.assert_ended(pids)

    @contextlib.contextmanager
    def timeout_ms(self, milliseconds):
        with unittest.mock.patch.dict(os.environ, BRAID_TIMEOUT_MS=str(milliseconds)):
            yield

    def test_stopped_ranks_are_named_and_end(self):
        for stopped in ((1,), (0,), (0, 1)):
            with self.subTest(stopped=stopped), self.timeout_ms(1000), self.program.launch(threads=1) as ranks:
                ranks.run({"x": self.x})
                pids = ranks.pids
                for rank in stopped:
                    os.kill(pids[rank], signal.SIGSTOP)
                began = time.monotonic()
                words = [f"rank {rank} (process {pids[rank]}) was stopped by signal 19" for rank in stopped]
                with self.refused("BR0007", *words, "has been killed") as caught:
                    ranks.run({"x": self.x})
                self.assertLess(time.monotonic() - began, 15)
                others = [rank for rank in (0, 1) if rank not in stopped]
                self.assertFalse(any(f"rank {rank} (process" in str(caught.exception) for rank in others))
                self.assert_ended(pids)

    def test_ranks_may_be_stopped_between_steps(self):
        with self.timeout_ms(300), self.program.launch(threads=1) as ranks:
            for pid in ranks.pids:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(1.2)
            for pid in ranks.pids:
                os.kill(pid, signal.SIGCONT)
            np.testing.assert_array_equal(ranks.run({"x": self.x})[1]["y"], 2 * self.x)

    def test_closing_ends_stopped_ranks(self):
        ranks = self.program.launch(threads=1)
        pids = ranks.pids
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        ranks.close()
        self.assert_ended(pids)

    # A parent that launches, prints its ranks, and then does what `end` says.
    def parent(self, end, **options):
        script = f"""
import braid, os, signal, sys, threading, time
ranks = braid.load(sys.argv[1]).launch(threads=1)
print(*ranks.pids, flush=True)
{end}
"""
        parent = subprocess.Popen(
            [sys.executable, "-c", script, self.program.folder],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
        )  # fmt: skip
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        self.assertEqual(len(pids), 2)
        return parent, pids

    def test_ranks_even_stopped_ones_end_with_their_parent(self):
        ends = {
            "SIGKILL": "time.sleep(99)", "SIGTERM": "time.sleep(99)", "SIGINT": "time.sleep(99)", "SIGHUP": "time.sleep(99)",
            "exits": "os._exit(3)", "raises": "raise ValueError", "returns": "", "aborts": "os.abort()",
            "is interrupted": "raise KeyboardInterrupt", "in a thread": "threading.Thread(target=os._exit, args=(3,)).start()",
        }  # fmt: skip
        for name, end in ends.items():
            for stop in (False, True):
                with self.subTest(end=name, stop=stop):
                    wait = "sys.stdin.readline()\n"  # until the test has stopped the ranks
                    parent, pids = self.parent(wait + end, stdin=subprocess.PIPE)
                    for pid in pids if stop else ():
                        os.kill(pid, signal.SIGSTOP)
                    parent.stdin.write("\n")
                    parent.stdin.close()
                    if name.startswith("SIG"):
                        time.sleep(0.1)
                        parent.send_signal(getattr(signal, name))
                    parent.wait(30)
                    for stream in (parent.stdout, parent.stderr):
                        stream.close()
                    self.assert_ended(pids)

    def test_an_interrupt_in_a_step_ends_the_ranks_at_once(self):
        end = """
os.kill(ranks.pids[1], signal.SIGSTOP)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    ranks.run({"x": __import__("numpy").zeros(4, "f4")})
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
        parent, pids = self.parent(end)
        output, error = parent.communicate(timeout=60)
        self.assertEqual(output, "interrupted\n", error)
        self.assert_ended(pids)

    def test_ranks_outlive_the_thread_that_launched_them(self):
        launched = []
        thread = threading.Thread(target=lambda: launched.append(self.program.launch(threads=1)))
        thread.start()
        thread.join()
        with launched[0] as ranks:
            for step in (1, 2):
                np.testing.assert_array_equal(ranks.run({"x": step * self.x})[1]["y"], 2 * step * self.x)
            pids = ranks.pids
        self.assert_ended(pids)

    def test_several_launches_do_not_meet(self):
        def work(value):
            with self.program.launch(threads=1) as ranks:
                for _ in range(5):
                    y = np.asarray(ranks.run({"x": np.full(4, value, np.float32)})[1]["y"])
                    results.append((y == 2 * value).all())

        results = []
        threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [True] * 20)

    def test_a_fork_leaves_the_ranks_to_its_parent(self):
        with self.program.launch(threads=1) as ranks:
            child = multiprocessing.get_context("fork").Process(target=ranks.close)
            child.start()
            child.join(30)
            self.assertEqual(child.exitcode, 0)
            np.testing.assert_array_equal(ranks.run({"x": self.x})[1]["y"], 2 * self.x)

    def test_other_children_and_their_signals_are_left_alone(self):
        for action in (signal.SIG_IGN, signal.SIG_DFL):
            before = signal.signal(signal.SIGCHLD, action)
            try:
                with self.program.launch(threads=1) as ranks:
                    np.testing.assert_array_equal(ranks.run({"x": self.x})[1]["y"], 2 * self.x)
                    pids = ranks.pids
                self.assert_ended(pids)
                self.assertEqual(signal.getsignal(signal.SIGCHLD), action)
            finally:
                signal.signal(signal.SIGCHLD, before)

    def test_a_parent_needs_no_file_as_its_main_module(self):
        script = (
            "import braid, numpy, sys\n"
            "with braid.load(%r).launch(threads=1) as ranks:\n"
            "    print(numpy.asarray(ranks.run({'x': numpy.ones(4, 'f4')})[0]['y'])[0])\n" % str(self.program.folder)
        )
        spawn = (
            "import multiprocessing\n"
            "if __name__ == '__main__':\n"
            "    child = multiprocessing.get_context('spawn').Process(target=exec, args=(%r,))\n"
            "    child.start(), child.join(), exit(child.exitcode)\n" % script
        )
        for arguments, given in ((["-"], script), (["-c", script], ""), (["-c", spawn], "")):
            done = subprocess.run(
                [sys.executable, *arguments], input=given, capture_output=True, text=True, timeout=120
            )
            self.assertEqual(done.stdout, "2.0\n", done.stderr)

    def test_an_interpreter_that_is_not_found_is_an_error(self):
        for executable in ("", "/nowhere/python"):
            with unittest.mock.patch.object(sys, "executable", executable), self.refused("BR0007"):
                self.program.launch()

    def test_a_bad_time_out_is_refused_before_anything_starts(self):
        with self.timeout_ms("soon"), self.refused("BR0012", "BRAID_TIMEOUT_MS"):
            self.program.launch()

    def assert_ended(self, pids):
        deadline = time.monotonic() + 30
        while any(pathlib.Path(f"/proc/{pid}/cmdline").exists() for pid in pids):
            self.assertLess(time.monotonic(), deadline, "still there")
            time.sleep(0.02)

    def test_torchruns_variables_are_found(self):
        def start(rank, size=2):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_PORT": "29511"}
            command = [sys.executable, "-c", LAUNCHED, self.program.folder]
            return subprocess.Popen(
                command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )

        outputs = [p.communicate(timeout=60) for p in [start(0), start(1)]]
        self.assertEqual(
            [out for out, _ in outputs], [f"{r} [3.0, 3.0, 3.0, 3.0]\n" for r in (0, 1)], outputs
        )
        _, error = start(0, 3).communicate(timeout=60)
        self.assertIn("BR0011", error)
        self.assertIn("start 2 ranks, or compile with ranks=3", error)

    @unittest.skipUnless("BRAID_MPIEXEC" in os.environ, "built without MPI")
    def test_mpirun_and_both_engines(self):
        for engine in ("mpi", "shm"):
            command = [
                os.environ["BRAID_MPIEXEC"],
                "-n",
                "2",
                sys.executable,
                "-c",
                LAUNCHED,
                self.program.folder,
            ]
            output = subprocess.check_output(
                command, env={**os.environ, "BRAID_ENGINE": engine}, text=True, timeout=120
            )
            self.assertEqual(sorted(output.splitlines()), [f"{r} [3.0, 3.0, 3.0, 3.0]" for r in (0, 1)])

    def test_a_session_without_a_launcher_says_what_to_do(self):
        with self.refused("BR0734", "2 ranks", "launch()"):
            self.program.session()
        with self.refused("BR0734", "interpreter", "launch()"):
            braid.compile(models.all_reduce(), ranks=2, target="interpreter").session()

    def test_a_missing_rank_file_is_refused(self):
        path = models.save_with_rank_weights(self.folder, 1)
        with self.refused("BR0205"):
            braid.compile(path, ranks=2)

    def test_one_thread_at_a_time_has_its_own_results(self):
        errors, wrong = [], []

        def work(value):
            for _ in range(100):
                try:
                    y = np.asarray(ranks.run({"x": np.full(4, value, np.float32)})[1]["y"])
                    wrong.extend(y[y != 2 * value])
                except braid.Error as error:
                    errors.append(error.code)

        with self.program.launch(threads=1) as ranks:
            threads = [threading.Thread(target=work, args=(value,)) for value in (1, 10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(set(errors), {732})

    def test_an_interrupted_step_leaves_no_answer_to_the_next_one(self):
        with self.program.launch(threads=1) as ranks:
            def interrupted(shapes):
                raise KeyboardInterrupt

            ranks._ranks[1].connection.send = interrupted
            with self.assertRaises(KeyboardInterrupt):
                ranks.run({"x": self.x})
            with self.refused("BR0733"):
                ranks.run({"x": self.x})

    def test_ranks_start_whatever_the_current_folder_has(self):
        (self.folder / "uuid.py").write_text("raise SystemExit('not this one')")
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            with self.program.launch(threads=1) as ranks:
                np.testing.assert_array_equal(ranks.run({"x": self.x})[0]["y"], 2 * self.x)
        finally:
            os.chdir(before)


if __name__ == "__main__":
    unittest.main()
