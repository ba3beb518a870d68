#!/usr/bin/env python3
"""Serves timed runs of one model on ONNX Runtime, so that a driver can interleave them with those of another runtime.

  bench_ort.py model.onnx --threads 2 --dim batch=1 --dim sequence=128
  run            <- a line on standard input
  48211930       <- the latency of that run in nanoseconds, on standard output

Ends with standard input. Nothing else goes to standard output.

Settings are the best we know of for latency: all graph optimisations, dimensions fixed at load so that shape
computations fold, weights packed at load, inputs and outputs bound to buffers made beforehand, workers spinning,
denormals flushed. A run is timed from the call into ONNX Runtime to its return; Python adds some microseconds.
"""

import argparse
import sys
import time

import numpy as np
import onnxruntime

NUMPY_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint32)": np.uint32,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}
# Random integers stay below this: they are token numbers, and every vocabulary has as many.
INTEGER_LIMIT = 50


def make_session(path, threads, dims, fix_dims):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    if fix_dims:
        for name, size in dims.items():
            options.add_free_dimension_override_by_name(name, size)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def make_inputs(session, dims, seed):
    """Random inputs: normal floats, small integers; a mask of ones for what is called a mask."""
    generator = np.random.Generator(np.random.PCG64(seed))
    result = {}
    for value in session.get_inputs():
        shape = [d if isinstance(d, int) else dims[d] for d in value.shape]
        dtype = NUMPY_TYPES[value.type]
        if dtype == np.float32:
            result[value.name] = generator.standard_normal(shape, np.float32)
        elif "mask" in value.name:
            result[value.name] = np.ones(shape, dtype)
        else:
            limit = 2 if "type" in value.name or dtype == np.bool_ else INTEGER_LIMIT
            result[value.name] = generator.integers(0, limit, shape).astype(dtype)
    return result


def make_outputs(session, inputs):
    """Buffers for all outputs by name; None if it takes none of that shape, as a wrong rank is declared. A run that tells their
    sizes would leave memory behind, so only if it must.
    """
    outputs = session.get_outputs()
    if all(isinstance(d, int) for o in outputs for d in o.shape):
        return {o.name: np.empty(o.shape, NUMPY_TYPES[o.type]) for o in outputs}
    names = [o.name for o in outputs]
    results = dict(zip(names, session.run(names, inputs)))
    fits = {o.name: len(o.shape) in (0, results[o.name].ndim) for o in outputs}
    return {name: result if fits[name] else None for name, result in results.items()}


def bind(session, inputs):
    """A binding of all inputs and outputs to buffers of their own."""
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for name, array in make_outputs(session, inputs).items():
        if array is None:
            binding.bind_output(name)
        else:
            binding.bind_ortvalue_output(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    return binding


def dimension(text):
    name, _, size = text.partition("=")
    return name, int(size)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--dim", type=dimension, action="append", default=[], metavar="NAME=SIZE", help="a named dimension"
    )
    parser.add_argument(
        "--dynamic", action="store_true", help="leave the named dimensions open while loading"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", metavar="FILE.npz", help="the inputs, instead of random ones")
    options = parser.parse_args()
    dims = dict(options.dim)
    session = make_session(options.model, options.threads, dims, not options.dynamic)
    given = dict(np.load(options.inputs)) if options.inputs else make_inputs(session, dims, options.seed)
    binding = bind(session, given)
    for line in sys.stdin:
        if line.strip() != "run":
            sys.exit(f"bench_ort.py: unknown command {line.strip()!r}")
        start = time.perf_counter_ns()
        session.run_with_iobinding(binding)
        print(time.perf_counter_ns() - start, flush=True)


if __name__ == "__main__":
    main()
