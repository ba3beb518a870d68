// A result of a step: memory that Python's array libraries take over by DLPack or the buffer protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/tensor_device.h"
#include "runtime/dtype.h"

namespace braid::python {

// Row-major, dense and 64-byte aligned, or in the memory of an input that it outgrows. `data` owns the bytes,
// and keeps the program alive.
struct Tensor {
  std::shared_ptr<void> data;
  std::vector<std::int64_t> shape;
  rt::DType dtype = rt::DType::f32;
  std::shared_ptr<const harness::TensorDevice> device = nullptr;  // whose memory it is; null: this process's
  std::vector<std::int64_t> strides = {};                         // in elements; empty: dense

  std::size_t bytes() const;  // of its elements
};

// Uninitialised. `keep` lives as long as the tensor.
Tensor make_tensor(rt::DType dtype, std::vector<std::int64_t> shape, std::shared_ptr<const void> keep);

// The same in the memory of a device. rt::ProgramError BR0725 if there is none left.
Tensor make_device_tensor(rt::DType dtype, std::vector<std::int64_t> shape,
                          const std::shared_ptr<const harness::TensorDevice>& device,
                          std::shared_ptr<const void> keep);

}  // namespace braid::python
