#include "frontend/regions.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "frontend/value_needed.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::BodyBuilder;
using ir::DType;
using ir::OpCode;
using ir::TensorBox;

const onnx::GraphProto& graph_attribute(const onnx::NodeProto& node, OpContext& c, const char* name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name && attribute.has_g()) return attribute.g();
  }
  c.fail(errors::kInvalidAttribute, fmt::format("attribute '{}' is missing", name));
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
    c.fail(errors::kUnsupportedType,
           fmt::format("'{}' is a sequence or an optional value", graph.output(k).name()),
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
  return l.pointwise({a, b}, [](BodyBuilder& body, std::span<const ir::ValueId> v) {
    return body.binary(OpCode::logical_and, v[0], v[1]);
  });
}

TensorBox less_than(ir::Lowering& l, const TensorBox& a, const TensorBox& b) {
  return l.pointwise({a, b}, [](BodyBuilder& body, std::span<const ir::ValueId> v) {
    return body.binary(OpCode::lt, v[0], v[1]);
  });
}

}  // namespace

namespace {

// Calls `build`, which lowers all bodies that may run. Turns its errors into ValueNeeded for input k: with a
// constant there, a branch that is not taken is not lowered, and a known number of iterations is.
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

namespace {

std::vector<TensorBox> branch_results(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body,
                                      bool condition) {
  const char* name = condition ? "then_branch" : "else_branch";
  const onnx::GraphProto& graph = graph_attribute(node, c, name);
  if (graph.output_size() < node.output_size())
    c.fail(errors::kInvalidNode,
           fmt::format("its {} has {} outputs for {}", name, graph.output_size(), node.output_size()));
  body.lower(graph);
  std::vector<TensorBox> results;
  for (int k = 0; k < node.output_size(); ++k) results.push_back(result_of(c, body, graph, k));
  return results;
}

// Results of these types and sizes, which make the step fail with the text as the name of a node.
std::vector<TensorBox> failing_results(ir::Lowering& l, const std::string& text,
                                       const std::vector<TensorBox>& like) {
  l.set_origin(text);
  const TensorBox failed = l.realize(l.generate({}, [](BodyBuilder& b, std::span<const ir::Expr>) {
    return b.check_index(b.constant_of(DType::i64, 1), 1);
  }));
  std::vector<TensorBox> results;
  for (const TensorBox& x : like) {
    results.push_back(l.generate(x.sizes(), [&](BodyBuilder& b, std::span<const ir::Expr>) {
      return b.cast(l.load(b, failed, {}), x.dtype());
    }));
  }
  return results;
}

TensorBox negated(ir::Lowering& l, const TensorBox& x) {
  return l.pointwise(
      {x}, [](BodyBuilder& b, std::span<const ir::ValueId> v) { return b.unary(OpCode::logical_not, v[0]); });
}

}  // namespace

namespace {

// The elements of x, row-major, at the beginning of `room` elements.
TensorBox with_room(ir::Lowering& l, const TensorBox& x, std::int64_t room) {
  const ir::Expr count = ir::product(x.sizes());
  const TensorBox flat = l.reshape(x, {count});
  return l.generate({room}, [&](BodyBuilder& b, std::span<const ir::Expr> at) {
    const ir::ValueId there = b.binary(OpCode::lt, b.index(at[0]), b.index(count));
    return l.load(b, flat, at, there);
  });
}

TensorBox sizes_box(ir::Lowering& l, const std::vector<ir::Expr>& sizes) {
  return l.generate({sizes.size()}, [&](BodyBuilder& b, std::span<const ir::Expr> at) {
    ir::ValueId result = b.index(sizes.back());
    for (std::size_t d = sizes.size() - 1; d-- > 0;)
      result = b.where(b.binary(OpCode::eq, b.index(at[0]), b.index(static_cast<std::int64_t>(d))),
                       b.index(sizes[d]), result);
    return result;
  });
}

// How the sizes of two tensors of one rank differ, if they do.
std::optional<UnequalResult> difference_of(const std::vector<ir::Expr>& a, const std::vector<ir::Expr>& b) {
  UnequalResult unequal{std::max(ir::bounds(ir::product(a)).max, ir::bounds(ir::product(b)).max), {}};
  bool differ = false;
  for (std::size_t d = 0; d < a.size(); ++d) {
    unequal.capacities.emplace_back();
    if (a[d] == b[d]) continue;
    unequal.capacities.back() = std::max(ir::bounds(a[d]).max, ir::bounds(b[d]).max);
    differ = true;
  }
  return differ ? std::optional(unequal) : std::nullopt;
}

}  // namespace

std::vector<Value> branch_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body,
                                      int number, const BranchFacts& facts) {
  ir::Lowering& l = c.lowering();
  const FailingBranches& failing = facts.failing;
  const auto if_true = failing.find({number, true}), if_false = failing.find({number, false});
  const bool fails = if_true != failing.end() || if_false != failing.end();
  if (if_true != failing.end() && if_false != failing.end()) throw if_true->second;
  // The branch that can be lowered comes first: the results of the other one are like its own.
  const bool first = if_true == failing.end(), measures = c.measures();
  std::vector<TensorBox> known;  // of the first branch
  const auto lowered = [&](bool condition) {
    try {
      return branch_results(node, c, body, condition);
    } catch (const ValueNeeded&) {
      throw;
    } catch (const ir::UserError& error) {
      if (!error.location().node.empty()) throw BranchFails{number, condition, error};
      throw BranchFails{number, condition,
                        ir::UserError(error.code(), {.node = name_of(node), .op = node.op_type()},
                                      error.message(), error.hint())};
    }
  };
  const auto unequal = [&](std::size_t k) {
    const auto found = facts.unequal.find({number, static_cast<int>(k)});
    return found == facts.unequal.end() ? nullptr : &found->second;
  };
  // Results of unequal sizes are their elements and their sizes.
  const auto yielded = [&](const std::vector<TensorBox>& results) {
    std::vector<TensorBox> all;
    for (std::size_t k = 0; k < results.size(); ++k) {
      const UnequalResult* result = unequal(k);
      all.push_back(result == nullptr ? results[k] : with_room(l, results[k], result->elements));
      if (result != nullptr) all.push_back(sizes_box(l, results[k].sizes()));
    }
    return all;
  };
  const auto other = [&] {
    if (fails) {
      const ir::UserError& error = first ? if_false->second : if_true->second;
      return failing_results(l, fmt::format("{}: {}", error.location().node, error.message()), known);
    }
    std::vector<TensorBox> results = lowered(!first);
    for (std::size_t k = 0; measures && k < results.size(); ++k) {
      if (results[k].rank() != known[k].rank() || unequal(k) != nullptr) continue;
      if (const auto differ = difference_of(known[k].sizes(), results[k].sizes())) {
        facts.found.emplace(std::pair(number, static_cast<int>(k)), *differ);
        results[k] = l.full(known[k].sizes(), known[k].dtype(), 0);
      }
    }
    return results;
  };
  TensorBox condition = scalar(l, c.input(0));
  if (!first) condition = negated(l, condition);
  const std::vector<TensorBox> results = or_needs(c, 0, [&] {
    return l.branch(
        condition, [&] { return yielded(known = lowered(first)); }, [&] { return yielded(other()); });
  });
  std::vector<Value> values;
  for (std::size_t k = 0, at = 0; k < known.size(); ++k) {
    const TensorBox& x = results[at++];
    const UnequalResult* result = unequal(k);
    if (result == nullptr) {
      values.push_back(value_of(x));
      continue;
    }
    const TensorBox& found = results[at++];
    std::vector<ir::Expr> sizes = known[k].sizes();
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (!result->capacities[d]) continue;
      const std::string& name = c.output_name(static_cast<int>(k));
      sizes[d] =
          c.measured_size(0, "the sizes of the results",
                          sizes.size() == 1 ? name : fmt::format("{}.{}", name, d), result->capacities[d],
                          [&] { return l.squeeze(l.slice(found, 0, static_cast<std::int64_t>(d), 1), 0); });
    }
    values.push_back(value_of(l.reshape(l.slice(x, 0, 0, ir::product(sizes)), sizes)));
  }
  return values;
}

namespace {

// The element of x that a run reads: `position` (i64 scalar) along an axis.
TensorBox element_at(ir::Lowering& l, const TensorBox& x, std::int64_t axis, const TensorBox& position) {
  std::vector<ir::Expr> sizes = x.sizes();
  const ir::Expr count = sizes[static_cast<std::size_t>(axis)];
  sizes.erase(sizes.begin() + axis);
  return l.generate(sizes, [&](BodyBuilder& b, std::span<const ir::Expr> at) {
    std::vector<ir::Expr> source(at.begin(), at.end());
    const ir::ValueId index = b.check_index(l.load(b, position, {}), count);
    source.insert(source.begin() + axis, b.as_index(index));
    return l.load(b, x, source);
  });
}

TensorBox minimum(ir::Lowering& l, const TensorBox& a, const TensorBox& b) {
  return l.pointwise({a, b}, [](BodyBuilder& body, std::span<const ir::ValueId> v) {
    return body.binary(OpCode::min, v[0], v[1]);
  });
}

TensorBox plus_number(ir::Lowering& l, const TensorBox& x, std::int64_t number) {
  return l.pointwise({x}, [&](BodyBuilder& b, std::span<const ir::ValueId> v) {
    return b.binary(OpCode::add, v[0], b.constant_of(DType::i64, static_cast<double>(number)));
  });
}

TensorBox size_box(ir::Lowering& l, const ir::Expr& size) {
  return l.realize(l.generate({}, [&](BodyBuilder& b, std::span<const ir::Expr>) { return b.index(size); }));
}

// count - 1 - position
TensorBox from_the_end(ir::Lowering& l, const ir::Expr& count, const TensorBox& position) {
  return l.pointwise({position}, [&](BodyBuilder& b, std::span<const ir::ValueId> v) {
    return b.binary(OpCode::sub, b.index(count - 1), v[0]);
  });
}

// Runs `run` with the number of the iteration and the carried values. Repeats it while `condition` and the
// condition that it returns hold, at most `count` times if that is valid(). Returns the states, the joined
// tensors and, last, the number of iterations.
std::vector<TensorBox> iterate(
    ir::Lowering& l, TensorBox condition, const TensorBox& count, std::vector<TensorBox> initial,
    const std::function<ir::Lowering::Run(const TensorBox&, std::span<const TensorBox>)>& run) {
  if (count.valid()) condition = both(l, condition, less_than(l, l.scalar(DType::i64, 0), count));
  const std::size_t states = initial.size();
  initial.push_back(l.scalar(DType::i64, 0));  // the iteration is carried after the states
  std::vector<TensorBox> last =
      l.repeat_while(condition, initial, [&](const std::vector<TensorBox>& carried) {
        const TensorBox& iteration = carried.back();
        ir::Lowering::Run result = run(iteration, std::span(carried).first(states));
        const TensorBox next = plus_number(l, iteration, 1);
        if (count.valid()) result.condition = both(l, result.condition, less_than(l, next, count));
        result.carried.push_back(next);
        return result;
      });
  std::rotate(last.begin() + static_cast<std::ptrdiff_t>(states),
              last.begin() + static_cast<std::ptrdiff_t>(states) + 1, last.end());
  return last;
}

std::vector<Value> values_of(std::vector<TensorBox> boxes) {
  std::vector<Value> values;
  for (TensorBox& x : boxes) values.push_back(value_of(std::move(x)));
  return values;
}

bool always_true(Value& value) {
  const std::optional<Elements>& known = elements_of(value);
  return known && known->values.size() == 1 && known->values[0].is_constant() &&
         !known->values[0].is_constant(0);
}

}  // namespace

std::string joined_name(const onnx::NodeProto& node, OpContext& c) {
  return c.output_name(std::max(node.input_size() - 2, 0));
}

std::vector<Value> loop_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body,
                                    const std::optional<JoinedRoom>& joined) {
  ir::Lowering& l = c.lowering();
  const onnx::GraphProto& graph = graph_attribute(node, c, "body");
  const int states = graph.input_size() - 2;
  const TensorBox yes = l.scalar(DType::boolean, 1);
  TensorBox count, condition = yes;
  if (c.has_input(0)) count = l.realize(scalar(l, l.cast(c.input(0), DType::i64)));
  if (c.has_input(1)) condition = scalar(l, c.input(1));
  std::vector<TensorBox> initial;
  for (int k = 0; k < states; ++k) initial.push_back(c.input(2 + k));
  const auto define = [&](int k, Value value) {
    value.name = graph.input(k).name();
    body.define(std::move(value));
  };
  const auto as_declared = [&](int k, const TensorBox& x) {
    return value_of(is_scalar(graph.input(k)) ? x : l.unsqueeze(x, 0));
  };
  bool counted = joined && joined->limited;  // whether only a run tells how often it runs
  if (counted) {
    const TensorBox most = size_box(l, joined->count);
    count = count.valid() ? l.realize(minimum(l, count, most)) : most;
  }
  const auto run = [&](const TensorBox& iteration, std::span<const TensorBox> carried) {
    define(0, as_declared(0, iteration));
    Value go = as_declared(1, yes);
    go.elements = Elements{std::vector<std::int64_t>(go.sizes.size(), 1), {1}};
    define(1, std::move(go));
    for (int k = 0; k < states; ++k) define(2 + k, value_of(carried[static_cast<std::size_t>(k)]));
    body.lower(graph);
    ir::Lowering::Run result;
    counted = counted || (joined && !always_true(body.value(graph.output(0).name())));
    result.condition = scalar(l, result_of(c, body, graph, 0));
    for (int k = 0; k < states; ++k) result.carried.push_back(result_of(c, body, graph, 1 + k));
    for (int k = 1 + states; k < graph.output_size(); ++k)
      result.joined.push_back({result_of(c, body, graph, k), 0, joined->count, iteration});
    return result;
  };
  std::vector<TensorBox> results =
      or_needs(c, c.has_input(0) ? 0 : 1, [&] { return iterate(l, condition, count, initial, run); });
  const TensorBox iterations = results.back();
  results.pop_back();
  if (counted) {
    const ir::Expr found =
        c.measured_size(c.has_input(0) ? 0 : 1, "the sizes of the results", joined_name(node, c),
                        joined->capacity, [&] { return iterations; });
    for (std::size_t k = initial.size(); k < results.size(); ++k)
      results[k] = l.slice(results[k], 0, 0, found);
  }
  return values_of(std::move(results));
}

std::vector<Value> scan_at_run_time(const onnx::NodeProto& node, OpContext& c, const BodyLowering& body,
                                    const ScanAtRunTime& scan) {
  ir::Lowering& l = c.lowering();
  const onnx::GraphProto& graph = graph_attribute(node, c, "body");
  const auto run = [&](const TensorBox& iteration, std::span<const TensorBox> carried) {
    const TensorBox reversed = from_the_end(l, scan.count, iteration);
    const auto position = [&](const ScanAtRunTime::Axis& a) { return a.backwards ? reversed : iteration; };
    int input = 0;
    const auto define = [&](TensorBox x) {
      Value value = value_of(std::move(x));
      value.name = graph.input(input++).name();
      body.define(std::move(value));
    };
    for (const TensorBox& x : carried) define(x);
    for (std::size_t k = 0; k < scan.scanned.size(); ++k)
      define(element_at(l, scan.scanned[k], scan.inputs[k].axis, position(scan.inputs[k])));
    body.lower(graph);
    ir::Lowering::Run result;
    result.condition = l.scalar(DType::boolean, 1);
    const auto states = static_cast<int>(carried.size());
    for (int k = 0; k < states; ++k) result.carried.push_back(result_of(c, body, graph, k));
    for (int k = states; k < graph.output_size(); ++k) {
      const ScanAtRunTime::Axis& a = scan.outputs[static_cast<std::size_t>(k - states)];
      const TensorBox value = result_of(c, body, graph, k);
      const int axis = c.normalize_axis(a.axis, static_cast<int>(value.rank()) + 1, "an axis");
      result.joined.push_back({value, static_cast<std::size_t>(axis), scan.count, position(a)});
    }
    return result;
  };
  std::vector<TensorBox> results =
      iterate(l, l.scalar(DType::boolean, 1), size_box(l, scan.count), scan.states, run);
  results.pop_back();
  return values_of(std::move(results));
}

}  // namespace braid::frontend
