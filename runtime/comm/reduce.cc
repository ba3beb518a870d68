#include "runtime/comm/reduce.h"

#include "runtime/comm/reduce_isa.h"
#include "runtime/processor.h"

namespace braid::rt {
namespace {

using ReduceFunction = decltype(&baseline::reduce);

ReduceFunction select() {
#ifdef __x86_64__
  if (instruction_set() == InstructionSet::avx512) return &avx512::reduce;
  if (instruction_set() == InstructionSet::avx2) return &avx2::reduce;
#endif
  return &baseline::reduce;
}

}  // namespace

void reduce(DType dtype, ReduceOp op, std::span<const void* const> sources,
            std::span<void* const> destinations, size_t count, bool streaming) {
  static const ReduceFunction function = select();
  function(dtype, op, sources, destinations, count, streaming);
}

bool reducible(DType dtype, ReduceOp op) { return dtype != DType::boolean || op != ReduceOp::avg; }

}  // namespace braid::rt
