"""Runs the graphs of all ranks in lock-step in one process, with ONNX's reference evaluator and simulated collectives.

Slow and obviously right: every rank is a thread, a collective is a barrier between putting in and reading out.
"""

import threading

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import lockstep_braid


class Exchange:
    """Hands every rank the values of all ranks."""

    def __init__(self, ranks):
        self.ranks = ranks
        self._values = [None] * ranks
        self._barrier = threading.Barrier(ranks)

    def all_values(self, rank, value):
        self._values[rank] = value
        self._barrier.wait()
        values = list(self._values)
        self._barrier.wait()  # nobody puts in the next value before all have read
        return values

    def abort(self):
        """Wakes the others when one rank fails."""
        self._barrier.abort()


def collective_ops(exchange, rank):
    """The collectives of com.microsoft as operators of the reference evaluator, for one rank."""

    class Collective(OpRun):
        op_domain = "com.microsoft"

    class AllReduce(Collective):
        """Sum over all ranks, in rank order."""

        def _run(self, value):
            total, *others = exchange.all_values(rank, value)
            for other in others:
                total = total + other
            return (total,)

    class AllGather(Collective):
        """Values of all ranks, concatenated along `axis`."""

        def _run(self, value, axis=None, group_size=None):
            assert (group_size or self.group_size) == exchange.ranks
            axis = self.axis if axis is None else axis
            return (np.concatenate(exchange.all_values(rank, value), axis),)

    class AllToAll(Collective):
        """Equal slabs of the flattened value: slab i goes to rank i and lies in the result where the sender's rank says."""

        def _run(self, value, group_size=None):
            assert (group_size or self.group_size) == exchange.ranks
            slabs = [np.split(v.reshape(-1), exchange.ranks)[rank] for v in exchange.all_values(rank, value)]
            return (np.concatenate(slabs).reshape(value.shape),)

    return [AllReduce, AllGather, AllToAll, *lockstep_braid.collective_ops(exchange, rank)]


def run_ranks(paths, inputs):
    """Runs one model file per rank on `inputs`, a dictionary per rank; returns a dictionary of outputs per rank."""
    exchange = Exchange(len(paths))
    results, errors = [None] * len(paths), []

    def run(rank):
        try:
            evaluator = ReferenceEvaluator(onnx.load(paths[rank]), new_ops=collective_ops(exchange, rank))
            results[rank] = dict(zip(evaluator.output_names, evaluator.run(None, inputs[rank])))
        except threading.BrokenBarrierError:
            pass  # another rank failed and says why
        except Exception as error:
            errors.append(error)
            exchange.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(paths))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
