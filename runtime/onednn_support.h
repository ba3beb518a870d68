// What the kernels that call oneDNN have in common. Private to the runtime library.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "runtime/gemm.h"

namespace braid::rt {

struct AlignedDelete {
  void operator()(void* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedDelete>;
// Weights are streamed: with huge pages they need a thousandth of the address translations.
inline AlignedBytes aligned_bytes(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  void* p =
      std::aligned_alloc(alignment, (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment);
  if (!p) throw std::bad_alloc();
  if (bytes >= kHugePage) ::madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // may be refused
  return AlignedBytes(static_cast<std::byte*>(p));
}

// Working memory of the kernels of one library, of which one runs at a time.
struct Scratch {
  AlignedBytes memory;
  size_t bytes = 0;

  void reserve(size_t wanted) {
    if (wanted <= bytes) return;
    memory = aligned_bytes(wanted);
    bytes = wanted;
  }
};

// Appends post-op `op`; `operand` describes what an addition adds.
void append_post_op(dnnl::post_ops& ops, PostOp op, float scale, const dnnl::memory::desc& operand);

// Whether the library would compute this with plain loops.
inline bool is_reference(const char* implementation) {
  return std::string(implementation).find("ref") != std::string::npos;
}

// The arguments of a primitive. oneDNN's own execute takes them in an unordered_map; the C interface underneath takes a
// plain array.
class PrimitiveArgs {
 public:
  void add(int id, const dnnl::memory::desc& desc, const dnnl::engine& engine) {
    ids_.push_back(id);
    memories_.emplace_back(desc, engine, nullptr);
    args_.push_back({id, memories_.back().get()});
  }
  void set(size_t k, const void* p) const {
    dnnl_memory_set_data_handle(memories_[k].get(), const_cast<void*>(p));
  }
  void execute(const dnnl::primitive& primitive, const dnnl::stream& stream) const {
    dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(args_.size()), args_.data());
  }

 private:
  std::vector<int> ids_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> args_;
};

}  // namespace braid::rt
