// The meaning of a fused node: the contract between fusion, memory planning and the code generators.
//
// Members are loops (`Loops`) that run in order at every point of a common outer iteration space:
//
//   for o in outer (any order, in parallel):
//     for each member, in order:
//       for j in the member's own inner dimensions (the last `reduced` of them are folded): body(o, j)
//
//   softmax   max:   sizes [B, S], reduced 1       outer [B], inner [S] each
//             sum:   sizes [B, S], reduced 1       loads max[i0]:           same point of the outer space
//             div:   sizes [B, S]                  loads max[i0], sum[i0]
//
// A fused node is legal if and only if
//   1. every member is a Loops whose first sizes are `outer` (none of them reduced);
//   2. what a member reads of another member's output was written at the same outer point: either at the
//      same values of all indices (`same_point`), or anywhere in the row that the outer point wrote
//      (`same_row`);
//   3. a member that overwrites what an earlier member reads does so at the same outer point, by the same
//      rule;
//   4. no two members write the same bytes.
// Hence outer points never depend on each other, and a buffer that only members touch needs memory for one
// outer point at a time: a register (same_point reads within one inner loop) or a row of scratch.
//
// Members run in order even if they share no buffer by name: the memory plan may give a later member's output
// the bytes of an input that earlier members read (`may_reuse_in_place`). If several threads work on one
// outer point, all of them finish a member before any begins the next. If all of them compute the only
// element of a member, all have read its operands before any stores it: it may lie in place of one of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace braid::ir {

struct FusedLoops {
  struct Member {
    OpId op;
    int inner_dims = 0;  // sizes.size() - outer.size(); includes the reduced ones
  };
  std::vector<Expr> outer;
  std::vector<Member> members;
};

// Analyses with the longest legal outer space. Returns nullopt if not even the empty one is legal; then
// `why`, if given, says which rule failed.
std::optional<FusedLoops> analyse_fused(const Graph& graph, std::span<const OpId> ops,
                                        std::string* why = nullptr);

// Where an access of one loop lies relative to what another loop writes if the first `outer` indices are
// equal.
enum class Relation : std::uint8_t {
  other,       // possibly written at another outer point
  same_row,    // among the elements that the writer writes at this outer point
  same_point,  // the element that the writer writes at the same values of all its indices
};
// `load` is an instruction of `reader`. Both must address the same storage.
Relation relation(const Graph& graph, OpId writer, OpId reader, const Instr& load, std::size_t outer);

// For a same_row or same_point read: the position of the element in the row that the writer wrote at this
// outer point, counted from where the writer's inner indices are all 0. Scratch for one row holds
// `row_elements` elements.
std::optional<Expr> row_index(const Graph& graph, OpId writer, OpId reader, const Instr& load,
                              std::size_t outer);
Expr row_elements(const Graph& graph, OpId writer, std::size_t outer);

// Buffers that live only inside the node: activations written by one member and not touched outside the node.
// They get no memory in the arena.
std::vector<BufferId> local_buffers(const Schedule& schedule, const ScheduleNode& node);
// The same for all top-level nodes at once (near-linear).
std::vector<std::vector<BufferId>> local_buffers(const Schedule& schedule);

// Whether `out`, whose memory is born at this node, may take the bytes of `in`, whose memory dies there. True
// if each element of `in` is read only at the index at which it is overwritten (single loops), or before it
// is overwritten at the same outer point (fused nodes). Both are root storages of kind activation; the caller
// ensures that they are born and die at this node.
bool may_reuse_in_place(const Graph& graph, const ScheduleNode& node, StorageId in, StorageId out);

}  // namespace braid::ir
