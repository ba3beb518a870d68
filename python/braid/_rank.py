"""A process of program.launch(): one rank, which runs steps as its parent asks."""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from . import _braid
from ._errors import Error
from ._launch import Layout
from ._program import Program, load

CONNECTION, MEMORY = 3, 4  # as runtime/comm/rank_programs.h numbers what _launch.py passes on


def serve(connection: Connection, memory: mmap.mmap, program: Program, session: _braid.Session) -> None:
    layout = Layout(program)

    def tensors(kind: str, specs: list[Any], shapes: list[tuple[int, ...]]) -> dict[str, _braid.Tensor]:
        return {
            spec.name: _braid.tensor_over(
                memory, layout.offsets[f"{kind} {spec.name}"], shape, spec.dtype, spec.capacities or ()
            )
            for spec, shape in zip(specs, shapes)
        }

    def step(shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        inputs = tensors("input", program.inputs, shapes)
        found = session.output_shapes(inputs)
        outputs = [found[spec.name] for spec in program.outputs]
        session.run(inputs, out=tensors("output", program.outputs, outputs))
        return outputs

    while True:
        try:
            shapes = connection.recv()
        except (EOFError, OSError):  # the parent has closed us, or is gone
            return
        answer(connection, functools.partial(step, shapes))


def answer(connection: Connection, work: Callable[[], Any]) -> None:
    """Sends what `work` returns or raises."""
    reply: tuple[Any, ...]
    try:
        reply = ("done", work())
    except Error as error:
        reply = ("error", error.code, error.message, error.hint)
    except Exception as error:
        reply = ("bug", f"{type(error).__name__}: {error}")
    with contextlib.suppress(OSError):  # the parent is gone
        connection.send(reply)


def main() -> None:
    folder, threads, device = sys.argv[1:4]
    parent = Connection(CONNECTION)
    memory = mmap.mmap(MEMORY, 0)
    os.close(MEMORY)
    opened: list[Any] = []

    def start() -> None:
        program = load(folder)
        if device:
            program._core.use_device(device)  # Layout needs it
        # On a GPU, too, tensors come and go through host memory here.
        session = _braid.open_session(program._core, int(threads), device, None, True)
        opened.extend([program, session])

    answer(parent, start)
    if opened:
        serve(parent, memory, *opened)
