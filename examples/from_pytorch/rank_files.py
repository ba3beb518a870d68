"""ONNX files of ranks: nothing but the model in them, and the same graph on all ranks."""

import onnx

from rank_constants import RanksDifferError, everybodys


def without_traces(model):
    """Without the exporter's records of where in the Python sources a node comes from, and of itself."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    result.ClearField("producer_version")
    del result.metadata_props[:]
    graph = result.graph
    del graph.metadata_props[:]
    for node in graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        del value.metadata_props[:]
        value.doc_string = ""
    del graph.value_info[:]
    for function in result.functions:
        del function.metadata_props[:]
        function.doc_string = ""
        for node in function.node:
            del node.metadata_props[:]
            node.doc_string = ""
    return result


def name_mesh(model, axes):
    """Tells the axes of the mesh of all ranks, name -> size, the slowest first (docs/collectives.md)."""
    if axes:
        text = ",".join(f"{name}={size}" for name, size in axes.items())
        onnx.helper.set_model_props(model, {"ai.braid.mesh": text})


def check_equal(model):
    """Raises RanksDifferError unless all ranks' models are the same but for the values of weights. All ranks call it together."""
    first, *others = everybodys(_skeleton(model))
    for rank, other in enumerate(others, 1):
        for a, b in zip(first, other):
            if a != b:
                raise RanksDifferError(f"rank {rank} has {b}, rank 0 has {a}")
        if len(other) != len(first):
            raise RanksDifferError(f"rank {rank} has {len(other)} values and nodes, rank 0 has {len(first)}")


def _skeleton(model):
    """Everything but the values of weights, line by line."""
    graph = model.graph
    lines = [f"operator set {o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import]
    lines += [f"property {p.key} {p.value}" for p in model.metadata_props]
    lines += [f"input {onnx.helper.printable_value_info(value)}" for value in graph.input]
    lines += [f"output {onnx.helper.printable_value_info(value)}" for value in graph.output]
    lines += [f"weight {t.name}: {t.data_type} {list(t.dims)}" for t in graph.initializer]
    lines += [f"node '{node.name}': {onnx.helper.printable_node(node)}" for node in graph.node]
    lines += [f"function {onnx.printer.to_text(function)}" for function in model.functions]
    return lines
