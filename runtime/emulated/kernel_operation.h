// A kernel in the checker's view.
//
// A kernel without flags is one operation of its stream. A kernel that raises and lowers flags of other ranks
// (runtime/device/peer.h) synchronises with them midway, block by block. So each of its blocks becomes a
// logical thread, and what a block does between two flags becomes one operation. A block follows what the
// kernel follows and what the flags that it has lowered prove; blocks of one kernel are unordered. The stream
// continues after all of them.
#pragma once

#include <string>

#include "runtime/emulated/stream.h"

namespace braid::emulated {

class KernelOperation {
 public:
  KernelOperation(TaskContext& context, std::string name);
  // Hands everything to the checker, also for an aborted kernel.
  void finish();

  AccessSet& accesses() { return context_.accesses; }

  // Call by ascending index.
  void begin_block(unsigned block);
  void end_block();

  // Call before the running block's first flag. False if the first block of the kernel had none: then the
  // accesses of this block cannot be told from its predecessors'.
  bool goes_by_blocks();
  // The clock of a flag raised now: everything that the block has done. The thread that lowers the flag
  // follows it.
  VectorClock raise();
  // Makes the block follow `clock` from now on.
  void lower(const VectorClock& clock);

 private:
  void flush();

  TaskContext& context_;
  std::string name_;
  Checker::Operation whole_;  // with flags: nothing but their common beginning
  bool by_blocks_ = false;
  unsigned block_ = 0;
  VectorClock begin_, block_clock_, end_;
};

}  // namespace braid::emulated
