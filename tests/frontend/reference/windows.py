"""Attributes that convolutions and pools share, and where their windows lie."""

import dataclasses

import numpy as np
from reference_case import integers, pick


@dataclasses.dataclass
class Windows:
    """Per spatial axis: taps, stride, dilation, elements of padding before and after."""

    kernel: list
    strides: list
    dilations: list
    before: list
    after: list

    def extent(self, d):
        return (self.kernel[d] - 1) * self.dilations[d] + 1

    def attributes(self, rng):
        """Those that differ from their defaults, and some of the others."""
        given = dict(strides=(self.strides, 1), dilations=(self.dilations, 1), pads=([*self.before, *self.after], 0))
        return {name: value for name, (value, default) in given.items() if set(value) != {default} or rng.integers(2)}

    def sources(self, at, size, padded=False):
        """Of the window at an output position: each tap, and the position in the input, or also in its padding, that it reads."""
        for tap in np.ndindex(*self.kernel):
            source = tuple(at[d] * self.strides[d] - self.before[d] + tap[d] * self.dilations[d] for d in range(len(at)))
            low, high = (self.before, self.after) if padded else ([0] * len(at), [0] * len(at))
            if all(-low[d] <= source[d] < size[d] + high[d] for d in range(len(at))):
                yield tap, source


def a_window(rng, axes, dilated=True):
    kernel, strides = integers(rng, 1, 3, axes), integers(rng, 1, 3, axes)
    dilations = integers(rng, 1, 3, axes) if dilated and rng.integers(2) else [1] * axes
    return Windows(kernel, strides, dilations, [0] * axes, [0] * axes)


def pad_automatically(windows, mode, size):
    """Sets the padding for auto_pad: as many windows as strides fit, or none at all."""
    for d, n in enumerate(size):
        total = max((-(-n // windows.strides[d]) - 1) * windows.strides[d] + windows.extent(d) - n, 0)
        if mode == "VALID":
            total = 0
        windows.before[d] = total // 2 if mode == "SAME_UPPER" else total - total // 2
        windows.after[d] = total - windows.before[d]


def a_padded_window(rng, axes, dilated=True):
    """Windows over a spatial size, which is returned with them, and the attributes that say so."""
    windows = a_window(rng, axes, dilated)
    mode = pick(rng, ["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    high = 7 if axes < 3 else 5
    if mode.startswith("SAME"):
        size = integers(rng, 1, high, axes)
    elif mode == "VALID":
        size = [windows.extent(d) + int(rng.integers(0, 4)) for d in range(axes)]
    else:
        windows.before, windows.after = ([int(rng.integers(0, windows.kernel[d])) for d in range(axes)] for _ in range(2))
        size = [max(1, windows.extent(d) - windows.before[d] - windows.after[d]) + int(rng.integers(0, 4)) for d in range(axes)]
    if mode == "NOTSET":
        attributes = windows.attributes(rng) | (dict(auto_pad=mode) if rng.integers(4) == 0 else {})
    else:
        pad_automatically(windows, mode, size)
        attributes = windows.attributes(rng) | dict(auto_pad=mode)
        attributes.pop("pads", None)
    return windows, size, attributes


def output_size(windows, size, ceil_mode=False):
    """How many windows fit. With ceil_mode also one that ends outside, if it begins inside of the input or the padding before."""
    result = []
    for d, n in enumerate(size):
        stride, room = windows.strides[d], n + windows.before[d] + windows.after[d] - windows.extent(d)
        count = room // stride + 1
        if ceil_mode and room % stride != 0 and count * stride < n + windows.before[d]:
            count += 1
        result.append(count)
    return result
