// Identity nodes. They compute nothing, so they must decide nothing: not how a model is
// split, for example.
#pragma once

#include <onnx/onnx_pb.h>

#include <set>
#include <string>

namespace braid::frontend {

// The tensors of which annotations for several devices speak.
std::set<std::string> annotated_names(const onnx::GraphProto& graph);

// Takes Identity nodes out of the graph and of bodies of control flow: what read the copy reads the value that was copied. If the copy is
// an output of the graph, the node that computes the value computes the output. No name in `keep` goes. Identities stay that are annotated,
// that return an input, a weight, a value of the graph around or another output, and whose values are declared with different types.
// Returns the names that the graph has no more, without those of bodies. The model must have passed ONNX's checker, and its functions must be
// inlined.
std::set<std::string> leave_out_copies(onnx::GraphProto& graph, const std::set<std::string>& keep);

}  // namespace braid::frontend
