// One kernel as the checker sees it.
//
// A kernel without flags is one operation of its stream. One that raises and lowers flags of other ranks
// (runtime/device/peer.h) is ordered with them in its midst, block by block: so each of its blocks becomes a
// logical thread of its own, and what a block does between two flags becomes one operation. A block follows
// what the kernel follows and what the flags that it has lowered prove; blocks of one kernel do not follow
// each other. The stream goes on behind all of them.
#pragma once

#include <string>

#include "runtime/emulated/stream.h"

namespace braid::emulated {

class KernelOperation {
 public:
  KernelOperation(TaskContext& context, std::string name);
  // Hands everything to the checker, of a kernel that was given up too.
  void finish();

  AccessSet& accesses() { return context_.accesses; }

  // By index, one after the other.
  void begin_block(unsigned block);
  void end_block();

  // Before the running block's first flag. False where the first block of the kernel had none: the accesses
  // of this one can no longer be told from its predecessors'.
  bool goes_by_blocks();
  // What whoever lowers a flag that is raised now follows: all that the block has done.
  VectorClock raise();
  // What the block does from now on follows `clock`.
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
