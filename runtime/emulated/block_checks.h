// Checks of the blocks of a launch while they run: races between and within blocks, and shared memory.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "runtime/emulated/block_races.h"
#include "runtime/emulated/shared_memory.h"
#include "runtime/emulated/vector_types.h"

namespace braid::emulated {

class KernelOperation;

// "(0,0,0)"
std::string triple(uint3 v);
uint3 index_in(dim3 size, unsigned linear);

class BlockChecks {
 public:
  BlockChecks();

  void begin_launch(const KernelOperation& operation, dim3 grid, dim3 block, size_t dynamic_bytes,
                    size_t shared_limit);
  void begin_block();
  void end_launch();

  // Call on the thread that runs; null, or why the access is illegal.
  const std::string* shared_access(uintptr_t address, size_t size, AccessKind kind);

  // Null where accesses are not checked.
  BlockRaces* races() { return check_ ? &races_ : nullptr; }
  BlockRaces& ordering() { return races_; }
  SharedMemory& shared() { return shared_; }

 private:
  void report(const BlockRaces::Race& race);
  std::string thread_text(unsigned thread) const;
  std::string block_text(unsigned block) const;
  void found_uninitialized(uintptr_t address, const std::string& array);

  BlockRaces races_;
  SharedMemory shared_;
  const KernelOperation* operation_ = nullptr;
  dim3 grid_, block_;
  unsigned blocks_ = 0;  // begun
  bool check_ = true;
  std::set<std::string> reported_;                    // places of races of this launch: one of each is enough
  std::set<std::string> raced_;                       // shared arrays
  std::map<std::string, std::string> uninitialized_;  // the first read of an array
};

}  // namespace braid::emulated
