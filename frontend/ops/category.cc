// Operators of ai.onnx.ml for categories that are numbers: LabelEncoder and OneHotEncoder. Strings as results
// are positions in their table (frontend/string_labels.h).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "frontend/ops/constant_input.h"
#include "frontend/ops/real.h"
#include "ir/element.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr TypeSet kCategories = {DType::f32, DType::f64, DType::i16, DType::i32, DType::i64};

// The tensor NAME_tensor, or one of the lists NAME_int64s and NAME_floats. A list of strings stands for the
// positions of its elements.
std::optional<Tensor> one_of_lists(OpContext& c, const std::string& name) {
  if (std::optional<Tensor> tensor = c.tensor_attribute((name + "_tensor").c_str())) return tensor;
  if (const auto ints = c.ints_attribute((name + "_int64s").c_str()); ints && !ints->empty())
    return integer_tensor(DType::i64, {static_cast<std::int64_t>(ints->size())}, *ints);
  if (const auto floats = c.floats_attribute((name + "_floats").c_str()); floats && !floats->empty())
    return float_tensor({static_cast<std::int64_t>(floats->size())}, *floats);
  return std::nullopt;
}

std::vector<std::string> string_values(OpContext& c) {
  const char* name = c.version() == 1 ? "classes_strings" : "values_strings";
  return c.strings_attribute(name).value_or(std::vector<std::string>());
}

// Keys, and a value for each of them and one more, which all other inputs get.
struct Encoding {
  Tensor keys;
  std::vector<ir::Literal> values;
  DType type = DType::i64;  // of the values
};

ir::Literal default_value(OpContext& c, DType type) {
  if (const std::optional<Tensor> given = c.tensor_attribute("default_tensor")) {
    if (given->dtype != type || given->count() != 1)
      c.fail(errors::kTypeMismatch,
             "attribute 'default_tensor' is not one element of the type of the values");
    return literal_at(*given, 0);
  }
  if (is_float(type)) return double{c.float_attribute("default_float", -0.0F)};
  return c.int_attribute("default_int64", -1);
}

Encoding encoding_of(OpContext& c) {
  Encoding e;
  const std::vector<std::string> strings = string_values(c);
  if (c.version() == 1) {  // positions in a list of strings
    std::vector<std::int64_t> keys(strings.size());
    for (std::size_t k = 0; k < keys.size(); ++k) keys[k] = static_cast<std::int64_t>(k);
    e.keys = integer_tensor(DType::i64, {static_cast<std::int64_t>(keys.size())}, keys);
  } else if (std::optional<Tensor> keys = one_of_lists(c, "keys")) {
    e.keys = std::move(*keys);
  } else {
    c.fail(errors::kInvalidAttribute, "there are no keys that are numbers");
  }
  if (std::optional<Tensor> values = one_of_lists(c, "values")) {
    e.type = values->dtype;
    for (std::int64_t k = 0; k < values->count(); ++k) e.values.push_back(literal_at(*values, k));
    e.values.push_back(default_value(c, e.type));
  } else {
    for (std::size_t k = 0; k <= strings.size(); ++k) e.values.emplace_back(static_cast<std::int64_t>(k));
  }
  if (static_cast<std::int64_t>(e.values.size()) != e.keys.count() + 1)
    c.fail(errors::kInvalidAttribute,
           fmt::format("there are {} keys and {} values", e.keys.count(), e.values.size() - 1));
  if (e.keys.dtype != c.dtype(0))
    c.fail(errors::kTypeMismatch,
           fmt::format("keys are {}, and the input is {}", to_string(e.keys.dtype), to_string(c.dtype(0))));
  return e;
}

TensorBox table_of(OpContext& c, const Encoding& e, const std::vector<std::size_t>& order) {
  std::vector<std::byte> bytes(order.size() * static_cast<std::size_t>(size_of(e.type)));
  for (std::size_t k = 0; k < order.size(); ++k)
    ir::write_element(e.type, bytes.data() + k * static_cast<std::size_t>(size_of(e.type)),
                      e.values[order[k]]);
  return c.lowering().constant(c.op_type() + "_values", e.type, {static_cast<std::int64_t>(order.size())},
                               ir::own_bytes(std::move(bytes)));
}

// Integer keys that lie close together: the smallest, and for each integer up to the largest its value.
struct DenseKeys {
  std::int64_t first = 0;
  std::vector<std::size_t> values;  // and one more for the default
};

std::optional<DenseKeys> dense_keys(const Encoding& e) {
  constexpr std::int64_t kFew = 1024, kSpread = 4;
  const std::int64_t count = e.keys.count();
  if (is_float(e.keys.dtype) || count == 0) return std::nullopt;
  std::int64_t least = std::numeric_limits<std::int64_t>::max(),
               most = std::numeric_limits<std::int64_t>::min();
  for (std::int64_t k = 0; k < count; ++k) {
    least = std::min(least, integer_at(e.keys, k));
    most = std::max(most, integer_at(e.keys, k));
  }
  const auto range = static_cast<std::uint64_t>(most) - static_cast<std::uint64_t>(least);
  if (range > static_cast<std::uint64_t>(kSpread * count + kFew)) return std::nullopt;
  DenseKeys dense{least, std::vector<std::size_t>(range + 2, static_cast<std::size_t>(count))};
  for (std::int64_t k = 0; k < count; ++k)
    dense.values[static_cast<std::size_t>(integer_at(e.keys, k) - least)] = static_cast<std::size_t>(k);
  return dense;
}

TensorBox looked_up(OpContext& c, const Encoding& e, const DenseKeys& dense) {
  ir::Lowering& l = c.lowering();
  const TensorBox table = table_of(c, e, dense.values);
  const auto last = static_cast<std::int64_t>(dense.values.size()) - 1;
  return l.generate(c.sizes(0), [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId key = b.cast(l.load(b, c.input(0), at), DType::i64);
    const auto whole = [&](std::int64_t value) { return b.constant(DType::i64, value); };
    const ValueId above = b.binary(OpCode::ge, key, whole(dense.first));
    const ValueId below = b.binary(OpCode::lt, key, whole(dense.first + last));
    const ValueId place = b.where(b.binary(OpCode::logical_and, above, below),
                                  b.binary(OpCode::sub, key, whole(dense.first)), whole(last));
    return l.load(b, table, std::array<Expr, 1>{b.as_index(place)});
  });
}

// The last position of each element among the keys, or -1. NaN equals NaN.
TensorBox last_position(ir::Lowering& l, const TensorBox& x, const TensorBox& keys) {
  std::vector<Expr> sizes = x.sizes();
  sizes.push_back(keys.sizes()[0]);
  const TensorBox matches = l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId element = l.load(b, x, at.first(at.size() - 1)), key = l.load(b, keys, at.last(1));
    ValueId equal = b.binary(OpCode::eq, element, key);
    if (is_float(x.dtype())) {
      const ValueId missing =
          b.binary(OpCode::logical_and, b.unary(OpCode::is_nan, element), b.unary(OpCode::is_nan, key));
      equal = b.binary(OpCode::logical_or, equal, missing);
    }
    return b.where(equal, b.index(at.back()), b.constant(DType::i64, std::int64_t{-1}));
  });
  return l.reduce(matches, ir::ReduceKind::max, {static_cast<int>(x.rank())}, false);
}

TensorBox compared(OpContext& c, const Encoding& e) {
  ir::Lowering& l = c.lowering();
  const std::int64_t count = e.keys.count();
  const TensorBox keys = l.constant(c.op_type() + "_keys", e.keys.dtype, {count}, e.keys.data);
  std::vector<std::size_t> order;  // the default first: position -1
  for (std::size_t k = 0; k <= static_cast<std::size_t>(count); ++k)
    order.push_back(k == 0 ? static_cast<std::size_t>(count) : k - 1);
  const TensorBox table = table_of(c, e, order), position = last_position(l, c.input(0), keys);
  return l.generate(c.sizes(0), [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId place =
        b.binary(OpCode::add, l.load(b, position, at), b.constant(DType::i64, std::int64_t{1}));
    return l.load(b, table, std::array<Expr, 1>{b.as_index(place)});
  });
}

void lower_label_encoder(OpContext& c) {
  const Encoding e = encoding_of(c);
  const std::optional<DenseKeys> dense = dense_keys(e);
  c.set_output(0, dense ? looked_up(c, e, *dense) : compared(c, e));
}

// If categories are equal, the last one counts.
void lower_one_hot_encoder(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::vector<std::int64_t> categories =
      c.ints_attribute("cats_int64s").value_or(std::vector<std::int64_t>());
  if (categories.empty()) c.fail(errors::kInvalidAttribute, "there are no categories that are numbers");
  const auto count = static_cast<std::int64_t>(categories.size());
  const TensorBox all = l.constant(c.op_type() + "_categories", DType::i64, {count},
                                   integer_tensor(DType::i64, {count}, categories).data);
  const TensorBox position = last_position(l, l.cast(c.input(0), DType::i64), all);
  l.mark_reuse(position, 2);
  const bool must_be_known = c.int_attribute("zeros", 1) == 0;
  std::vector<Expr> sizes = c.sizes(0);
  sizes.emplace_back(count);
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    ValueId own = l.load(b, position, at.first(at.size() - 1));
    if (must_be_known) own = b.check_index(own, count);
    const ValueId hit = b.binary(OpCode::eq, own, b.index(at.back()));
    return b.where(hit, b.constant_of(DType::f32, 1), b.constant_of(DType::f32, 0));
  }));
}

double comparisons(const WorkNode& node, const Work& work) {
  const auto keys = [&](const char* name) { return static_cast<double>(node.ints_attribute(name).size()); };
  return work.each * node.input(0).elements() * std::max(1.0, keys("cats_int64s"));
}

}  // namespace

std::span<const OpSpec> category_ops() {
  static constexpr const char* kSmall = "categories are small next to what reads them";
  static const OpSpec ops[] = {
      {kMlDomain, "LabelEncoder", 1, kNewestMl, kCategories, lower_label_encoder, work::gather(6),
       sharding::replicated(kSmall), kNoState, kNoSizes},
      {kMlDomain, "OneHotEncoder", 1, kNewestMl, kCategories, lower_one_hot_encoder,
       Work(WorkKind::pointwise, comparisons, 5), sharding::replicated(kSmall), kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
