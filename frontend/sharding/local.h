// The rank-local model while it is written: nodes, initializers with one entry per rank, names that are free.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "frontend/load.h"
#include "frontend/sharding/rules.h"
#include "frontend/sharding/split_names.h"

namespace braid::frontend::sharding {

class LocalModel {
 public:
  // Makes a model without nodes and with the plain one's declarations. The plain one may be that of a rank of
  // `before`, each of which becomes `ranks` ranks: rank q becomes q * ranks to (q + 1) * ranks - 1.
  LocalModel(const Model& plain, int ranks, int before = 1);

  // The number of ranks over which the model is split.
  int ranks() const { return ranks_; }
  // The version of ONNX's own operator set.
  int version() const { return version_; }

  onnx::NodeProto& add_node(const std::string& domain, const std::string& op,
                            const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);
  onnx::NodeProto& add_node(const onnx::NodeProto& copy);
  // A name that no value of the model has; it begins with `wanted`.
  std::string fresh(const std::string& wanted);

  // Equal parts become one weight, unless they are `distinct`.
  void add_initializer(const std::string& name, Tensor tensor, bool distinct = false);
  // Integers, the same on all ranks.
  std::string integers(const std::string& name, ir::DType dtype, std::vector<std::int64_t> sizes,
                       const std::vector<std::int64_t>& values);
  // One row of integers for each rank.
  std::string integers_of_rank(const std::string& name, ir::DType dtype, std::vector<std::int64_t> sizes,
                               const std::vector<std::vector<std::int64_t>>& rows);
  // Lets a collective run among the ranks that the model is split over.
  void set_groups(onnx::NodeProto& node) const;
  // The groups of a collective of the plain model.
  void widen_groups(onnx::NodeProto& node) const;
  // A scalar of any numeric type or bool.
  std::string number(const std::string& name, ir::DType dtype, double value);

  // Emits one operator with one result and returns its name.
  std::string compute(const std::string& op, const std::vector<std::string>& inputs, const std::string& name);

  // A collective of ai.braid among all ranks.
  onnx::NodeProto& add_collective(const std::string& op, const std::string& input, const std::string& result);
  // Adds or drops dimensions of size 1, in any operator set.
  std::string unsqueezed(const std::string& value, const std::vector<std::int64_t>& axes,
                         const std::string& name);
  void squeeze(const std::string& value, const std::vector<std::int64_t>& axes, const std::string& result);
  // "ReduceMax" and its like, along axes that stay with size 1, in any operator set.
  void reduce(const std::string& op, const std::string& value, const std::vector<std::int64_t>& axes,
              const std::string& result);
  // Elements [begin, end) of a dimension.
  void slice(const std::string& value, int dim, std::int64_t begin, std::int64_t end,
             const std::string& result);

  Model take() { return std::move(model_); }
  onnx::GraphProto& graph() { return *model_.proto.mutable_graph(); }

 private:
  // A node whose axes are an attribute before that operator set and an input since.
  void add_with_axes(const std::string& op, const std::string& value, const std::vector<std::int64_t>& axes,
                     const std::string& result, int axes_are_an_input);

  Model model_;
  int ranks_, before_;
  int version_ = 1;
  std::set<std::string> names_;
  std::set<std::string> node_names_;
};

void set_int(onnx::NodeProto& node, const char* name, std::int64_t value);
void set_string(onnx::NodeProto& node, const char* name, const std::string& value);
void set_ints(onnx::NodeProto& node, const char* name, const std::vector<std::int64_t>& values);
void drop_attribute(onnx::NodeProto& node, const char* name);

// One node while its rule writes the local form.
class LocalNode {
 public:
  LocalNode(LocalModel& model, const NodeView& view, const Strategy& strategy, const Letter* letter,
            std::vector<std::string> inputs, std::vector<std::string> outputs)
      : model(model),
        view(view),
        strategy(strategy),
        letter(letter),
        inputs(std::move(inputs)),
        outputs(std::move(outputs)) {}

  LocalModel& model;
  const NodeView& view;
  const Strategy& strategy;
  const Letter* letter;                      // nullptr: none is split
  std::vector<std::string> inputs, outputs;  // local names; "": absent

  int ranks() const { return model.ranks(); }
  // Emits the node as it is, with the local names.
  onnx::NodeProto& emit();
  // Returns a name for a value in addition to the node's own values.
  std::string name(const std::string& suffix) const;
  // Whether the letter that is split occurs in that dimension.
  const Occurrence* at(bool output, int index, int dim) const;
  // If input k is split into padded parts: the padding becomes `value`.
  void hide_padding(int k, double value);
  // Replaces input k, a vector of integers, by its sum with `added`.
  void add_to_input(int k, const std::vector<std::int64_t>& added);
};

// The size on each rank of a dimension of a tensor in that state, if the whole size is static.
ir::Expr local_size(const Spec& spec, int dim, const ir::Expr& size, int ranks);

}  // namespace braid::frontend::sharding
