// Models of one node each at sizes that models have: what work_test.cc holds the work of operators to.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace braid::frontend::sharding {

struct WorkCase {
  std::string op;     // "com.microsoft.Gelu"; ONNX's own have no domain
  std::string graph;  // ONNX text; inputs whose names begin with c_ become constants
  int opset = 18;
  // By how much flops and bytes may be off, and why by more than usual.
  double flops = 2, bytes = 2;
  std::string why = {};
};

// Every operator of `braid ops` but the exceptions of work_test.cc.
std::vector<WorkCase> work_cases();
// With its constants filled: integers with 0 and 1 in turn, others with small numbers.
onnx::ModelProto model_of(const WorkCase& c);

}  // namespace braid::frontend::sharding
