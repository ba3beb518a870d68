"""What a model itself says about its inputs and outputs, before it is compiled."""

from __future__ import annotations

import dataclasses
from typing import Any

from . import _braid
from ._options import model_file


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """An input or output, with ONNX Runtime's members. shape: sizes, or names of dims."""

    name: str
    shape: list[int | str]
    type: str  # "tensor(float)"


def read(model: Any) -> tuple[list[NodeArg], list[NodeArg]]:
    """Inputs and outputs of a model, which is given as for compile(). Errors: BR0001, BR0101."""

    def argument(name: str, kind: str, element: str, dims: list[str]) -> NodeArg:
        shape = [int(dim) if dim.isdigit() else dim for dim in dims]
        return NodeArg(name, shape, f"{kind or 'tensor'}({element})")

    with model_file(model) as path:
        inputs, outputs = _braid.signature(path)
    return [argument(*value) for value in inputs], [argument(*value) for value in outputs]


def sizes_of(inputs: list[NodeArg], arrays: dict[str, Any]) -> dict[str, int]:
    """The sizes that these arrays give the model's named dims."""
    sizes: dict[str, int] = {}
    for value in inputs:
        if value.name in arrays:
            for dim, size in zip(value.shape, arrays[value.name].shape):
                if isinstance(dim, str):
                    sizes[dim] = max(size, sizes.get(dim, 0))
    return sizes
