// The costs of kernels and collectives: a pure function of the graph and a machine description (machine.h).
//
// Nothing is measured and no clock is read, so all ranks make the same decisions. In order of precedence, the
// cost of an operation is given by:
//   1. the caller's function, if it returns a value;
//   2. the cost file, if it has the operation's name (cost_file.h);
//   3. `cost(ns T)` of the operation in the IR;
//   4. the machine: roofline with an efficiency per kernel class (roofline.h) from the operation's body, or
//      from its `cost(flops F, bytes B)`; NCCL's tuner model for collectives (collective_model.h).
// Sizes that are not fixed count with their upper bound or the value given in `dims`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "analysis/costs/machine.h"
#include "analysis/costs/roofline.h"
#include "analysis/costs/time.h"
#include "ir/schedule.h"

namespace braid::analysis {

// One kernel alone on the machine.
struct KernelCost {
  Time time;
  Permille slowdown = 1000;  // while at least one collective is in flight
};

// One collective, alone on the machine.
struct CollectiveCost {
  Time time;     // from when all ranks have started it until it is complete
  Time latency;  // the part of `time` that does not depend on the size
  Time floor;    // no merging, splitting or other algorithm is faster: its bytes at the best bandwidth of
                 // the machine
  Permille slowdown = 1000;  // while the compute stream is busy
  int fabric = 0;            // collectives in flight on one fabric share it: 0 within a node, 1 between nodes
  bool priced_by_size = true;  // false: an explicit cost (1 to 3 above), which tells nothing about other
                               // sizes, so that passes neither merge nor split it
  std::string algorithm;       // "ring LL128", ...; empty for explicit costs
};

// The facts on which the price of a collective depends.
struct CollectiveShape {
  ir::CollectiveKind kind = ir::CollectiveKind::all_reduce;
  ir::ReduceKind reduce = ir::ReduceKind::sum;
  ir::DType dtype = ir::DType::f32;
  std::int64_t bytes = 0;  // total payload: all-reduce, reduce-scatter, all-to-all, broadcast, send: the
                           // input; all-gather, recv: the output. Coalesced: the sum
  std::span<const int>
      ranks;  // of the group, in world numbering; node = rank / devices per node. With parts: of the slowest
  int siblings = 1;        // parts of the group that share a node's network cards
  bool symmetric = false;  // all operands lie in symmetric communication memory
  // `unasked`, like `automatic`: the cheapest.
  ir::Algorithm algorithm = ir::Algorithm::unasked;
};

struct CostOptions {
  std::map<std::string, std::int64_t> dims;  // values of dimensions; others count at their upper bound
  std::string cost_file;                     // empty: none
  // Explicit time of an operation in ns; nullopt falls through to the next source.
  std::function<std::optional<double>(const ir::Graph&, ir::OpId)> function;
};

class CostModel {
 public:
  explicit CostModel(Machine machine, CostOptions options = {});

  const Machine& machine() const { return machine_; }
  // One kernel: a single operation, or the members of a fused node (whose internal storages cause no memory
  // traffic). Collectives, waits, releases and views are free here. A region costs the sum of its operations,
  // a branch its more expensive side. Linear in the graph for several operations; for many kernels use
  // KernelCosts.
  KernelCost kernel(const ir::Graph& graph, std::span<const ir::OpId> ops) const;
  // The cost of a CollectiveKernel. `start` is its operation.
  CollectiveCost collective(const ir::Graph& graph, ir::OpId start) const;
  CollectiveCost collective(const CollectiveShape& shape) const;
  CollectiveShape shape(const ir::Graph& graph, ir::OpId start) const;
  // Returns the time that a start, wait or release takes on the compute stream itself, if an engine moves
  // data in the calling thread. Only a cost file gives it: under the name of the wait or release, or of the
  // start with ".issue".
  Time call_overhead(const ir::Graph& graph, ir::OpId op) const;
  // Value of an expression at the chosen dims. User error 552 if it has no upper bound.
  std::int64_t value(const ir::Expr& e) const;

 private:
  friend class KernelCosts;
  // Explicit time of an operation or node (1 to 3 above).
  std::optional<double> explicit_ns(const ir::Graph& graph, ir::OpId op) const;

  Machine machine_;
  CostOptions options_;
  std::map<std::string, double> entries_;  // of the cost file: operation or node name -> ns
};

// Costs of many kernels of one graph, which must outlive this unchanged: the users of storages are looked up
// once.
class KernelCosts {
 public:
  KernelCosts(const CostModel& model, const ir::Graph& graph);
  KernelCost operator()(std::span<const ir::OpId> ops) const;
  // A single or fused node; the cost file may have a time for a fused one under its own name.
  KernelCost operator()(const ir::ScheduleNode& node) const;

 private:
  double ns(std::span<const ir::OpId> ops, Permille& slowdown) const;

  const CostModel& model_;
  const ir::Graph& graph_;
  mutable std::optional<StorageUsers> users_;
};

// Returns the cost model of the machine of this name or file (machine.h); empty: the default one. A name
// gives the same object each time, while files are read again. Safe to call from several threads.
std::shared_ptr<const CostModel> cost_model_for(const std::string& machine);

}  // namespace braid::analysis
