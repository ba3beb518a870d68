// A plan: the state of every tensor of a plain model on the ranks of a mesh axis, as text to be printed,
// edited and read again.
//
//   plan 1
//   ranks 2
//   "past_key" = S(1)                     # as it is produced, or given to the program
//   "/layer.0/down" = P(sum)
//   "/layer.0/down" -> "/layer.0/add" = R # as the node takes it that computes "/layer.0/add"
//   "weight" -> "/layer.0/up" = S(1)
//   "x" -> "y"[1] = R                     # input 1 of that node only
//   "logits" -> output = R                # as the program returns it
//
// Defaults: a value is R, a node takes a value as it is produced and a constant as R, the program takes and
// returns R. A node is named by its first output that has a name. "#" begins a comment.
//
// On a mesh of several axes (mesh.h) a line says the state on each; axes that it leaves out are R:
//
//   plan 1
//   mesh [dp=2, tp=4]
//   "h" = S(0) on dp, S(1) on tp
//   "weight" -> "h" = S(1) on tp
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "split/graph.h"
#include "split/mesh.h"
#include "split/spec.h"

namespace braid::split {

struct Plan {
  // A reader of a value: a node by its first output, and one of its inputs or, with -1, all; "" is the graph
  // output.
  struct Reader {
    std::string node;
    int input = -1;
    friend auto operator<=>(const Reader&, const Reader&) = default;
  };
  int ranks = 1;
  std::map<std::string, Spec> values;
  std::map<std::pair<std::string, Reader>, Spec> readers;
  // The numbers of the lines in the text that was parsed, for messages; no part of the plan.
  std::map<std::string, int> value_lines;
  std::map<std::pair<std::string, Reader>, int> reader_lines;

  Spec of_value(const std::string& name) const;
  // Returns the state in which input `input` of a node takes the value; `otherwise` if no line says it.
  Spec of_reader(const std::string& value, const std::string& node, int input, const Spec& otherwise) const;
  friend bool operator==(const Plan& a, const Plan& b) {
    return a.ranks == b.ranks && a.values == b.values && a.readers == b.readers;
  }
};

// A plan per axis of a mesh.
struct MeshPlan {
  Mesh mesh;
  std::vector<Plan> axes;

  MeshPlan() = default;
  MeshPlan(Plan plan) : mesh(Mesh::line(plan.ranks)) { axes.push_back(std::move(plan)); }
  // A plan that splits nothing.
  explicit MeshPlan(Mesh of);

  int ranks() const { return mesh.ranks(); }
  MeshSpec of_value(const std::string& name) const;
  friend bool operator==(const MeshPlan&, const MeshPlan&) = default;
};

std::string to_string(const MeshPlan& plan);
std::string to_string(const Plan& plan);
// Throws UserError kPlanSyntax with the line, and kSplitRequest. `file` is for messages.
MeshPlan parse_mesh_plan(const std::string& text, const std::string& file);
// The same for one axis without a name.
Plan parse_plan(const std::string& text, const std::string& file);

// The tensors and nodes that the plan names.
std::set<std::string> names_in(const MeshPlan& plan);

// Returns the number of the line, for messages; 0: none.
int line_of(const Plan& plan, const std::string& value);
int line_of(const Plan& plan, const std::string& value, const std::string& node, int input);
// Throws UserError kPlanMismatch about a line of a plan; 0: about all of it.
[[noreturn]] void refuse_line(const std::string& file, int line, const std::string& what,
                              const std::string& hint = "");
// Throws UserError kPlanMismatch for lines about values and readers that the model does not have.
void check_names(const Graph& graph, const Plan& plan, const std::string& file);

// Returns the name by which plans know a node.
const std::string& plan_name(const Graph& graph, const GraphNode& node);

}  // namespace braid::split
