// Attention: heads are independent of each other. The letter is the number of key heads; each of them serves as many query
// heads, which lie next to each other.
#include "frontend/schemas.h"
#include "frontend/sharding/local.h"

namespace braid::frontend::sharding {
namespace {

using Sizes = std::vector<std::int64_t>;

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
  if (k < node.outputs() && node.node().outputs[static_cast<std::size_t>(k)] >= 0)
    letter.at.push_back(out(k, dim));
}

// The number of elements in `dim` of input k for each of `heads`; 0 if it is unknown or not divisible.
std::int64_t per_head(const NodeView& node, int k, int dim, std::int64_t heads) {
  const auto size = static_size(node.size(k, dim));
  return size && heads > 0 && *size % heads == 0 ? *size / heads : 0;
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
    if (node.outputs() > 3 && node.node().outputs[3] >= 0) letter->at.push_back(out(3, 1, {group}));
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
  return f;
}

// Numbers of heads that attributes give, and hidden sizes, become local where heads are split.
void write_heads(LocalNode& local) {
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

// com.microsoft's, with query heads that share key heads; key and value may be packed behind the query.
Factors group_query_attention(const NodeView& node, const Rule&) {
  enum { kQuery, kKey, kValue, kPastKey, kPastValue, kBias = 10, kSink = 11 };
  const std::int64_t heads = node.int_attribute("num_heads", 0),
                     key_heads = node.int_attribute("kv_num_heads", 0);
  if (heads < 1 || key_heads < 1 || heads % key_heads != 0 || node.rank(kQuery) != 3) return {};
  const std::int64_t group = heads / key_heads;
  const bool packed = !node.has_input(kKey);
  const std::int64_t size = per_head(node, kQuery, 2, packed ? heads + 2 * key_heads : heads);
  std::optional<Letter> letter = letter_of(key_heads, "heads");
  if (size == 0 || !letter) return {};
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
  Factors f;
  f.letters.push_back(std::move(*letter));
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
  return f;
}

// com.microsoft's: projects the input by one matrix to query, key and value.
Factors fused_qkv_attention(const NodeView& node, const Rule&) {
  enum { kInput, kWeights, kBias, kMask, kPast, kScoreBias };
  const std::int64_t heads = node.int_attribute("num_heads", 0);
  std::optional<Letter> letter = letter_of(heads, "heads");
  const auto columns = static_size(node.size(kWeights, 1));
  if (!letter || !columns || *columns % 3 != 0) return {};
  Sizes sizes = {*columns / 3, *columns / 3, *columns / 3};
  if (const auto given = node.ints_attribute("qkv_hidden_sizes"); given && given->size() == 3) sizes = *given;
  for (std::int64_t& size : sizes) {
    if (size % heads != 0) return {};
    size /= heads;
  }
  letter->at = {in(kWeights, 1, sizes), out(0, 2, {sizes[2]})};
  add_if_given(node, *letter, kBias, 0, sizes);
  add_if_given(node, *letter, kPast, 2);
  add_mask(node, *letter, kScoreBias, 1);
  add_if_named(node, *letter, 1, 2);
  Factors f;
  f.letters.push_back(std::move(*letter));
  return f;
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
  std::optional<Letter> letter = letter_of(heads, "heads");
  if (!letter || size == 0) return f;
  letter->at = {in(kInput, dim, {size}), out(0, dim, {size})};
  f.letters.push_back(std::move(*letter));
  return f;
}

constexpr const char* kHeadsOnly = "only heads are split; sequences and batches stay whole";

const Rule kRules[] = {
    {"", "Attention", onnx_attention, Pending::none, write_heads, "sequences stay whole"},
    {kMicrosoftDomain, "Attention", fused_qkv_attention, Pending::none, write_heads, kHeadsOnly},
    {kMicrosoftDomain, "GroupQueryAttention", group_query_attention, Pending::none, write_heads, kHeadsOnly},
    {kMicrosoftDomain, "MultiHeadAttention", multi_head_attention, Pending::none, write_heads, kHeadsOnly},
    {kMicrosoftDomain, "RotaryEmbedding", rotary_embedding, Pending::none, write_heads, kHeadsOnly},
};

}  // namespace

std::span<const Rule> attention_rules() { return kRules; }

}  // namespace braid::frontend::sharding
