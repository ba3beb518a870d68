// Checks that every operator of a model can be lowered or replaced by a function body. Nodes whose operator
// is not implemented for their element types are found by lowering.
#pragma once

#include <string>
#include <vector>

#include "frontend/check_structure.h"
#include "frontend/load.h"
#include "ir/dtype.h"
#include "ir/error.h"

namespace braid::frontend {

struct UnsupportedOperator {
  std::string op;  // "GRU-14", "com.example.Sort-1"
  std::string reason;
  std::vector<std::string> nodes;
};

// One UserError (kUnsupportedOperators) that names all operators with version, reason and nodes.
class UnsupportedOperators : public ir::UserError {
 public:
  UnsupportedOperators(const std::string& path, std::vector<UnsupportedOperator> list);
  const std::vector<UnsupportedOperator>& list() const { return list_; }

 private:
  std::vector<UnsupportedOperator> list_;
};

// Throws UnsupportedOperators if an operator's name or version is not supported, in function bodies too. The
// error also lists the operators that are missing in branches. An operator that is missing only in a branch
// is no error until the branch is known to be taken.
void check_supported(const Model& model, const Opsets& opsets);
// Returns the same as a list, with the operators in branches; empty if everything is supported.
std::vector<UnsupportedOperator> unsupported_operators(const Model& model, const Opsets& opsets);
// Checks the nodes of a branch that is taken.
void check_supported(const Model& model, const Opsets& opsets, const onnx::GraphProto& branch);

// A node whose operator is not implemented for this element type of its first input.
UnsupportedOperator unsupported_type(const onnx::NodeProto& node, int version, ir::DType dtype);
// Nodes with one problem share an entry.
void add_unsupported(std::vector<UnsupportedOperator>& list, const UnsupportedOperator& problem);
[[noreturn]] void refuse_unsupported(const std::string& path, const std::vector<UnsupportedOperator>& list);

}  // namespace braid::frontend
