// From an ONNX file to the lowered program: load, check, normalise, lower.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/expr.h"
#include "ir/schedule.h"
#include "ir/tensor.h"

namespace braid::split {
struct Graph;
}

namespace braid::frontend {

namespace sharding {
struct SplitRequest;  // frontend/sharding/split.h

// Returns a request for the import of a model (PlainModel) that applies the plan of this text. `file` is for
// messages; may be empty. Without `weights` it is for a program that is only priced: parts of large weights
// have arbitrary bytes.
std::shared_ptr<const SplitRequest> plan_request(const std::string& text, const std::string& file,
                                                 bool weights = true);
}  // namespace sharding

// The value of a graph input that becomes a constant.
struct FixedInput {
  ir::Tensor value;
  // `value` has i64 or f64 numbers as a person wrote them, which take the type of the input. Otherwise it
  // must have that type.
  bool is_literal = false;
};
using FixedInputs = std::map<std::string, FixedInput>;  // by name

struct ImportOptions {
  // Bounds of named dimensions; equal bounds make the dimension a constant. An unnamed dimension is named
  // after its input and axis: the second one of input `x` is `x_1`.
  std::map<std::string, ir::Bounds> dims;
  int ranks = 1;  // world size
  // Pairs (graph output, graph input): the output shares the input's memory.
  std::vector<std::pair<std::string, std::string>> aliases;
  // Values of graph inputs, by name. An input becomes a constant with its value if a size, an axis or a
  // choice depends on it that must be known while compiling. It is then no input of the result. All others
  // stay inputs.
  std::map<std::string, ir::Tensor> bindable;
  // These inputs become constants in any case, and their sizes fix the dimensions that they name.
  FixedInputs fixed;
  // The most that a size may be that only the data of a step tell, by the size's name. Sizes that the
  // operator bounds (NonZero) need none.
  std::map<std::string, std::int64_t> capacities;
  std::optional<std::int64_t> default_capacity;  // of those that need one and have none
  // Gives each random operator without a seed one of its own that follows from this number and the position
  // of the node. Absent: such operators are refused.
  std::optional<std::int64_t> seed;
  // Makes every tensor that a node computes at run time an output of the result, to find the first one that
  // is wrong. They follow the model's own outputs in the order of the nodes, each under its own name.
  bool keep_values = false;
  // Called once with each note about parts of the model that are ignored: annotations for several devices
  // without a split, wrong declarations, inputs of unsupported types that nothing reads. May be null.
  std::function<void(const std::string& text)> note;
  // Splits a plain model over the ranks (frontend/sharding/split.h); null: the model is one of those ranks as
  // it is.
  std::shared_ptr<const sharding::SplitRequest> split;
};

// The node that computes a value: its name, or its first output if it has none, and its operator.
struct ValueSource {
  std::string node, op;
};
// Returns the source of each value that the nodes of the model's own graph compute, as its file (of rank 0)
// has them.
std::map<std::string, ValueSource> value_sources(const std::string& path);

// The names of a model's dimensions that accept bounds.
std::set<std::string> dimension_names(const std::string& path);

// Returns the bounds that --default-dim gives the dimensions that `given` leaves out. "{rank}" in the path
// stands for rank 0.
std::map<std::string, ir::Bounds> default_dims(const std::string& path,
                                               const std::map<std::string, ir::Bounds>& given,
                                               ir::Bounds fallback);

// Reads the model at `path` and lowers it. "{rank}" in the path stands for the rank: one file per rank with
// the same graph and its own weights. Nodes of the result are single operations in order of creation. Throws
// ir::UserError for any error in the model or the options.
ir::Schedule import_model(const std::string& path, const ImportOptions& options);

// A model that is lowered several times, with different splits: it is read and checked once.
class PlainModel {
 public:
  // As import_model; options.ranks is the number of files, options.split is ignored.
  PlainModel(const std::string& path, const ImportOptions& options);
  ~PlainModel();
  PlainModel(const PlainModel&) = delete;
  PlainModel& operator=(const PlainModel&) = delete;

  // Returns the program of a split over so many ranks; with null, the program on one device beside which
  // splits are tried. Both compute in the order of sharding/node_order.h.
  ir::Schedule lower(int ranks, const sharding::SplitRequest* split);
  // Returns the program of the model as it is, for options.ranks.
  ir::Schedule lower();
  // Keeps the Identity nodes that this plan names. Otherwise a split leaves Identity nodes out, except those
  // that the plan given to `lower` names. Throws the UserErrors of parse_mesh_plan; `file` is for messages.
  void keep_copies(const std::string& plan, const std::string& file);
  // The plain graph, which is valid during the call only.
  void with_graph(const std::function<void(const split::Graph&)>& use);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace braid::frontend
