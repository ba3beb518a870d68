"""What one rank computes, as a graph of plain tensors and functional collectives.

A DTensor does its own work below the tracer: parameters come in as this rank's part, and the operations on them and the
collectives in between are recorded. Works the same for modules that call functional collectives themselves.
"""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import DTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from axis_forms import merge_axes
from functional_graph import make_functional


class SizeFixedError(ValueError):
    """A dimension that should be known at run time only was fixed by the model."""


def trace(model, inputs, dynamic=None):
    """Traces `model(*inputs.values())` without running it.

    `inputs`: name -> tensor of this rank. `dynamic`: input -> {axis: name of the size}. Returns a torch.fx.GraphModule that
    takes the inputs by these names, has the rank's own parameters under the model's names, and returns a tuple of tensors.
    """
    dynamic = dynamic or {}
    parameters = dict(model.named_parameters(remove_duplicate=False)) | dict(
        model.named_buffers(remove_duplicate=False)
    )
    shapes = ShapeEnv()
    mode = FakeTensorMode(shape_env=shapes)

    def fake(tensor, axes=()):
        sizes = [DimDynamic.DYNAMIC if k in axes else DimDynamic.STATIC for k in range(tensor.dim())]
        return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))

    def run(*tensors):
        own = dict(zip(parameters, tensors[len(inputs) :]))
        given = {name: _like(own[name], parameter) for name, parameter in parameters.items()}
        result = torch.func.functional_call(model, given, tensors[: len(inputs)])
        results = result if isinstance(result, (tuple, list)) else (result,)
        return tuple(_local(tensor) for tensor in results)

    local = {name: _local(parameter).detach() for name, parameter in parameters.items()}
    fakes = [fake(tensor, dynamic.get(name, ())) for name, tensor in inputs.items()]
    fakes += [fake(tensor) for tensor in local.values()]
    with torch.no_grad(), mode:
        module = make_fx(run, tracing_mode="real")(*fakes)
    _check_sizes(fakes, list(inputs), dynamic)
    make_functional(module.graph)
    merge_axes(module.graph)
    constants = {
        node.target: getattr(module, node.target) for node in module.graph.nodes if node.op == "get_attr"
    }  # tensors that the model makes of numbers
    return _with_parameters(module.graph, list(inputs), local, constants)


def _local(tensor):
    if isinstance(tensor, DTensor):
        tensor = tensor.to_local()
    return tensor


def _like(local, parameter):
    """The rank's part as what the model has: a DTensor with the parameter's placement, or itself."""
    if not isinstance(parameter, DTensor):
        return local
    return DTensor.from_local(
        local,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def _check_sizes(fakes, names, dynamic):
    for name, tensor in zip(names, fakes):
        for axis, size_name in dynamic.get(name, {}).items():
            size = tensor.shape[axis]
            if isinstance(size, int) or size.node.maybe_as_int() is not None:
                raise SizeFixedError(f"the model fixes '{size_name}' (axis {axis} of '{name}') at {size}")


def _with_parameters(graph, input_names, parameters, constants):
    """The graph with parameters as attributes of the module instead of arguments."""
    root = torch.nn.Module()
    for name, tensor in constants.items():
        root.register_buffer(name, tensor)
    for name, tensor in parameters.items():
        *path, last = name.split(".")
        module = root
        for part in path:
            if not hasattr(module, part):
                module.add_module(part, torch.nn.Module())
            module = getattr(module, part)
        module.register_buffer(last, tensor)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for node, name in zip(placeholders, input_names):
        node.target = name
        node._rename(name)
    for node, name in zip(placeholders[len(input_names) :], parameters):
        with graph.inserting_before(node):
            attribute = graph.create_node("get_attr", name)
        attribute.meta = dict(node.meta)
        node.replace_all_uses_with(attribute)
        graph.erase_node(node)
    for node in graph.nodes:
        node.meta.pop("nn_module_stack", None)  # modules that the result has not got
    result = torch.fx.GraphModule(root, graph)
    result.graph.eliminate_dead_code()
    result.recompile()
    return result
