#include "frontend/work.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

namespace braid::frontend {

const onnx::AttributeProto* WorkNode::attribute(const char* name) const {
  const auto& all = proto->attribute();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.name() == name; });
  return found == all.end() ? nullptr : &*found;
}

std::int64_t WorkNode::int_attribute(const char* name, std::int64_t fallback) const {
  const onnx::AttributeProto* found = attribute(name);
  return found == nullptr ? fallback : found->i();
}

std::string WorkNode::string_attribute(const char* name, const char* fallback) const {
  const onnx::AttributeProto* found = attribute(name);
  return found == nullptr ? fallback : found->s();
}

std::vector<std::int64_t> WorkNode::ints_attribute(const char* name) const {
  const onnx::AttributeProto* found = attribute(name);
  if (found == nullptr) return {};
  return {found->ints().begin(), found->ints().end()};
}

namespace work {

namespace {

constexpr double kDear = 10;  // flops of a division or a transcendental function
constexpr double kFloat = 4;  // bytes

// The axis is an attribute before this version and input k from it on.
int axis_of(const WorkNode& node, int input, std::int64_t fallback) {
  const WorkOperand& given = node.input(input);
  return static_cast<int>(given.ints.size() == 1 ? given.ints[0] : node.int_attribute("axis", fallback));
}

}  // namespace

double per_result(const WorkNode& node, const Work& work) { return work.each * node.largest_result(); }

double per_input(const WorkNode& node, const Work& work) { return work.each * node.input(work.a).elements(); }

double variadic_flops(const WorkNode& node, const Work& work) {
  return per_result(node, work) * std::max(static_cast<double>(node.inputs.size()) - 1, 0.0);
}

// ---- products

// FusedMatMul may move the first axis of an operand before its last one and then swap the last two.
double product_flops(const WorkNode& node, const Work& work) {
  const WorkOperand& a = node.input(work.a);
  int inner = -1;
  if (a.rank() >= 2 && node.int_attribute("transA", 0) != 0)
    inner = a.rank() >= 3 && node.int_attribute("transBatchA", 0) != 0 ? 0 : -2;
  return 2 * node.output(0).elements() * a.size(inner);
}

namespace {

// The letters of a term; the axes of an ellipsis are negative numbers, -1 the last one.
std::vector<int> letters_of(const std::string& term, int rank) {
  std::vector<int> letters;
  const auto named = static_cast<int>(
      std::count_if(term.begin(), term.end(), [](unsigned char c) { return std::isalpha(c); }));
  for (std::size_t k = 0; k < term.size(); ++k) {
    if (term.compare(k, 3, "...") == 0) {
      for (int d = rank - named; d > 0; --d) letters.push_back(-d);
      k += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[k]))) {
      letters.push_back(term[k]);
    }
  }
  return letters;
}

struct Equation {
  std::vector<std::vector<int>> terms;
  std::set<int> result;
  std::map<int, double> sizes;

  double points(const std::set<int>& letters) const {
    double product = 1;
    for (const int letter : letters) product *= sizes.at(letter);
    return product;
  }
};

Equation equation_of(const WorkNode& node) {
  std::string text = node.string_attribute("equation", "");
  std::erase(text, ' ');
  Equation equation;
  const std::size_t arrow = text.find("->");
  std::map<int, int> occurrences;
  std::size_t begin = 0;
  for (const WorkOperand& input : node.inputs) {
    const std::size_t end = std::min(text.find(',', begin), std::min(arrow, text.size()));
    const std::vector<int>& letters = equation.terms.emplace_back(
        begin < end ? letters_of(text.substr(begin, end - begin), input.rank()) : std::vector<int>());
    for (std::size_t k = 0; k < letters.size(); ++k) {
      double& size = equation.sizes[letters[k]];
      size = std::max(size, input.size(static_cast<int>(k)));
      ++occurrences[letters[k]];
    }
    begin = end + 1;
  }
  if (arrow != std::string::npos) {
    for (const int letter : letters_of(text.substr(arrow + 2), node.output(0).rank())) {
      equation.sizes.try_emplace(letter, 1);
      equation.result.insert(letter);
    }
  } else {
    for (const auto& [letter, times] : occurrences)
      if (letter < 0 || times == 1) equation.result.insert(letter);
  }
  return equation;
}

}  // namespace

// Operands are taken from left to right: each pair is one product over the letters that both have and that
// neither a later operand nor the result needs.
double einsum_flops(const WorkNode& node, const Work&) {
  const Equation equation = equation_of(node);
  if (equation.terms.empty()) return 0;
  double flops = 0;
  std::set<int> have(equation.terms[0].begin(), equation.terms[0].end());
  // Sums over the letters that are not needed.
  const auto sum = [&](std::set<int>& letters, const std::set<int>& needed) {
    const double before = equation.points(letters);
    if (std::erase_if(letters, [&](int letter) { return !needed.contains(letter); }) > 0) flops += before;
  };
  for (std::size_t k = 1; k < equation.terms.size(); ++k) {
    std::set<int> next(equation.terms[k].begin(), equation.terms[k].end()), needed = equation.result;
    for (std::size_t j = k + 1; j < equation.terms.size(); ++j)
      needed.insert(equation.terms[j].begin(), equation.terms[j].end());
    const auto with = [&](const std::set<int>& others) {
      std::set<int> all = needed;
      all.insert(others.begin(), others.end());
      return all;
    };
    sum(have, with(next));
    sum(next, with(have));
    std::set<int> all = have, left;
    all.insert(next.begin(), next.end());
    for (const int letter : all)
      if (needed.contains(letter) || !have.contains(letter) || !next.contains(letter)) left.insert(letter);
    flops += (left.size() < all.size() ? 2 : 1) * equation.points(all);
    have = std::move(left);
  }
  sum(have, equation.result);
  return flops;
}

double transform_flops(const WorkNode& node, const Work&) {
  const WorkOperand& x = node.input(0);
  const int axis = axis_of(node, 2, node.version < 20 ? 1 : -2);
  return 2 * node.output(0).elements() * x.size(axis) * x.size(-1);
}

namespace {

// Points of a frame of STFT, each of as many parts as the signal has.
double frame_of(const WorkNode& node) {
  const WorkOperand &x = node.input(0), &window = node.input(2), &length = node.input(3);
  const double points = length.ints.size() == 1 ? static_cast<double>(length.ints[0])
                        : window.present        ? window.size(0)
                                                : x.size(1);
  return points * x.size(-1);
}

}  // namespace

double short_transform_flops(const WorkNode& node, const Work&) {
  const WorkOperand& y = node.output(0);
  const double windowed = node.input(2).present ? y.size(0) * y.size(1) * frame_of(node) : 0;
  return 2 * y.elements() * frame_of(node) + windowed;
}

double convolution_flops(const WorkNode& node, const Work& work) {
  const WorkOperand& filters = node.input(work.b);
  return 2 * node.output(0).elements() * filters.elements() / std::max(filters.size(0), 1.0);
}

// Each element of the input meets all filters of its channel.
double transposed_convolution_flops(const WorkNode& node, const Work& work) {
  const WorkOperand& filters = node.input(work.b);
  return 2 * node.input(work.a).elements() * filters.elements() / std::max(filters.size(0), 1.0);
}

namespace {

// Elements of the columns with which a deformable convolution multiplies.
double sampled_columns(const WorkNode& node, const Work& work) {
  const WorkOperand& filters = node.input(work.b);
  return node.output(0).elements() / std::max(filters.size(0), 1.0) * node.input(work.a).size(1) *
         filters.size(2) * filters.size(3);
}

}  // namespace

// Columns are sampled linearly from four neighbours.
double deformable_convolution_flops(const WorkNode& node, const Work& work) {
  constexpr double kFlopsPerSample = 35;
  return convolution_flops(node, work) + kFlopsPerSample * sampled_columns(node, work);
}

double causal_convolution_flops(const WorkNode& node, const Work& work) {
  constexpr double kFlopsPerTap = 4;
  return kFlopsPerTap * node.output(0).elements() * node.input(work.b).size(2);
}

// ---- attention

namespace {

// [batch, length, columns], [batch, heads, length, size] or, packed, [batch, length, heads, parts, size].
double length_of(const WorkOperand& x) { return x.size(x.rank() == 4 ? 2 : 1); }
double columns_of(const WorkOperand& x) {
  if (x.rank() == 4) return x.size(1) * x.size(3);
  return x.rank() == 5 ? x.size(2) * x.size(4) : x.size(-1);
}
// For a cache [batch, heads, length, size], or for keys and values together, [2, batch, heads, length, size].
double cached(const WorkOperand& cache) { return cache.rank() < 4 ? 0 : cache.size(-2); }

}  // namespace

double attention_flops(const WorkNode& node, const Work& work) {
  const AttentionInputs& inputs = work.attends;
  const WorkOperand &query = node.input(work.a), &key = node.input(work.b), &y = node.output(0),
                    &past = node.input(inputs.past), &present = node.output(1);
  const double queries = length_of(query), own = key.present ? length_of(key) : queries;
  const bool by_present = past.present && present.rank() == past.rank();
  const double keys = by_present ? cached(present) : own + cached(past);
  double values = columns_of(y), scores = key.present ? columns_of(query) : values;
  double flops = 0;
  if (inputs.weights >= 0) {
    const double columns = node.input(inputs.weights).size(-1);
    scores = (columns - values) / 2;
    flops = 2 * query.elements() * columns;
  }
  double pairs = queries * keys;
  const bool causal =
      inputs.causal != nullptr && node.int_attribute(inputs.causal, inputs.causal_unless_said ? 1 : 0) != 0;
  // If the cache has room, its fill decides at run time which keys are seen.
  const bool grows = !past.present || keys >= own + cached(past);
  const double first = past.present ? keys - own : 0;
  if (causal && grows) {
    const double rising = std::clamp(keys - first, 0.0, queries);  // queries that do not see all keys
    pairs = rising * first + rising * (rising + 1) / 2 + (queries - rising) * keys;
  }
  const auto window =
      static_cast<double>(inputs.window == nullptr ? -1 : node.int_attribute(inputs.window, -1));
  if (window >= 0) pairs = std::min(pairs, queries * (window + 1));
  return flops + 2 * query.size(0) * pairs * (scores + values);
}

// The weights are [directions, gates * hidden, inputs], or transposed; each step multiplies with all of them.
double recurrence_flops(const WorkNode& node, const Work&) {
  const WorkOperand &x = node.input(0), &weights = node.input(1), &recurrent = node.input(2);
  return 2 * x.size(0) * x.size(1) * (weights.elements() + recurrent.elements());
}

// ---- windows

double pool_flops(const WorkNode& node, const Work& work) {
  double taps = 1;
  for (const std::int64_t size : node.ints_attribute("kernel_shape")) taps *= static_cast<double>(size);
  return work.each * node.results() * taps;
}

double channel_window_flops(const WorkNode& node, const Work& work) {
  constexpr double kFlopsPerTap = 5, kFlopsPerElement = 2 + 2 * kDear;
  const WorkOperand& x = node.input(work.a);
  const double window =
      std::min(static_cast<double>(node.int_attribute("size", 1)), std::max(2 * x.size(1) - 1, 1.0));
  return x.elements() * (kFlopsPerTap * window + kFlopsPerElement);
}

double column_flops(const WorkNode& node, const Work&) {
  constexpr double kFlopsPerTap = 8;
  double taps = 1;
  for (const std::int64_t size : node.input(2).ints) taps *= static_cast<double>(size);
  return kFlopsPerTap * node.output(0).elements() * taps;
}

// As the kernel says (codegen/kernels/roi_align.cc): four samples where the regions decide their number.
double region_flops(const WorkNode& node, const Work&) {
  constexpr double kFlopsPerSample = 24;
  const auto ratio = static_cast<double>(node.int_attribute("sampling_ratio", 0));
  return node.output(0).elements() * kFlopsPerSample * (ratio > 0 ? ratio * ratio : 4);
}

namespace {

// The computation for one axis of a resized image, after all axes before it.
struct ResizedAxis {
  double elements, taps;
};
std::vector<ResizedAxis> resized_axes(const WorkNode& node) {
  const WorkOperand &x = node.input(0), &y = node.output(0);
  const double reach = node.string_attribute("mode", "nearest") == "linear" ? 1 : 2;
  const bool smooth = node.int_attribute("antialias", 0) != 0;
  std::vector<ResizedAxis> axes;
  double elements = x.elements();
  for (int d = 0; d < y.rank(); ++d) {
    if (x.size(d) == y.size(d) || x.size(d) == 0) continue;
    elements *= y.size(d) / x.size(d);
    const double stretch = smooth ? std::max(x.size(d) / std::max(y.size(d), 1.0), 1.0) : 1;
    axes.push_back({elements, 2 * std::ceil(reach * stretch)});
  }
  return axes;
}
// A linear sum of two neighbours is computed again by each reader of the next axis.
bool is_recomputed(const WorkNode& node) {
  return node.string_attribute("mode", "nearest") == "linear" && node.int_attribute("antialias", 0) == 0;
}

}  // namespace

double resize_flops(const WorkNode& node, const Work&) {
  if (node.string_attribute("mode", "nearest") == "nearest") return 0;
  double flops = 0, each = 0;
  for (const ResizedAxis& axis : resized_axes(node)) {
    each = 3 + 2 * each;
    flops += axis.elements * (2 * axis.taps - (axis.taps <= 4 ? 1 : 0));
  }
  return is_recomputed(node) ? node.output(0).elements() * each : flops;
}

double resize_bytes(const WorkNode& node, const Work&) {
  if (node.string_attribute("mode", "nearest") == "nearest" || is_recomputed(node)) return 0;
  double elements = 0;
  for (const ResizedAxis& axis : resized_axes(node)) elements += axis.elements;
  return 2 * kFloat * std::max(elements - node.output(0).elements(), 0.0);
}

double sample_flops(const WorkNode& node, const Work&) {
  const WorkOperand& y = node.output(0);
  const std::string mode = node.string_attribute("mode", "linear");
  const double neighbours = mode == "nearest" ? 1 : mode.ends_with("cubic") ? 4 : 2;
  const int axes = std::max(y.rank() - 2, 1);
  constexpr double kFlopsPerAxis = 3, kFlopsPerNeighbour = 3;
  return y.elements() *
         (axes * (kFlopsPerAxis + kFlopsPerNeighbour * neighbours) + 2 * std::pow(neighbours, axes));
}

// ---- folds

double best_flops(const WorkNode& node, const Work& work) {
  const WorkOperand& x = node.input(work.a);
  const int axis = static_cast<int>(node.int_attribute("axis", -1));
  const WorkOperand& y = node.output(0).present ? node.output(0) : node.output(1);
  return x.elements() * std::log2(std::max(y.size(axis), 2.0));
}

double draw_flops(const WorkNode& node, const Work& work) {
  const WorkOperand& x = node.input(work.a);
  constexpr double kFlopsPerWeight = 14, kFlopsPerDraw = 20;
  return x.elements() *
         (kFlopsPerWeight + kFlopsPerDraw * static_cast<double>(node.int_attribute("sample_size", 1)));
}

// Expanded along the rows: a product and a sum for each column of each set of columns.
double determinant_flops(const WorkNode& node, const Work& work) {
  const double n = node.input(work.a).size(-1);
  return node.output(0).elements() * 2.3 * n * std::exp2(std::max(n - 1, 0.0));
}

// ---- trees

namespace {

struct Trees {
  double trees = 1, nodes = 0, weights = 0;
};

// The features that some node reads.
double features_of(const WorkNode& node) {
  const std::vector<std::int64_t> ids = node.ints_attribute("nodes_featureids");
  return static_cast<double>(std::set<std::int64_t>(ids.begin(), ids.end()).size());
}

Trees trees_of(const WorkNode& node) {
  const auto count = [&](const char* name) { return static_cast<double>(node.ints_attribute(name).size()); };
  if (const double roots = count("tree_roots"); roots > 0)
    return {roots, count("nodes_featureids") + count("leaf_targetids"), count("leaf_targetids")};
  const std::vector<std::int64_t> ids = node.ints_attribute("nodes_treeids");
  double trees = 1;
  for (std::size_t k = 1; k < ids.size(); ++k) trees += ids[k] != ids[k - 1] ? 1 : 0;
  return {trees, static_cast<double>(ids.size()), count("target_ids") + count("class_ids")};
}

}  // namespace

double tree_flops(const WorkNode& node, const Work& work) {
  constexpr double kFlopsPerKey = 5;
  const WorkOperand& x = node.input(work.a);
  const Trees trees = trees_of(node);
  const double rows = x.rank() < 2 ? 1 : x.size(0);
  return kFlopsPerKey * rows * features_of(node) +
         2 * rows * trees.trees * std::log2(std::max(2.0, trees.nodes / trees.trees));
}

double tree_key_bytes(const WorkNode& node, const Work& work) {
  const WorkOperand& x = node.input(work.a);
  const double keys = (x.rank() < 2 ? 1 : x.size(0)) * features_of(node);
  return 2 * kFloat * (keys + node.output(0).elements());
}

double tree_table_bytes(const WorkNode& node, const Work&) {
  constexpr double kNode = 16, kTree = 16;
  const Trees trees = trees_of(node);
  return kNode * trees.nodes + kTree * trees.trees + kFloat * trees.weights;
}

// ---- coefficients that are attributes

namespace {

double list_length(const WorkNode& node, const char* name) {
  const onnx::AttributeProto* found = node.attribute(name);
  return found == nullptr ? 0 : static_cast<double>(found->floats_size());
}

}  // namespace

double attribute_product_flops(const WorkNode& node, const Work& work) {
  const WorkOperand& x = node.input(work.a);
  const double rows = x.rank() < 2 ? 1 : x.size(0);
  return rows * (2 * list_length(node, "coefficients") + 3 * list_length(node, "support_vectors"));
}

// Rows, their products with support vectors, and kernels of these, most of them in double precision.
double vector_kernel_bytes(const WorkNode& node, const Work& work) {
  if (list_length(node, "support_vectors") == 0) return 0;
  const WorkOperand& x = node.input(work.a);
  const double kernels = (x.rank() < 2 ? 1 : x.size(0)) * list_length(node, "coefficients");
  return 4 * kFloat * x.elements() + 8 * kFloat * kernels;
}

double attribute_product_bytes(const WorkNode& node, const Work&) {
  return kFloat * (list_length(node, "coefficients") + list_length(node, "support_vectors"));
}

// ---- writes

namespace {

bool combines(const WorkNode& node) { return node.string_attribute("reduction", "none") != "none"; }

}  // namespace

// The position of each update is computed from the indices and checked.
double scatter_flops(const WorkNode& node, const Work& work) {
  constexpr double kFlopsPerIndex = 6;
  const double indices = kFlopsPerIndex * node.input(work.a).elements();
  return combines(node) ? indices + node.input(work.b).elements() : indices;
}

// ---- bytes between the kernels of one node, which write and read them

// The axis of a transform is moved to the end and back.
double transform_bytes(const WorkNode& node, const Work&) {
  const WorkOperand &x = node.input(0), &y = node.output(0);
  const int axis = axis_of(node, 2, node.version < 20 ? 1 : -2);
  const bool moved = (axis < 0 ? axis + x.rank() : axis) != x.rank() - 2;
  return moved ? 2 * kFloat * (x.elements() + y.elements()) : 0;
}

double transform_table_bytes(const WorkNode& node, const Work&) {
  const WorkOperand &x = node.input(0), &y = node.output(0);
  const int axis = axis_of(node, 2, node.version < 20 ? 1 : -2);
  return kFloat * x.size(axis) * x.size(-1) * y.size(axis) * y.size(-1);
}

double short_transform_bytes(const WorkNode& node, const Work&) {
  const WorkOperand& y = node.output(0);
  return 2 * kFloat * y.size(0) * y.size(1) * frame_of(node);
}

double short_transform_table_bytes(const WorkNode& node, const Work&) {
  const WorkOperand& y = node.output(0);
  return kFloat * frame_of(node) * y.size(2) * y.size(3);
}

double sampled_column_bytes(const WorkNode& node, const Work& work) {
  return 2 * kFloat * sampled_columns(node, work);
}

// Queries, keys and values that are the columns of one product are divided first. The new contents of a cache
// are read again.
double attention_bytes(const WorkNode& node, const Work& work) {
  const WorkOperand& query = node.input(work.a);
  double elements = node.output(1).elements() + node.output(2).elements();
  if (work.attends.weights >= 0)
    elements += 4 * query.size(0) * query.size(1) * node.input(work.attends.weights).size(-1);
  if (query.rank() == 5) elements += 2 * query.elements();
  return kFloat * elements;
}

// Integers become wider, and scores are written and read by the steps of the softmax.
double spelled_attention_bytes(const WorkNode& node, const Work& work) {
  constexpr double kScoreUses = 6;
  const WorkOperand &query = node.input(work.a), &weights = node.input(work.attends.weights);
  const auto heads = static_cast<double>(node.int_attribute("num_heads", 1));
  const double tokens = query.size(0) * query.size(1);
  const double scores = tokens * heads * (query.size(1) + cached(node.input(work.attends.past)));
  return 2 * kFloat * (query.elements() + weights.elements() + tokens * weights.size(-1)) +
         kScoreUses * kFloat * scores + kFloat * node.output(1).elements();
}

// Both factors are made wider.
double widened_bytes(const WorkNode& node, const Work& work) {
  return 2 * kFloat * (node.input(work.a).elements() + node.input(work.b).elements());
}

double widened_pool_bytes(const WorkNode& node, const Work&) {
  return 2 * kFloat * (node.input(0).elements() + node.output(0).elements());
}

// Probabilities and their sums, in double; the input is read for its maximum first.
double draw_bytes(const WorkNode& node, const Work& work) {
  constexpr double kDouble = 8;
  return (4 * kDouble + kFloat) * node.input(work.a).elements();
}

// Positions of the updates, `each` components of indices for one.
double position_bytes(const WorkNode& node, const Work& work) {
  constexpr double kPosition = 8;
  const WorkOperand& indices = node.input(work.a);
  const double components = work.each > 0 ? work.each : std::max(indices.size(-1), 1.0);
  return 2 * kPosition * indices.elements() / components;
}

}  // namespace work

}  // namespace braid::frontend
