// Sequences and optional values exist only at compile time. Sequences are lists of tensors whose length and
// positions are known; whether an optional value is present is known too.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

const std::vector<Value>& sequence(OpContext& c) {
  const Value& value = c.value(0);
  if (!value.sequence)
    c.fail(errors::kUnsupportedForm, "the elements of its sequence are known only at run time");
  return *value.sequence;
}

void set_sequence(OpContext& c, std::vector<Value> elements) {
  Value result;
  result.sequence = std::move(elements);
  c.set_output(0, std::move(result));
}

Value element(const TensorBox& box) {
  Value value;
  value.dtype = box.dtype();
  value.sizes = box.sizes();
  value.box = box;
  return value;
}

// Input k in [-count, count), or `fallback` if there is none; negative positions count from the end.
std::size_t position(OpContext& c, int k, std::size_t length, std::size_t count, std::size_t fallback) {
  if (!c.has_input(k)) return fallback;
  const std::vector<std::int64_t> given = c.constant_ints(k, "the position");
  if (given.size() != 1)
    c.fail(errors::kInvalidNode, fmt::format("the position has {} elements", given.size()));
  const auto n = static_cast<std::int64_t>(length);
  const std::int64_t at = given[0] < 0 ? given[0] + n : given[0];
  if (given[0] < -n || at >= static_cast<std::int64_t>(count)) {
    c.fail(errors::kIndexOutOfRange,
           fmt::format("the position {} is out of range: the sequence has {} elements", given[0], length));
  }
  return static_cast<std::size_t>(at);
}

void lower_construct(OpContext& c) {
  std::vector<Value> elements;
  for (int k = 0; k < c.input_count(); ++k) elements.push_back(c.value(k));
  set_sequence(c, std::move(elements));
}

void lower_empty(OpContext& c) { set_sequence(c, {}); }

void lower_length(OpContext& c) {
  const auto length = static_cast<std::int64_t>(sequence(c).size());
  c.set_output(0, integer_tensor(DType::i64, {}, {length}));
}

void lower_at(OpContext& c) {
  const std::vector<Value>& elements = sequence(c);
  if (!c.has_input(1)) c.fail(errors::kInvalidNode, "the position is missing");
  c.set_output(0, elements[position(c, 1, elements.size(), elements.size(), 0)]);
}

void lower_insert(OpContext& c) {
  std::vector<Value> elements = sequence(c);
  const std::size_t at = position(c, 2, elements.size(), elements.size() + 1, elements.size());
  elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(at), c.value(1));
  set_sequence(c, std::move(elements));
}

void lower_erase(OpContext& c) {
  std::vector<Value> elements = sequence(c);
  if (elements.empty()) c.fail(errors::kIndexOutOfRange, "the sequence is empty");
  const std::size_t at = position(c, 1, elements.size(), elements.size(), elements.size() - 1);
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at));
  set_sequence(c, std::move(elements));
}

void lower_sequence_concat(OpContext& c) {
  ir::Lowering& l = c.lowering();
  std::vector<Value> elements = sequence(c);
  if (elements.empty()) c.fail(errors::kInvalidNode, "the sequence is empty");
  const bool stack = c.int_attribute("new_axis", 0) != 0;
  const int rank = static_cast<int>(elements[0].sizes.size()) + (stack ? 1 : 0);
  const int axis = c.normalize_axis(c.int_attribute("axis"), rank);
  std::vector<TensorBox> parts;
  for (Value& e : elements) {
    if (static_cast<int>(e.sizes.size()) + (stack ? 1 : 0) != rank)
      c.fail(errors::kShapeMismatch, "the elements of the sequence have different ranks");
    parts.push_back(stack ? l.unsqueeze(box_of(e, l), axis) : box_of(e, l));
  }
  c.set_output(0, parts.size() == 1 ? parts[0] : l.concat(parts, axis));
}

// Returns the sizes of the parts: all 1 without input 1, equal ones except a smaller last one for a scalar,
// else the given ones.
std::vector<Expr> part_sizes(OpContext& c, Expr size) {
  if (c.has_input(1) && c.rank(1) != 0) return c.shape_values(1, "the sizes of the parts");
  const std::int64_t part = c.has_input(1) ? c.constant_ints(1, "the size of the parts")[0] : 1;
  if (part < 1)
    c.fail(errors::kInvalidNode, fmt::format("the size of the parts is {}, expected at least 1", part));
  constexpr std::int64_t kMost = 1 << 16;
  if (!size.is_constant() || size.constant() / part > kMost) {
    c.fail(errors::kDataDependentSize,
           fmt::format("the number of parts depends on the size {}", to_string(size)),
           size.is_constant() ? fmt::format("at most {} parts are supported", kMost)
                              : "fix the dimension to one value");
  }
  std::vector<Expr> sizes;
  for (std::int64_t left = size.constant(); left > 0; left -= part) sizes.emplace_back(std::min(part, left));
  return sizes;
}

void lower_sequence_split(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int axis = c.axis_attribute(c.rank(0), 0);
  const TensorBox x = c.input(0);
  const Expr size = x.sizes()[static_cast<std::size_t>(axis)];
  const bool squeeze = !c.has_input(1) && c.int_attribute("keepdims", 1) == 0;
  std::vector<Value> elements;
  Expr start = 0;
  for (const Expr part : part_sizes(c, size)) {
    if (ir::bounds(part).min < 0)
      c.fail(errors::kShapeMismatch, fmt::format("a part has size {}", to_string(part)));
    TensorBox box = l.slice(x, axis, start, part);
    elements.push_back(element(squeeze ? l.squeeze(box, axis) : box));
    start = start + part;
  }
  if (start.is_constant() && size.is_constant() && !(start == size)) {
    c.fail(errors::kShapeMismatch, fmt::format("the parts have {} elements in all, but the axis has {}",
                                               to_string(start), to_string(size)));
  }
  l.require_equal(start, size);
  set_sequence(c, std::move(elements));
}

void lower_optional(OpContext& c) {
  if (c.has_input(0)) return c.set_output(0, c.value(0));
  Value none;
  none.empty_optional = true;
  c.set_output(0, std::move(none));
}

void lower_has_element(OpContext& c) {
  c.set_output(0, integer_tensor(DType::boolean, {}, {c.has_input(0) && !c.value(0).empty_optional ? 1 : 0}));
}

void lower_get_element(OpContext& c) {
  if (c.value(0).empty_optional) c.fail(errors::kInvalidNode, "the optional value is empty");
  c.set_output(0, c.value(0));
}

constexpr const char* kSequence = "sequences and optional values are not split";

}  // namespace

std::span<const OpSpec> sequence_ops() {
  static const OpSpec ops[] = {
      {"", "ConcatFromSequence", 11, kNewestOpset, kAllTypes, lower_sequence_concat, work::join(),
       sharding::replicated(kSequence), kNoState, kNoSizes},
      {"", "Optional", 15, kNewestOpset, kAllTypes, lower_optional, work::list(),
       sharding::replicated(kSequence), kNoState, kNoSizes},
      {"", "OptionalGetElement", 15, kNewestOpset, kAllTypes, lower_get_element, work::list(),
       sharding::replicated(kSequence), kNoState, kNoSizes},
      {"", "OptionalHasElement", 15, kNewestOpset, kAllTypes, lower_has_element, work::list(),
       sharding::replicated(kSequence), kNoState, kNoSizes},
      {"", "SequenceAt", 11, kNewestOpset, kAllTypes, lower_at, work::list(), sharding::replicated(kSequence),
       kNoState, kNoSizes},
      {"", "SequenceConstruct", 11, kNewestOpset, kAllTypes, lower_construct, work::list(),
       sharding::replicated(kSequence), kNoState, kNoSizes},
      {"", "SequenceEmpty", 11, kNewestOpset, kAllTypes, lower_empty, work::list(),
       sharding::replicated(kSequence), kNoState, kNoSizes},
      {"", "SequenceErase", 11, kNewestOpset, kAllTypes, lower_erase, work::list(),
       sharding::replicated(kSequence), kNoState, kNoSizes},
      {"", "SequenceInsert", 11, kNewestOpset, kAllTypes, lower_insert, work::list(),
       sharding::replicated(kSequence), kNoState, kNoSizes},
      {"", "SequenceLength", 11, kNewestOpset, kAllTypes, lower_length, work::list(),
       sharding::replicated(kSequence), kNoState, kNoSizes},
      {"", "SplitToSequence", 11, kNewestOpset, kAllTypes, lower_sequence_split, work::list(),
       sharding::replicated(kSequence), kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
