#include "frontend/regions.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "frontend/value_needed.h"

namespace braid::frontend {
namespace {

using ir::BodyBuilder;
using ir::DType;
using ir::OpCode;
using ir::TensorBox;
using ir::ValueId;

const onnx::GraphProto& graph_attribute(const onnx::NodeProto& node, OpContext& c, const char* name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name && attribute.has_g()) return attribute.g();
  }
  c.fail(kInvalidAttribute, fmt::format("attribute '{}' is missing", name));
}

Value value_of(TensorBox box) {
  Value value{"", box.dtype(), box.sizes()};
  value.box = std::move(box);
  return value;
}

// Output k of a body.
TensorBox result_of(OpContext& c, const BodyLowering& body, const onnx::GraphProto& graph, int k) {
  Value& value = body.value(graph.output(k).name());
  if (value.sequence || value.empty_optional) {
    c.fail(kUnsupportedType, fmt::format("'{}' is a sequence or an optional value", graph.output(k).name()),
           "what is decided at run time can only be tensors");
  }
  return box_of(value, c.lowering());
}

// The only element of a tensor, as a scalar.
TensorBox scalar(ir::Lowering& l, TensorBox x) {
  for (const ir::Expr& size : x.sizes()) l.require_equal(size, 1);
  return l.view(x, {}, std::vector<ir::Expr>(x.rank(), 0));
}

bool is_scalar(const onnx::ValueInfoProto& declared) {
  return !declared.type().has_tensor_type() || !declared.type().tensor_type().has_shape() ||
         declared.type().tensor_type().shape().dim_size() == 0;
}

TensorBox both(ir::Lowering& l, const TensorBox& a, const TensorBox& b) {
  return l.pointwise({a, b}, [](BodyBuilder& body, std::span<const ValueId> v) {
    return body.binary(OpCode::logical_and, v[0], v[1]);
  });
}

TensorBox less(ir::Lowering& l, const TensorBox& a, const TensorBox& b) {
  return l.pointwise({a, b}, [](BodyBuilder& body, std::span<const ValueId> v) {
    return body.binary(OpCode::lt, v[0], v[1]);
  });
}

}  // namespace

namespace {

// Calls `build`, which lowers all that may run. Its errors say that they may be none if input k were a constant: a branch that
// is not taken is not lowered, and a known number of iterations is.
template <class F>
auto or_needs(OpContext& c, int k, const F& build) {
  try {
    return build();
  } catch (const ValueNeeded&) {
    throw;
  } catch (const ir::UserError& error) {
    if (!c.has_input(k)) throw;
    if (error.location().file.empty()) c.fail_unknown(k, error.code(), error.message(), error.hint());
    throw ValueNeeded(error.code(), error.location(), error.message(), error.hint(), c.value(k).name);
  }
}

}  // namespace

std::vector<Value> branch_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body) {
  ir::Lowering& l = c.lowering();
  const auto part = [&](const char* name) {
    return [&, name] {
      const onnx::GraphProto& graph = graph_attribute(node, c, name);
      if (graph.output_size() < node.output_size())
        c.fail(kInvalidNode,
               fmt::format("its {} has {} outputs for {}", name, graph.output_size(), node.output_size()));
      body.lower(graph);
      std::vector<TensorBox> results;
      for (int k = 0; k < node.output_size(); ++k) results.push_back(result_of(c, body, graph, k));
      return results;
    };
  };
  const std::vector<TensorBox> results = or_needs(
      c, 0, [&] { return l.branch(scalar(l, c.input(0)), part("then_branch"), part("else_branch")); });
  std::vector<Value> values;
  for (const TensorBox& x : results) values.push_back(value_of(x));
  return values;
}

std::vector<Value> loop_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body) {
  ir::Lowering& l = c.lowering();
  const onnx::GraphProto& graph = graph_attribute(node, c, "body");
  const int states = graph.input_size() - 2;
  const TensorBox yes = l.scalar(DType::boolean, 1);
  TensorBox count, condition = yes;
  if (c.has_input(0)) {
    count = l.realize(scalar(l, l.cast(c.input(0), DType::i64)));
    condition = less(l, l.scalar(DType::i64, 0), count);
  }
  if (c.has_input(1)) condition = both(l, condition, scalar(l, c.input(1)));
  // The iteration is carried along behind the states.
  std::vector<TensorBox> initial;
  for (int k = 0; k < states; ++k) initial.push_back(c.input(2 + k));
  initial.push_back(l.scalar(DType::i64, 0));
  const auto define = [&](int k, TensorBox box) {
    Value value = value_of(std::move(box));
    value.name = graph.input(k).name();
    body.define(std::move(value));
  };
  const auto as_declared = [&](int k, const TensorBox& x) {
    return is_scalar(graph.input(k)) ? x : l.unsqueeze(x, 0);
  };
  const auto run = [&](const std::vector<TensorBox>& carried) {
    const TensorBox& iteration = carried.back();
    define(0, as_declared(0, iteration));
    define(1, as_declared(1, yes));
    for (int k = 0; k < states; ++k) define(2 + k, carried[static_cast<std::size_t>(k)]);
    body.lower(graph);
    const TensorBox next = l.pointwise({iteration}, [](BodyBuilder& b, std::span<const ValueId> v) {
      return b.binary(OpCode::add, v[0], b.constant_of(DType::i64, 1));
    });
    TensorBox again = scalar(l, result_of(c, body, graph, 0));
    if (count.valid()) again = both(l, again, less(l, next, count));
    std::vector<TensorBox> results = {again};
    for (int k = 0; k < states; ++k) results.push_back(result_of(c, body, graph, 1 + k));
    results.push_back(next);
    return results;
  };
  const std::vector<TensorBox> last =
      or_needs(c, c.has_input(0) ? 0 : 1, [&] { return l.repeat_while(condition, initial, run); });
  std::vector<Value> values;
  for (int k = 0; k < states; ++k) values.push_back(value_of(last[static_cast<std::size_t>(k)]));
  return values;
}

}  // namespace braid::frontend
