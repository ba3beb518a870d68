// What an operation touches. Derived from the operation's structure, never declared beside it; dependencies,
// memory planning, verifier, interpreter and code generation all ask this one model.
//
//   start    reads its inputs, writes its outputs; both stay in flight (by_peers)
//   wait     modifies the start's outputs (the second mutation) and reads the start's inputs, which are
//            pinned until here
//   release  reads the start's inputs and symmetric outputs, which are pinned until here. Whoever writes
//            these bytes next has a WAR dependency on the release; readers do not care about it
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace braid::ir {

enum class AccessKind : std::uint8_t {
  read,
  write,         // all elements of `view` are written, what was there does not matter
  reads_modify,  // a new version of memory whose old version matters (MutationOutput)
};

// The exact elements of an access by a loop: buffer[index(i0, i1, ...)] for 0 <= ik < sizes[k]. `index`
// counts elements from the buffer's first. It holds value symbols (%k) where the address depends on data.
struct MemoryDep {
  Expr index;
  std::vector<Expr> sizes;
};

struct Access {
  BufferId buffer;
  AccessKind kind = AccessKind::read;
  TensorRef view;       // the elements that may be touched: an operand, or the whole buffer
  MemoryRegion region;  // of `view`
  // Goes on after the operation, until the matching wait (writes) or release (reads).
  bool by_peers = false;
  // Loads and stores of loops and epilogues. Absent: any or all elements of `view` (Inductor's StarDep).
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
  std::vector<Access> accesses;  // of what lies outside of the operation, reads before writes
  std::vector<CommEffect> comm;  // one, but for a region with several inside
  bool barrier = false;          // effects unknown: ordered against everything
  // Must come before this one whatever memory says: wait and release -> start, reader of a value without
  // elements -> whoever defines its name.
  std::vector<OpId> after;
  std::vector<StorageId> inside;  // root storages that only the operations of this region kernel use
};

Effects effects(const Graph& graph, OpId op);

// The root storages of all that effects() of the operation names, `inside` included: cheaper where nothing
// else is asked for. A storage may come several times.
struct StorageTouch {
  StorageId storage;
  bool writes = false;
  bool inside = false;
};
void storages_of(const Graph& graph, OpId op, std::vector<StorageTouch>& out);  // replaces `out`

// False only when the two views provably share no byte. Sees through interleaved slices of one tensor (the
// parts of a concatenation along an inner axis), which byte ranges cannot tell apart.
bool may_overlap(const Graph& graph, const TensorRef& a, const TensorRef& b);
// At least one of them writes, and they may touch the same byte: RAW, WAR or WAW.
bool conflict(const Graph& graph, const Access& a, const Access& b);
// Do two operations have to keep their order, by memory, by structure or because one is a barrier?
// Collectives' order among each other is the channel policy's affair and not part of this.
bool depend(const Graph& graph, OpId a_op, const Effects& a, OpId b_op, const Effects& b);

// Does the region kernel hold the operation, at any depth?
bool contains(const Graph& graph, const RegionKernel& kernel, OpId op);

}  // namespace braid::ir
