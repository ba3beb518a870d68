// A kernel in the checker's view.
//
// A kernel without fences, releases and acquires is one operation of its stream. A kernel that has them
// synchronises midway with other blocks, streams and ranks. So each of its blocks becomes a logical thread,
// and a block's accesses between two barriers become one operation. A thread that synchronises between them
// is a logical thread of its own until the next barrier: it releases its own accesses and those of its block
// before the last barrier, not those that other threads of the block make at the time. Blocks of one kernel
// are otherwise unordered. The stream continues after all of them.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/emulated/access_counter.h"
#include "runtime/emulated/kernel.h"
#include "runtime/emulated/stream.h"

namespace braid::emulated {

// The accesses of a block since its last barrier; for a first block that has not synchronised yet, since its
// beginning.
class AccessLog {
 public:
  struct Entry {
    uintptr_t address;
    uint32_t size;
    uint16_t thread;
    AccessKind kind;
  };
  void add(uintptr_t address, size_t size, unsigned thread, AccessKind kind) {
    if (entries.size() < limit)
      entries.push_back({address, static_cast<uint32_t>(size), static_cast<uint16_t>(thread), kind});
    else
      overflown = true;
  }
  std::vector<Entry> entries;
  size_t limit = 0;
  bool overflown = false;
};
// The log of the kernel that runs on this host thread; null if it needs none.
extern __thread AccessLog* current_log __attribute__((tls_model("initial-exec")));

// The clocks that readers of an atomic variable follow: those of readers on the same device, and of all
// readers.
struct ReleaseClocks {
  VectorClock device, system;
  int device_index = -1;  // -1: nothing released at that scope
  bool has_system = false;
  bool empty() const { return device_index < 0 && !has_system; }
};

class KernelOperation {
 public:
  KernelOperation(TaskContext& context, std::string name, dim3 block);
  // Hands everything to the checker, also for an aborted kernel.
  void finish();

  AccessSet& accesses() { return context_.accesses; }
  // Null if nothing is counted.
  AccessCounter* counter() { return counter_.get(); }
  const char* name() const { return name_.c_str(); }
  // "kernel [node] on rank 0 stream 1"
  std::string describe() const;
  bool by_blocks() const { return by_blocks_; }

  // Call by ascending index.
  void begin_block(unsigned block);
  void barrier();  // of all threads of the block
  void end_block();

  // Call before the running block's first fence, release or acquire. Returns false if the first block of the
  // kernel had none: then the accesses of this block cannot be told from its predecessors'.
  bool goes_by_blocks();

  // The following are called for thread `thread` of the running block.
  void fence(unsigned thread, Scope scope);
  // The thread has read a value that was released with `clocks`.
  void saw(unsigned thread, const ReleaseClocks& clocks, Scope scope, bool acquires);
  // The thread has written the atomic variable at `address`: adds the clock that it releases by that to
  // `clocks`.
  void publish(unsigned thread, uintptr_t address, ReleaseClocks& clocks, Scope scope, bool releases);

 private:
  struct Thread {
    LogicalThread logical_thread;
    LogicalThread
        of_flags;           // its accesses to flags that it has written: readers of the new value follow them
    unsigned interval = 0;  // in which `clock` holds; in a later one it begins with the block's
    VectorClock clock;
    VectorClock fenced_device, fenced_system;  // as of the last fence
    bool has_fenced_device = false, has_fenced_system = false;
    VectorClock seen_device, seen_system;  // by relaxed reads, for the next fence
  };
  Thread& synchronising(unsigned thread);
  // The thread's accesses in the log, all or at one address, which are then done with.
  AccessRanges taken(unsigned thread, uintptr_t address);
  // The thread's accesses since it last synchronised become an operation.
  void flush(unsigned index, Thread& thread);
  void add_operation(LogicalThread thread, VectorClock& clock, AccessRanges ranges);
  // The accesses so far, which the counter is told of.
  AccessRanges take_accesses();
  // The first `count` entries of the log, without those that are part of an operation already.
  AccessRanges replay(size_t count);

  TaskContext& context_;
  std::string name_;
  Checker::Operation whole_;  // of a kernel by blocks: nothing but their common beginning
  bool by_blocks_ = false;
  unsigned block_ = 0;
  unsigned interval_ = 1;  // counts barriers
  VectorClock begin_, block_clock_, end_;
  std::map<unsigned, Thread> threads_;  // of this block, that have synchronised
  AccessLog log_;
  size_t interval_begin_ = 0;  // in the log
  AccessSet part_;
  std::unique_ptr<AccessCounter> counter_;
};

}  // namespace braid::emulated
