#include "python/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/ndarray.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "harness/session.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "python/bindings.h"
#include "python/exchange.h"
#include "runtime/capacity.h"

namespace braid::python {

using namespace nanobind::literals;

namespace {

// "" where the struct module has no format: bfloat16.
const char* format_of(rt::DType dtype) {
  constexpr const char* kFormats[rt::kDTypeCount] = {"f", "d", "e", "",  "b", "B", "h",
                                                     "H", "i", "I", "q", "Q", "?"};
  return kFormats[static_cast<std::size_t>(dtype)];
}

nb::dlpack::dtype dlpack_type(rt::DType dtype) {
  using Code = nb::dlpack::dtype_code;
  Code code = Code::Int;
  switch (dtype) {
    case rt::DType::f32:
    case rt::DType::f64:
    case rt::DType::f16:
      code = Code::Float;
      break;
    case rt::DType::bf16:
      code = Code::Bfloat;
      break;
    case rt::DType::boolean:
      code = Code::Bool;
      break;
    case rt::DType::u8:
    case rt::DType::u16:
    case rt::DType::u32:
    case rt::DType::u64:
      code = Code::UInt;
      break;
    default:
      break;
  }
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * rt::size_of(dtype)), 1};
}

nb::tuple shape_of(const Tensor& t) {
  nb::list sizes;
  for (std::int64_t size : t.shape) sizes.append(size);
  return nb::tuple(sizes);
}

// nanobind's own array object over the same memory, which speaks all versions of DLPack.
nb::object array_of(nb::handle self) {
  const Tensor& t = nb::cast<const Tensor&>(self);
  const std::vector<std::size_t> shape(t.shape.begin(), t.shape.end());
  const bool cuda = t.device != nullptr;
  return nb::cast(nb::ndarray<nb::array_api>(
      t.data.get(), shape.size(), shape.data(), self, t.strides.empty() ? nullptr : t.strides.data(),
      dlpack_type(t.dtype), cuda ? nb::device::cuda::value : nb::device::cpu::value,
      cuda ? t.device->number() : 0));
}

[[noreturn]] void refuse_on_device(const Tensor& t, const char* what) {
  ir::user_error(errors::kNotPassable, {},
                 fmt::format("the tensor is on CUDA device {}; {}", t.device->number(), what),
                 "t.cpu() copies it to this process's memory, DLPack passes it on as it is");
}

// Sizes of a row-major tensor with its strides; along the first axis there is no more.
std::vector<std::int64_t> room_of(const Tensor& t) {
  std::vector<std::int64_t> room = t.shape;
  for (std::size_t k = 1; k < t.strides.size(); ++k) room[k] = t.strides[k - 1] / t.strides[k];
  return room;
}

Tensor host_copy(const Tensor& t) {
  Tensor copy = make_tensor(t.dtype, t.shape, nullptr);
  const nb::gil_scoped_release released;
  const std::vector<std::int64_t> room = room_of(t);
  rt::for_each_piece(room, t.shape, rt::size_of(t.dtype),
                     [&](std::size_t there, std::size_t here, std::size_t bytes) {
                       std::byte* to = static_cast<std::byte*>(copy.data.get()) + here;
                       const std::byte* from = static_cast<const std::byte*>(t.data.get()) + there;
                       if (t.device != nullptr)
                         t.device->read(to, from, bytes);
                       else
                         std::memcpy(to, from, bytes);
                     });
  return copy;
}

constexpr int kDlpackCpu = 1, kDlpackCuda = 2;

nb::object dlpack_of(nb::pointer_and_handle<Tensor> of, const nb::kwargs& options) {
  const Tensor& t = *of.p;
  const nb::handle self = of.h;
  nb::dict rest;
  bool wants_cpu = false;
  std::int64_t stream = harness::kLegacyStream;  // what None means
  for (auto [key, value] : options) {
    const auto name = nb::cast<std::string>(key);
    if (name == "dl_device" && t.device != nullptr && !value.is_none()) {
      std::pair<int, int> place;
      if (!nb::try_cast(value, place) ||
          (place.first != kDlpackCpu && place != std::pair(kDlpackCuda, t.device->number()))) {
        PyErr_SetString(PyExc_BufferError, "the tensor can be exported on its own device and on the CPU");
        throw nb::python_error();
      }
      wants_cpu = place.first == kDlpackCpu;
    } else if (name == "stream") {
      if (value.is_none()) continue;
      if (!nb::try_cast(value, stream) || stream < -1 || (stream == 0 && t.device != nullptr)) {
        ir::user_error(
            errors::kWrongStream, {},
            fmt::format("stream={} is not a stream as DLPack numbers them", nb::repr(value).c_str()),
            "pass None, -1, 1 or 2, or a stream's address");
      }
    } else {
      rest[key] = value;
    }
  }
  if (t.device == nullptr) return array_of(self).attr("__dlpack__")(**rest);
  if (wants_cpu) return array_of(nb::cast(host_copy(t))).attr("__dlpack__")(**rest);
  t.device->precede(stream);
  return array_of(self).attr("__dlpack__")(**rest);
}

// Version 3 of the interface that Numba and CuPy share.
nb::dict cuda_array_interface(const Tensor& t) {
  constexpr const char* kTypes[rt::kDTypeCount] = {"<f4", "<f8", "<f2", "",    "|i1", "|u1", "<i2",
                                                   "<u2", "<i4", "<u4", "<i8", "<u8", "|b1"};
  const char* type = kTypes[static_cast<std::size_t>(t.dtype)];
  if (t.device == nullptr || *type == '\0') {
    PyErr_SetString(PyExc_AttributeError, t.device == nullptr ? "the tensor is in this process's memory"
                                                              : "the interface has no bfloat16; use DLPack");
    throw nb::python_error();
  }
  t.device->precede(harness::kLegacyStream);
  nb::dict interface;
  interface["shape"] = shape_of(t);
  interface["typestr"] = type;
  interface["data"] = nb::make_tuple(
      t.bytes() == 0 ? std::uintptr_t{0} : reinterpret_cast<std::uintptr_t>(t.data.get()), false);
  interface["version"] = 3;
  interface["strides"] = nb::none();
  if (!t.strides.empty()) {
    nb::list strides;
    for (std::int64_t stride : t.strides)
      strides.append(stride * static_cast<std::int64_t>(rt::size_of(t.dtype)));
    interface["strides"] = nb::tuple(strides);
  }
  interface["stream"] = harness::kLegacyStream;
  return interface;
}

struct BufferShape {
  std::vector<Py_ssize_t> sizes, strides;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  if (!nb::inst_ready(self)) {  // Tensor.__new__ without more
    PyErr_SetString(PyExc_BufferError, "the tensor is not initialised");
    return -1;
  }
  const Tensor& t = *nb::inst_ptr<Tensor>(self);
  if (t.device != nullptr) {
    PyErr_SetString(PyExc_BufferError,
                    "the tensor is on a CUDA device; t.cpu() copies it to this process's memory");
    return -1;
  }
  const char* format = format_of(t.dtype);
  if (*format == '\0' && (flags & PyBUF_FORMAT) != 0) {
    PyErr_SetString(PyExc_BufferError, "the buffer protocol has no bfloat16; use DLPack or .numpy()");
    return -1;
  }
  constexpr int kContiguous = PyBUF_C_CONTIGUOUS | PyBUF_F_CONTIGUOUS | PyBUF_ANY_CONTIGUOUS;
  if (!t.strides.empty() &&
      ((flags & PyBUF_STRIDES) != PyBUF_STRIDES || (flags & kContiguous & ~PyBUF_STRIDES) != 0)) {
    PyErr_SetString(PyExc_BufferError, "the tensor lies in the memory of a larger one: it is not contiguous");
    return -1;
  }
  auto shape = std::make_unique<BufferShape>();
  shape->sizes.assign(t.shape.begin(), t.shape.end());
  shape->strides.resize(t.shape.size());
  const auto item = static_cast<Py_ssize_t>(rt::size_of(t.dtype));
  Py_ssize_t stride = item;
  for (std::size_t k = t.shape.size(); k-- > 0;) {
    shape->strides[k] = t.strides.empty() ? stride : item * t.strides[k];
    stride *= shape->sizes[k];
  }
  view->buf = t.data.get();
  view->len = static_cast<Py_ssize_t>(t.bytes());
  view->itemsize = item;
  view->readonly = 0;
  view->ndim = static_cast<int>(t.shape.size());
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  view->shape = (flags & PyBUF_ND) != 0 ? shape->sizes.data() : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? shape->strides.data() : nullptr;
  view->suboffsets = nullptr;
  view->internal = shape.release();
  view->obj = self;
  Py_INCREF(self);
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<BufferShape*>(view->internal); }

PyType_Slot kSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                        {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                        {0, nullptr}};

// A tensor over a part of the writable memory of `object`, which stays held.
// With capacities, it is in memory that has them.
Tensor tensor_over(nb::handle object, std::size_t offset, std::vector<std::int64_t> shape,
                   const std::string& dtype, const std::vector<std::int64_t>& capacities) {
  struct Held {
    Py_buffer buffer = {};
    ~Held() {
      const nb::gil_scoped_acquire locked;
      PyBuffer_Release(&buffer);
    }
  };
  auto held = std::make_shared<Held>();
  if (PyObject_GetBuffer(object.ptr(), &held->buffer, PyBUF_WRITABLE) != 0) throw nb::python_error();
  Tensor t{nullptr, std::move(shape), dtype_from_name(dtype).value()};
  if (!capacities.empty()) t.strides = rt::strides_of(capacities);
  std::size_t bytes = rt::size_of(t.dtype);
  for (std::int64_t size : rt::room_of(capacities, t.shape)) bytes *= static_cast<std::size_t>(size);
  ir::internal_check(offset + bytes <= static_cast<std::size_t>(held->buffer.len),
                     "a tensor of {} bytes at {} of {}", bytes, offset, held->buffer.len);
  t.data = std::shared_ptr<void>(held, static_cast<std::byte*>(held->buffer.buf) + offset);
  return t;
}

// Copies a tensor of that type into `memory`, at `offset`, where `room` bytes are. Returns its shape.
nb::tuple store(nb::handle memory, std::size_t offset, std::size_t room, nb::handle value,
                const std::string& name, const std::string& dtype, bool copy,
                const std::vector<std::int64_t>& capacities) {
  Borrowed borrowed;
  borrowed.borrow(value, {.name = name, .dtype = dtype_from_name(dtype).value()}, copy);
  const rt::TensorView& view = borrowed.view();
  bool fits = borrowed.bytes() <= room && (capacities.empty() || capacities.size() == view.shape.size());
  for (std::size_t k = 0; fits && k < capacities.size(); ++k) fits = view.shape[k] <= capacities[k];
  if (!fits) {
    throw rt::ProgramError(
        rt::kWrongSize, fmt::format("input '{}' has shape [{}], which is beyond the program's bounds", name,
                                    fmt::join(view.shape, ",")));
  }
  const Tensor there = tensor_over(memory, offset, {view.shape.begin(), view.shape.end()}, dtype, capacities);
  rt::to_memory(rt::room_of(capacities, view.shape), view.shape, rt::size_of(view.dtype), view.data,
                there.data.get());
  return shape_of(there);
}

}  // namespace

std::size_t Tensor::bytes() const {
  std::size_t bytes = rt::size_of(dtype);
  for (std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

Tensor make_tensor(rt::DType dtype, std::vector<std::int64_t> shape, std::shared_ptr<const void> keep) {
  constexpr std::size_t kAlignment = 64;
  Tensor t{nullptr, std::move(shape), dtype};
  const std::size_t bytes = (t.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, std::max(bytes, kAlignment));
  if (memory == nullptr) throw std::bad_alloc();
  t.data = std::shared_ptr<void>(memory, [keep = std::move(keep)](void* p) { std::free(p); });
  return t;
}

Tensor make_device_tensor(rt::DType dtype, std::vector<std::int64_t> shape,
                          const std::shared_ptr<const harness::TensorDevice>& device,
                          std::shared_ptr<const void> keep) {
  Tensor t{nullptr, std::move(shape), dtype, device};
  t.data = harness::TensorDevice::allocate(device, t.bytes(), std::move(keep));
  return t;
}

void bind_tensor(nb::module_& module) {
  module.def("tensor_over", &tensor_over, "memory"_a, "offset"_a, "shape"_a, "dtype"_a, "capacities"_a);
  module.def("store", &store, "memory"_a, "offset"_a, "room"_a, "value"_a, "name"_a, "dtype"_a, "copy"_a,
             "capacities"_a);
  nb::class_<Tensor>(
      module, "Tensor", nb::type_slots(kSlots),
      "An output of a step: row-major, dense except in the memory of an input that it outgrows, in this "
      "process's memory or,\n"
      "of a CUDA program on a GPU, in the device's. numpy.asarray(t), torch.from_dlpack(t) and memoryview(t) "
      "share its memory, "
      "which lives as long as\n"
      "any of them; of a device only DLPack and __cuda_array_interface__ do.")
      .def_prop_ro("shape", &shape_of, nb::for_getter(nb::sig("def shape(self) -> tuple[int, ...]")),
                   "Sizes of its axes.")
      .def_prop_ro(
          "dtype", [](const Tensor& t) { return dtype_name(t.dtype); }, "NumPy's name of the element type.")
      .def_prop_ro("nbytes", &Tensor::bytes, "Size in bytes.")
      .def_prop_ro(
          "device",
          [](const Tensor& t) {
            return t.device == nullptr ? "cpu" : fmt::format("cuda:{}", t.device->number());
          },
          "Where it is: 'cpu' or 'cuda:N'.")
      .def("__dlpack__", &dlpack_of)
      .def("__dlpack_device__",
           [](const Tensor& t) {
             return t.device == nullptr ? nb::make_tuple(kDlpackCpu, 0)
                                        : nb::make_tuple(kDlpackCuda, t.device->number());
           })
      .def_prop_ro("__cuda_array_interface__", &cuda_array_interface)
      .def(
          "__array__",
          [](nb::pointer_and_handle<Tensor> self, nb::handle dtype, nb::handle copy) {
            if (self.p->device != nullptr) refuse_on_device(*self.p, "NumPy's arrays are not");
            return nb::module_::import_("braid._convert").attr("array")(self.h, dtype, copy);
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none(),
          nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> typing.Any"))
      .def("copy", &host_copy, "A tensor with memory of its own, in this process's memory.")
      .def(
          "cpu",
          [](nb::pointer_and_handle<Tensor> self) {
            return self.p->device == nullptr ? nb::borrow(self.h) : nb::cast(host_copy(*self.p));
          },
          nb::sig("def cpu(self) -> Tensor"),
          "This tensor if it is in this process's memory, otherwise a copy there.")
      .def(
          "numpy",
          [](nb::pointer_and_handle<Tensor> self) {
            if (self.p->device != nullptr) refuse_on_device(*self.p, "NumPy's arrays are not");
            return nb::module_::import_("braid._convert").attr("array")(self.h, nb::none(), nb::none());
          },
          nb::sig("def numpy(self) -> typing.Any"),
          "As a numpy.ndarray over the same memory (bfloat16: with ml_dtypes' type).")
      .def("__repr__", [](const Tensor& t) {
        return fmt::format("braid.Tensor({}[{}]{})", dtype_name(t.dtype), fmt::join(t.shape, ", "),
                           t.device == nullptr ? "" : fmt::format(" on cuda:{}", t.device->number()));
      });
}

}  // namespace braid::python
