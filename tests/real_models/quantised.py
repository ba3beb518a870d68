#!/usr/bin/env python3
"""Networks that ONNX Runtime's quantiser has quantised, beside ONNX Runtime itself.

    quantised.py BRAID FOLDER [--only NETWORK] [--full] [-- OPTIONS]        OPTIONS go to `braid run`

The networks are those of tests/models/networks.py, with random weights. Each is quantised in the ways that files are found
in: dynamically (quantize_dynamic), and with calibration as pairs of QuantizeLinear and DequantizeLinear or as operators on
integers (quantize_static), with one scale per tensor or per channel.

ONNX Runtime runs them without its optimiser, as they are written. A value that lies in the middle between two steps may be
rounded to either by sums in another order, and such steps spread through a network: the outputs' errors are bounded in steps of
the output's scale, on average and at most.
"""

import argparse
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
import real_models
from onnxruntime import quantization
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType

HERE = pathlib.Path(__file__).resolve().parent
# Of the difference to ONNX Runtime's output, in 255ths of its range.
MEAN_STEPS, MOST_STEPS = 0.5, 6


class Reader(CalibrationDataReader):
    def __init__(self, inputs):
        self.inputs = iter(inputs)

    def get_next(self):
        return next(self.inputs, None)


def ways():
    """name -> function of paths and calibration inputs."""

    def static(form, per_channel, activations):
        def quantise(source, target, inputs):
            quantization.quantize_static(source, target, Reader(inputs), quant_format=form, per_channel=per_channel,
                                         activation_type=activations, weight_type=QuantType.QInt8)  # fmt: skip

        return quantise

    return {
        "dynamic": lambda source, target, _: quantization.quantize_dynamic(source, target, weight_type=QuantType.QUInt8),
        "dynamic_per_channel": lambda source, target, _: quantization.quantize_dynamic(source, target, per_channel=True,
                                                                                       weight_type=QuantType.QInt8),
        "qdq": static(QuantFormat.QDQ, False, QuantType.QUInt8),
        "qdq_per_channel": static(QuantFormat.QDQ, True, QuantType.QInt8),
        "qoperator": static(QuantFormat.QOperator, False, QuantType.QUInt8),
        "qoperator_per_channel": static(QuantFormat.QOperator, True, QuantType.QUInt8),
    }  # fmt: skip


def inputs_of(session, seed):
    (value,) = session.get_inputs()
    shape = [d if isinstance(d, int) else 2 if d == "batch" else 7 for d in value.shape]
    random = np.random.Generator(np.random.PCG64(seed))
    if value.type == "tensor(int64)":
        return {value.name: random.integers(0, 50, shape)}
    return {value.name: random.standard_normal(shape, np.float32)}


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def compare(path, options):
    """What is wrong, or nothing."""
    session = session_of(path)
    inputs = inputs_of(session, 1000)
    names = [o.name for o in session.get_outputs()]
    dims = [f"{d}={n}" for v in session.get_inputs() for d, n in zip(v.shape, inputs[v.name].shape) if isinstance(d, str)]
    got = real_models.outputs_of(path, names, inputs, dims, options)
    if isinstance(got, str):
        return got
    for name, ours, theirs in zip(names, got, session.run(None, inputs), strict=True):
        step = max(float(np.ptp(theirs)) / 255, 1e-6)
        error = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)) / step
        print(f"    {name}: {error.mean():.3f} steps on average, {error.max():.2f} at most", flush=True)
        if not (error.mean() <= MEAN_STEPS and error.max() <= MOST_STEPS):
            return f"output '{name}' differs by {error.mean():.3f} steps on average, {error.max():.2f} at most"
    return None


def main():
    arguments, rest = sys.argv[1:], []
    if "--" in arguments:
        split = arguments.index("--")
        arguments, rest = arguments[:split], arguments[split + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("braid")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", metavar="NETWORK")
    parser.add_argument("--full", action="store_true", help="all networks; otherwise those of the fast tier")
    options = parser.parse_args(arguments)
    options.rest = rest
    sys.path.insert(0, str(HERE.parent / "models"))
    import networks

    options.folder.mkdir(parents=True, exist_ok=True)
    fast = ["mobilenet_v3", "lstm_tagger"]
    failed = 0
    for network in [options.only] if options.only else networks.NETWORKS if options.full else fast:
        source = options.folder / f"{network}.onnx"
        onnx.save(networks.NETWORKS[network](True, False), source)
        calibration = [inputs_of(session_of(source), seed) for seed in range(4)]
        for name, quantise in ways().items():
            target = options.folder / f"{network}.{name}.onnx"
            quantise(str(source), str(target), calibration)
            print(f"  {network}, {name}", flush=True)
            if problem := compare(target, options):
                failed += 1
                print(f"  FAILED: {network}, {name}: {problem}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
