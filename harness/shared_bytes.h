// Memory that child processes write and this process reads. Pages appear when they are touched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::harness {

class SharedBytes {
 public:
  explicit SharedBytes(std::size_t size);  // UserError BR0019 if there is no room for it
  ~SharedBytes();
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::int64_t* integers() const { return static_cast<std::int64_t*>(data_); }
  double* doubles() const { return static_cast<double*>(data_); }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

}  // namespace braid::harness
