"""Tensors as NumPy arrays. The only part of the package, with InferenceSession and backend, that needs
NumPy."""

from __future__ import annotations

from typing import Any

from ._errors import Error

NOT_PASSABLE = 731


def numpy_dtype(name: str) -> Any:
    """NumPy's type of that name; bfloat16 is ml_dtypes'."""
    import numpy as np

    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def array(tensor: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    """The tensor as an ndarray over its memory: Tensor.__array__ and Tensor.numpy()."""
    import numpy as np

    if tensor.dtype == "bfloat16":
        view = np.ndarray(tensor.shape, np.uint16, buffer=tensor).view(numpy_dtype("bfloat16"))
    else:
        view = np.asarray(memoryview(tensor))
    if dtype is not None and np.dtype(dtype) != view.dtype:
        if copy is False:
            raise ValueError("a conversion to another type copies")
        return view.astype(dtype)
    return view.copy() if copy else view


def passable(value: Any, dtype: str, name: str) -> Any:
    """A dense copy of `value` in this process's memory, with the given type: what run(copy=True) passes
    instead."""
    import numpy as np

    wanted = numpy_dtype(dtype)
    try:
        source = host_array(value)
        if not np.can_cast(source.dtype, wanted, "same_kind"):
            raise Error(
                NOT_PASSABLE,
                f"input '{name}' is {source.dtype}, which copy=True does not convert to {dtype}",
                f"convert it yourself: .astype('{dtype}')",
            )
        return np.require(source, wanted, ["C", "ALIGNED", "OWNDATA"])
    except (BufferError, TypeError, ValueError) as error:
        raise Error(
            NOT_PASSABLE, f"input '{name}' cannot be copied: {error}", "pass an array of NumPy"
        ) from error


def host_array(value: Any) -> Any:
    import numpy as np

    if hasattr(value, "__dlpack_device__") and not isinstance(value, np.ndarray):
        if value.__dlpack_device__()[0] not in (1, 3):
            return np.from_dlpack(value, device="cpu", copy=True)
        if not hasattr(value, "__array__"):
            return np.from_dlpack(value)
    return np.asarray(value)
