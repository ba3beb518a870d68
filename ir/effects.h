// The memory that an operation touches, and its communication. Effects are derived from the operation's
// structure, never declared separately. Dependencies, memory planning, verifier, interpreter and code
// generation all use this one model.
//
//   start    reads its inputs, writes its outputs; both stay in flight (by_peers)
//   wait     modifies the start's outputs (the second mutation) and reads the start's inputs, which are
//            pinned until here
//   release  reads the start's inputs and symmetric outputs, which are pinned until here. The next writer of
//            these bytes has a WAR dependency on the release; readers have none
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braid::ir {

enum class AccessKind : std::uint8_t {
  read,
  write,         // writes all elements of `view`; the old contents do not matter
  reads_modify,  // makes a new version that depends on the old one (MutationOutput)
};

// The exact elements that a loop accesses: buffer[index(i0, i1, ...)] for 0 <= ik < sizes[k]. `index` counts
// elements from the buffer's first and contains value symbols (%k) where the address depends on data.
struct MemoryDep {
  Expr index;
  std::vector<Expr> sizes;
};

struct Access {
  BufferId buffer;
  AccessKind kind = AccessKind::read;
  TensorRef view;       // the elements that may be touched: an operand, or the whole buffer
  MemoryRegion region;  // of `view`
  // The access continues after the operation, until the matching wait (writes) or release (reads).
  bool by_peers = false;
  // Set for loads and stores of loops and epilogues. Absent: any or all elements of `view` (Inductor's
  // StarDep).
  std::optional<MemoryDep> dep;

  bool reads() const { return kind != AccessKind::write; }
  bool writes() const { return kind != AccessKind::read; }
};

enum class CommPhase : std::uint8_t { start, wait, release };

struct CommEffect {
  GroupId group;
  CollectiveKind kind = CollectiveKind::all_reduce;
  CommPhase phase = CommPhase::start;
  bool blocking = false;
  OpId start;  // the operation itself where phase == start
};

struct Effects {
  std::vector<Access> accesses;  // to memory outside the operation, reads before writes
  std::vector<CommEffect> comm;  // at most one, except for a region kernel
  bool barrier = false;          // effects unknown: ordered against everything
  // Operations that must come first regardless of memory: the start of a wait or release, the definition of a
  // value without elements that this one reads.
  std::vector<OpId> after;
  std::vector<StorageId> inside;  // root storages used only within this region kernel
};

Effects effects(const Graph& graph, OpId op);

// The root storages of all accesses in effects(), including `inside`; cheaper than effects() if nothing else
// is needed. A storage may occur several times.
struct StorageTouch {
  StorageId storage;
  bool writes = false;
  bool inside = false;
};
void storages_of(const Graph& graph, OpId op, std::vector<StorageTouch>& out);  // replaces `out`

// False only if the two views provably share no byte. Also proves that interleaved slices of one tensor (the
// parts of a concatenation along an inner axis) are disjoint, although their byte ranges overlap.
bool may_overlap(const Graph& graph, const TensorRef& a, const TensorRef& b);
// Whether at least one of them writes and they may touch the same byte: RAW, WAR or WAW.
bool conflict(const Graph& graph, const Access& a, const Access& b);
// Whether two operations must keep their order because of memory, structure or a barrier. The order of
// collectives among each other is up to the channel policy and not considered here.
bool depend(const Graph& graph, OpId a_op, const Effects& a, OpId b_op, const Effects& b);

// Whether the region kernel contains the operation, at any depth.
bool contains(const Graph& graph, const RegionKernel& kernel, OpId op);

}  // namespace braid::ir
