"""program.launch(): all ranks of a program on this machine, a process each.

Each rank runs _rank.py with torchrun's variables, so it joins the others as it would under torchrun. Tensors
travel through memory that both sides map (planned at the upper bounds, taken as it is touched), what happens
through a connection. The processes are started, supervised and ended by runtime/comm/rank_programs.h, which
keeps the promises of docs/communication.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import pathlib
import socket
import sys
import threading
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
END_MS = 5000  # in which ranks end that have been closed

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


class Rank:
    """The memory and the connection that we share with one rank, and its ends of both until it has them."""

    def __init__(self, layout: Layout, rank: int) -> None:
        self.theirs = [beyond_standard(os.memfd_create(f"braid-rank{rank}"))]
        try:
            os.ftruncate(self.theirs[0], layout.bytes)
            self.memory = mmap.mmap(self.theirs[0], layout.bytes)
            ours, theirs = (beyond_standard(s.detach()) for s in socket.socketpair())
            self.theirs.insert(0, theirs)  # in the order in which _rank.py finds them
            self.connection = Connection(ours)
        except BaseException:
            self.hand_over()
            raise

    def hand_over(self) -> None:
        for file in self.theirs:
            os.close(file)
        self.theirs.clear()


def start_processes(program: Program, ranks: list[Rank], threads: int, device: str) -> _braid.RankPrograms:
    if not sys.executable:
        raise Error(
            RANK_FAILED, "this process does not know its Python interpreter", "set sys.executable to its path"
        )
    package = str(pathlib.Path(__file__).absolute().parent / "__init__.py")
    arguments = [
        sys.executable,
        "-I",
        "-c",
        START.format(file=package),
        str(program.folder),
        str(threads),
        device,
    ]
    environment = {**os.environ, "WORLD_SIZE": str(len(ranks)), "LOCAL_WORLD_SIZE": str(len(ranks))}
    environment["TORCHELASTIC_RUN_ID"] = f"braid-{uuid.uuid4()}"
    environment.pop("BRAID_ENGINE", None)  # MPI would have to start them
    return _braid.start_ranks(
        [os.fsencode(argument) for argument in arguments],
        [
            [
                os.fsencode(f"{name}={value}")
                for name, value in {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}.items()
            ]
            for rank in range(len(ranks))
        ],
        [rank.theirs for rank in ranks],
    )


def end_all(ranks: list[Rank], processes: list[_braid.RankPrograms], patience_ms: int = END_MS) -> None:
    """Closes the connections, so that ranks that wait for a step end; kills those that do not."""
    for rank in ranks:
        with contextlib.suppress(OSError):
            rank.connection.close()
    for supervised in processes:
        supervised.end(patience_ms)


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
        self._ranks: list[Rank] = []
        self._processes: list[_braid.RankPrograms] = []  # one, or none: the ranks have ended
        self._finalizer = weakref.finalize(self, end_all, self._ranks, self._processes)
        try:
            try:
                for rank in range(program.ranks):
                    self._ranks.append(Rank(self._layout, rank))
                self._processes.append(start_processes(program, self._ranks, threads, device))
            finally:
                for opened in self._ranks:
                    opened.hand_over()
            self._collect()
        except BaseException:
            self._close(0)
            raise

    @property
    def pids(self) -> list[int]:
        """The processes, by rank."""
        return [pid for processes in self._processes for pid in processes.processes]

    def run(
        self, inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, copy: bool = False
    ) -> list[dict[str, Tensor]]:
        """Runs one step on all ranks; returns each rank's outputs by name.

        inputs: tensors by name for all ranks, or one such dictionary for each. They are copied into the
        ranks' memory, and outputs out of it; copy=True also converts types and takes tensors that are not
        dense.

        Errors: those of Session.run, with the rank; BR0007 if a rank was killed or did not respond, with its
        name. Then, and after any error of a step that had begun, the ranks have ended.
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
        for rank, values in zip(self._ranks, inputs_of_ranks(self._program, inputs)):
            shapes: list[tuple[int, ...]] = []
            for spec in self._program.inputs:
                name = f"input {spec.name}"
                offset, room = self._layout.offsets[name], self._layout.rooms[name]
                shapes.append(
                    _braid.store(
                        rank.memory,
                        offset,
                        room,
                        values[spec.name],
                        spec.name,
                        spec.dtype,
                        copy,
                        spec.capacities or (),
                    )
                )
            shapes_of_ranks.append(shapes)
        try:
            self._processes[0].begin_step()
            for rank, shapes in zip(self._ranks, shapes_of_ranks):
                with contextlib.suppress(OSError):  # of one that has ended: found below
                    rank.connection.send(shapes)
            answers = self._collect()
        except (Error, InternalError):
            raise
        except BaseException:  # an interrupt: this step has no reader any more
            self._close(0)
            raise
        results = []
        for rank, answer in zip(self._ranks, answers):
            outputs = {}
            for spec, shape in zip(self._program.outputs, answer):
                offset = self._layout.offsets[f"output {spec.name}"]
                outputs[spec.name] = _braid.tensor_over(
                    rank.memory, offset, shape, spec.dtype, spec.capacities or ()
                ).copy()
            results.append(outputs)
        return results

    def _answers(self) -> dict[int, Any]:
        """The answers by rank, without those of ranks that have ended. The others answer or end: they are
        supervised."""
        processes = self._processes[0]
        answers: dict[int, Any] = {}
        waiting: dict[Any, int] = {rank.connection: k for k, rank in enumerate(self._ranks)}
        silent: set[int] = set()  # has closed its connection, but not ended yet
        while waiting or silent:
            for ready in wait([*waiting, processes]):
                if ready is processes:
                    processes.endings()
                    silent = {rank for rank in silent if not processes.has_ended(rank)}
                    continue
                rank = waiting.pop(ready)
                try:
                    answers[rank] = ready.recv()
                    processes.answered(rank)
                except (EOFError, OSError):
                    if not processes.has_ended(rank):
                        silent.add(rank)
                if rank not in answers or answers[rank][0] != "done":
                    processes.fail_step()
        return answers

    def _collect(self) -> list[Any]:
        """The answers of all ranks. A rank that has ended, or answered with an error, is the error of all."""
        answers = self._answers()
        lost = self._processes[0].endings()
        errors = {rank: answer[1:] for rank, answer in answers.items() if answer[0] == "error"}
        bugs = [f"rank {rank}: {answer[1]}" for rank, answer in answers.items() if answer[0] == "bug"]
        if not lost and not errors and not bugs and len(answers) == len(self._ranks):
            return [answers[rank][1] for rank in range(len(self._ranks))]
        ready_for_more = len(errors) == len(self._ranks) and all(
            e[0] in BEFORE_THE_STEP for e in errors.values()
        )
        if not ready_for_more:
            self.close()
        if lost:
            raise Error(
                RANK_FAILED,
                lost,
                "its own messages, if any, are on standard error; launch() starts all again",
            )
        if bugs:
            raise InternalError("; ".join(bugs))
        # What a peer saw of a failure says less than the failure itself.
        own = {rank: error for rank, error in errors.items() if error[0] != COLLECTIVE_FAILED} or errors
        rank, (code, message, hint) = min(own.items())
        raise Error(code, f"rank {rank}: {message}", hint)

    def close(self) -> None:
        """Ends the ranks."""
        self._close(END_MS)

    def _close(self, patience_ms: int) -> None:
        end_all(self._ranks, self._processes, patience_ms)
        self._ranks.clear()
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
        raise Error(BAD_OPTION, f"device='{device}': each rank has a GPU of its own", "write device='gpu'")
    if program.target == "interpreter":
        return InterpretedRanks(program)
    return Ranks(program, threads, device)
