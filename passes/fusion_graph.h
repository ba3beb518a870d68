// The state of a fusion pass: clusters of schedule nodes, each at one position of the order, and their
// dependencies.
//
// Two clusters may merge if there is a position after everything that either depends on and before everything
// that depends on either. Then no path leads from one to the other through a third, and nothing else has to
// move. The check looks at direct neighbours only, so a whole fusion pass is near-linear as long as clusters
// are of bounded size.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/dependencies.h"
#include "ir/id_vector.h"
#include "ir/schedule.h"

namespace braid::passes {

class FusionGraph {
 public:
  // `keep_overlap`: no operation moves across a collective's wait, after which it could no longer run while
  // the collective is in flight.
  // `region_of_op`: one number per operation of the graph; clusters merge only within one region. Empty: one
  // region.
  FusionGraph(const ir::Schedule& schedule, bool keep_overlap,
              ir::IdSpan<ir::OpId, const int> region_of_op = {});

  // Nodes of the schedule, and the cluster of each (represented by one of its nodes).
  int size() const { return cluster_.end_id(); }
  int cluster_of(int node) const;
  int cluster_of(ir::OpId op) const { return cluster_of(dependencies_.node_of(op)); }
  // The clusters in their order.
  std::vector<int> clusters() const;
  double position(int cluster) const { return position_[cluster]; }

  // Operations in the order in which they run.
  const std::vector<ir::OpId>& ops(int cluster) const { return ops_[cluster]; }
  // Neighbouring clusters in order of position, each once.
  std::vector<int> predecessors(int cluster) const;
  std::vector<int> successors(int cluster) const;
  // The clusters that wrote what this one reads.
  std::vector<int> producers(int cluster) const;
  bool depends_directly(int later, int earlier) const;

  // Returns the position at which two clusters could merge, with the first before the second; nullopt if they
  // cannot.
  std::optional<double> joint_position(int first, int second) const;
  // Merges `second` into `first`, which moves to `position`. `ops`: the operations of the result, in order,
  // if they are not those of both (an operation absorbed another one).
  void merge(int first, int second, double position, std::optional<std::vector<ir::OpId>> ops = std::nullopt);

  // Returns the schedule's nodes in the new order. Clusters of several loops become fused nodes; the others
  // are unchanged.
  std::vector<ir::ScheduleNode> nodes(ir::Schedule& schedule) const;

 private:
  struct Neighbour {
    int node;
    bool data;  // read after write
  };
  using Table = ir::IdVector<int, std::vector<Neighbour>>;
  std::vector<int> neighbours(const Table& table, int cluster, bool only_data) const;

  ir::Dependencies dependencies_;
  ir::IdVector<int, int> cluster_;  // parent links
  ir::IdVector<int, double> position_;
  ir::IdVector<int, std::vector<ir::OpId>> ops_;
  ir::IdVector<int, bool> merged_;
  ir::IdVector<int, int> region_;
  Table in_, out_;
  std::vector<double> waits_;  // positions
  bool keep_overlap_;
};

// Whether the node is one loop or a fused node of loops.
bool is_loops(const ir::Schedule& schedule, const ir::ScheduleNode& node);

// Returns how many iterations of a loop that computes little take as long as `body` over `sizes`, at their
// upper bounds.
double cheap_iterations(const ir::LoopBody& body, std::span<const ir::Expr> sizes);

}  // namespace braid::passes
