#include "frontend/sharding/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "frontend/schemas.h"
#include "split/conversion_steps.h"

namespace braid::frontend::sharding {
namespace {

using Order = std::vector<std::int64_t>;

// Where each index of the whole dimension is; padding is nowhere.
Order inverse(const Order& order, std::int64_t size) {
  Order result(size);
  for (std::size_t k = order.size(); k-- > 0;) result[order[k]] = k;
  return result;
}

// Writes the nodes of one conversion, one after another; the last one has the name of the result.
class Emitter {
 public:
  Emitter(LocalModel& model, std::string name, std::string result)
      : model_(model), name_(std::move(name)), result_(std::move(result)) {}

  void collective(const char* op, const std::function<void(onnx::NodeProto&)>& attributes) {
    pending_.push_back([this, op, attributes](const std::string& out) {
      onnx::NodeProto& node = model_.add_node(kBraidDomain, op, {name_}, {out});
      attributes(node);
      model_.set_groups(node);
    });
  }
  // Takes positions along the dimension: the same ones on every rank, or one row per rank.
  void gather(int dim, std::vector<Order> rows) {
    pending_.push_back([this, dim, rows = std::move(rows)](const std::string& out) {
      const Order& first = rows[0];
      bool neighbours = rows.size() == 1 && !first.empty();
      for (std::size_t k = 1; k < first.size(); ++k) neighbours = neighbours && first[k] == first[k - 1] + 1;
      if (neighbours) return model_.slice(name_, dim, first.front(), first.back() + 1, out);
      const std::int64_t n = std::ssize(rows[0]);
      const std::string positions =
          rows.size() == 1 ? model_.integers(result_ + "/positions", ir::DType::i64, {n}, rows[0])
                           : model_.integers_of_rank(result_ + "/positions", ir::DType::i64, {n}, rows);
      set_int(model_.add_node("", "Gather", {name_, positions}, {out}), "axis", dim);
    });
  }
  void finish() {
    for (std::size_t k = 0; k < pending_.size(); ++k) {
      const std::string out = k + 1 == pending_.size() ? result_ : model_.fresh(result_ + "/step");
      pending_[k](out);
      name_ = out;
    }
  }

 private:
  LocalModel& model_;
  std::string name_, result_;
  std::vector<std::function<void(const std::string&)>> pending_;
};

std::vector<Order> rows_of_ranks(const Order& order, int ranks) {
  std::vector<Order> rows;
  const auto n = std::ssize(order) / ranks;
  for (int r = 0; r < ranks; ++r) rows.emplace_back(order.begin() + r * n, order.begin() + (r + 1) * n);
  return rows;
}

}  // namespace

void emit_conversion(LocalModel& model, const std::string& name, const Spec& from, const Spec& to,
                     const std::vector<ir::Expr>& sizes, const std::string& result) {
  const int n = model.ranks();
  const auto order = [&](const Spec& spec) { return order_of(spec.blocks, sizes[spec.dim].constant(), n); };
  // Whether the parts that follow each other are something else than the whole dimension.
  const auto permutes = [&](const Spec& spec) {
    return !spec.blocks.empty() || sizes[spec.dim].constant() % n != 0;
  };
  const auto back = [&](const Spec& spec) { return inverse(order(spec), sizes[spec.dim].constant()); };
  const auto axis = [](int dim) { return [dim](onnx::NodeProto& node) { set_int(node, "axis", dim); }; };
  const auto reduce = [&](onnx::NodeProto& node) {
    set_string(node, "reduce_op", std::string(to_string(from.reduce)));
  };
  Emitter e(model, name, result);
  if (from.is_replicated()) {
    e.gather(to.dim, rows_of_ranks(order(to), n));
  } else if (from.is_pending()) {
    if (to.is_replicated()) {
      e.collective("AllReduce", reduce);
    } else {
      if (permutes(to)) e.gather(to.dim, {order(to)});
      e.collective("ReduceScatter", [&](onnx::NodeProto& node) {
        axis(to.dim)(node);
        reduce(node);
      });
    }
  } else if (to.is_replicated()) {
    e.collective("AllGather", axis(from.dim));
    if (permutes(from)) e.gather(from.dim, {back(from)});
  } else if (from.dim == to.dim) {
    e.collective("AllGather", axis(from.dim));
    const Order places = back(from);
    Order taken = order(to);
    for (std::int64_t& position : taken) position = places[position];
    e.gather(to.dim, rows_of_ranks(taken, n));
  } else {
    if (permutes(to)) e.gather(to.dim, {order(to)});
    e.collective("AllToAll", [&](onnx::NodeProto& node) {
      set_int(node, "split_axis", to.dim);
      set_int(node, "concat_axis", from.dim);
    });
    if (permutes(from)) e.gather(from.dim, {back(from)});
  }
  e.finish();
}

namespace {

// The bytes of one rank, cut.
ir::ConstantData parts_of(std::span<const std::byte> whole, const Tensor& tensor, const Spec& spec, int ranks,
                          Weights weights) {
  ir::ConstantData data;
  if (spec.is_replicated()) {
    data.per_rank.assign(ranks, whole);
    return data;
  }
  if (spec.is_pending()) {
    auto zeros = std::make_shared<std::vector<std::byte>>(whole.size());
    data.per_rank.push_back(whole);
    for (int r = 1; r < ranks; ++r) data.per_rank.emplace_back(*zeros);
    data.owner = zeros;
    return data;
  }
  const std::int64_t size = tensor.sizes[spec.dim];
  const std::int64_t part = part_of(size, ranks);
  std::size_t inner = ir::size_of(tensor.dtype), outer = 1;
  for (int k = 0; k < spec.dim; ++k) outer *= tensor.sizes[k];
  for (int k = spec.dim + 1; k < count_of(tensor.sizes); ++k) inner *= tensor.sizes[k];
  if (weights == Weights::any_bytes && is_large(tensor)) {
    data.per_rank.assign(ranks, whole.first(outer * part * inner));
    return data;
  }
  if (outer == 1 && spec.blocks.empty() && size % ranks == 0) {  // parts of the bytes that are there
    const std::size_t bytes = whole.size() / ranks;
    for (int r = 0; r < ranks; ++r) data.per_rank.push_back(whole.subspan(r * bytes, bytes));
    return data;
  }
  const std::vector<Order> rows = rows_of_ranks(order_of(spec.blocks, size, ranks), ranks);
  auto bytes = std::make_shared<std::vector<std::vector<std::byte>>>();
  std::int64_t left = size;  // padding is zero
  for (Order row : rows) {
    const std::size_t padded = row.size();
    if (spec.blocks.empty()) row.resize(std::min(left, part));
    left -= part;
    std::vector<std::byte>& own = bytes->emplace_back(outer * padded * inner);
    std::size_t to = 0;
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::size_t k = 0; k < row.size();) {
        std::size_t run = 1;  // neighbours are copied together
        while (k + run < row.size() && row[k + run] == row[k + run - 1] + 1) ++run;
        const std::size_t from = (o * size + row[k]) * inner;
        if (run * inner > 0) std::memcpy(own.data() + to, whole.data() + from, run * inner);
        to += run * inner;
        k += run;
      }
      to += (padded - row.size()) * inner;
    }
  }
  for (const std::vector<std::byte>& own : *bytes) data.per_rank.emplace_back(own);
  data.owner = bytes;
  return data;
}

}  // namespace

bool is_large(const Tensor& tensor) {
  constexpr std::size_t kLarge = std::size_t{1} << 16;
  return tensor.data.per_rank.at(0).size() >= kLarge;
}

Tensor shard(const Tensor& tensor, const Spec& spec, int ranks, int before, Weights weights) {
  if (spec.is_replicated() && tensor.data.same_on_all_ranks()) return tensor;
  Tensor result{tensor.dtype, tensor.sizes, {}};
  if (spec.is_split()) {
    std::int64_t& size = result.sizes[spec.dim];
    size = part_of(size, ranks);
  }
  std::vector<std::span<const std::byte>>& per_rank = result.data.per_rank;
  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>(1, tensor.data.owner);
  for (const std::span<const std::byte> whole : tensor.data.per_rank) {
    const ir::ConstantData parts = parts_of(whole, tensor, spec, ranks, weights);
    per_rank.insert(per_rank.end(), parts.per_rank.begin(), parts.per_rank.end());
    if (parts.owner) owners->push_back(parts.owner);
  }
  const std::size_t known = per_rank.size(), all = before * ranks;
  ir::internal_check(known == all || tensor.data.same_on_all_ranks(), "a constant of {} ranks, expected {}",
                     known, all);
  for (std::size_t r = known; r < all; ++r) per_rank.push_back(per_rank[r - known]);
  result.data.owner = owners;
  return result;
}

}  // namespace braid::frontend::sharding
