// Numbers of a few bits with a scale for each block of them: the dimension along which they are packed is
// split between blocks, and where zero points are packed too, between bytes of these.
#include <numeric>

#include "frontend/sharding/local.h"

namespace braid::frontend::sharding {
namespace {

using ir::Expr;
using ir::ReduceKind;

// The blocks that are not split: 8 bits of zero points if these are packed.
std::int64_t blocks_together(bool packed_zeros, std::int64_t bits) { return packed_zeros ? 8 / bits : 1; }

// Rows of numbers, x [..., K] times their transpose. Older models flatten weights, scales and zero points.
Factors matmul_nbits(const NodeView& node, const Rule&) {
  enum { kX, kWeights, kScales, kZeros, kGroups, kBias };
  Factors f;
  const int rank = node.rank(kX), last = rank - 1;
  const std::int64_t k = node.int_attribute("K", 0), n = node.int_attribute("N", 0),
                     bits = node.int_attribute("bits", 4), block = node.int_attribute("block_size", 0);
  if (rank == 0 || k < 1 || n < 1 || block < 1 || (bits != 2 && bits != 4 && bits != 8)) return f;
  for (int d = 0; d < last; ++d) add(f, node.size(kX, d), "m" + std::to_string(d), {in(kX, d), out(0, d)});

  // The first dimension of each is n times what a row has in it.
  std::vector<Occurrence> columns = {out(0, last)};
  bool clear = true, flat = false;
  for (const int input : {kWeights, kScales, kZeros, kBias}) {
    if (!node.has_input(input)) continue;
    const auto size = static_size(node.size(input, 0));
    clear &= size && *size % n == 0;
    if (!clear) return f;
    columns.push_back(in(input, 0, {*size / n}));
    flat |= input != kBias && node.rank(input) < 2;
    clear &= input == kBias || node.rank(input) == 1 || *size == n;
  }
  if (!clear) return f;
  add(f, n, "n", std::move(columns));

  if (node.has_input(kGroups) || flat || node.rank(kWeights) != 3 || k % block != 0) return f;
  const std::int64_t blocks = k / block;
  const bool zeros = node.has_input(kZeros), packed = zeros && node.input(kZeros).dtype == ir::DType::u8;
  const std::int64_t together = blocks_together(packed, bits);
  if (blocks % together != 0) return f;
  std::optional<Letter> sum = letter_of(blocks / together, "blocks");
  if (!sum) return f;
  sum->at = {in(kX, last, {block * together}), in(kWeights, 1, {together}), in(kScales, 1, {together})};
  if (zeros) sum->at.push_back(in(kZeros, 1, {packed ? 1 : together}));
  sum->reduce = ReduceKind::sum;
  if (node.has_input(kBias)) sum->pending_inputs = {kBias};
  f.letters.push_back(std::move(*sum));
  return f;
}

void write_matmul_nbits(LocalNode& local) {
  const std::string letter = local.letter == nullptr ? "" : local.letter->name;
  onnx::NodeProto& node = local.emit();
  for (const auto& [name, attribute] : {std::pair("n", "N"), std::pair("blocks", "K")}) {
    if (letter == name) set_int(node, attribute, local.view.int_attribute(attribute, 0) / local.ranks());
  }
}

// Rows of a table. Those that a rank does not have are out of its range, which gives zeros.
Factors gather_block_quantized(const NodeView& node, const Rule&) {
  enum { kData, kIndices, kScales, kZeros };
  Factors f;
  const int rank = node.rank(kData), q = node.rank(kIndices), y = node.output(0).rank();
  const std::int64_t bits = node.int_attribute("bits", 4), block = node.int_attribute("block_size", 128);
  const bool zeros = node.has_input(kZeros);
  if (rank < 2 || bits < 1 || 8 % bits != 0) return f;
  const auto all = [&](int d, std::int64_t data, std::int64_t scales, std::int64_t of_zeros) {
    std::vector<Occurrence> at = {in(kData, d, {data}), in(kScales, d, {scales})};
    if (zeros) at.push_back(in(kZeros, d, {of_zeros}));
    return at;
  };
  for (int d = 0; d < q; ++d)
    add(f, node.size(kIndices, d), "i" + std::to_string(d), {in(kIndices, d), out(0, d)});
  for (int d = 1; d < rank - 1; ++d) {
    std::vector<Occurrence> at = all(d, 1, 1, 1);
    at.push_back(out(0, q + d - 1));
    add(f, node.size(kData, d), "d" + std::to_string(d), std::move(at));
  }
  const auto bytes = static_size(node.size(kData, rank - 1));
  const std::int64_t together = blocks_together(zeros, bits), in_block = block * bits / 8;
  if (bytes && in_block > 0 && *bytes % (in_block * together) == 0) {
    std::vector<Occurrence> at = all(rank - 1, in_block * together, together, 1);
    at.push_back(out(0, y - 1, {block * together}));
    add(f, *bytes / (in_block * together), "blocks", std::move(at));
  }
  constexpr int kWhere = 9;
  if (std::optional<Letter> rows = letter_of(node.size(kData, 0), "rows");
      rows && node.onnx_version() >= kWhere) {
    rows->at = all(0, 1, 1, 1);
    rows->reduce = ReduceKind::sum;
    rows->blocked = false;
    f.letters.push_back(std::move(*rows));
  }
  return f;
}

void write_gather_block_quantized(LocalNode& local) {
  if (local.letter == nullptr || local.letter->name != "rows") {
    local.emit();
    return;
  }
  LocalModel& m = local.model;
  const std::int64_t rows = local.letter->size, part = rows / local.ranks();
  const ir::DType type = local.view.input(1).dtype;
  const auto number = [&](const char* name, std::int64_t value) {
    return m.integers(local.name(name), type, {}, {value});
  };
  const auto compute = [&](const char* op, const std::vector<std::string>& inputs, const char* name) {
    return m.compute(op, inputs, local.name(name));
  };
  std::vector<std::vector<std::int64_t>> firsts;
  for (int r = 0; r < local.ranks(); ++r) firsts.push_back({r * part});
  const std::string zero = number("zero", 0), index = local.inputs[1];
  const std::string negative = compute("Less", {index, zero}, "negative");
  const std::string from_end = compute("Add", {index, number("rows", rows)}, "from_end");
  const std::string row = compute("Where", {negative, from_end, index}, "row");
  const std::string first = m.integers_of_rank(local.name("first"), type, {}, firsts);
  const std::string own = compute("Sub", {row, first}, "own");
  const std::string before = compute("Less", {own, zero}, "before");
  local.inputs[1] = compute("Where", {before, number("part", part), own}, "index");
  local.emit();
}

// A scale for each block along the axis, of a tensor of numbers or of integers.
Factors in_blocks(const NodeView& node, std::int64_t block) {
  Factors f;
  const int rank = node.output(0).rank(), axis = NodeView::axis(node.int_attribute("axis", 1), rank);
  if (node.rank(1) != rank) return f;
  for (int d = 0; d < rank; ++d) {
    const auto size = static_size(node.out_size(0, d));
    const std::int64_t inner = d == axis ? block : 1;
    if (!size || *size % inner != 0) continue;
    std::vector<Occurrence> at = {in(0, d, {inner}), out(0, d, {inner}), in(1, d)};
    if (node.has_input(2)) at.push_back(in(2, d));
    add(f, *size / inner, "d" + std::to_string(d), std::move(at));
  }
  return f;
}

// Scale and zero point of one element, or along an axis, which they follow, or of blocks along an axis.
Factors quantised(const NodeView& node, const Rule&) {
  const int rank = node.output(0).rank();
  if (const std::int64_t block = node.int_attribute("block_size", 0); block > 0)
    return in_blocks(node, block);
  if (node.rank(1) > 1) return {};
  const bool along_axis = node.rank(1) == 1 && !node.size(1, 0).is_constant(1);
  const int axis = NodeView::axis(node.int_attribute("axis", 1), rank);
  Factors f{broadcast_letters(node, {0}), {}};
  if (!along_axis) return f;
  for (Letter& letter : f.letters) {
    if (letter.at[0].dim != axis) continue;
    letter.at.push_back(in(1, 0));
    if (node.has_input(2)) letter.at.push_back(in(2, 0));
  }
  return f;
}

}  // namespace

namespace rule {
constexpr Rule kGatherBlockQuantized = {gather_block_quantized, Pending::none, write_gather_block_quantized};
constexpr Rule kMatMulNBits = {matmul_nbits, Pending::none, write_matmul_nbits};
constexpr Rule kQuantisation = {quantised};
}  // namespace rule

}  // namespace braid::frontend::sharding
