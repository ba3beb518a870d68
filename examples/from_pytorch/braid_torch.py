"""Exports a PyTorch model that is split over ranks as ONNX files with collectives of the domain ai.braid, one per rank.

    import braid_torch                                      # in each process of torchrun, after init_process_group
    braid_torch.export(model, {"input_ids": ids}, "out/model.rank{rank}.onnx",
                       outputs=["logits"], dynamic={"input_ids": {0: "batch", 1: "sequence"}})

`model` is a module of this rank: DTensor's parallelize_module has been applied to it, or it calls functional collectives
(torch.distributed._functional_collectives) itself. All ranks call `export` together: their graphs have to be the same, node
for node and name for name, with weights of their own, and this is checked before anything is written.
"""

import os
import re
import warnings

import onnx
import onnx_ir
import onnxscript.optimizer
import torch
import torch.distributed as dist

from collective_ops import add_import, translation_table
from exchange_splits import exchange_splits
from rank_constants import lift_rank_constants, together
from rank_files import check_equal, name_mesh, without_traces
from rank_groups import parts_of_groups
from tracing import trace


def export(model, inputs, path, outputs, dynamic=None, bounds=None, opset=20, mesh=None):
    """Writes this rank's file and returns its ModelProto.

    `inputs`: name -> example tensor of this rank. `path` holds "{rank}". `outputs`: names of the results. `dynamic`: input ->
    {axis: name} of sizes that are known at run time only; `bounds`: name -> (least, most). `mesh`: the DeviceMesh of all ranks, whose named
    axes the files then tell (ai.braid.mesh). Raises NoMappingError, tracing.SizeFixedError, or rank_constants.RanksDifferError.
    """
    if "{rank}" not in path:
        raise ValueError(f"'{path}' has no '{{rank}}': every rank writes a file of its own")
    axes = named_axes(mesh)
    traced = together(lambda: trace(model, inputs, dynamic))
    lift_rank_constants(traced)
    proto = convert(traced, inputs, outputs, dynamic, bounds, opset)
    name_mesh(proto, axes)
    check_equal(proto)
    together(lambda: onnx.checker.check_model(proto))
    target = path.replace("{rank}", str(dist.get_rank()))
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    with open(target, "wb") as file:
        file.write(proto.SerializeToString(deterministic=True))
    return proto


def named_axes(mesh):
    """Name -> size of a DeviceMesh's axes; empty without one. Its ranks must be all ranks in row-major order, as braid numbers them."""
    if mesh is None:
        return {}
    if mesh.mesh_dim_names is None:
        raise ValueError("the axes of the mesh have no names: give init_device_mesh mesh_dim_names")
    if mesh.mesh.flatten().tolist() != list(range(dist.get_world_size())):
        raise ValueError(f"the mesh {mesh.mesh.tolist()} does not hold all ranks in their order")
    for name in mesh.mesh_dim_names:
        if not (name.isascii() and name.isidentifier()):
            raise ValueError(f"the axis '{name}' has a name that is not made of letters, digits and '_'")
    return dict(zip(mesh.mesh_dim_names, mesh.mesh.shape))


def convert(traced, inputs, outputs, dynamic=None, bounds=None, opset=20):
    """The ONNX model of a traced graph (tracing.trace). All ranks call it together."""
    parts = parts_of_groups(traced.graph)
    table = translation_table(parts, exchange_splits(traced.graph, parts))
    return together(lambda: write_onnx(traced, inputs, outputs, dynamic or {}, bounds or {}, opset, table))


def write_onnx(traced, inputs, outputs, dynamic, bounds, opset, table):
    sizes = {}
    shapes = {}
    for name in inputs:
        axes = dynamic.get(name, {})
        for size in axes.values():
            least, most = bounds.get(size, (None, None))
            sizes.setdefault(size, torch.export.Dim(size, min=least, max=most))
        shapes[name] = {axis: sizes[size] for axis, size in axes.items()}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(traced, (), kwargs=dict(inputs), dynamic_shapes=shapes, strict=False)
        converted = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=opset,
            input_names=list(inputs),
            output_names=list(outputs),
            custom_translation_table=table,
            optimize=False,
            verbose=False,
        )
        optimize(converted.model)
    proto = without_traces(onnx_ir.to_proto(converted.model))
    name_sizes(proto, dynamic)
    add_import(proto)
    return proto


def name_sizes(model, dynamic):
    """The names that the user gave to sizes instead of the exporter's symbols."""
    given = {}
    for value in model.graph.input:
        for axis, name in dynamic.get(value.name, {}).items():
            given[value.type.tensor_type.shape.dim[axis].dim_param] = name
    for value in [*model.graph.input, *model.graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                dim.dim_param = re.sub(r"\w+", lambda found: given.get(found[0], found[0]), dim.dim_param)


def optimize(model):
    """Runs onnxscript's optimizer on a model whose weights it cannot see, so that it does the same on all ranks."""
    graph = model.graph
    weights = {name: value.const_value for name, value in graph.initializers.items()}
    for name in weights:
        value = graph.initializers.pop(name)
        value.const_value = None
        graph.inputs.append(value)
    onnxscript.optimizer.optimize_ir(model)
    for value in [value for value in graph.inputs if value.name in weights]:
        graph.inputs.remove(value)
        if value.uses():
            value.const_value = weights[value.name]
            graph.register_initializer(value)
