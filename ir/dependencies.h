// Dependencies between the nodes of a schedule, derived from effects (ir/effects.h).
//
// The schedule's order is taken as right: of two nodes that must keep their order, the earlier one is the
// predecessor. A pass computes the dependencies, moves nodes as they allow, and has then kept the meaning.
//
//   memory  (MemoryDep)  a loop reads, at known indices, what the predecessor wrote
//   star    (StarDep)    any or all of the buffer: reads by opaque kernels, GEMMs and collectives, a second
//                        write, a mutation after the write before it, the wait of a start, everything about
//                        a barrier
//   weak    (WeakDep)    order only: the predecessor reads what the node overwrites, both are collectives
//                        whose order the channel policy fixes, or groups of which one is `after` the other.
//                        If a pass drops the predecessor, nothing is lost
//
// A version of a buffer that a MutationOutput replaced is the same memory, so chains of versions need no
// care of their own: the readers of a version come between the write before them and the mutation after
// them.
//
// Near-linear: per storage, byte ranges are kept in an ordered map that holds, for each range, its last
// writers and the readers since then. Edges that follow from others through an overwriting node are left
// out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace braid::ir {

enum class DepKind : std::uint8_t { memory, star, weak };
enum class Hazard : std::uint8_t {
  read_after_write,
  write_after_read,
  write_after_write,
  structure,      // start before wait before release; waits of a transfer after the other side's start
  channel_order,  // collectives in the order that the channel policy asks for
  group_order,    // a group that was asked to come after another one (ScheduleNode::after)
  barrier,        // one of the two has unknown effects
};

struct Dependency {
  int node = -1;  // into Schedule::nodes: the predecessor or the successor, as was asked
  DepKind kind = DepKind::star;
  Hazard hazard = Hazard::read_after_write;
  BufferId buffer;           // the later node's name of the memory; invalid for the last four hazards
  bool keeps_alive = false;  // weak: the reader also hands out the same memory (a start, a mutation of
                             // another part), so the storage must live although the dependency is order only
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

struct DependencyOptions {
  bool channel_order = true;  // passes that keep the order of collectives by themselves leave these out
};

class Dependencies {
 public:
  int size() const { return static_cast<int>(first_in_.size()) - 1; }
  // Both ordered by node, without repetition.
  std::span<const Dependency> predecessors(int node) const { return slice(in_, first_in_, node); }
  std::span<const Dependency> successors(int node) const { return slice(out_, first_out_, node); }
  // The node that holds the operation (at any depth of groups); -1: not scheduled (inside of a region).
  int node_of(OpId op) const { return node_of_[static_cast<std::size_t>(op.index)]; }

  struct Violation {
    int before;  // must come before `after`, but does not
    int after;
  };
  // Is `order`, a permutation of the nodes, topological? The first violation found in node order, or nothing.
  std::optional<Violation> violation(std::span<const int> order) const;

  // For each of the nodes asked for: the set of nodes that it depends on, directly or not, as one flag per
  // node. O(asked * edges): meant for collectives, not for all nodes.
  std::vector<std::vector<bool>> ancestors(std::span<const int> nodes) const;
  bool is_ancestor(int ancestor, int node) const;

 private:
  friend Dependencies find_dependencies(const Schedule&, std::span<const std::vector<OpId>>,
                                        const DependencyOptions&);
  static std::span<const Dependency> slice(const std::vector<Dependency>& all,
                                           const std::vector<std::size_t>& first, int node) {
    const auto n = static_cast<std::size_t>(node);
    return std::span(all).subspan(first[n], first[n + 1] - first[n]);
  }
  std::vector<Dependency> in_, out_;
  std::vector<std::size_t> first_in_ = {0}, first_out_ = {0};
  std::vector<int> node_of_;
};

Dependencies find_dependencies(const Schedule& schedule, const DependencyOptions& options = {});
// Between the single operations: node k is execution_order(schedule)[k].
Dependencies find_op_dependencies(const Schedule& schedule, const DependencyOptions& options = {});
// Between any partition of the operations, given in execution order.
Dependencies find_dependencies(const Schedule& schedule, std::span<const std::vector<OpId>> nodes,
                               const DependencyOptions& options = {});

// The name of a node: that of its operation, or its own.
const std::string& name_of(const Schedule& schedule, int node);
std::string_view to_string(DepKind kind);
std::string_view to_string(Hazard hazard);
// "memory read_after_write of 'x'": for reasons in messages.
std::string to_string(const Graph& graph, const Dependency& dependency);

}  // namespace braid::ir
