// Attention: heads are independent of each other, and so are batches, and queries that see all keys. The
// letter of heads is the number of key heads; each of them serves as many query heads, which lie next to each
// other. With more ranks than key heads, the letter is the query heads: keys and values are whole, and each
// rank takes the one key head that its query heads need.
#include <algorithm>
#include <initializer_list>

#include "frontend/sharding/local.h"
#include "split/conversion_steps.h"

namespace braid::frontend::sharding {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr const char* kShared = "shared heads";

// [batch, 1 or heads, queries, keys] or with fewer leading dimensions.
void add_mask(const NodeView& node, Letter& heads, int k, std::int64_t per_key_head) {
  if (!node.has_input(k) || node.rank(k) < 3) return;
  const int dim = node.rank(k) - 3;
  if (!node.size(k, dim).is_constant(1)) heads.at.push_back(in(k, dim, {per_key_head}));
}

void add_if_given(const NodeView& node, Letter& letter, int k, int dim, Sizes segments = {1}) {
  if (node.has_input(k)) letter.at.push_back(in(k, dim, std::move(segments)));
}

void add_if_named(const NodeView& node, Letter& letter, int k, int dim) {
  if (node.computes(k)) letter.at.push_back(out(k, dim));
}

// The number of elements in `dim` of input k for each of `heads`; 0 if it is unknown or not divisible.
std::int64_t per_head(const NodeView& node, int k, int dim, std::int64_t heads) {
  const auto size = static_size(node.size(k, dim));
  return size && heads > 0 && *size % heads == 0 ? *size / heads : 0;
}

// The query heads, to be split among a multiple of the key heads.
std::optional<Letter> shared_heads(std::int64_t heads, std::int64_t key_heads) {
  std::optional<Letter> letter = letter_of(heads, kShared);
  if (!letter || heads % key_heads != 0) return std::nullopt;
  letter->more_ranks_than = key_heads;
  letter->blocked = false;
  return letter;
}

// The queries of a mask or bias [..., queries, keys].
void add_rows(const NodeView& node, Letter& letter, int k) {
  if (!node.has_input(k) || node.rank(k) < 2) return;
  const int dim = node.rank(k) - 2;
  if (!node.size(k, dim).is_constant(1)) letter.at.push_back(in(k, dim));
}

void add_batch(const NodeView& node, Letter& letter, std::initializer_list<int> inputs) {
  for (const int k : inputs) {
    if (node.has_input(k) && node.rank(k) > 0 && !node.size(k, 0).is_constant(1))
      letter.at.push_back(in(k, 0));
  }
}

// The batch letter of com.microsoft's attention operators; nullopt if the mask of the padding does not have
// one row for each sequence.
std::optional<Letter> batch_letter(const NodeView& node, int padding) {
  std::optional<Letter> letter = letter_of(node.size(0, 0), "batch");
  if (!letter) return letter;
  letter->blocked = false;
  letter->at = {in(0, 0), out(0, 0)};
  if (!node.has_input(padding)) return letter;
  if (node.rank(padding) == 0 || !node.size(padding, 0).is_constant(letter->size)) return std::nullopt;
  letter->at.push_back(in(padding, 0));
  return letter;
}

// ONNX's. Queries and keys may be [batch, heads, length, size] or [batch, length, heads * size].
Factors onnx_attention(const NodeView& node, const Rule&) {
  enum { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kValidKeys };
  const int rank = node.rank(kQuery), dim = rank == 4 ? 1 : 2;
  std::int64_t heads = node.int_attribute("q_num_heads", 0),
               key_heads = node.int_attribute("kv_num_heads", 0);
  if (rank == 4) {
    heads = static_size(node.size(kQuery, 1)).value_or(0);
    key_heads = static_size(node.size(kKey, 1)).value_or(0);
  }
  if (heads < 1 || key_heads < 1 || heads % key_heads != 0) return {};
  const std::int64_t group = heads / key_heads;
  Factors f;
  if (std::optional<Letter> letter = letter_of(key_heads, "heads")) {
    for (const int k : {kQuery, kKey, kValue}) {
      const std::int64_t size = rank == 4 ? 1 : per_head(node, k, 2, k == kQuery ? heads : key_heads);
      if (size == 0) return {};
      letter->at.push_back(in(k, dim, {k == kQuery ? group * size : size}));
      if (k == kValue) letter->at.push_back(out(0, dim, {group * size}));
    }
    add_mask(node, *letter, kMask, group);
    for (const int k : {kPastKey, kPastValue}) add_if_given(node, *letter, k, 1);
    for (const int k : {1, 2}) add_if_named(node, *letter, k, 1);
    if (node.computes(3)) letter->at.push_back(out(3, 1, {group}));
    f.letters.push_back(std::move(*letter));
  }
  if (std::optional<Letter> letter = letter_of(node.size(kQuery, 0), "batch")) {
    for (const int k : {kQuery, kKey, kValue, kPastKey, kPastValue, kValidKeys})
      add_if_given(node, *letter, k, 0);
    if (node.has_input(kMask) && node.rank(kMask) == 4 && !node.size(kMask, 0).is_constant(1))
      letter->at.push_back(in(kMask, 0));
    for (const int k : {0, 1, 2, 3}) add_if_named(node, *letter, k, 0);
    letter->blocked = false;
    f.letters.push_back(std::move(*letter));
  }
  if (std::optional<Letter> letter = shared_heads(heads, key_heads)) {
    const std::int64_t size = rank == 4 ? 1 : per_head(node, kQuery, 2, heads);
    const std::int64_t of_values = rank == 4 ? 1 : per_head(node, kValue, 2, key_heads);
    letter->at = {in(kQuery, dim, {size}), out(0, dim, {of_values})};
    add_mask(node, *letter, kMask, 1);
    add_if_named(node, *letter, 3, 1);
    f.letters.push_back(std::move(*letter));
  }
  const int sequence = rank == 4 ? 2 : 1;
  std::optional<Letter> queries = letter_of(node.size(kQuery, sequence), "queries");
  const bool sees_all = node.int_attribute("is_causal", 0) == 0 &&
                        node.int_attribute("left_window_size", -1) < 0 &&
                        node.int_attribute("right_window_size", -1) < 0;
  if (queries && sees_all) {
    queries->at = {in(kQuery, sequence), out(0, sequence)};
    add_rows(node, *queries, kMask);
    add_if_named(node, *queries, 3, 2);
    f.letters.push_back(std::move(*queries));
  }
  return f;
}

bool splits_shared_heads(const LocalNode& local) {
  return local.letter != nullptr && local.letter->name == kShared;
}

// The key heads of an attention whose keys are input 1 and whose caches are [batch, heads, length, size].
std::int64_t key_heads_of(const NodeView& node) {
  if (const std::int64_t heads = node.int_attribute("kv_num_heads", 0); heads > 0) return heads;
  return static_size(node.size(1, 1)).value_or(0);
}

// The one head of keys or values that the rank needs. Ranks follow each other as query heads do.
std::string own_head(LocalNode& local, int k, std::int64_t key_heads) {
  const int rank = local.view.rank(k), dim = rank == 4 ? 1 : 2;
  const std::int64_t size = local.view.size(k, dim).constant() / key_heads;
  std::vector<std::vector<std::int64_t>> rows;
  for (int r = 0; r < local.ranks(); ++r) {
    std::vector<std::int64_t>& row = rows.emplace_back();
    for (std::int64_t j = 0; j < size; ++j) row.push_back(r * key_heads / local.ranks() * size + j);
  }
  LocalModel& m = local.model;
  const std::string positions = m.integers_of_rank(local.name("own_head"), ir::DType::i64, {size}, rows);
  const std::string result = m.fresh(local.name("head"));
  set_int(m.add_node("", "Gather", {local.inputs[k], positions}, {result}), "axis", dim);
  return result;
}

// Caches are whole: the heads that ranks have are gathered, of which several ranks have the same one.
void whole_present(LocalNode& local, const std::string& own, const std::string& result,
                   std::int64_t key_heads) {
  LocalModel& m = local.model;
  const std::string all = m.fresh(result + "/of_ranks");
  set_int(m.add_collective("AllGather", own, all), "axis", 1);
  std::vector<std::int64_t> first;
  for (std::int64_t h = 0; h < key_heads; ++h) first.push_back(h * (local.ranks() / key_heads));
  const std::string positions = m.integers(result + "/heads", ir::DType::i64, {key_heads}, first);
  set_int(m.add_node("", "Gather", {all, positions}, {result}), "axis", 1);
}

void write_shared_heads(LocalNode& local, const std::vector<int>& keys_and_values) {
  const std::int64_t key_heads = key_heads_of(local.view);
  std::vector<std::pair<std::string, std::string>> presents;
  if (key_heads > 1) {
    for (const int k : keys_and_values) {
      if (local.view.has_input(k)) local.inputs[k] = own_head(local, k, key_heads);
    }
    for (std::size_t k = 1; k < std::min<std::size_t>(local.outputs.size(), 3); ++k) {
      if (local.outputs[k].empty()) continue;
      presents.emplace_back(local.model.fresh(local.outputs[k] + "/head"), local.outputs[k]);
      local.outputs[k] = presents.back().first;
    }
  }
  onnx::NodeProto& node = local.emit();
  for (const char* name : {"num_heads", "q_num_heads"}) {
    const std::int64_t heads = local.view.int_attribute(name, 0);
    if (heads > 0) set_int(node, name, heads / local.ranks());
  }
  if (local.view.attribute("kv_num_heads") != nullptr) set_int(node, "kv_num_heads", 1);
  for (const auto& [own, result] : presents) whole_present(local, own, result, key_heads);
}

std::vector<ConversionStep> gathered_presents(const NodeView& node, const Strategy& strategy, int) {
  const bool shared = strategy.letter.valid() && !strategy.inputs[0].is_replicated() && node.has_input(1) &&
                      strategy.inputs[1].is_replicated();
  std::vector<ConversionStep> steps;
  if (!shared || key_heads_of(node) < 2) return steps;
  for (const int k : {1, 2}) {
    if (!node.has_output(k)) continue;
    std::int64_t bytes = ir::size_of(node.output(k).dtype);
    for (const int d : {0, 2, 3}) bytes *= ir::bounds(node.out_size(k, d)).max;
    steps.push_back({StepKind::all_gather, bytes, node.output(k).dtype});
  }
  return steps;
}

// Numbers of heads that attributes give, and hidden sizes, become local where heads are split.
void write_heads(LocalNode& local) {
  if (splits_shared_heads(local)) {
    const int past = local.view.node().domain.empty() ? 4 : 3;
    return write_shared_heads(local, {1, 2, past, past + 1});
  }
  const bool split = local.letter != nullptr && local.letter->name == "heads";
  onnx::NodeProto& node = local.emit();
  if (!split) return;
  for (const char* name : {"num_heads", "kv_num_heads", "q_num_heads"}) {
    const std::int64_t heads = local.view.int_attribute(name, 0);
    if (heads > 0) set_int(node, name, heads / local.ranks());
  }
  if (auto sizes = local.view.ints_attribute("qkv_hidden_sizes"); sizes && !sizes->empty()) {
    for (std::int64_t& size : *sizes) size /= local.ranks();
    set_ints(node, "qkv_hidden_sizes", *sizes);
  }
}

// com.microsoft's, with query heads that share key heads; key and value may be packed after the query.
Factors group_query_attention(const NodeView& node, const Rule&) {
  enum { kQuery, kKey, kValue, kPastKey, kPastValue, kLengths, kPositions = 9, kBias = 10, kSink = 11 };
  const std::int64_t heads = node.int_attribute("num_heads", 0),
                     key_heads = node.int_attribute("kv_num_heads", 0);
  if (heads < 1 || key_heads < 1 || heads % key_heads != 0 || node.rank(kQuery) != 3) return {};
  const std::int64_t group = heads / key_heads;
  const bool packed = !node.has_input(kKey);
  const std::int64_t size = per_head(node, kQuery, 2, packed ? heads + 2 * key_heads : heads);
  if (size == 0) return {};
  Factors f;
  if (std::optional<Letter> letter = letter_of(key_heads, "heads")) {
    if (packed) {
      letter->at.push_back(in(kQuery, 2, {group * size, size, size}));
    } else {
      letter->at.push_back(in(kQuery, 2, {group * size}));
      for (const int k : {kKey, kValue}) letter->at.push_back(in(k, 2, {size}));
    }
    for (const int k : {kPastKey, kPastValue}) add_if_given(node, *letter, k, 1);
    add_mask(node, *letter, kBias, group);
    add_if_given(node, *letter, kSink, 0, {group});
    letter->at.push_back(out(0, 2, {group * size}));
    for (const int k : {1, 2}) add_if_named(node, *letter, k, 1);
    f.letters.push_back(std::move(*letter));
  }
  std::optional<Letter> shared = packed ? std::nullopt : shared_heads(heads, key_heads);
  if (shared) {
    shared->at = {in(kQuery, 2, {size}), out(0, 2, {size})};
    add_mask(node, *shared, kBias, 1);
    add_if_given(node, *shared, kSink, 0);
    f.letters.push_back(std::move(*shared));
  }
  if (std::optional<Letter> batch = batch_letter(node, -1)) {
    add_batch(node, *batch, {kKey, kValue, kPastKey, kPastValue, kLengths, kPositions, kBias});
    for (const int k : {1, 2}) add_if_named(node, *batch, k, 0);
    f.letters.push_back(std::move(*batch));
  }
  return f;
}

// com.microsoft's: projected query, key and value, or two or three of them packed by head.
Factors multi_head_attention(const NodeView& node, const Rule&) {
  enum { kQuery, kKey, kValue, kBias, kPadding, kScoreBias, kPastKey, kPastValue };
  const std::int64_t heads = node.int_attribute("num_heads", 0);
  std::optional<Letter> letter = letter_of(heads, "heads");
  if (!letter) return {};
  std::int64_t of_query = 0, of_value = 0;  // elements of a head
  const auto operand = [&](int k) -> std::int64_t {
    const int rank = node.rank(k);
    letter->at.push_back(rank == 3 ? in(k, 2, {per_head(node, k, 2, heads)}) : in(k, rank == 4 ? 1 : 2));
    return rank == 3 ? per_head(node, k, 2, heads) : static_size(node.size(k, rank - 1)).value_or(0);
  };
  of_query = of_value = operand(kQuery);
  if (node.has_input(kKey)) of_value = operand(kKey);
  if (node.has_input(kValue)) of_value = operand(kValue);
  if (of_query == 0 || of_value == 0) return {};
  for (const Occurrence& at : letter->at) {
    if (at.segments[0] == 0) return {};
  }
  add_if_given(node, *letter, kBias, 0, {of_query, of_query, of_value});
  add_mask(node, *letter, kScoreBias, 1);
  for (const int k : {kPastKey, kPastValue}) add_if_given(node, *letter, k, 1);
  letter->at.push_back(out(0, 2, {of_value}));
  for (const int k : {1, 2, 3}) add_if_named(node, *letter, k, 1);
  Factors f;
  f.letters.push_back(std::move(*letter));
  if (std::optional<Letter> batch = batch_letter(node, kPadding)) {
    add_batch(node, *batch, {kKey, kValue, kScoreBias, kPastKey, kPastValue});
    for (const int k : {1, 2, 3}) add_if_named(node, *batch, k, 0);
    f.letters.push_back(std::move(*batch));
  }
  std::optional<Letter> queries = letter_of(node.size(kQuery, 1), "queries");
  if (queries && node.rank(kQuery) == 3 && node.has_input(kKey) &&
      node.int_attribute("unidirectional", 0) == 0) {
    queries->at = {in(kQuery, 1), out(0, 1)};
    add_rows(node, *queries, kScoreBias);
    if (node.has_input(kPadding) && node.rank(kPadding) == 3) add_rows(node, *queries, kPadding);
    add_if_named(node, *queries, 3, 2);
    f.letters.push_back(std::move(*queries));
  }
  return f;
}

// com.microsoft's attention that projects the input by one matrix to query, key and value. `columns`: other
// inputs with one number for each of its columns.
Factors projected_attention(const NodeView& node, const std::vector<int>& columns, int padding, int past,
                            int score_bias) {
  enum { kInput, kWeights };
  const std::int64_t heads = node.int_attribute("num_heads", 0);
  const auto width = static_size(node.size(kWeights, 1));
  if (heads < 1 || !width || *width % 3 != 0) return {};
  Sizes sizes = {*width / 3, *width / 3, *width / 3};
  if (const auto given = node.ints_attribute("qkv_hidden_sizes"); given && given->size() == 3) sizes = *given;
  for (std::int64_t& size : sizes) {
    if (size % heads != 0) return {};
    size /= heads;
  }
  Factors f;
  if (std::optional<Letter> letter = letter_of(heads, "heads")) {
    letter->at = {in(kWeights, 1, sizes), out(0, 2, {sizes[2]})};
    for (const int k : columns) {
      if (node.has_input(k) && node.rank(k) == 1 && !node.size(k, 0).is_constant(1))
        letter->at.push_back(in(k, 0, sizes));
    }
    add_if_given(node, *letter, past, 2);
    add_mask(node, *letter, score_bias, 1);
    add_if_named(node, *letter, 1, 2);
    f.letters.push_back(std::move(*letter));
  }
  if (std::optional<Letter> batch = batch_letter(node, padding)) {
    add_if_given(node, *batch, past, 1);
    add_batch(node, *batch, {score_bias});
    add_if_named(node, *batch, 1, 1);
    f.letters.push_back(std::move(*batch));
  }
  return f;
}
Factors fused_qkv_attention(const NodeView& node, const Rule&) {
  return projected_attention(node, {2}, 3, 4, 5);
}
Factors quantised_attention(const NodeView& node, const Rule&) {
  return projected_attention(node, {2, 4, 7}, 5, 8, -1);
}

// [batch, heads, sequence, size] or [batch, sequence, heads * size].
Factors rotary_embedding(const NodeView& node, const Rule&) {
  enum { kInput, kPositions, kCos, kSin };
  std::int64_t heads = 0, size = 1;
  const int rank = node.rank(kInput), dim = rank == 4 ? 1 : 2;
  if (rank == 4) {
    heads = static_size(node.size(kInput, 1)).value_or(0);
  } else if (rank == 3) {
    if (node.int_attribute("rotary_embedding_dim", 0) > 0) {
      heads = node.int_attribute("num_heads", 0);
    } else {
      const auto width = static_size(node.size(kCos, 1)), hidden = static_size(node.size(kInput, 2));
      if (width && hidden && *width > 0) heads = *hidden / (2 * *width);
    }
    size = per_head(node, kInput, 2, heads);
  }
  Factors f;
  if (std::optional<Letter> letter = letter_of(heads, "heads"); letter && size > 0) {
    letter->at = {in(kInput, dim, {size}), out(0, dim, {size})};
    f.letters.push_back(std::move(*letter));
  }
  // Positions are [batch, sequence], or one number that the places in the sequence are added to.
  if (rank < 3) return f;
  const bool each = node.has_input(kPositions) && node.rank(kPositions) == 2;
  const int sequence = rank == 4 ? 2 : 1;
  for (const auto& [name, of_input, of_positions] :
       {std::tuple("batch", 0, 0), std::tuple("sequence", sequence, 1)}) {
    std::optional<Letter> letter = letter_of(node.size(kInput, of_input), name);
    if (!letter || (of_positions == 1 && !each)) continue;
    letter->at = {in(kInput, of_input), out(0, of_input)};
    if (each && !node.size(kPositions, of_positions).is_constant(1))
      letter->at.push_back(in(kPositions, of_positions));
    f.letters.push_back(std::move(*letter));
  }
  return f;
}

constexpr const char* kCausal = "a causal sequence stays whole: a query's place in it decides what it sees";
constexpr const char* kProjects = "the sequence stays whole: keys and values are computed from all of it";

using ir::ReduceKind;

}  // namespace

namespace rule {
constexpr Rule kAttention = {onnx_attention, Pending::none,   write_heads,
                             kCausal,        ReduceKind::sum, gathered_presents};
constexpr Rule kFusedQkvAttention = {fused_qkv_attention, Pending::none, write_heads, kProjects};
constexpr Rule kGroupQueryAttention = {group_query_attention, Pending::none,    write_heads, kCausal,
                                       ReduceKind::sum,       gathered_presents};
constexpr Rule kMultiHeadAttention = {multi_head_attention, Pending::none, write_heads, kCausal};
constexpr Rule kQuantisedAttention = {quantised_attention, Pending::none, write_heads, kProjects};
constexpr Rule kRotaryEmbedding = {rotary_embedding, Pending::none, write_heads};
}  // namespace rule

}  // namespace braid::frontend::sharding
