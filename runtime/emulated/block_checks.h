// Checks of the blocks of a launch while they run: races between and within blocks, shared memory, and
// copies in flight.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "runtime/emulated/async_copies.h"
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
  void end_thread(unsigned thread);
  void end_launch();

  // Call on the thread that runs; null, or why the access is illegal.
  const std::string* shared_access(uintptr_t address, size_t size, AccessKind kind);

  AsyncCopies& copies() { return copies_; }
  void issue_copy(const AsyncCopy& copy);
  // Finishes the copies of all but the latest `pending` groups of the running thread.
  void finish_copies(unsigned thread, unsigned pending);
  // The running thread writes global memory while copies are in flight.
  void write_source(uintptr_t address, size_t size);

  // Null where accesses are not checked.
  BlockRaces* races() { return check_ ? &races_ : nullptr; }
  BlockRaces& ordering() { return races_; }
  SharedMemory& shared() { return shared_; }

 private:
  void report(const BlockRaces::Race& race);
  std::string thread_text(unsigned thread) const;
  std::string block_text(unsigned block) const;
  void found_uninitialized(uintptr_t address, const std::string& array);
  void touch_targets(uintptr_t address, size_t size, AccessKind kind);
  // "kernel [node] on rank 0 stream 1: thread (1,0,0) of block (0,0,0) reads " and the place; without thread
  // and byte where flags decide when a thread runs, as texts do not depend on time.
  std::string access_text(const char* verb, const std::string& place, const std::string& whole) const;
  std::string issuer_text(const AsyncCopy& copy) const;

  BlockRaces races_;
  SharedMemory shared_;
  AsyncCopies copies_;
  const KernelOperation* operation_ = nullptr;
  dim3 grid_, block_;
  unsigned blocks_ = 0;  // begun
  bool check_ = true;
  std::set<std::string> reported_;                    // places of races of this launch: one of each is enough
  std::set<std::string> raced_;                       // shared arrays
  std::map<std::string, std::string> uninitialized_;  // the first read of an array
  bool touched_in_flight_ = false;
  std::string not_waited_for_;  // the first copy with which a thread has ended
};

// The checks of the running block while copies are in flight; null otherwise, and where accesses are not
// checked.
extern __thread BlockChecks* current_copies __attribute__((tls_model("initial-exec")));

}  // namespace braid::emulated
