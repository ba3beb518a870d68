// Normalisations: the dimensions that are not normalised pass; scale and bias follow. Groups of channels are
// split between groups.
#include "frontend/sharding/local.h"

namespace braid::frontend::sharding {
namespace {

// The other outputs, statistics, have the same dimensions, with those normalised of size 1.
void add_statistics(const NodeView& node, Letters& letters, const std::vector<int>& outputs) {
  for (Letter& letter : letters) {
    const int dim = letter.at[0].dim;
    for (const int k : outputs) {
      if (node.computes(k)) letter.at.push_back(out(k, dim));
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

// With known statistics: everything passes, channels with the parameters. In training, statistics are of the
// batch.
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

constexpr const char* kGroups = "groups";

// The letter of the groups of channels, which are dimension `channel` of x and of the result; parameters may
// be of channels or of groups.
void add_groups(const NodeView& node, Factors& f, std::int64_t groups, int channel,
                const std::vector<int>& parameters) {
  const auto channels = static_size(node.size(0, channel));
  std::optional<Letter> letter = groups > 0 ? letter_of(groups, kGroups) : std::nullopt;
  if (!letter || !channels || *channels % groups != 0) return;
  const std::int64_t in_group = *channels / groups;
  letter->at = {in(0, channel, {in_group}), out(0, channel, {in_group})};
  for (const int k : parameters) {
    if (!node.has_input(k)) continue;
    const auto size = static_size(node.size(k, 0));
    if (node.rank(k) != 1 || !size || *size % groups != 0) return;
    letter->at.push_back(in(k, 0, {*size / groups}));
  }
  f.letters.push_back(std::move(*letter));
}

Factors group_normalization(const NodeView& node, const Rule& rule) {
  Factors f = batch_only(node, rule);
  add_groups(node, f, node.int_attribute("num_groups", 0), 1, {1, 2});
  return f;
}

// com.microsoft's group normalisation: x, gamma, beta, and in one form a residual, which may be [batch,
// channels] or of size 1 in space, and a bias.
Factors fused_group_normalization(const NodeView& node, const Rule&) {
  enum { kX, kGamma, kBeta, kSkip, kBias };
  const int rank = node.rank(kX);
  const int channel = node.int_attribute("channels_last", 1) != 0 ? rank - 1 : 1;
  const bool sum = node.computes(1);
  Factors f;
  if (std::optional<Letter> batch = letter_of(node.size(kX, 0), "batch")) {
    batch->at = {in(kX, 0), out(0, 0)};
    if (node.has_input(kSkip)) batch->at.push_back(in(kSkip, 0));
    if (sum) batch->at.push_back(out(1, 0));
    f.letters.push_back(std::move(*batch));
  }
  const std::size_t before = f.letters.size();
  add_groups(node, f, node.int_attribute("groups", 0), channel, {kGamma, kBeta, kBias});
  if (f.letters.size() == before) return f;
  Letter& groups = f.letters.back();
  const std::vector<std::int64_t> in_group = groups.at[0].segments;
  if (node.has_input(kSkip)) groups.at.push_back(in(kSkip, node.rank(kSkip) == 2 ? 1 : channel, in_group));
  if (sum) groups.at.push_back(out(1, channel, in_group));
  return f;
}

void write_groups(LocalNode& local) {
  const bool split = local.letter != nullptr && local.letter->name == kGroups;
  onnx::NodeProto& node = local.emit();
  if (!split) return;
  for (const char* name : {"num_groups", "groups"}) {
    const std::int64_t groups = local.view.int_attribute(name, 0);
    if (groups > 0) set_int(node, name, groups / local.ranks());
  }
}

Factors mean_variance_normalization(const NodeView& node, const Rule&) {
  std::set<int> normalised = {0, 2, 3};
  if (const auto axes = node.ints_attribute("axes")) {
    normalised.clear();
    for (const std::int64_t a : *axes) normalised.insert(NodeView::axis(a, node.rank(0)));
  }
  return {broadcast_letters(node, {0}, normalised), {}};
}

// Normalisation of embeddings by ids [batch, sequence], which may have segments, a mask and positions.
// Positions that are not given are places in the sequence, so the sequence stays whole.
Factors of_embeddings(const NodeView& node, const std::vector<int>& by_batch) {
  std::optional<Letter> letter = letter_of(node.size(0, 0), "batch");
  if (!letter) return {};
  letter->at = {in(0, 0)};
  for (const int k : by_batch) {
    if (node.has_input(k) && !node.size(k, 0).is_constant(1)) letter->at.push_back(in(k, 0));
  }
  for (int k = 0; k < node.outputs(); ++k) {
    if (node.computes(k)) letter->at.push_back(out(k, 0));
  }
  Factors f;
  f.letters.push_back(std::move(*letter));
  return f;
}
Factors embed(const NodeView& node, const Rule&) { return of_embeddings(node, {1, 7, 8}); }
Factors embed_quantised(const NodeView& node, const Rule&) { return of_embeddings(node, {1, 7}); }

constexpr const char* kTables =
    "only the batch is split: rows are normalised as they are looked up, and positions are places in the "
    "sequence";

}  // namespace

namespace rule {
constexpr Rule kBatchNormalization = {batch_normalization};
constexpr Rule kEmbedding = {embed, Pending::none, nullptr, kTables};
constexpr Rule kFusedGroupNormalization = {fused_group_normalization, Pending::none, write_groups};
constexpr Rule kGroupNormalization = {group_normalization, Pending::none, write_groups};
constexpr Rule kInstanceNormalization = {instance_normalization};
constexpr Rule kLayerNormalization = {from_axis};
constexpr Rule kLocalResponse = {batch_only, Pending::none, nullptr,
                                 "channels stay whole: neighbours are read"};
constexpr Rule kMeanVarianceNormalization = {mean_variance_normalization};
constexpr Rule kQuantisedEmbedding = {embed_quantised, Pending::none, nullptr, kTables};
constexpr Rule kSkipNormalization = {with_skip};
}  // namespace rule

}  // namespace braid::frontend::sharding
