// Checks that every operator of a model can be lowered or replaced by a function body. Lowering finds the nodes whose operator is not
// implemented for their element types.
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

// The names and versions of all operators: those in function bodies included and, if there are any others, those in branches. An
// operator that is missing only in a branch is no error until the branch is known to be taken.
void check_supported(const Model& model, const Opsets& opsets);
// The same as a list, empty if everything is supported.
std::vector<UnsupportedOperator> unsupported_operators(const Model& model, const Opsets& opsets);
// The nodes of a branch that is taken.
void check_supported(const Model& model, const Opsets& opsets, const onnx::GraphProto& branch);

// A node whose operator is not implemented for this element type of its first input.
UnsupportedOperator unsupported_type(const onnx::NodeProto& node, int version, ir::DType dtype);
// Nodes with one problem share an entry.
void add_unsupported(std::vector<UnsupportedOperator>& list, const UnsupportedOperator& problem);
[[noreturn]] void refuse_unsupported(const std::string& path, const std::vector<UnsupportedOperator>& list);

}  // namespace braid::frontend
