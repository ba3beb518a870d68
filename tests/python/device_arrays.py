"""Arrays in the memory of the emulated device, which speak DLPack as those of PyTorch and CuPy on a GPU do, and its streams."""

import ctypes
import math
import os
import pathlib

import numpy as np

TO_DEVICE, TO_HOST = 1, 2
CUDA = 2  # DLPack's device
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", DLTensor),
    ]  # fmt: skip


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
get_pointer.restype = ctypes.c_void_p
get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

kept = []  # what capsules point to: nobody deletes it


def describe(address, shape, dtype, place, strides=None):
    dtype = np.dtype(dtype)
    tensor = DLTensor(
        address, *place, len(shape), CODES[dtype.kind], 8 * dtype.itemsize, 1, (ctypes.c_int64 * len(shape))(*shape)
    )
    if strides is not None:
        tensor.strides = (ctypes.c_int64 * len(strides))(*strides)
    return tensor


def capsule(tensor):
    kept.append(Managed(tensor))
    return new_capsule(ctypes.addressof(kept[-1]), b"dltensor", None)


def versioned_capsule(tensor, major=1, flags=0):
    kept.append(Versioned(major, 0, None, None, flags, tensor))
    return new_capsule(ctypes.addressof(kept[-1]), b"dltensor_versioned", None)


def library():
    """The emulated device of this process: a program has loaded it."""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("/libbraid_emulated_device.so"):
            return ctypes.CDLL(line[line.index("/") :], mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    raise AssertionError("no program has loaded the emulated device")


class Device:
    """One emulated device, as an application's own CUDA code sees it."""

    def __init__(self, number=0):
        self.number = number
        self.api = library()
        for name in ("cudaMalloc", "cudaMemcpy", "cudaStreamCreate", "cudaSetDevice", "cudaLaunchHostFunc"):
            getattr(self.api, name).restype = ctypes.c_int

    def call(self, name, *arguments):
        before = ctypes.c_int()
        self.api.cudaGetDevice(ctypes.byref(before))
        self.api.cudaSetDevice(self.number)
        error = getattr(self.api, name)(*arguments)
        self.api.cudaSetDevice(before.value)
        assert error == 0, (name, error)

    def allocate(self, size):
        address = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return address.value

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("cudaStreamCreateWithFlags", ctypes.byref(stream), 1)
        return stream.value

    def synchronize(self, stream):
        self.call("cudaStreamSynchronize", ctypes.c_void_p(stream))

    def array(self, values, offset=0):
        """These values in the device's memory."""
        values = np.ascontiguousarray(values)
        address = self.allocate(values.nbytes + offset) + offset
        if values.nbytes:
            self.call("cudaMemcpy", ctypes.c_void_p(address), ctypes.c_void_p(values.ctypes.data),
                      ctypes.c_size_t(values.nbytes), TO_DEVICE)  # fmt: skip
        return DeviceArray(self, address, values.shape, values.dtype)

    def read(self, address, shape, dtype):
        values = np.empty(shape, dtype)
        if values.nbytes:
            self.call("cudaMemcpy", ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(address),
                      ctypes.c_size_t(values.nbytes), TO_HOST)  # fmt: skip
        return values


class DeviceArray:
    """As a torch.Tensor on a GPU. `asked` has the streams for which its memory was asked."""

    def __init__(self, device, address, shape, dtype, strides=None, place=None):
        self.device, self.address, self.shape, self.dtype = device, address, tuple(shape), np.dtype(dtype)
        self.strides, self.place = strides, place or (CUDA, device.number)
        self.asked = []

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, stream=None):  # of before version 1: no max_version
        self.asked.append(stream)
        return capsule(describe(self.address, self.shape, self.dtype, self.place, self.strides))

    def numpy(self):
        return self.device.read(self.address, self.shape, self.dtype)


class Interface:
    """As an array of Numba: no DLPack."""

    def __init__(self, array, **more):
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.address, False), "version": 3, **more
        }  # fmt: skip


def from_dlpack(tensor, **options):
    """A tensor's memory as DLPack passes it on: (place, address, shape)."""
    made = tensor.__dlpack__(**options)
    found = ctypes.cast(get_pointer(made, b"dltensor"), ctypes.POINTER(Managed)).contents.tensor
    shape = tuple(found.shape[: found.ndim])
    assert math.prod(shape) >= 0
    return (found.device_type, found.device_id), found.data, shape
