// Which values are communication buffers and why the others are copied.
//
// A collective is fast if its operands lie in the communication segment, where peers and libraries can access
// them directly. So the kernel that computes a value should write it there; where it cannot, an *explicit*
// copy moves it in. One function decides this from the graph alone:
//
//   %p = gemm ...            the gemm writes into the segment          in place: produced here
//   all_reduce @a (%p)
//   all_gather @b (%p)       the same slot, registered with both       in place: shared
//   all_reduce @a (%input)   the caller's memory does not move         copied in: graph input
//
// Several groups. Each rank has one segment, with equal offsets on all ranks, registered with every
// communicator that uses any part of it. So groups share a slot that they only read, whichever kind they
// need: the slot belongs to all of them (Storage::groups) and is symmetric if one of them needs that. They
// cannot share a slot that a collective of one group *writes* (in place) while peers of another group read it
// directly: the writer would have to wait for readers in a group that it may not belong to. In that case the
// in-place collective works on a copy. Neither answer depends on the order in which groups are visited.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/schedule.h"

namespace braid::ir {

enum class CommBufferReason : std::uint8_t {
  // in place
  produced_here,  // our loops or GEMMs write it straight into the segment
  already,        // it is already a communication buffer of this group
  shared,         // it is a communication buffer of other groups
  // copied
  graph_input,     // the caller's memory
  graph_output,    // the caller's memory
  constant,        // weights
  foreign_output,  // written by a kernel whose destination we do not choose: extern kernels, regions
  not_contiguous,  // the operand's elements are not contiguous
  unbounded,       // its size has no upper bound, so no slot can be reserved
  other_group,     // it would be overwritten where peers of another group read it
  cloned,          // a loop of the program copies it unchanged
  packed,          // copied piece by piece into a larger buffer (concatenation, bucket)
  staged,          // not in the segment: the engine copies it through staging memory
};
bool in_place(CommBufferReason reason);
std::string_view to_string(CommBufferReason reason);  // "produced_here"
std::string_view text_of(CommBufferReason reason);    // a phrase for messages

// Whether the value in `buffer`, read as `view` (nullopt: it has no strided view), can be an operand of a
// collective of this group without a copy. For a view, the storage of its base would be converted. `writes`:
// the collective also overwrites it.
CommBufferReason can_be_comm_buffer(const Graph& graph, BufferId buffer, const std::optional<TensorRef>& view,
                                    GroupId group, CommBufferKind kind, bool writes = false);

// Makes the storage of `buffer` a communication buffer of this kind and group, or adds the group to those it
// has. Idempotent. Requires that can_be_comm_buffer() has allowed it.
void make_comm_buffer(Graph& graph, BufferId buffer, GroupId group, CommBufferKind kind);

// Whether kernels of the group's other ranks can reach it: it lies in communication memory of the group and,
// if they read it until the release, that memory is symmetric.
bool reachable_by_peers(const Graph& graph, const TensorRef& ref, GroupId group, bool is_read);

// One operand or result of a collective in the current program.
struct CommBufferDecision {
  OpId collective;
  bool result = false;  // else an operand
  int index = 0;
  BufferId buffer;
  CommBufferReason reason = CommBufferReason::already;
  std::vector<OpId> copies;  // loops that only copy it in or out
  Expr bytes = 0;            // how many are copied
};
// Derived from the operations, so it is valid for IR text and after any pass. In execution order.
std::vector<CommBufferDecision> comm_buffer_decisions(const Schedule& schedule);

// The bytes that one of the `copies` writes.
Expr bytes_copied_by(const Graph& graph, OpId copy);
// The bytes that one rank copies per step only because of where buffers lie. A copy that serves two operands
// counts once.
Expr copied_bytes(const Graph& graph, const std::vector<CommBufferDecision>& decisions);

}  // namespace braid::ir
