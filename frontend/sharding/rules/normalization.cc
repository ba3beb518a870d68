// Normalisations: the dimensions that are not normalised pass; scale and bias follow.
#include "frontend/schemas.h"
#include "frontend/sharding/rules.h"

namespace braid::frontend::sharding {
namespace {

// The other outputs, statistics, have the same dimensions, with those normalised of size 1.
void add_statistics(const NodeView& node, std::vector<Letter>& letters, const std::vector<int>& outputs) {
  for (Letter& letter : letters) {
    const int dim = letter.at[0].dim;
    for (const int k : outputs) {
      if (k < node.outputs() && node.node().outputs[static_cast<std::size_t>(k)] >= 0)
        letter.at.push_back(out(k, dim));
    }
  }
}

std::set<int> dims_from(int axis, int rank) {
  std::set<int> dims;
  for (int d = axis; d < rank; ++d) dims.insert(d);
  return dims;
}

// Over all dimensions from `axis` on.
Factors from_axis(const NodeView& node, const Rule&) {
  const int rank = node.rank(0);
  const int axis = NodeView::axis(node.int_attribute("axis", -1), rank);
  Factors f{broadcast_letters(node, {0, 1, 2}, dims_from(axis, rank)), {}};
  add_statistics(node, f.letters, {1, 2});
  return f;
}

// Over the last dimension, of x + skip (+ bias), which is output 3.
Factors with_skip(const NodeView& node, const Rule&) {
  const int rank = node.rank(0);
  Factors f{broadcast_letters(node, {0, 1}, {rank - 1}), {}};
  add_statistics(node, f.letters, {1, 2, 3});
  return f;
}

// With known statistics: everything passes, channels with the parameters. In training, statistics are of the batch.
Factors batch_normalization(const NodeView& node, const Rule&) {
  if (node.int_attribute("training_mode", 0) != 0 || node.int_attribute("spatial", 1) == 0) return {};
  for (int k = 1; k < node.outputs(); ++k) {
    if (node.has_output(k)) return {};
  }
  Factors f{broadcast_letters(node, {0}), {}};
  for (Letter& letter : f.letters) {
    if (letter.at[0].dim != 1) continue;
    for (int k = 1; k < 5; ++k) letter.at.push_back(in(k, 0));
  }
  return f;
}

// Over the spatial dimensions of every channel.
Factors instance_normalization(const NodeView& node, const Rule&) {
  Factors f{broadcast_letters(node, {0}, dims_from(2, node.rank(0))), {}};
  for (Letter& letter : f.letters) {
    if (letter.at[0].dim != 1) continue;
    for (const int k : {1, 2}) letter.at.push_back(in(k, 0));
  }
  return f;
}

Factors batch_only(const NodeView& node, const Rule&) {
  return {broadcast_letters(node, {0}, dims_from(1, node.rank(0))), {}};
}

constexpr const char* kGroups = "channels stay whole: groups of channels are not split";

const Rule kRules[] = {
    {"", "BatchNormalization", batch_normalization},
    {"", "GroupNormalization", batch_only, Pending::none, nullptr, kGroups},
    {"", "InstanceNormalization", instance_normalization},
    {"", "LRN", batch_only, Pending::none, nullptr, "channels stay whole: neighbours are read"},
    {"", "LayerNormalization", from_axis},
    {"", "RMSNormalization", from_axis},
    {"", "SimplifiedLayerNormalization", from_axis},
    {kMicrosoftDomain, "SkipLayerNormalization", with_skip},
    {kMicrosoftDomain, "SkipSimplifiedLayerNormalization", with_skip},
};

}  // namespace

std::span<const Rule> normalization_rules() { return kRules; }

}  // namespace braid::frontend::sharding
