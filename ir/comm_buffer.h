// Which values are communication buffers, and why the others are copied.
//
// A collective is fast where its operands lie in the communication segment: peers and libraries work on them
// where they are. So the kernel that makes a value should write it there; where that cannot be, a *stated*
// copy brings it in. One function decides, from the graph alone:
//
//   %p = gemm ...            the gemm writes into the segment          in place: produced here
//   all_reduce @a (%p)
//   all_gather @b (%p)       the same slot, registered with both       in place: shared
//   all_reduce @a (%input)   the caller's memory does not move         copied in: graph input
//
// Two groups. There is one segment per rank, at equal offsets on all ranks, registered with every
// communicator that uses any of it. So groups share a slot that they only read, whichever kind they need: the
// slot belongs to all of them (Storage::groups) and is symmetric if one of them needs that. What they cannot
// share is a slot that a collective of one group *writes* (in place) while peers of another group read it
// where it lies: it would have to wait for the readers of a group that it may not be part of. Then the
// in-place collective works on a copy. The order in which groups are met changes neither answer.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/schedule.h"

namespace braid::ir {

enum class CommBufferReason : std::uint8_t {
  // in place
  produced_here,  // our loops or gemms fill it: they write straight into the segment
  already,        // it is one, for this group
  shared,         // it is one, for other groups
  // copied
  graph_input,     // the caller's memory
  graph_output,    // the caller's memory
  constant,        // weights
  foreign_output,  // an operation that is not ours to direct makes it: extern kernels, regions
  not_contiguous,  // the operand's elements do not lie as the collective reads them
  unbounded,       // no place can be reserved
  other_group,     // it would be changed where peers of another group read it
  cloned,          // a loop of the program copies it as it is
  packed,          // copied piece by piece into a larger buffer (concatenation, bucket)
  staged,          // not in the segment: the engine copies it through its staging memory
};
bool in_place(CommBufferReason reason);
std::string_view to_string(CommBufferReason reason);  // "produced_here"
std::string_view text_of(CommBufferReason reason);    // for people

// May the value behind `buffer`, read as `view` (nothing: no strided view of it), be an operand of a
// collective of this group, where it lies? Of a view, the base's storage is what would be converted.
// `writes`: the collective also changes it.
CommBufferReason can_be_comm_buffer(const Graph& graph, BufferId buffer, const std::optional<TensorRef>& view,
                                    GroupId group, CommBufferKind kind, bool writes = false);

// Makes the storage of `buffer` one of this kind and group, or adds the group to those that it has. Twice is
// the same as once. Requires that can_be_comm_buffer said yes.
void make_comm_buffer(Graph& graph, BufferId buffer, GroupId group, CommBufferKind kind);

// Does it lie where kernels of the group's other ranks can reach it? In communication memory of the group;
// what they read until the release also has to be symmetric.
bool reachable_by_peers(const Graph& graph, const TensorRef& ref, GroupId group, bool is_read);

// One operand or result of a collective, as the program has it now.
struct CommBufferDecision {
  OpId collective;
  bool result = false;  // else an operand
  int index = 0;
  BufferId buffer;
  CommBufferReason reason = CommBufferReason::already;
  std::vector<OpId> copies;  // loops that do nothing but copy it in or out
  Expr bytes = 0;            // that are copied
};
// Read off the operations, so it holds for IR text and after any pass. In execution order.
std::vector<CommBufferDecision> comm_buffer_decisions(const Schedule& schedule);

// Of one of the `copies`: what it writes.
Expr bytes_copied_by(const Graph& graph, OpId copy);
// Bytes that one rank's step copies only because of where buffers lie; a copy that serves two counts once.
Expr copied_bytes(const Graph& graph, const std::vector<CommBufferDecision>& decisions);

}  // namespace braid::ir
