// Loop and Scan become as many copies of the body as there are iterations, if their number is known at
// compile time and not too large. Otherwise the program repeats the body (regions.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontend/op_context.h"

namespace onnx {
class GraphProto;
}

namespace braid::frontend {

// Limits on the iterations of one loop and on the nodes of all loops of a model. Programs with more copies
// take too long to compile.
inline constexpr std::int64_t kMaxIterations = 1024;
inline constexpr std::int64_t kMaxUnrolledNodes = 20000;

// Access to the lowering of the graph around the loop.
struct BodyLowering {
  // Lowers the nodes of a body, whose inputs are defined. BR0119 after too many nodes.
  std::function<void(const onnx::GraphProto&)> lower;
  std::function<void(Value)> define;
  std::function<Value&(const std::string&)> value;
};

// Returns the node's outputs, without names; nullopt if it is neither Loop nor Scan. Throws BR0116 if results
// are to be joined and the number of iterations does not follow from sizes.
std::optional<std::vector<Value>> unrolled(const onnx::NodeProto& node, OpContext& c,
                                           const BodyLowering& body);

}  // namespace braid::frontend
