"""Windows and transforms of signals."""

import numpy as np
from reference_case import Case, a_type, array, pick, version


def window(operator):
    terms = dict(HannWindow=(0.5, -0.5), HammingWindow=(25 / 46, -21 / 46), BlackmanWindow=(0.42, -0.5, 0.08))[operator]

    def make(rng):
        size, periodic = int(rng.integers(2, 30)), int(rng.integers(2))
        dtype, number = pick(rng, [(np.float32, 1), (np.float64, 11), (np.float16, 10)])
        phase = 2 * np.pi * np.arange(size) / (size if periodic else size - 1)
        value = sum(a * np.cos(k * phase) for k, a in enumerate(terms)).astype(dtype)
        return Case(operator, 17, [np.array(size, pick(rng, [np.int32, np.int64]))],
                    dict(periodic=periodic, output_datatype=number), constants=(0,), expected=lambda _: value)  # fmt: skip

    return make


def dft(rng):
    opset = version(rng, "DFT")
    shape = [int(n) for n in rng.integers(1, 8, rng.integers(1, 4))]
    axis = int(rng.integers(0, len(shape)))
    inverse, onesided = int(rng.integers(2)), int(rng.integers(3) == 0)
    if opset < 20:
        inverse = 0 if onesided else inverse
    parts = int(rng.integers(1, 3)) if not onesided else 2 if inverse else 1
    if onesided and inverse and shape[axis] == 1:
        shape[axis] = 2
    length = int(rng.integers(1, 10)) if rng.integers(2) else None
    x = array(rng, a_type(rng, "DFT", opset), (*shape, parts))

    def expected(x, *_):
        signal = np.moveaxis(x[..., 0] + (1j * x[..., 1] if parts == 2 else 0), axis, -1)
        n = length or (2 * (shape[axis] - 1) if onesided and inverse else shape[axis])
        known = n // 2 + 1 if onesided and inverse else n
        signal = np.concatenate([signal, np.zeros((*signal.shape[:-1], n))], -1)[..., :known]
        if onesided and inverse:  # the spectrum of a real signal: the other half is conjugate
            signal = np.concatenate([signal, np.conj(signal[..., 1 : n - known + 1][..., ::-1])], -1)
            signal.imag[..., [0, n // 2] if n % 2 == 0 else [0]] = 0
        turns = np.outer(np.arange(n), np.arange(n)) / n * (1 if inverse else -1)
        y = signal @ np.exp(2j * np.pi * turns) / (n if inverse else 1)
        y = np.moveaxis(y[..., : n // 2 + 1 if onesided and not inverse else n], -1, axis)
        return y.real[..., None] if onesided and inverse else np.stack([y.real, y.imag], -1)

    count = None if length is None else np.array(length, pick(rng, [np.int32, np.int64]))
    attributes = {}
    if inverse or rng.integers(2):
        attributes["inverse"] = inverse
    if onesided or rng.integers(2):
        attributes["onesided"] = onesided
    given = axis - len(shape) - 1 if rng.integers(2) else axis
    if opset < 20:
        attributes |= {} if axis == 1 and rng.integers(2) else dict(axis=given)
        return Case("DFT", opset, [x, count], attributes, constants=(1,), expected=expected)
    given = None if axis == len(shape) - 1 and rng.integers(2) else np.array(given)
    return Case("DFT", opset, [x, count, given], attributes, constants=(1, 2), expected=expected)


def stft(rng):
    parts = int(rng.integers(1, 3))
    length, step = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    onesided = int(rng.integers(2)) if parts == 1 else 0
    dtype = pick(rng, [np.float32, np.float64, np.float16])
    x = array(rng, dtype, (int(rng.integers(1, 3)), length + int(rng.integers(0, 9)), parts))
    win = array(rng, dtype, length) if rng.integers(2) else None
    given = np.array(length) if win is None or rng.integers(2) else None

    def expected(x, step, win=None, given=None):
        signal = (x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)).astype(np.complex128)
        frames = 1 + (x.shape[1] - length) // int(step)
        pieces = np.stack([signal[:, f * int(step) : f * int(step) + length] for f in range(frames)], 1)
        y = np.fft.fft(pieces * (1 if win is None else win), length, -1)[..., : length // 2 + 1 if onesided else length]
        return np.stack([y.real, y.imag], -1).astype(x.dtype)

    return Case("STFT", 17, [x, np.array(step), win, given], dict(onesided=onesided), constants=(1, 3), expected=expected)


def mel_weight_matrix(rng):
    length = int(rng.integers(8, 64))
    rate = int(pick(rng, [8000, 16000, 22050]))
    dtype, number = pick(rng, [(np.float32, 1), (np.float64, 11)])
    low, high = float(rng.integers(0, rate // 8)), float(rng.integers(rate // 4, rate // 2 - rate // 8))
    inputs = [np.array(int(rng.integers(1, 12))), np.array(length), np.array(rate), np.array(low, np.float64),
              np.array(high, np.float64)]  # fmt: skip
    inputs[3], inputs[4] = (a.astype(np.float32) for a in inputs[3:])
    low, high = float(inputs[3]), float(inputs[4])

    def expected(bins, *_):
        bins = int(bins)
        mel = [2595 * np.log10(1 + f / 700) for f in (low, high)]
        hertz = 700 * (10 ** ((mel[0] + np.arange(bins + 2) * (mel[1] - mel[0]) / (bins + 2)) / 2595) - 1)
        edge = np.floor((length + 1) * hertz / rate + 1e-9).astype(int)
        y = np.zeros((length // 2 + 1, bins))
        for m in range(bins):
            left, center, right = edge[m : m + 3]
            for j in range(left, center + 1):
                y[j, m] = 1 if left == center else (j - left) / (center - left)
            for j in range(center, right):
                y[j, m] = (right - j) / (right - center)
        return y.astype(dtype)

    return Case("MelWeightMatrix", 17, inputs, dict(output_datatype=number), constants=(0, 1, 2, 3, 4), expected=expected,
                dtype=dtype)  # fmt: skip


OPERATORS = {
    "BlackmanWindow": window("BlackmanWindow"),
    "DFT": dft,
    "HammingWindow": window("HammingWindow"),
    "HannWindow": window("HannWindow"),
    "MelWeightMatrix": mel_weight_matrix,
    "STFT": stft,
}
