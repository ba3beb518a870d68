#include "frontend/ops/rank_choice.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "frontend/ops/index.h"
#include "frontend/rank_values.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// Rows of axis 0 in the order of each rank's table.
TensorBox rows_of(OpContext& c, const TensorBox& x, const std::vector<std::vector<std::int64_t>>& rows) {
  const TensorBox table = rank_table(c, rows);
  std::vector<Expr> sizes = x.sizes();
  sizes[0] = static_cast<std::int64_t>(rows[0].size());
  return c.lowering().generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end());
    source[0] = checked_index(b, c.lowering().load(b, table, at.first(1)), x.sizes()[0], sizes);
    return c.lowering().load(b, x, source);
  });
}

}  // namespace

TensorBox rank_table(OpContext& c, const std::vector<std::vector<std::int64_t>>& of_rank) {
  const std::size_t n = of_rank[0].size();
  const auto sequence =
      progression_of_ranks(c.lowering().graph(), static_cast<std::int64_t>(n), [&](int rank, std::int64_t k) {
        return of_rank[static_cast<std::size_t>(rank)][static_cast<std::size_t>(k)];
      });
  if (sequence) {
    return c.lowering().generate({static_cast<std::int64_t>(n)},
                                 [&](BodyBuilder& b, std::span<const Expr> at) {
                                   return b.index(sequence->first + at[0] * sequence->step);
                                 });
  }
  auto all = std::make_shared<std::vector<std::int64_t>>();
  for (const std::vector<std::int64_t>& row : of_rank) all->insert(all->end(), row.begin(), row.end());
  ir::ConstantData data;
  const bool same =
      std::all_of(of_rank.begin(), of_rank.end(), [&](const auto& r) { return r == of_rank[0]; });
  for (std::size_t r = 0; r < (same ? 1 : of_rank.size()); ++r) {
    data.per_rank.push_back(std::as_bytes(std::span(all->data() + r * n, n)));
  }
  data.owner = all;
  return c.lowering().constant("of_rank", DType::i64, {static_cast<std::int64_t>(n)}, std::move(data));
}

TensorBox pick_by_rank(OpContext& c, const std::vector<TensorBox>& candidates,
                       const std::vector<std::int64_t>& which) {
  std::vector<std::vector<std::int64_t>> rows;
  for (std::int64_t w : which) rows.push_back({w});
  const TensorBox choice = rank_table(c, rows);
  const DType dtype = candidates.at(0).dtype();
  return c.lowering().generate(candidates[0].sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    const std::vector<Expr> first{Expr(0)};
    const ValueId chosen = c.lowering().load(b, choice, first);
    ValueId value = b.constant_of(dtype, 0);
    for (std::size_t k = 0; k < candidates.size(); ++k) {
      const ValueId here = b.binary(OpCode::eq, chosen, b.constant_of(DType::i64, static_cast<double>(k)));
      value = b.where(here, c.lowering().load(b, candidates[k], at, here), value);
    }
    return value;
  });
}

TensorBox uneven_all_to_all(OpContext& c, const TensorBox& x, ir::GroupId group,
                            const std::vector<std::int64_t>& split) {
  const ir::Parts parts = c.lowering().graph()[group].parts;
  const std::size_t n = parts[0].size();
  if (split.size() != n * n) {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'split_sizes' has {} entries, expected {} times {}: how "
                       "much each rank of the group sends to each",
                       split.size(), n, n));
  }
  if (x.rank() == 0) c.fail(errors::kShapeMismatch, "a scalar cannot be split into slabs");
  std::vector<std::int64_t> out(n, 0), in(n, 0);
  std::int64_t block = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const std::int64_t rows = split[i * n + j];
      if (rows < 0) c.fail(errors::kInvalidAttribute, fmt::format("attribute 'split_sizes' has {}", rows));
      if (__builtin_add_overflow(out[i], rows, &out[i]) || __builtin_add_overflow(in[j], rows, &in[j]))
        c.fail(errors::kInvalidAttribute, "the sum of attribute 'split_sizes' exceeds 64 bits");
      block = std::max(block, rows);
    }
  }
  const Expr size = x.sizes()[0];
  for (std::size_t i = 0; i < n; ++i) {
    if (!size.is_constant() || size.constant() != out[i]) {
      c.fail(errors::kShapeMismatch,
             fmt::format("'split_sizes' lets position {} of the group send {} rows, but axis 0 "
                         "has size {}",
                         i, out[i], to_string(size)));
    }
    if (in[i] != in[0]) {
      c.fail(
          errors::kShapeMismatch,
          fmt::format("'split_sizes' gives {} rows to position 0 of the group and {} to position {}: there "
                      "is one program for all ranks, so their results have one shape",
                      in[0], in[i], i));
    }
  }
  if (block == 0) return x;
  // A rank outside the group skips the node; its tables only have to be legal.
  const auto world = static_cast<std::size_t>(c.ranks());
  std::vector<std::vector<std::int64_t>> pack(
      world, std::vector<std::int64_t>(n * static_cast<std::size_t>(block), 0));
  std::vector<std::vector<std::int64_t>> unpack(
      world, std::vector<std::int64_t>(static_cast<std::size_t>(in[0]), 0));
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::int64_t> to(n * static_cast<std::size_t>(block), 0),
        from(static_cast<std::size_t>(in[0]), 0);
    std::int64_t sent = 0, received = 0;
    for (std::size_t j = 0; j < n; ++j) {
      for (std::int64_t k = 0; k < split[i * n + j]; ++k)
        to[j * static_cast<std::size_t>(block) + static_cast<std::size_t>(k)] = sent++;
      for (std::int64_t k = 0; k < split[j * n + i]; ++k)
        from[static_cast<std::size_t>(received++)] = static_cast<std::int64_t>(j) * block + k;
    }
    for (const std::vector<int>& part : parts) {
      pack[static_cast<std::size_t>(part[i])] = to;
      unpack[static_cast<std::size_t>(part[i])] = from;
    }
  }
  return rows_of(c, c.lowering().all_to_all(rows_of(c, x, pack), group), unpack);
}

}  // namespace braid::frontend
