// Concat, Split, Slice and Pad: other dimensions pass. Along the axis a split is blocked: every piece is cut
// the same way, so that a fused projection is cut by heads.
#include <algorithm>
#include <numeric>

#include "frontend/sharding/local.h"

namespace braid::frontend::sharding {
namespace {

using ir::Expr;
using Sizes = std::vector<std::int64_t>;

std::vector<Linear> all_alike(const NodeView& node) {
  using K = ir::ReduceKind;
  return {{node.all_inputs(), {K::sum, K::prod, K::max, K::min}}};
}

// Returns the letter of an axis that is a sequence of pieces: the greatest common divisor of all. nullopt if
// a size is unknown.
std::optional<Letter> letter_of_pieces(const Sizes& pieces) {
  std::int64_t common = 0;
  for (const std::int64_t piece : pieces) common = std::gcd(common, piece);
  if (common < 2) return std::nullopt;
  return letter_of(common, "axis");
}

std::vector<std::int64_t> multiples(const Sizes& pieces, std::int64_t of) {
  std::vector<std::int64_t> result;
  for (const std::int64_t piece : pieces) {
    if (piece > 0) result.push_back(piece / of);
  }
  return result;
}

// Sizes along the axis.
std::optional<Sizes> pieces_of_outputs(const NodeView& node, int axis) {
  Sizes pieces;
  for (int k = 0; k < node.outputs(); ++k) {
    if (!node.computes(k) || node.output(k).rank() == 0) return std::nullopt;
    const auto size = static_size(node.out_size(k, axis));
    if (!size) return std::nullopt;
    pieces.push_back(*size);
  }
  return pieces;
}

Factors concat(const NodeView& node, const Rule&) {
  const int axis = NodeView::axis(node.int_attribute("axis", 0), node.output(0).rank());
  return {joined_letters(node, node.all_inputs(), axis), all_alike(node)};
}

// Names of outputs that nothing reads may be unknown; then only other dimensions are split.
Factors split(const NodeView& node, const Rule& rule) {
  Factors f;
  const int rank = node.rank(0), axis = NodeView::axis(node.int_attribute("axis", 0), rank);
  for (int d = 0; d < rank; ++d) {
    std::optional<Letter> letter =
        d == axis ? std::nullopt : letter_of(node.size(0, d), "d" + std::to_string(d));
    if (!letter) continue;
    letter->at = {in(0, d)};
    for (int k = 0; k < node.outputs(); ++k) letter->at.push_back(out(k, d));
    f.letters.push_back(std::move(*letter));
  }
  if (const auto pieces = pieces_of_outputs(node, axis)) {
    const auto whole = static_size(node.size(0, axis));
    std::optional<Letter> letter = letter_of_pieces(*pieces);
    if (letter && whole && std::accumulate(pieces->begin(), pieces->end(), std::int64_t{0}) == *whole) {
      letter->at = {in(0, axis, multiples(*pieces, letter->size))};
      for (int k = 0; k < node.outputs(); ++k) {
        const std::int64_t piece = (*pieces)[k];
        if (piece > 0) letter->at.push_back(out(k, axis, {piece / letter->size}));
      }
      f.letters.push_back(std::move(*letter));
    }
  }
  f.linear = linear_of(node, rule.pending);
  return f;
}

// Sizes of the pieces become local where the axis is split, however they were given.
void write_split(LocalNode& local) {
  const NodeView& view = local.view;
  const int axis = NodeView::axis(view.int_attribute("axis", 0), view.rank(0));
  if (!local.strategy.inputs[0].is_split() || local.strategy.inputs[0].dim != axis) {
    local.emit();
    return;
  }
  Sizes pieces = *pieces_of_outputs(view, axis);
  for (std::int64_t& piece : pieces) piece /= local.ranks();
  constexpr int kSizesAreAnInput = 13;
  if (view.version() < kSizesAreAnInput) {
    set_ints(local.emit(), "split", pieces);
    return;
  }
  local.inputs = {local.inputs[0],
                  local.model.integers(local.name("split"), ir::DType::i64, {std::ssize(pieces)}, pieces)};
  drop_attribute(local.emit(), "num_outputs");
}

struct Cut {
  std::int64_t start, end, step;
};

// Returns the cut that a Slice makes of each dimension; nullopt if it is unknown while compiling.
std::optional<std::map<int, Cut>> cuts(const NodeView& node) {
  const int rank = node.rank(0);
  constexpr int kPositionsAreInputs = 10;
  const bool old = node.version() < kPositionsAreInputs;
  const auto starts = old ? node.ints_attribute("starts") : node.known_ints(1);
  const auto ends = old ? node.ints_attribute("ends") : node.known_ints(2);
  std::optional<Sizes> axes, steps;
  if (old) {
    axes = node.ints_attribute("axes");
  } else {
    if (node.has_input(3) && !(axes = node.known_ints(3))) return std::nullopt;
    if (node.has_input(4) && !(steps = node.known_ints(4))) return std::nullopt;
  }
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  std::map<int, Cut> result;
  for (int k = 0; k < count_of(*starts); ++k) {
    const int axis = axes ? NodeView::axis((*axes)[k], rank) : k;
    result[axis] = {(*starts)[k], (*ends)[k], steps ? (*steps)[k] : 1};
  }
  return result;
}

// The axes that a Slice cuts, if only these are known (positions that depend on sizes).
std::optional<std::set<int>> cut_axes(const NodeView& node) {
  std::set<int> result;
  constexpr int kPositionsAreInputs = 10;
  std::optional<Sizes> axes =
      node.version() < kPositionsAreInputs ? node.ints_attribute("axes") : node.known_ints(3);
  if (node.version() >= kPositionsAreInputs && node.has_input(3) && !axes) return std::nullopt;
  if (!axes) {
    if (node.version() < kPositionsAreInputs || !node.input(1).elements) return std::nullopt;
    for (int k = 0; k < count_of(node.input(1).elements->values); ++k) result.insert(k);
    return result;
  }
  for (const std::int64_t a : *axes) result.insert(NodeView::axis(a, node.rank(0)));
  return result;
}

// Returns the sizes before, in and after the part that a slice with step 1 takes.
std::optional<Sizes> pieces_of_cut(const NodeView& node, int dim, const Cut& cut) {
  const auto size = static_size(node.size(0, dim)), taken = static_size(node.out_size(0, dim));
  if (cut.step != 1 || !size || !taken || *taken == 0) return std::nullopt;
  std::int64_t start = cut.start < 0 ? cut.start + *size : cut.start;
  start = std::clamp(start, std::int64_t{0}, *size);
  return Sizes{start, *taken, *size - start - *taken};
}

Factors slice(const NodeView& node, const Rule& rule) {
  Factors f;
  const int rank = node.rank(0);
  const auto axes = cut_axes(node);
  if (!axes) return f;
  const auto known = cuts(node);
  for (int d = 0; d < rank; ++d) {
    const bool cut = axes->count(d) > 0;
    std::optional<Letter> letter;
    if (!cut) {
      letter = letter_of(node.size(0, d), "d" + std::to_string(d));
      if (!letter) continue;
      letter->at = {in(0, d), out(0, d)};
      letter->padded = true;
    } else if (known) {
      const auto pieces = pieces_of_cut(node, d, known->at(d));
      if (!pieces || !(letter = letter_of_pieces(*pieces))) continue;
      letter->at = {in(0, d, multiples(*pieces, letter->size)), out(0, d, {(*pieces)[1] / letter->size})};
    } else {
      continue;
    }
    f.letters.push_back(std::move(*letter));
  }
  f.linear = linear_of(node, rule.pending);
  return f;
}

// The start and the end of the axis that is split become local; the others stay.
void write_slice(LocalNode& local) {
  const NodeView& view = local.view;
  const Spec& spec = local.strategy.inputs[0];
  const auto axes = cut_axes(view);
  if (!spec.is_split() || axes->count(spec.dim) == 0) {
    local.emit();
    return;
  }
  const std::map<int, Cut> known = *cuts(view);
  const Sizes pieces = *pieces_of_cut(view, spec.dim, known.at(spec.dim));
  Sizes starts, ends, order, steps;
  for (const auto& [axis, cut] : known) {
    const bool split = axis == spec.dim;
    order.push_back(axis);
    steps.push_back(cut.step);
    starts.push_back(split ? pieces[0] / local.ranks() : cut.start);
    ends.push_back(split ? (pieces[0] + pieces[1]) / local.ranks() : cut.end);
  }
  constexpr int kPositionsAreInputs = 10;
  if (view.version() < kPositionsAreInputs) {
    onnx::NodeProto& node = local.emit();
    set_ints(node, "starts", starts);
    set_ints(node, "ends", ends);
    set_ints(node, "axes", order);
    return;
  }
  const auto vector = [&](const char* name, const Sizes& values) {
    return local.model.integers(local.name(name), ir::DType::i64, {std::ssize(values)}, values);
  };
  local.inputs = {local.inputs[0], vector("starts", starts), vector("ends", ends), vector("axes", order),
                  vector("steps", steps)};
  local.emit();
}

// Dimensions that are not padded.
Factors pad(const NodeView& node, const Rule&) {
  const int rank = node.rank(0);
  constexpr int kPadsAreAnInput = 11;
  const auto pads = node.version() < kPadsAreAnInput ? node.ints_attribute("pads") : node.known_ints(1);
  if (!pads) return {};
  std::set<int> padded;
  std::vector<int> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.has_input(3)) {
    const auto given = node.known_ints(3);
    if (!given) return {};
    axes.clear();
    for (const std::int64_t a : *given) axes.push_back(NodeView::axis(a, rank));
  }
  if (pads->size() != 2 * axes.size()) return {};
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if ((*pads)[k] != 0 || (*pads)[k + axes.size()] != 0) padded.insert(axes[k]);
  }
  return {broadcast_letters(node, {0}, padded), {}};
}

}  // namespace

Letters joined_letters(const NodeView& node, const std::vector<int>& inputs, int axis) {
  Letters letters = broadcast_letters(node, inputs, {axis});
  Sizes pieces;
  for (const int k : inputs) {
    const auto size = node.has_input(k) && node.rank(k) > 0 ? static_size(node.size(k, axis)) : std::nullopt;
    if (!size) return letters;
    pieces.push_back(*size);
  }
  if (std::optional<Letter> letter = letter_of_pieces(pieces)) {
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      if (pieces[j] > 0) letter->at.push_back(in(inputs[j], axis, {pieces[j] / letter->size}));
    }
    letter->at.push_back(out(0, axis, multiples(pieces, letter->size)));
    letters.push_back(std::move(*letter));
  }
  return letters;
}

namespace rule {
constexpr Rule kConcat = {concat};
constexpr Rule kPad = {pad, Pending::none, nullptr, "padded dimensions stay whole"};
constexpr Rule kSlice = {slice, Pending::any, write_slice};
constexpr Rule kSplit = {split, Pending::any, write_split};
}  // namespace rule

}  // namespace braid::frontend::sharding
