#include "runtime/emulated/launch_limits.h"

#include <cstdint>

#include "runtime/emulated/block_checks.h"

namespace braid::emulated {
namespace {

bool within(dim3 size, dim3 most) {
  return size.x >= 1 && size.y >= 1 && size.z >= 1 && size.x <= most.x && size.y <= most.y &&
         size.z <= most.z;
}

}  // namespace

std::string launch_error(dim3 grid, dim3 block, size_t dynamic_bytes, size_t dynamic_limit) {
  const dim3 most_blocks(kMaxGridX, kMaxGridYZ, kMaxGridYZ);
  const dim3 most_threads(kMaxThreadsPerBlock, kMaxThreadsPerBlock, kMaxBlockZ);
  if (!within(grid, most_blocks))
    return "a grid of " + triple(grid) + " blocks; it must be from (1,1,1) to " + triple(most_blocks);
  if (!within(block, most_threads))
    return "a block of " + triple(block) + " threads; it must be from (1,1,1) to " + triple(most_threads);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads > kMaxThreadsPerBlock)
    return "a block of " + std::to_string(threads) + " threads; at most " +
           std::to_string(kMaxThreadsPerBlock) + " are possible";
  if (dynamic_bytes > dynamic_limit)
    return std::to_string(dynamic_bytes) + " bytes of dynamic shared memory; the kernel may have " +
           std::to_string(dynamic_limit) +
           (dynamic_limit == kDefaultSharedBytes ? ", or more after cudaFuncSetAttribute" : "");
  return {};
}

}  // namespace braid::emulated
