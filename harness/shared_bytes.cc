#include "harness/shared_bytes.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::harness {

SharedBytes::SharedBytes(std::size_t size) : size_(std::max<std::size_t>(size, 1)) {
  data_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data_ == MAP_FAILED)
    ir::user_error(errors::kNoMemory, {}, fmt::format("there is no memory for results of {} bytes", size),
                   "give smaller bounds with --dim, or raise the limit of memory (ulimit -v)");
}

SharedBytes::~SharedBytes() { munmap(data_, size_); }

}  // namespace braid::harness
