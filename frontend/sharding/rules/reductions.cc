// Reductions: dimensions that stay pass. A reduced dimension leaves partial results if the reduction is a
// sum, a product, a maximum or a minimum. Where that is not enough, as for a softmax or the top of an axis,
// the local form gathers what the ranks have found.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "frontend/sharding/local.h"
#include "split/conversion_steps.h"

namespace braid::frontend::sharding {
namespace {

using ir::ReduceKind;

constexpr int kOneAxis = 13;  // softmax and its like normalise one axis since that operator set
constexpr const char* kNormalised = "normalised";

// nullopt: unknown while compiling.
std::optional<std::set<int>> reduced_axes(const NodeView& node) {
  const int rank = node.rank(0);
  const auto given = node.ints_of("axes", 1);
  if (!given && node.has_input(1)) return std::nullopt;
  std::set<int> axes;
  if (given && !given->empty()) {
    for (const std::int64_t a : *given) axes.insert(NodeView::axis(a, rank));
  } else if (node.int_attribute("noop_with_empty_axes", 0) == 0) {
    for (int d = 0; d < rank; ++d) axes.insert(d);
  }
  return axes;
}

// Letters of the dimensions: those kept pass to output `index`, reduced ones have `reduce`, if it is given.
Letters letters(const NodeView& node, const std::set<int>& axes, bool keep,
                std::optional<ReduceKind> reduce) {
  Letters result;
  int to = 0;
  for (int d = 0; d < node.rank(0); ++d) {
    const bool reduced = axes.count(d) > 0;
    const int own = to;
    if (!reduced || keep) ++to;
    if (reduced && !reduce) continue;
    std::optional<Letter> letter = letter_of(node.size(0, d), (reduced ? "r" : "d") + std::to_string(d));
    if (!letter) continue;
    letter->at = {in(0, d)};
    if (reduced) {
      letter->reduce = reduce;
    } else {
      letter->at.push_back(out(0, own));
    }
    result.push_back(std::move(*letter));
  }
  return result;
}

bool keeps(const NodeView& node) { return node.int_attribute("keepdims", 1) != 0; }

// Partial results of a sum to which a function of elements is applied first.
Factors partial_of_function(const NodeView& node, const Rule& rule) {
  const auto axes = reduced_axes(node);
  if (!axes) return {};
  return {letters(node, *axes, keeps(node), rule.reduce), {}};
}

// Partial results of the elements themselves: a pending input of the same reduction passes.
Factors partial(const NodeView& node, const Rule& rule) {
  if (!reduced_axes(node)) return {};
  Factors f = partial_of_function(node, rule);
  f.linear = {{{0}, {rule.reduce}}};
  return f;
}

// A function of the whole sum: only dimensions that stay.
Factors whole(const NodeView& node, const Rule&) {
  const auto axes = reduced_axes(node);
  if (!axes) return {};
  return {letters(node, *axes, keeps(node), std::nullopt), {}};
}

// Quotients of integers are rounded.
Factors mean(const NodeView& node, const Rule& rule) {
  return is_float(node.output(0).dtype) ? partial(node, rule) : whole(node, rule);
}

// The mean over a part is divided by the number of ranks: their sum is the mean over all.
void write_mean(LocalNode& local) {
  if (local.letter == nullptr || !local.letter->reduce) {
    local.emit();
    return;
  }
  const std::string result = local.outputs[0];
  local.outputs[0] = local.model.fresh(local.name("part"));
  local.emit();
  const std::string ranks = local.model.number(result + "/ranks", local.view.output(0).dtype, local.ranks());
  local.model.add_node("", "Div", {local.outputs[0], ranks}, {result});
}

// The letter of an axis along which each rank finds candidates; all ranks choose among them, so that the
// result is whole.
constexpr const char* kCandidates = "candidates";
constexpr int kGatherElements = 11;  // since that operator set

// With padding of the lowest value, which comes last. If small values come first, NaN would come after the
// padding, and integers have no value that is larger than all others.
void add_candidates(const NodeView& node, Factors& f, int axis, bool padded) {
  std::optional<Letter> letter = letter_of(node.size(0, axis), kCandidates);
  if (!letter || node.onnx_version() < kGatherElements || is_storage(node.input(0).dtype)) return;
  letter->at = {in(0, axis)};
  letter->blocked = false;
  letter->padded = padded;
  f.letters.push_back(std::move(*letter));
}

// No element is smaller.
double lowest(ir::DType type) {
  if (is_float(type)) return -std::numeric_limits<double>::infinity();
  const bool is_unsigned =
      type == ir::DType::u8 || type == ir::DType::u16 || type == ir::DType::u32 || type == ir::DType::u64;
  return is_unsigned ? 0 : -std::ldexp(1.0, static_cast<int>(8 * ir::size_of(type)) - 1);
}

bool has_candidates(const LocalNode& local) {
  return local.letter != nullptr && local.letter->name == kCandidates;
}

// Converts positions in this rank's part of the axis to positions in the whole axis, and gathers them from
// all ranks along it; also gathers `values`, the elements there.
struct Gathered {
  std::string values, positions;
};
Gathered gather_candidates(LocalNode& local, const std::string& values, const std::string& positions,
                           int axis) {
  LocalModel& m = local.model;
  std::vector<std::vector<std::int64_t>> firsts;
  for (int r = 0; r < local.ranks(); ++r) firsts.push_back({r * part_of(local.letter->size, local.ranks())});
  const std::string first = m.integers_of_rank(local.name("first"), ir::DType::i64, {}, firsts);
  const std::string whole = m.compute("Add", {positions, first}, local.name("whole_positions"));
  const auto all = [&](const std::string& own, const char* name) {
    std::string result = m.fresh(local.name(name));
    set_int(m.add_collective("AllGather", own, result), "axis", axis);
    return result;
  };
  return {all(values, "all_values"), all(whole, "all_positions")};
}

std::string elements_at(LocalNode& local, const std::string& data, const std::string& positions, int axis,
                        const char* name) {
  std::string result = local.model.fresh(local.name(name));
  set_int(local.model.add_node("", "GatherElements", {data, positions}, {result}), "axis", axis);
  return result;
}

std::vector<ConversionStep> gathering(const NodeView& node, const Strategy& strategy, std::int64_t count,
                                      int axis) {
  if (!strategy.inputs[0].is_split() || strategy.inputs[0].dim != axis) return {};
  std::int64_t rows = count;
  for (int d = 0; d < node.rank(0); ++d) {
    if (d != axis) rows *= ir::bounds(node.size(0, d)).max;
  }
  return {{StepKind::all_gather, rows * ir::size_of(node.input(0).dtype), node.input(0).dtype},
          {StepKind::all_gather, rows * ir::size_of(ir::DType::i64), ir::DType::i64}};
}

int axis_of(const NodeView& node, std::int64_t fallback) {
  return NodeView::axis(node.int_attribute("axis", fallback), node.rank(0));
}

Factors index_of_extreme(const NodeView& node, const Rule& rule) {
  const int axis = axis_of(node, 0);
  Factors f{letters(node, {axis}, keeps(node), std::nullopt), {}};
  // The last of several equal elements could be padding.
  const bool first = node.int_attribute("select_last_index", 0) == 0;
  add_candidates(node, f, axis, rule.reduce == ReduceKind::max && first);
  return f;
}

// Ranks have ascending positions: the first (last) rank with the extreme value has its first (last) position.
void write_index_of_extreme(LocalNode& local) {
  if (!has_candidates(local)) {
    local.emit();
    return;
  }
  LocalModel& m = local.model;
  const int axis = axis_of(local.view, 0);
  local.hide_padding(0, lowest(local.view.input(0).dtype));
  const std::string data = local.inputs[0], result = local.outputs[0];
  const auto position = [&](const std::string& of, const char* name) {
    local.inputs = {of};
    local.outputs = {m.fresh(result + "/" + name)};
    onnx::NodeProto& node = local.emit();
    node.set_name(local.outputs[0]);
    set_int(node, "keepdims", 1);
    return local.outputs[0];
  };
  const std::string own = position(data, "own");
  local.outputs = {result};
  const std::string values = elements_at(local, data, own, axis, "own_values");
  const Gathered all = gather_candidates(local, values, own, axis);
  const std::string rank = position(all.values, "rank");
  local.outputs = {result};
  if (keeps(local.view)) {
    set_int(m.add_node("", "GatherElements", {all.positions, rank}, {result}), "axis", axis);
  } else {
    m.squeeze(elements_at(local, all.positions, rank, axis, "position"), {axis}, result);
  }
}

std::vector<ConversionStep> one_candidate(const NodeView& node, const Strategy& strategy, int) {
  return gathering(node, strategy, 1, axis_of(node, 0));
}

// nullopt: unknown while compiling.
std::optional<std::int64_t> count_of_top(const NodeView& node) {
  constexpr int kCountIsAnInput = 10;
  if (node.version() < kCountIsAnInput) return node.int_attribute("k", 0);
  const auto known = node.known_ints(1);
  return known && known->size() == 1 ? std::optional(known->at(0)) : std::nullopt;
}

// Values and indices, both with the axis changed.
Factors top_k(const NodeView& node, const Rule&) {
  const int axis = axis_of(node, -1);
  Factors f{broadcast_letters(node, {0}, {axis}), {}};
  for (Letter& letter : f.letters) letter.at.push_back(out(1, letter.at[0].dim));
  if (count_of_top(node).value_or(0) > 0)
    add_candidates(node, f, axis, node.int_attribute("largest", 1) != 0);
  return f;
}

// Equal elements are ordered by their index: those of each rank are in that order, and ranks follow each
// other.
void write_top_k(LocalNode& local) {
  if (!has_candidates(local)) {
    local.emit();
    return;
  }
  LocalModel& m = local.model;
  const int axis = axis_of(local.view, -1);
  const std::int64_t count = *count_of_top(local.view);
  local.hide_padding(0, lowest(local.view.input(0).dtype));
  const std::string data = local.inputs[0], base = local.name("");
  std::vector<std::string> results = local.outputs;
  results.resize(2);
  const auto top = [&](const std::string& of, std::int64_t k, const std::string& values,
                       const std::string& indices) {
    local.inputs = {of};
    if (local.view.has_input(1)) local.inputs.push_back(m.integers(base + "k", ir::DType::i64, {1}, {k}));
    local.outputs = {values, indices};
    onnx::NodeProto& node = local.emit();
    node.set_name(values);
    if (!local.view.has_input(1)) set_int(node, "k", k);
  };
  const std::string own_values = m.fresh(base + "own_values"), own = m.fresh(base + "own");
  top(data, std::min(count, part_of(local.letter->size, local.ranks())), own_values, own);
  const Gathered all = gather_candidates(local, own_values, own, axis);
  const std::string chosen = m.fresh(base + "chosen");
  top(all.values, count, results[0].empty() ? m.fresh(base + "values") : results[0], chosen);
  if (!results[1].empty())
    set_int(m.add_node("", "GatherElements", {all.positions, chosen}, {results[1]}), "axis", axis);
}

std::vector<ConversionStep> top_candidates(const NodeView& node, const Strategy& strategy, int ranks) {
  const int axis = axis_of(node, -1);
  const auto size = static_size(node.size(0, axis));
  return gathering(node, strategy, std::min(count_of_top(node).value_or(1), size.value_or(ranks) / ranks),
                   axis);
}

// All dimensions but the axis, which is normalised as a whole.
Factors along_axis(const NodeView& node, const Rule&) {
  return {broadcast_letters(node, {0}, {axis_of(node, -1)}), {}};
}

// The axis is scanned.
Factors cumulative(const NodeView& node, const Rule&) {
  const auto axis = node.known_ints(1);
  if (!axis || axis->size() != 1) return {};
  return {broadcast_letters(node, {0}, {NodeView::axis(axis->at(0), node.rank(0))}), {}};
}

// All dimensions from the axis on, which older operator sets normalise together.
Factors from_axis(const NodeView& node) {
  std::set<int> whole;
  for (int d = axis_of(node, 1); d < node.rank(0); ++d) whole.insert(d);
  return {broadcast_letters(node, {0}, whole), {}};
}

Factors hardmax(const NodeView& node, const Rule& rule) {
  return node.version() < kOneAxis ? from_axis(node) : along_axis(node, rule);
}

// The axis too, since operator set 13: maxima and sums of the parts are reduced among the ranks.
Factors softmax(const NodeView& node, const Rule&) {
  if (node.version() < kOneAxis) return from_axis(node);
  Factors f = padded({broadcast_letters(node, {0}), {}});
  for (Letter& letter : f.letters) {
    if (letter.at[0].dim == axis_of(node, -1)) letter.name = kNormalised;
  }
  return f;
}

void write_normalised(LocalNode& local, bool logarithm) {
  if (local.letter == nullptr || local.letter->name != kNormalised) {
    local.emit();
    return;
  }
  LocalModel& m = local.model;
  const int axis = axis_of(local.view, -1);
  const ir::DType type = local.view.input(0).dtype;
  local.hide_padding(0, lowest(type));
  const bool narrow = ir::size_of(type) < ir::size_of(ir::DType::f32);
  const auto cast = [&](const std::string& from, ir::DType to, const std::string& result) {
    set_int(m.add_node("", "Cast", {from}, {result}), "to", onnx_type_of(to));
    return result;
  };
  const std::string x =
      narrow ? cast(local.inputs[0], ir::DType::f32, m.fresh(local.name("wide"))) : local.inputs[0];
  const auto over_all = [&](const std::string& of, const char* op, const char* kind) {
    const std::string own = m.fresh(local.name(kind)), all = m.fresh(local.name(std::string("all_") + kind));
    m.reduce(op, of, {axis}, own);
    set_string(m.add_collective("AllReduce", own, all), "reduce_op", kind);
    return all;
  };
  const auto compute = [&](const char* op, const std::vector<std::string>& inputs, const char* name) {
    return m.compute(op, inputs, local.name(name));
  };
  const std::string shifted = compute("Sub", {x, over_all(x, "ReduceMax", "max")}, "shifted");
  const std::string powers = compute("Exp", {shifted}, "powers");
  const std::string sum = over_all(powers, "ReduceSum", "sum");
  const std::string result = narrow ? m.fresh(local.name("result")) : local.outputs[0];
  if (logarithm) {
    m.add_node("", "Sub", {shifted, compute("Log", {sum}, "log")}, {result});
  } else {
    m.add_node("", "Div", {powers, sum}, {result});
  }
  if (narrow) cast(result, type, local.outputs[0]);
}

void write_softmax(LocalNode& local) { write_normalised(local, false); }
void write_log_softmax(LocalNode& local) { write_normalised(local, true); }

std::vector<ConversionStep> two_of_each_row(const NodeView& node, const Strategy& strategy, int) {
  const int axis = axis_of(node, -1);
  if (!strategy.inputs[0].is_split() || strategy.inputs[0].dim != axis) return {};
  std::int64_t rows = 1;
  for (int d = 0; d < node.rank(0); ++d) {
    if (d != axis) rows *= ir::bounds(node.size(0, d)).max;
  }
  const ConversionStep step = {StepKind::all_reduce, rows * ir::size_of(ir::DType::f32), ir::DType::f32};
  return {step, step};
}

// Sums over spatial dimensions: batch and channels pass.
Factors batch_and_channels(const NodeView& node, const Rule&) {
  std::set<int> spatial;
  for (int d = 2; d < node.rank(0); ++d) spatial.insert(d);
  return {broadcast_letters(node, {0}, spatial), {}};
}

// Batches of signals: every element depends on the whole of its axis, and the last axis has the parts of
// complex numbers.
Factors transform(const NodeView& node, const Rule&) {
  constexpr int kAxisIsAnInput = 20;
  const int rank = node.rank(0);
  std::int64_t axis = node.version() < kAxisIsAnInput ? node.int_attribute("axis", 1) : -2;
  if (node.has_input(2)) {
    const auto given = node.known_ints(2);
    if (!given || given->size() != 1) return {};
    axis = given->at(0);
  }
  return {broadcast_letters(node, {0}, {NodeView::axis(axis, rank), rank - 1}), {}};
}

// Signals are cut into frames, so only batches pass.
Factors short_transform(const NodeView& node, const Rule&) {
  Factors f;
  if (std::optional<Letter> batch = letter_of(node.size(0, 0), "batch")) {
    batch->at = {in(0, 0), out(0, 0)};
    f.letters.push_back(std::move(*batch));
  }
  return f;
}

// Determinants of the last two dimensions.
Factors determinants(const NodeView& node, const Rule&) {
  const int rank = node.rank(0);
  return {letters(node, {rank - 2, rank - 1}, false, std::nullopt), {}};
}

constexpr const char* kMixes = "every element depends on all of its axis";
constexpr const char* kWhole =
    "a reduced dimension stays whole: a function is applied to the whole sum (spell the operator out to "
    "split it)";
constexpr const char* kAxis = "the axis stays whole";

}  // namespace

namespace rule {
constexpr Rule kArgMax = {index_of_extreme, Pending::none, write_index_of_extreme, "",
                          ReduceKind::max,  one_candidate};
constexpr Rule kArgMin = {index_of_extreme, Pending::none, write_index_of_extreme, "",
                          ReduceKind::min,  one_candidate};
constexpr Rule kCumulative = {cumulative, Pending::none, nullptr, kAxis};
constexpr Rule kDeterminant = {determinants, Pending::none, nullptr,
                               "a determinant depends on the whole matrix"};
constexpr Rule kFourier = {transform, Pending::none, nullptr, kMixes};
constexpr Rule kFunctionOfSum = {whole, Pending::none, nullptr, kWhole};
constexpr Rule kGlobalPool = {batch_and_channels};
constexpr Rule kHardmax = {hardmax, Pending::none, nullptr, kAxis};
constexpr Rule kLogSoftmax = {softmax, Pending::none,   write_log_softmax,
                              "",      ReduceKind::sum, two_of_each_row};
constexpr Rule kLpNormalization = {along_axis, Pending::none, nullptr, kAxis};
constexpr Rule kReduceMax = {partial, Pending::none, nullptr, "", ReduceKind::max};
constexpr Rule kReduceMean = {mean, Pending::none, write_mean};
constexpr Rule kReduceMin = {partial, Pending::none, nullptr, "", ReduceKind::min};
constexpr Rule kReduceProd = {partial, Pending::none, nullptr, "", ReduceKind::prod};
constexpr Rule kReduceSum = {partial};
constexpr Rule kShortFourier = {short_transform, Pending::none, nullptr, kMixes};
constexpr Rule kSoftmax = {softmax, Pending::none, write_softmax, "", ReduceKind::sum, two_of_each_row};
constexpr Rule kSumOfFunction = {partial_of_function};
constexpr Rule kTopK = {top_k, Pending::none, write_top_k, "", ReduceKind::max, top_candidates};
}  // namespace rule

}  // namespace braid::frontend::sharding
