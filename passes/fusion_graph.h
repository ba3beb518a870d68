// The state of a fusion pass: clusters of schedule nodes, each at one position of the order, and what
// orders them.
//
// Two clusters may become one if there is a position at which all that either depends on lies before, and
// all that depends on either lies after: then no path leads from one to the other through a third, and
// nothing else has to move. The check looks at direct neighbours only, so a whole fusion pass is
// near-linear as long as clusters are of bounded size.
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
  // `keep_overlap`: no operation is moved to the other side of a collective's wait, where it could no
  // longer run while the collective is under way.
  // `region_of_op`: clusters join only within one region; one number per operation of the graph, none: all
  // is one region.
  FusionGraph(const ir::Schedule& schedule, bool keep_overlap,
              ir::IdSpan<ir::OpId, const int> region_of_op = {});

  // Nodes of the schedule, and the cluster that each is in (one of its nodes stands for it).
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
  // Clusters that wrote what this one reads.
  std::vector<int> producers(int cluster) const;
  bool depends_directly(int later, int earlier) const;

  // Where two clusters could stand as one, the first before the second in order; nothing if they cannot.
  std::optional<double> joint_position(int first, int second) const;
  // `second` becomes part of `first`, which moves there. The operations of the result, in order, may be
  // given (an operation that absorbed another one); otherwise they are those of both.
  void merge(int first, int second, double position, std::optional<std::vector<ir::OpId>> ops = std::nullopt);

  // The schedule's nodes in the new order; clusters of several loops are fused nodes, the others stay as
  // they were.
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

// Is the node one loop, or a fused node of loops?
bool is_loops(const ir::Schedule& schedule, const ir::ScheduleNode& node);

}  // namespace braid::passes
