"""program.launch(): all ranks of a program on this machine, a process each.

Each rank runs _rank.py with torchrun's variables, so it joins the others as it would under torchrun. Tensors travel through
memory that both sides map (planned at the upper bounds, taken as it is touched), what happens through a connection.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from . import _braid
from ._errors import Error, InternalError
from ._options import BAD_OPTION

if TYPE_CHECKING:
    from ._braid import Tensor
    from ._program import Program

RANK_FAILED, MISSING_INPUT, IN_USE, CLOSED, COLLECTIVE_FAILED = 7, 6, 732, 733, 726
# Errors that a rank finds before it has begun a step: all are ready for the next one.
BEFORE_THE_STEP = (302, 303, 305, 701, 723, 724)
GRACE_SECONDS = 10  # for the other ranks to say what they saw, once one has failed

# This package, whichever others there are, and nothing from the current folder.
START = """import importlib.util, sys
spec = importlib.util.spec_from_file_location("braid", {file!r})
sys.modules["braid"] = braid = importlib.util.module_from_spec(spec)
spec.loader.exec_module(braid)
import braid._rank
braid._rank.main()"""


class Layout:
    """Where a rank's inputs and outputs lie in the memory that it shares with us."""

    def __init__(self, program: Program) -> None:
        self.offsets: dict[str, int] = {}
        self.rooms: dict[str, int] = {}
        end = 0
        core = program._core
        for kind, specs, sizes in (
            ("input", program.inputs, core.input_bytes),
            ("output", program.outputs, core.output_bytes),
        ):
            for spec, size in zip(specs, sizes):
                self.offsets[f"{kind} {spec.name}"] = end
                self.rooms[f"{kind} {spec.name}"] = size
                end += -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        for spec in program.outputs:
            if spec.alias_of is not None:
                self.offsets[f"output {spec.name}"] = self.offsets[f"input {spec.alias_of}"]
        self.bytes = max(end, mmap.PAGESIZE)


def beyond_standard(file: int) -> int:
    """The same file by a number that is not one of standard input, output and error, which may be closed."""
    if file > 2:
        return file
    moved = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(file)
    return moved


class Process:
    """One rank: its process, the memory and the connection that we share with it."""

    def __init__(
        self, program: Program, layout: Layout, rank: int, threads: int, device: str, run_id: str
    ) -> None:
        memory = beyond_standard(os.memfd_create(f"braid-rank{rank}"))
        ours, theirs = (socket.socket(fileno=beyond_standard(s.detach())) for s in socket.socketpair())
        try:
            os.ftruncate(memory, layout.bytes)
            self.memory = mmap.mmap(memory, layout.bytes)
            environment = {
                **os.environ,
                "RANK": str(rank), "WORLD_SIZE": str(program.ranks),
                "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(program.ranks),
                "TORCHELASTIC_RUN_ID": run_id,
            }  # fmt: skip
            environment.pop("BRAID_ENGINE", None)  # MPI would have to start them
            package = str(pathlib.Path(__file__).absolute().parent / "__init__.py")
            arguments = [str(theirs.fileno()), str(memory), str(program.folder), str(threads), device]
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-c", START.format(file=package), *arguments],
                env=environment,
                pass_fds=(memory, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt reaches us, and we end them
            )
            self.connection = Connection(ours.detach())
        finally:
            os.close(memory)
            theirs.close()
            ours.close()

    def end(self, seconds: float) -> None:
        """Waits for the process, and kills it after that time."""
        with contextlib.suppress(OSError):
            self.connection.close()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def fate(self) -> str:
        code = self.process.wait()
        if code >= 0:
            return f"ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"


def end_all(processes: list[Process]) -> None:
    for process in processes:
        with contextlib.suppress(OSError):
            process.connection.close()
    deadline = time.monotonic() + 5
    for process in processes:
        process.end(max(0.0, deadline - time.monotonic()))


def inputs_of_ranks(program: Program, inputs: Any) -> list[Mapping[str, Any]]:
    """One dictionary for all ranks, or a sequence with one for each. Errors: BR0006."""
    given = [inputs] * program.ranks if isinstance(inputs, Mapping) else list(inputs)
    if len(given) != program.ranks:
        raise Error(
            MISSING_INPUT,
            f"inputs of {len(given)} ranks were given, the program has {program.ranks}",
            "pass one dictionary for all ranks, or a list with one for each",
        )
    names = [spec.name for spec in program.inputs]
    for rank, values in enumerate(given):
        for name in values.keys() ^ set(names):
            what = f"there is no input '{name}'" if name in values else f"input '{name}' is missing"
            raise Error(MISSING_INPUT, f"rank {rank}: {what}", f"its inputs are {', '.join(names)}")
    return given


class Ranks:
    """All ranks of a program, made by program.launch(). A context manager."""

    def __init__(self, program: Program, threads: int, device: str) -> None:
        self._program = program
        program._core.use_device(device)
        self._layout = Layout(program)
        self._in_use = threading.Lock()
        run_id = f"braid-{uuid.uuid4()}"
        self._processes: list[Process] = []
        self._finalizer = weakref.finalize(self, end_all, self._processes)
        try:
            for rank in range(program.ranks):
                self._processes.append(Process(program, self._layout, rank, threads, device, run_id))
            self._collect()
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """The processes, by rank."""
        return [process.process.pid for process in self._processes]

    def run(
        self, inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, copy: bool = False
    ) -> list[dict[str, Tensor]]:
        """Runs one step on all ranks; returns each rank's outputs by name.

        inputs: tensors by name for all ranks, or one such dictionary for each. They are copied into the ranks' memory, and
        outputs out of it; copy=True also converts types and takes tensors that are not dense.

        Errors: those of Session.run, with the rank; BR0007 if a rank was killed or did not respond, with its name. Then, and
        after any error of a step that had begun, the ranks have ended.
        """
        if not self._in_use.acquire(blocking=False):
            raise Error(IN_USE, "the ranks run a step for another thread", "one thread at a time")
        try:
            return self._step(inputs, copy)
        finally:
            self._in_use.release()

    def _step(
        self, inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]], copy: bool
    ) -> list[dict[str, Tensor]]:
        if not self._processes:
            raise Error(CLOSED, "the ranks have ended", "call program.launch() again")
        shapes_of_ranks = []
        for process, values in zip(self._processes, inputs_of_ranks(self._program, inputs)):
            shapes: list[tuple[int, ...]] = []
            for spec in self._program.inputs:
                name = f"input {spec.name}"
                offset, room = self._layout.offsets[name], self._layout.rooms[name]
                shapes.append(
                    _braid.store(process.memory, offset, room, values[spec.name], spec.name, spec.dtype, copy, spec.capacities or ())
                )
            shapes_of_ranks.append(shapes)
        try:
            for process, shapes in zip(self._processes, shapes_of_ranks):
                with contextlib.suppress(OSError):  # of one that has ended: found below
                    process.connection.send(shapes)
            answers = self._collect()
        except (Error, InternalError):
            raise
        except BaseException:  # an interrupt: this step has no reader any more
            self.close()
            raise
        results = []
        for process, answer in zip(self._processes, answers):
            outputs = {}
            for spec, shape in zip(self._program.outputs, answer):
                offset = self._layout.offsets[f"output {spec.name}"]
                outputs[spec.name] = _braid.tensor_over(
                    process.memory, offset, shape, spec.dtype, spec.capacities or ()
                ).copy()
            results.append(outputs)
        return results

    def _collect(self) -> list[Any]:
        """The answers of all ranks. A rank that has ended, or answered with an error, is the error of all."""
        answers: dict[int, Any] = {}
        lost: dict[int, str] = {}
        waiting = {process.connection: rank for rank, process in enumerate(self._processes)}
        deadline: float | None = None
        while waiting:
            ready: list[Any] = wait(
                list(waiting), None if deadline is None else max(0.0, deadline - time.monotonic())
            )
            if not ready:
                break
            for connection in ready:
                rank = waiting.pop(connection)
                try:
                    answers[rank] = connection.recv()
                except (EOFError, OSError):
                    lost[rank] = self._processes[rank].fate()
                if deadline is None and (rank in lost or answers[rank][0] != "done"):
                    deadline = time.monotonic() + GRACE_SECONDS
        errors = {rank: answer[1:] for rank, answer in answers.items() if answer[0] == "error"}
        bugs = [f"rank {rank}: {answer[1]}" for rank, answer in answers.items() if answer[0] == "bug"]
        if not lost and not waiting and not errors and not bugs:
            return [answers[rank][1] for rank in range(len(self._processes))]
        ready_for_more = len(errors) == len(self._processes) and all(
            e[0] in BEFORE_THE_STEP for e in errors.values()
        )
        if not ready_for_more:
            self.close()
        if lost:
            named = "; ".join(f"rank {rank} {fate}" for rank, fate in sorted(lost.items()))
            raise Error(
                RANK_FAILED,
                named,
                "its own messages, if any, are on standard error; launch() starts all again",
            )
        if bugs:
            raise InternalError("; ".join(bugs))
        # What a peer saw of a failure says less than the failure itself.
        own = {rank: error for rank, error in errors.items() if error[0] != COLLECTIVE_FAILED} or errors
        rank, (code, message, hint) = min(own.items())
        silent = "".join(f"; rank {r} did not respond" for r in sorted(waiting.values()))
        raise Error(code, f"rank {rank}: {message}{silent}", hint)

    def close(self) -> None:
        """Ends the ranks."""
        end_all(self._processes)
        self._processes.clear()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InterpretedRanks(Ranks):
    """The ranks of an interpreter's program, which runs them in this process."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._open = True

    @property
    def pids(self) -> list[int]:
        return [os.getpid()] * self._program.ranks

    def run(
        self, inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, copy: bool = False
    ) -> list[dict[str, Tensor]]:
        if not self._open:
            raise Error(CLOSED, "the ranks have ended", "call program.launch() again")
        given = [dict(values) for values in inputs_of_ranks(self._program, inputs)]
        return _braid.interpret(self._program._core, given, copy)

    def close(self) -> None:
        self._open = False


def start(program: Program, threads: int, device: str) -> Ranks:
    if program.target != "cuda" and device:
        raise Error(
            BAD_OPTION,
            f"device='{device}' is for CUDA programs, and this one is for the {program.target}",
            "leave it out, or compile with target='cuda'",
        )
    if device.startswith("gpu:"):
        raise Error(
            BAD_OPTION, f"device='{device}': each rank has a GPU of its own", "write device='gpu'"
        )
    if program.target == "interpreter":
        return InterpretedRanks(program)
    return Ranks(program, threads, device)
