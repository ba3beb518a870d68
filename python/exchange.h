// Python's tensors as the runtime's: anything with the buffer protocol or __dlpack__, without a copy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harness/session.h"
#include "python/nanobind.h"
#include "runtime/program.h"

namespace braid::python {

// NumPy's names: "float32", "bool", "bfloat16".
const char* dtype_name(rt::DType dtype);
std::optional<rt::DType> dtype_from_name(std::string_view name);
// From the names of the compiler: "f32".
rt::DType dtype_from_ir_name(std::string_view name);

// The tensor that a program expects.
struct Expected {
  const char* role = "input";  // or "output"
  std::string name;
  rt::DType dtype = rt::DType::f32;
  bool written = false;                           // by a step
  std::span<const std::int64_t> capacities = {};  // of its memory; empty: dense
  harness::Places places = {};
};

// The memory of a Python object while a step uses it: row-major, dense or a corner of a tensor of the
// expected capacities, in one of the expected places.
class Borrowed {
 public:
  Borrowed() = default;
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() { release(); }

  // User errors: BR0730 if the object is no tensor, BR0723 if it has another type, BR0731 if it could only be
  // passed as a copy (strides, device, alignment, read-only memory). With `copy`, objects of the last two
  // kinds are copied and converted, unless a step writes there. Host memory is then taken where otherwise
  // only a device's is.
  void borrow(nb::handle object, const Expected& expected, bool copy);
  // The same for a tensor of any type.
  void borrow_any(nb::handle object, const std::string& name);
  void release() noexcept;

  const rt::TensorView& view() const { return view_; }
  std::size_t bytes() const;
  // Bytes from the first to the last element; with capacities, to the end of the rows of the first axis.
  std::size_t reach() const;
  bool held() const { return held_; }
  bool on_device() const { return on_device_; }
  // A stream that what the step does must follow; harness::kNoStream: none.
  std::int64_t producer() const { return producer_; }

 private:
  struct Refusal {
    int code = 0;
    std::string what, hint;
  };
  void take(nb::handle object, const Expected& expected);
  bool take_buffer(nb::handle object);
  void read_strides(nb::handle object);
  bool take_dlpack(nb::handle object, const harness::Places& places);
  bool take_cuda_interface(nb::handle object, const harness::Places& places);
  bool take_array_interface(nb::handle object);
  void read_interface(const nb::dict& interface, std::optional<rt::DType> dtype,
                      const std::string& type_name);
  std::optional<Refusal> refusal(const Expected& expected, bool copy) const;

  rt::TensorView view_;
  const std::int64_t* strides_ = nullptr;  // null: dense
  std::int64_t stride_unit_ = 1;           // bytes
  std::span<const std::int64_t> capacities_;
  bool held_ = false, readonly_ = false, known_type_ = false, on_device_ = false;
  std::int64_t producer_ = harness::kNoStream;
  std::string why_not_;  // the object's own reason
  std::string fault_;    // of the memory that the object describes
  std::string type_name_,
      device_;  // of a type that programs do not have; of a device that is not this memory
  std::vector<std::int64_t> shape_, own_strides_;  // where the object's own do not last
  nb::object copy_;
  Py_buffer buffer_ = {};
  nb::object capsule_;
};

}  // namespace braid::python
