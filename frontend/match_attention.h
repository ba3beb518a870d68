// Finds attention that is spelled out, as exporters write it: MatMul, scales, masks, Softmax, MatMul.
//
//   scores = MatMul(q, transposed k)                Identity, Cast, Mul, Div, Add, Where, a softcap, in any
//                                                   order
//   weights = Softmax(scores) along the last axis   Identity, Cast, Dropout, a Where as a guard for rows
//                                                   without a key
//   y = MatMul(weights, v)
//
// By structure alone: names, the order of nodes, and that of commuting operands do not matter. Everything
// between the two products must have no other reader. This part only follows edges. Whether sizes, types and
// constants suit is known when the last node is lowered (attention_pattern.h); until then the nodes in
// between are held back.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace onnx {
class GraphProto;
}

namespace braid::frontend {

// A node on the way, and which of its inputs comes from the product.
struct PatternStep {
  int node = 0;
  int input = 0;
};

struct AttentionPattern {
  int product = 0;                  // of query and key
  std::vector<PatternStep> scores;  // after it, in order
  int softmax = 0;
  std::int64_t axis = -1;            // of the softmax, as written
  std::vector<PatternStep> weights;  // after the softmax, in order
  std::vector<int> guards;           // IsNaN of the softmax
  int result = 0;                    // the product with the values
  std::vector<int> inner() const;    // all but the result, ascending
};

// Returns the patterns by the node that is the result. `live` says which nodes are lowered, `uses` counts the
// readers of every value, graph outputs included, `version` is that of ONNX's operator set.
std::map<int, AttentionPattern> find_attention(const onnx::GraphProto& graph, const std::vector<bool>& live,
                                               const std::unordered_map<std::string, int>& uses, int version);

}  // namespace braid::frontend
