#!/usr/bin/env python3
"""Peak memory of Braid and of ONNX Runtime: GPT-2 small and BERT base, 128 tokens, one table.

  scripts/python_run.sh bench/onnxruntime/memory.py --braid build/release/bin/braid

A process of each runtime loads the same model file, runs a few steps, and is asked for the most memory that it has had
(VmHWM: its own pages and those of mapped files, loading included). What a process of the runtime needs for a model of one
addition is measured in the same way: interpreter and libraries. Other load on the machine does not matter.
"""

import argparse
import os

import compare
import onnx
import onnxruntime

MEGABYTE = 1e6
STEPS = 3

MODELS = ("gpt2_prefill", "bert")


def make_addition(folder):
    """A model that needs next to nothing."""
    path = os.path.join(folder, "addition.onnx")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "x"], ["y"])], "addition", [x], [y])
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path


def peaks(options, model, case, threads):
    """The peak in bytes by runtime; one runs after the other."""
    result = {}
    for name, server in compare.servers(options, model, case, threads).items():
        for _ in range(STEPS):
            server.run()
        result[name] = server.peak_bytes()
        server.close()
    return result


def cells(values):
    """Both sides, and the ratio of Braid's to the other."""
    texts = [f"{value / MEGABYTE:.0f}" for value in values.values()]
    if "Braid" in values:
        texts.append(f"{values['Braid'] / values['ONNX Runtime']:.2f}")
    return texts


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    compare.add_server_options(parser)
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)

    print(f"{compare.processor()}, {os.cpu_count()} processors; ONNX Runtime {onnxruntime.__version__}; "
          f"peak of the whole process in MB, and what it has beyond a process that adds two numbers\n")  # fmt: skip
    runtimes = ["ONNX Runtime"] if options.ort_only else ["ONNX Runtime", "Braid", "ratio"]
    head = ["model", "weights", "threads", *runtimes, *(f"{name}, beyond" for name in runtimes)]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    for threads in options.threads:
        empty = peaks(options, make_addition(options.work), ({}, {}), threads)
        for name in MODELS:
            case = compare.CASES[name]
            model = compare.make_model(options.work, name, case.model_options)
            weights = os.path.getsize(os.path.splitext(model)[0] + ".data")
            whole = peaks(options, model, (case.sizes, case.bounds), threads)
            beyond = {runtime: value - empty[runtime] for runtime, value in whole.items()}
            row = [case.title, f"{weights / MEGABYTE:.0f}", str(threads), *cells(whole), *cells(beyond)]
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
