// Splitting a plain model over ranks while it is imported, before it is lowered.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "frontend/lower_graph.h"
#include "frontend/sharding/apply.h"
#include "frontend/sharding/split_names.h"

namespace braid::frontend::sharding {

struct SplitRequest {
  // The text of a complete plan (plan.h); if it is empty, `choose` makes one. Without both everything is
  // replicated.
  std::string plan;
  std::string plan_file;  // for messages
  // Whether it is an error if the axes before have made a state of the plan impossible; otherwise another
  // state is taken.
  bool obey = true;
  Weights weights = Weights::cut;
  Mesh mesh;  // for `choose`; empty: one axis of all ranks
  std::function<MeshPlan(const Graph& graph, const Mesh& mesh)> choose;
  // Called after each axis with the plan that was applied to the model split along the axes before, and with
  // the states of the program's inputs and outputs that are not whole.
  std::function<void(const Graph& graph, const Plan& plan, const Interface& inputs, const Interface& outputs)>
      report;
  // Called with the plan, which was checked against the rules of the plain model's graph on the first axis.
  std::function<void(const Model& plain, const Graph& graph, const MeshPlan& plan)> resolved;
};

// Returns the first node that communicates or depends on the rank, also in branches and loops; nullptr: there
// is none.
const onnx::NodeProto* find_communication(const onnx::GraphProto& graph, const Opsets& opsets);
// Throws UserError kCannotSplit if the model communicates by itself or has weights that differ between ranks.
void require_plain(const Model& model, const Opsets& opsets);

// Makes the local model, one mesh axis after another.
//
// The plan is one of the plain model. In the model that is split along the axes before, the nodes that were
// made from a node of the plain model take and compute the states that the plan gives it on the next axis.
// For collectives of the axes before, and nodes that rules added, the states that transfer the fewest bytes
// are chosen. That orders the steps of a conversion on several axes.
class Splitter {
 public:
  // Throws the UserErrors of parse_mesh_plan; kPlanMismatch if the plan is for another number of ranks.
  // `request` must outlive this.
  Splitter(const SplitRequest& request, int ranks);

  bool done() const { return stage_ > 0 && stage_ >= count_of(axes_); }
  // The number of ranks along the axes that have been applied.
  int ranks() const { return before_; }
  // Returns the model after the next axis. `facts` are those of `model`, which is the plain one or the result
  // of the last call. Throws the UserErrors of resolve.
  Model next(const Model& model, const Opsets& opsets, const GraphFacts& facts);

 private:
  struct PlainNode {
    std::string name, op;
    std::vector<std::string> inputs, outputs;  // values of the plain model; outputs that are read
    std::vector<bool> constants;               // of the inputs
    std::vector<std::string> taken;            // the inputs in the model so far
    std::vector<int> nodes;                    // its nodes in the model so far, by position
  };
  struct Wanted;

  const ir::MeshAxis& axis() const;  // the next one
  void check(const GraphValue& value, const Plan& plan, const std::string& name, const Spec& spec) const;
  void begin(const Graph& graph, const std::string& path);
  Wanted wanted(const Model& model, const Graph& graph, const Plan& plan) const;
  Plan completed(const Graph& graph, const Plan& plan, const Wanted& wanted) const;
  void tell_parts(const Graph& graph, LocalProgram& program) const;
  void follow(const Model& before, const Graph& graph, const LocalProgram& program);

  const SplitRequest& request_;
  MeshPlan plan_;
  std::vector<int> axes_;  // axes of more than one rank
  std::string file_;
  int ranks_, stage_ = 0, before_ = 1;
  IdVector<NodeId, PlainNode> nodes_;            // of the plain model's graph
  std::map<std::string, std::string> produced_;  // by value of the plain model: its name in the model so far
  std::vector<std::string> inputs_, outputs_;
};

}  // namespace braid::frontend::sharding
