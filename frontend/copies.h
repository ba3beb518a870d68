// Identity nodes. They compute nothing, so they must decide nothing: not how a model is
// split, for example.
#pragma once

#include <onnx/onnx_pb.h>

#include <set>
#include <string>

namespace braid::frontend {

// The tensors of which annotations for several devices speak.
std::set<std::string> annotated_names(const onnx::GraphProto& graph);

// Removes Identity nodes from the graph and from bodies of control flow: readers of the copy read the value
// that was copied. If the copy is an output of the graph, the node that computes the value computes the
// output. Names in `keep` stay.
//
// An Identity stays if it is annotated or if a body defines one of its names. It stays if it returns an
// input, a weight, a value of the graph around or another output. It also stays if the value that goes is
// declared with a type that the other one is not declared with.
//
// Returns the names that the graph no longer has, without those of bodies. The model must have passed ONNX's
// checker, and its functions must be inlined.
std::set<std::string> leave_out_copies(onnx::GraphProto& graph, const std::set<std::string>& keep);

}  // namespace braid::frontend
