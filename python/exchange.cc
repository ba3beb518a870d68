#include "python/exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <limits>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::python {
namespace {

struct TypeName {
  rt::DType dtype;
  const char* numpy;
  const char* ir;
};
constexpr std::array<TypeName, rt::kDTypeCount> kTypes = {{
    {rt::DType::f32, "float32", "f32"},
    {rt::DType::f64, "float64", "f64"},
    {rt::DType::f16, "float16", "f16"},
    {rt::DType::bf16, "bfloat16", "bf16"},
    {rt::DType::i8, "int8", "i8"},
    {rt::DType::u8, "uint8", "u8"},
    {rt::DType::i16, "int16", "i16"},
    {rt::DType::u16, "uint16", "u16"},
    {rt::DType::i32, "int32", "i32"},
    {rt::DType::u32, "uint32", "u32"},
    {rt::DType::i64, "int64", "i64"},
    {rt::DType::u64, "uint64", "u64"},
    {rt::DType::boolean, "bool", "bool"},
}};

rt::DType integer(bool is_signed, std::int64_t bytes) {
  switch (bytes) {
    case 1:
      return is_signed ? rt::DType::i8 : rt::DType::u8;
    case 2:
      return is_signed ? rt::DType::i16 : rt::DType::u16;
    case 4:
      return is_signed ? rt::DType::i32 : rt::DType::u32;
    default:
      return is_signed ? rt::DType::i64 : rt::DType::u64;
  }
}

// A format of the struct module with one native element.
std::optional<rt::DType> type_of_format(const char* format, std::int64_t item) {
  if (format == nullptr) return rt::DType::u8;
  std::string_view text = format;
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
  if (text.size() != 1) return std::nullopt;
  switch (text[0]) {
    case '?':
      return rt::DType::boolean;
    case 'e':
      return rt::DType::f16;
    case 'f':
      return rt::DType::f32;
    case 'd':
      return rt::DType::f64;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return integer(true, item);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return integer(false, item);
    default:
      return std::nullopt;
  }
}

std::optional<rt::DType> type_of_dlpack(const nb::dlpack::dtype& dtype) {
  if (dtype.lanes != 1) return std::nullopt;
  switch (static_cast<nb::dlpack::dtype_code>(dtype.code)) {
    case nb::dlpack::dtype_code::Int:
    case nb::dlpack::dtype_code::UInt:
      if (dtype.bits != 8 && dtype.bits != 16 && dtype.bits != 32 && dtype.bits != 64) return std::nullopt;
      return integer(dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int), dtype.bits / 8);
    case nb::dlpack::dtype_code::Float:
      if (dtype.bits == 16) return rt::DType::f16;
      if (dtype.bits == 32) return rt::DType::f32;
      if (dtype.bits == 64) return rt::DType::f64;
      return std::nullopt;
    case nb::dlpack::dtype_code::Bfloat:
      return dtype.bits == 16 ? std::optional(rt::DType::bf16) : std::nullopt;
    case nb::dlpack::dtype_code::Bool:
      return dtype.bits == 8 ? std::optional(rt::DType::boolean) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// DLPack's structure of a capsule named "dltensor".
struct ManagedTensor {
  nb::dlpack::dltensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};
// And of one named "dltensor_versioned", since version 1.
struct VersionedTensor {
  struct {
    std::uint32_t major, minor;
  } version;
  void* context;
  void (*deleter)(VersionedTensor*);
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};
constexpr std::uint32_t kDlpackMajor = 1;
constexpr std::uint64_t kReadOnly = 1;  // of flags

constexpr int kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13;  // DLPack's devices

// The limit of NumPy and PyTorch; a count beyond it is taken for nonsense, and no shape is read.
constexpr int kMostDims = 64;

// Returns the fault of a description of memory from any source; empty: none.
std::string fault_of(const rt::TensorView& view) {
  auto bytes = static_cast<std::int64_t>(rt::size_of(view.dtype));
  bool empty = false, too_large = false;
  for (const std::int64_t size : view.shape) {
    if (size < 0) return fmt::format("has a dimension of size {}", size);
    empty = empty || size == 0;
    too_large = too_large || __builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes);
  }
  if (too_large) return "has more elements than memory has bytes";
  if (view.data == nullptr && !empty) return "has elements, but no memory";
  return {};
}

// Calls __dlpack__, in the way of version 1 if the object knows it.
nb::object export_dlpack(nb::handle object, std::int64_t stream) {
  nb::dict options;
  if (stream != harness::kNoStream) options["stream"] = stream;
  nb::dict versioned;
  for (auto [key, value] : options) versioned[key] = value;
  versioned["max_version"] = nb::make_tuple(kDlpackMajor, 0);
  const nb::object method = object.attr("__dlpack__");
  try {
    return method(**versioned);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // no such argument
  }
  return method(**options);
}

// NumPy's and CUDA's array interfaces: "<f4".
std::optional<rt::DType> type_of_interface(std::string_view text) {
  if (text.size() < 3 || text[0] == '>') return std::nullopt;
  if (text.substr(1) == "b1") return rt::DType::boolean;
  const int bytes = text.size() == 3 ? text[2] - '0' : 0;
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return std::nullopt;
  if (text[1] == 'i' || text[1] == 'u') return integer(text[1] == 'i', bytes);
  if (text[1] != 'f' || bytes == 1) return std::nullopt;
  return bytes == 2 ? rt::DType::f16 : bytes == 4 ? rt::DType::f32 : rt::DType::f64;
}

bool dense(std::span<const std::int64_t> shape, const std::int64_t* strides, std::int64_t item) {
  if (strides == nullptr) return true;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  std::int64_t expected = item;
  for (std::size_t k = shape.size(); k-- > 0;) {
    if (shape[k] != 1 && strides[k] != expected) return false;
    expected *= shape[k];
  }
  return true;
}

// Whether this is a part of a tensor with these sizes that begins at its first element. Strides count for all
// dimensions, also for those of size 1 and for tensors without elements: they show that the object has that
// memory.
bool is_corner(std::span<const std::int64_t> shape, const std::int64_t* strides, std::int64_t item,
               std::span<const std::int64_t> sizes) {
  if (shape.size() != sizes.size()) return true;  // the rank is checked with the shape
  std::int64_t expected = item, own = item;
  for (std::size_t k = shape.size(); k-- > 0;) {
    if ((k > 0 && shape[k] > sizes[k]) || (strides == nullptr ? own : strides[k]) != expected) return false;
    expected *= sizes[k];
    own *= shape[k];
  }
  return true;
}

std::string type_text(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

}  // namespace

const char* dtype_name(rt::DType dtype) { return kTypes[static_cast<std::size_t>(dtype)].numpy; }

std::optional<rt::DType> dtype_from_name(std::string_view name) {
  for (const TypeName& t : kTypes) {
    if (name == t.numpy) return t.dtype;
  }
  return std::nullopt;
}

rt::DType dtype_from_ir_name(std::string_view name) {
  for (const TypeName& t : kTypes) {
    if (name == t.ir) return t.dtype;
  }
  throw ir::InternalError("unknown element type " + std::string(name));
}

void Borrowed::release() noexcept {
  held_ = false;
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  capsule_.reset();
  copy_.reset();
}

std::size_t Borrowed::reach() const {
  if (capacities_.empty() || capacities_.size() != view_.shape.size()) return bytes();
  std::size_t reach = rt::size_of(view_.dtype) * static_cast<std::size_t>(view_.shape[0]);
  for (std::int64_t capacity : capacities_.subspan(1)) reach *= static_cast<std::size_t>(capacity);
  return reach;
}

std::size_t Borrowed::bytes() const {
  std::size_t bytes = rt::size_of(view_.dtype);
  for (std::int64_t size : view_.shape) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

bool Borrowed::take_buffer(nb::handle object) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    PyErr_Clear();  // an element type that the protocol lacks: the other ways may have it
    buffer_.obj = nullptr;
    return false;
  }
  const std::optional<rt::DType> dtype = type_of_format(buffer_.format, buffer_.itemsize);
  known_type_ = dtype.has_value();
  if (!dtype) type_name_ = fmt::format("of format '{}'", buffer_.format);
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  view_ = {buffer_.buf,
           dtype.value_or(rt::DType::u8),
           {reinterpret_cast<const std::int64_t*>(buffer_.shape), static_cast<std::size_t>(buffer_.ndim)}};
  strides_ = reinterpret_cast<const std::int64_t*>(buffer_.strides);
  stride_unit_ = 1;
  readonly_ = buffer_.readonly != 0;
  return true;
}

// For an array without elements, or with one along an axis, NumPy's buffers have the strides of a dense
// array. The array itself has its own strides.
void Borrowed::read_strides(nb::handle object) {
  if (capacities_.empty() || buffer_.obj == nullptr || !nb::hasattr(object, "strides")) return;
  std::vector<std::int64_t> strides;
  if (!nb::try_cast(object.attr("strides"), strides) || strides.size() != view_.shape.size()) return;
  own_strides_ = std::move(strides);
  strides_ = own_strides_.data();
  stride_unit_ = 1;
}

bool Borrowed::take_dlpack(nb::handle object, const harness::Places& places) {
  if (!nb::hasattr(object, "__dlpack__") || !nb::hasattr(object, "__dlpack_device__")) return false;
  const nb::object where = object.attr("__dlpack_device__")();
  std::pair<int, int> place;
  if (!nb::try_cast(where, place)) {
    why_not_ = ": its __dlpack_device__ gives no pair of numbers";
    return false;
  }
  const auto [device, number] = place;
  on_device_ = device != kCpu && device != kCudaHost;
  if (on_device_ && (places.cuda < 0 || (device != kCudaManaged && place != std::pair(kCuda, places.cuda)))) {
    device_ = fmt::format("device {}:{} of DLPack", device, number);
    if (device == kCuda) device_ = fmt::format("CUDA device {}", number);
    return true;
  }
  try {
    capsule_ = export_dlpack(object, on_device_ ? places.stream : harness::kNoStream);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_BufferError)) throw;
    why_not_ = fmt::format(": {}", nb::str(error.value()).c_str());  // also for a type that DLPack lacks
    return false;
  }
  // The capsule keeps its name and thereby its deleter: we give it back and do not consume it.
  const nb::dlpack::dltensor* found = nullptr;
  if (PyCapsule_IsValid(capsule_.ptr(), "dltensor_versioned") != 0) {
    const auto* managed =
        static_cast<VersionedTensor*>(PyCapsule_GetPointer(capsule_.ptr(), "dltensor_versioned"));
    if (managed->version.major != kDlpackMajor) {
      why_not_ = fmt::format(": its __dlpack__ gives version {} of DLPack, not {}", managed->version.major,
                             kDlpackMajor);
      return false;
    }
    found = &managed->tensor;
    readonly_ = (managed->flags & kReadOnly) != 0;
  } else if (PyCapsule_IsValid(capsule_.ptr(), "dltensor") != 0) {
    found = &static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule_.ptr(), "dltensor"))->tensor;
    readonly_ = false;
  } else {
    why_not_ = ": its __dlpack__ gives no capsule named 'dltensor' or 'dltensor_versioned'";
    return false;
  }
  const nb::dlpack::dltensor& t = *found;
  if (std::pair<int, int>(t.device.device_type, t.device.device_id) != place) {
    why_not_ = fmt::format(": its __dlpack__ gives memory of device {}:{}, its __dlpack_device__ says {}:{}",
                           static_cast<int>(t.device.device_type), t.device.device_id, device, number);
    return false;
  }
  if (t.ndim < 0 || t.ndim > kMostDims || (t.ndim > 0 && t.shape == nullptr)) {
    why_not_ = fmt::format(": its __dlpack__ gives no shape of {} dimensions", t.ndim);
    return false;
  }
  if (t.byte_offset > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    why_not_ = fmt::format(": its __dlpack__ gives an offset of {} bytes", t.byte_offset);
    return false;
  }
  const std::optional<rt::DType> dtype = type_of_dlpack(t.dtype);
  known_type_ = dtype.has_value();
  if (!dtype) {
    type_name_ = fmt::format("of DLPack's type {} with {} bits{}", t.dtype.code, t.dtype.bits,
                             t.dtype.lanes == 1 ? "" : fmt::format(" and {} lanes", t.dtype.lanes));
  }
  view_ = {t.data == nullptr ? nullptr : static_cast<std::byte*>(t.data) + t.byte_offset,
           dtype.value_or(rt::DType::u8),
           {t.shape, static_cast<std::size_t>(t.ndim)}};
  strides_ = t.strides;
  stride_unit_ = std::max(1, t.dtype.bits / 8);
  return true;
}

// Takes arrays that have no DLPack, such as Numba's. The interface does not name their device: the step finds
// it out.
bool Borrowed::take_cuda_interface(nb::handle object, const harness::Places& places) {
  if (places.cuda < 0 || !nb::hasattr(object, "__cuda_array_interface__")) return false;
  nb::dict interface;
  if (!nb::try_cast(nb::object(object.attr("__cuda_array_interface__")), interface) ||
      !interface.contains("typestr")) {
    why_not_ = ": its __cuda_array_interface__ is no dictionary with a type";
    return false;
  }
  if (interface.contains("mask") && !interface["mask"].is_none()) {
    why_not_ = ": its __cuda_array_interface__ has a mask";
    return false;
  }
  const auto type = nb::cast<std::string>(nb::str(interface["typestr"]));
  on_device_ = true;
  const nb::object stream = interface.contains("stream") ? nb::object(interface["stream"]) : nb::none();
  if (!stream.is_none() && (!nb::try_cast(stream, producer_) || producer_ < 1)) {
    producer_ = harness::kNoStream;
    why_not_ = ": its __cuda_array_interface__ names no stream";
    return false;
  }
  read_interface(interface, type_of_interface(type), type);
  return true;
}

// bfloat16 arrays of NumPy, whose type neither the buffer protocol nor NumPy's DLPack has.
bool Borrowed::take_array_interface(nb::handle object) {
  if (!nb::hasattr(object, "__array_interface__") || !nb::hasattr(object, "dtype")) return false;
  const auto name = nb::cast<std::string>(nb::str(object.attr("dtype").attr("name")));
  nb::dict interface;
  if (!nb::try_cast(nb::object(object.attr("__array_interface__")), interface)) {
    why_not_ = ": its __array_interface__ is no dictionary";
    return false;
  }
  on_device_ = false;
  read_interface(interface, dtype_from_name(name), name);
  capsule_ = nb::borrow(object);
  return true;
}

// Reads the fields of both array interfaces. Their own errors, such as a missing shape, pass as Python's.
void Borrowed::read_interface(const nb::dict& interface, std::optional<rt::DType> dtype,
                              const std::string& type_name) {
  const auto [address, readonly] = nb::cast<std::pair<std::uintptr_t, bool>>(interface["data"]);
  shape_.clear();
  own_strides_.clear();
  for (nb::handle size : interface["shape"]) shape_.push_back(nb::cast<std::int64_t>(size));
  if (interface.contains("strides") && !interface["strides"].is_none()) {
    for (nb::handle stride : interface["strides"]) own_strides_.push_back(nb::cast<std::int64_t>(stride));
    if (own_strides_.size() != shape_.size())
      fault_ = fmt::format("has {} strides for {} dimensions", own_strides_.size(), shape_.size());
  }
  known_type_ = dtype.has_value();
  if (!dtype) type_name_ = type_name;
  view_ = {reinterpret_cast<void*>(address), dtype.value_or(rt::DType::u8), shape_};
  strides_ = own_strides_.size() == shape_.size() && !shape_.empty() ? own_strides_.data() : nullptr;
  stride_unit_ = 1;
  readonly_ = readonly;
}

void Borrowed::take(nb::handle object, const Expected& expected) {
  device_.clear();
  type_name_.clear();
  why_not_.clear();
  fault_.clear();
  producer_ = harness::kNoStream;
  on_device_ = false;
  if (take_buffer(object)) return read_strides(object);
  const bool is_class = PyType_Check(object.ptr()) != 0;  // which has its objects' methods
  if (!is_class && (take_dlpack(object, expected.places) || take_cuda_interface(object, expected.places) ||
                    take_array_interface(object))) {
    if (fault_.empty() && device_.empty()) fault_ = fault_of(view_);
    if (fault_.empty()) return;
    ir::user_error(errors::kNotATensor, {}, fmt::format("{} '{}' {}", expected.role, expected.name, fault_),
                   "pass a tensor that describes its own memory");
  }
  ir::user_error(errors::kNotATensor, {},
                 fmt::format("{} '{}' is a {}, not a tensor that can be passed{}", expected.role,
                             expected.name, type_text(object), why_not_),
                 "pass an array with the buffer protocol or __dlpack__, for example numpy.asarray(value)");
}

std::optional<Borrowed::Refusal> Borrowed::refusal(const Expected& expected, bool copy) const {
  const char* wanted = dtype_name(expected.dtype);
  const harness::Places& places = expected.places;
  if (!device_.empty()) {
    if (places.cuda < 0)
      return Refusal{errors::kNotPassable, "is on " + device_, "move it to the processor's memory"};
    return Refusal{errors::kNotPassable,
                   fmt::format("is on {}, but the session is on CUDA device {}", device_, places.cuda),
                   fmt::format("move it to CUDA device {}", places.cuda)};
  }
  if (!on_device_ && !places.host && !copy) {
    return Refusal{
        errors::kNotPassable,
        fmt::format("is in this process's memory, but the session is on CUDA device {}", places.cuda),
        fmt::format("pass a tensor on CUDA device {}", places.cuda)};
  }
  if (!known_type_ || view_.dtype != expected.dtype) {
    return Refusal{
        rt::kWrongInput,
        fmt::format("is {}, expected {}", known_type_ ? dtype_name(view_.dtype) : type_name_.c_str(), wanted),
        fmt::format("pass an array of {}", wanted)};
  }
  const auto item = static_cast<std::int64_t>(rt::size_of(view_.dtype));
  if (!expected.capacities.empty()) {
    if (!is_corner(view_.shape, strides_, item / stride_unit_, expected.capacities)) {
      return Refusal{
          errors::kNotPassable,
          fmt::format(
              "has shape ({}) and is no slice of an array of shape ({}), which the program needs for it to "
              "grow in place",
              fmt::join(view_.shape, ", "), fmt::join(expected.capacities, ", ")),
          "pass a slice, from 0 along every axis, of an array with the capacities that its TensorSpec has"};
    }
  } else if (!dense(view_.shape, strides_, item / stride_unit_)) {
    std::vector<std::int64_t> bytes;
    for (std::size_t k = 0; k < view_.shape.size(); ++k)
      bytes.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(strides_[k]) *
                                                static_cast<std::uint64_t>(stride_unit_)));
    return Refusal{
        errors::kNotPassable,
        fmt::format("has shape ({}) with strides of ({}) bytes, but programs take dense row-major tensors",
                    fmt::join(view_.shape, ", "), fmt::join(bytes, ", ")),
        on_device_ ? "pass value.contiguous()" : "pass numpy.ascontiguousarray(value)"};
  }
  // Kernels move 16 bytes at once (runtime/cuda_abi.h).
  const std::int64_t alignment = on_device_ ? BRAID_CUDA_ALIGNMENT : item;
  if (reinterpret_cast<std::uintptr_t>(view_.data) % static_cast<std::uintptr_t>(alignment) != 0) {
    return Refusal{
        errors::kNotPassable, fmt::format("lies at an address that is no multiple of {} bytes", alignment),
        on_device_ ? "pass a copy, which the device's allocator aligns" : "pass memory of the allocator"};
  }
  if (expected.written && readonly_)
    return Refusal{errors::kNotPassable, "is read-only, but a step writes it", "pass a writable copy"};
  return std::nullopt;
}

void Borrowed::borrow_any(nb::handle object, const std::string& name) {
  release();
  take(object, {.name = name});
  Expected own{.name = name, .dtype = view_.dtype};
  if (const std::optional<Refusal> refused = refusal(own, false)) {
    release();
    ir::user_error(refused->code, {}, fmt::format("{} '{}' {}", own.role, name, refused->what),
                   refused->hint);
  }
  held_ = true;
}

void Borrowed::borrow(nb::handle object, const Expected& expected, bool copy) {
  release();
  capacities_ = expected.capacities;
  take(object, expected);
  const bool may_copy = copy && *expected.role == 'i';
  std::optional<Refusal> refused = refusal(expected, may_copy);
  // A tensor on a device of the session's kind stays there.
  const bool host_copies = !on_device_ || expected.places.cuda < 0;
  if (refused && may_copy && !expected.written && host_copies) {
    release();
    copy_ = nb::module_::import_("braid._convert")
                .attr("passable")(object, dtype_name(expected.dtype), expected.name);
    take(copy_, expected);
    refused = refusal(expected, true);
  }
  if (refused) {
    const bool copy_helps = !expected.written && host_copies && !copy;
    release();
    ir::user_error(refused->code, {}, fmt::format("{} '{}' {}", expected.role, expected.name, refused->what),
                   refused->hint + (copy_helps ? ", or copy=True" : ""));
  }
  held_ = true;
}

}  // namespace braid::python
