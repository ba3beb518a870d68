// Models with one attribute out of range, for every operator that ONNX has a schema of.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace braid::frontend {

// Where the node stands: the graph itself, a branch that is not taken, or the body of a function that the
// graph calls, where the attribute comes from the call.
enum class Place : std::uint8_t { graph, branch, function };

struct AttributeCase {
  std::string op;  // domain.name
  int version;     // of the operator set
  int form;        // which ranks the inputs have, and whether optional ones are given
  std::string attribute;
  int value;  // of how_many_values()
  Place place;

  std::string text() const;
};

// In the order of the registry; the same list in every run.
std::vector<AttributeCase> attribute_cases();
onnx::ModelProto model_of(const AttributeCase& c);

}  // namespace braid::frontend
