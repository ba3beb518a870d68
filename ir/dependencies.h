// Dependencies between the nodes of a schedule, derived from effects (ir/effects.h).
//
// The schedule's order is assumed to be correct: of two nodes that must keep their order, the earlier one is
// the predecessor. A pass that moves nodes only as the dependencies allow preserves the meaning.
//
//   memory  (MemoryDep)  a loop reads, at known indices, what the predecessor wrote
//   star    (StarDep)    any or all of the buffer: reads by opaque kernels, GEMMs and collectives, a second
//                        write, a mutation of what the predecessor wrote, the wait of a start, all edges of
//                        a barrier
//   weak    (WeakDep)    order only: the predecessor reads what the node overwrites, both are collectives
//                        whose order the channel policy fixes, or groups of which one is `after` the other.
//                        A pass that removes the predecessor may drop the edge
//
// A MutationOutput names the same memory as the version it replaces, so chains of versions need no special
// case: the readers of a version come between the write before them and the mutation after them.
//
// Near-linear: for each storage, an ordered map holds the last writers of each byte range and the readers
// since then. Edges implied by others through an overwriting node are left out.
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
  channel_order,  // collectives in the order that the channel policy requires, and starts, waits and releases
                  // around transfers whose other side stands elsewhere
  group_order,    // a group that must come after another one (ScheduleNode::after)
  barrier,        // one of the two has unknown effects
};

struct Dependency {
  int node = -1;  // index into Schedule::nodes: the predecessor or successor that was queried
  DepKind kind = DepKind::star;
  Hazard hazard = Hazard::read_after_write;
  BufferId buffer;           // the memory, as the later node names it; invalid for the last four hazards
  bool keeps_alive = false;  // weak: the reader also passes the same memory on (a start, a mutation of
                             // another part), so the storage stays live although the edge is order only
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

struct DependencyOptions {
  bool channel_order = true;  // off for passes that maintain the order of collectives themselves
};

class Dependencies {
 public:
  int size() const { return static_cast<int>(first_in_.size()) - 1; }
  // Both are ordered by node and free of duplicates.
  std::span<const Dependency> predecessors(int node) const { return slice(in_, first_in_, node); }
  std::span<const Dependency> successors(int node) const { return slice(out_, first_out_, node); }
  // The node that holds the operation (at any depth of groups); -1 if it is not scheduled (inside a region).
  int node_of(OpId op) const { return node_of_[static_cast<std::size_t>(op.index)]; }

  struct Violation {
    int before;  // must come before `after`, but does not
    int after;
  };
  // The first violation, in node order, of the dependencies by `order`, a permutation of the nodes; nullopt
  // if `order` is topological.
  std::optional<Violation> violation(std::span<const int> order) const;

  // For each of `nodes`, the set of nodes that it depends on directly or indirectly, as one flag per node.
  // O(nodes.size() * edges): meant for collectives, not for all nodes.
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
// Between single operations: node k is execution_order(schedule)[k].
Dependencies find_op_dependencies(const Schedule& schedule, const DependencyOptions& options = {});
// Between any partition of the operations, given in execution order.
Dependencies find_dependencies(const Schedule& schedule, std::span<const std::vector<OpId>> nodes,
                               const DependencyOptions& options = {});

// The name of a node: that of its operation, or its own.
const std::string& name_of(const Schedule& schedule, int node);
std::string_view to_string(DepKind kind);
std::string_view to_string(Hazard hazard);
// "memory read_after_write of 'x'", as messages give a reason.
std::string to_string(const Graph& graph, const Dependency& dependency);

}  // namespace braid::ir
