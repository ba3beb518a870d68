#include "frontend/sharding/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "frontend/schemas.h"

namespace braid::frontend::sharding {
namespace {

using Order = std::vector<std::int64_t>;

// Where each index of the whole dimension is; padding is nowhere.
Order inverse(const Order& order, std::int64_t size) {
  Order result(static_cast<std::size_t>(size));
  for (std::size_t k = order.size(); k-- > 0;)
    result[static_cast<std::size_t>(order[k])] = static_cast<std::int64_t>(k);
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
      const auto n = static_cast<std::int64_t>(rows[0].size());
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
  const auto n = static_cast<std::ptrdiff_t>(order.size()) / ranks;
  for (int r = 0; r < ranks; ++r) rows.emplace_back(order.begin() + r * n, order.begin() + (r + 1) * n);
  return rows;
}

bool is_reducible(ir::DType dtype) { return dtype != ir::DType::boolean && !is_storage(dtype); }

}  // namespace

const char* to_string(StepKind kind) {
  switch (kind) {
    case StepKind::all_reduce:
      return "all_reduce";
    case StepKind::all_gather:
      return "all_gather";
    case StepKind::reduce_scatter:
      return "reduce_scatter";
    case StepKind::all_to_all:
      return "all_to_all";
    case StepKind::slice:
      return "slice";
    case StepKind::permute:
      return "permute";
  }
  return "";
}

namespace {

// Calls `add` with each step from one state to another; whether there are any such steps.
template <class Add>
bool each_step(const Spec& from, const Spec& to, ir::DType dtype, std::int64_t bytes, int ranks,
               const Add& add) {
  if (from == to) return true;
  if (to.is_pending() || is_storage(dtype)) return false;
  const std::int64_t part = bytes / ranks;
  const auto step = [&](StepKind kind, std::int64_t own) { add(ConversionStep{kind, own, dtype}); };
  if (from.is_replicated()) {
    step(StepKind::slice, bytes);
  } else if (from.is_pending()) {
    if (!is_reducible(dtype)) return false;
    if (to.is_replicated()) {
      step(StepKind::all_reduce, bytes);
    } else {
      if (!to.blocks.empty()) step(StepKind::permute, bytes);
      step(StepKind::reduce_scatter, bytes);
    }
  } else if (to.is_replicated()) {
    step(StepKind::all_gather, part);
    if (!from.blocks.empty()) step(StepKind::permute, bytes);
  } else if (from.dim == to.dim) {
    step(StepKind::all_gather, part);
    step(StepKind::slice, bytes);
  } else {
    if (!to.blocks.empty()) step(StepKind::permute, part);
    step(StepKind::all_to_all, part);
    if (!from.blocks.empty()) step(StepKind::permute, part);
  }
  return true;
}

}  // namespace

std::optional<std::vector<ConversionStep>> conversion_steps(const Spec& from, const Spec& to, ir::DType dtype,
                                                            std::int64_t bytes, int ranks) {
  std::vector<ConversionStep> steps;
  const bool possible =
      each_step(from, to, dtype, bytes, ranks, [&](const ConversionStep& step) { steps.push_back(step); });
  return possible ? std::optional(std::move(steps)) : std::nullopt;
}

namespace {

// The cheapest way through the states that lie between (Dijkstra). An axis that does not change may be made whole for a while; the
// first one moves at once, since the model is split along it before the others (apply.h).
class Ways {
 public:
  using StepCost = std::function<std::int64_t(const ConversionStep& step, int ranks)>;

  Ways(const MeshSpec& from, const MeshSpec& to, ir::DType dtype, std::int64_t bytes,
       const std::vector<ir::Expr>& sizes, const Mesh& mesh, const StepCost& cost)
      : dtype_(dtype), bytes_(bytes), mesh_(mesh), cost_(cost), specs_(from.size()) {
    for (const ir::Expr& size : sizes) sizes_.push_back(static_size(size).value_or(-1));
    for (std::size_t a = 0; a < from.size(); ++a) {
      from_.push_back(number(a, from[a]));
      to_.push_back(number(a, to[a]));
      whole_.push_back(number(a, Spec::replicated()));
      State& scattered = scattered_.emplace_back();
      for (std::size_t dim = 0; from[a].is_pending() && dim < sizes_.size(); ++dim)
        scattered += number(a, Spec::split(static_cast<int>(dim)));
    }
  }

  std::optional<std::vector<ConversionStep>> cheapest() {
    std::vector<Place> places = {{from_, 0, -1, -1, false}};
    // The cheapest so far, to where it leads.
    std::int64_t known_way = std::numeric_limits<std::int64_t>::max();
    while (true) {
      std::size_t best = places.size();
      for (std::size_t k = 0; k < places.size(); ++k) {
        if (!places[k].done && (best == places.size() || places[k].cost < places[best].cost)) best = k;
      }
      if (best == places.size()) return std::nullopt;
      if (places[best].state == to_) return steps(places, best);
      places[best].done = true;
      const State state = places[best].state;
      const std::int64_t cost = places[best].cost;
      for (std::size_t a = 0; a < state.size(); ++a) {
        for (const char target : targets(state, a)) {
          if (target == state[a] || !may_move(state, a, target)) continue;
          State next = state;
          next[a] = target;
          if (!fits(next)) continue;
          std::int64_t sum = cost;
          const bool possible = move(
              state, a, target, [&](const ConversionStep& step) { sum += cost_(step, mesh_.axes[a].size); });
          if (!possible || sum >= known_way) continue;
          if (next == to_) known_way = sum;
          auto known = std::find_if(places.begin(), places.end(),
                                    [&](const Place& place) { return place.state == next; });
          if (known == places.end())
            known = places.insert(places.end(), {next, std::numeric_limits<std::int64_t>::max(), -1,
                                                 static_cast<int>(a), false});
          if (sum >= known->cost) continue;
          known->cost = sum;
          known->before = static_cast<int>(best);
          known->axis = static_cast<int>(a);
        }
      }
    }
  }

 private:
  using State = std::string;  // per axis: the number of its state
  struct Place {
    State state;
    std::int64_t cost = 0;
    int before = -1, axis = -1;  // from where, and what has moved
    bool done = false;
  };

  char number(std::size_t axis, const Spec& spec) {
    std::vector<Spec>& known = specs_[axis];
    const auto found = std::find(known.begin(), known.end(), spec);
    if (found != known.end()) return static_cast<char>(found - known.begin());
    known.push_back(spec);
    return static_cast<char>(known.size() - 1);
  }
  const Spec& spec(const State& state, std::size_t axis) const {
    return specs_[axis][static_cast<std::size_t>(state[axis])];
  }

  State targets(const State& state, std::size_t axis) const {
    State all(1, to_[axis]);
    if (axis == 0) return all;
    all += whole_[axis];
    all += from_[axis];
    // A sum over two axes may be scattered along one, reduced along the other, and gathered.
    if (spec(state, axis).is_pending()) all += scattered_[axis];
    return all;
  }

  // Whether an axis may move to that state while the others are as they are.
  bool may_move(const State& state, std::size_t axis, char target) const {
    const Spec &from = spec(state, axis), &to = specs_[axis][static_cast<std::size_t>(target)];
    for (std::size_t other = 0; other < state.size(); ++other) {
      const Spec& own = spec(state, other);
      if (other == axis) continue;
      if (from.is_pending() && own.is_pending() && own.reduce != from.reduce && other > axis) return false;
      if (other < axis || !own.is_split()) continue;
      if ((from.is_split() && from.dim == own.dim) || (to.is_split() && to.dim == own.dim)) return false;
    }
    return true;
  }

  bool may_pad(const State& state, std::size_t axis, std::int64_t size) const {
    const Spec& own = spec(state, axis);
    for (std::size_t j = 0; j < state.size(); ++j) {
      if (j != axis && spec(state, j).is_split() && spec(state, j).dim == own.dim) return false;
    }
    return own.blocks.empty() && can_pad(size, mesh_.axes[axis].size);
  }

  // Whether the sizes can be cut so, one axis after another.
  bool fits(const State& state) const {
    for (std::size_t k = 0; k < state.size(); ++k) {
      const Spec& own = spec(state, k);
      if (!own.is_split()) continue;
      std::int64_t left = sizes_[static_cast<std::size_t>(own.dim)];
      if (left < 0) return false;
      for (std::size_t j = 0; j < k; ++j)
        left /= spec(state, j).is_split() && spec(state, j).dim == own.dim ? mesh_.axes[j].size : 1;
      std::int64_t sum = 0;
      for (const std::int64_t block : own.blocks) {
        sum += block;
        if (block % mesh_.axes[k].size != 0) return false;
      }
      if ((left % mesh_.axes[k].size != 0 && !may_pad(state, k, left)) ||
          (!own.blocks.empty() && sum != left))
        return false;
    }
    return true;
  }

  // One axis at a time, with its bytes on a rank.
  template <class Add>
  bool move(const State& state, std::size_t axis, char target, const Add& add) const {
    int parts = 1;
    for (std::size_t k = 0; k < state.size(); ++k)
      parts *= k != axis && spec(state, k).is_split() ? mesh_.axes[k].size : 1;
    return each_step(spec(state, axis), specs_[axis][static_cast<std::size_t>(target)], dtype_,
                     bytes_ / parts, mesh_.axes[axis].size, [&](ConversionStep step) {
                       step.axis = static_cast<int>(axis);
                       step.stride = mesh_.stride(step.axis);
                       add(step);
                     });
  }

  std::vector<ConversionStep> steps(const std::vector<Place>& places, std::size_t last) const {
    std::vector<std::size_t> way;
    for (int k = static_cast<int>(last); k >= 0; k = places[static_cast<std::size_t>(k)].before)
      way.insert(way.begin(), static_cast<std::size_t>(k));
    std::vector<ConversionStep> all;
    for (std::size_t k = 1; k < way.size(); ++k) {
      const auto axis = static_cast<std::size_t>(places[way[k]].axis);
      move(places[way[k - 1]].state, axis, places[way[k]].state[axis],
           [&](const ConversionStep& step) { all.push_back(step); });
    }
    return all;
  }

  ir::DType dtype_;
  std::int64_t bytes_;
  std::vector<std::int64_t> sizes_;  // -1: only known at run time
  const Mesh& mesh_;
  const StepCost& cost_;
  std::vector<std::vector<Spec>> specs_;  // per axis: those that occur
  State from_, to_, whole_;
  std::vector<State> scattered_;  // per axis, of a sum
};

}  // namespace

std::optional<std::vector<ConversionStep>> mesh_conversion_steps(
    const MeshSpec& from, const MeshSpec& to, ir::DType dtype, std::int64_t bytes,
    const std::vector<ir::Expr>& sizes, const Mesh& mesh,
    const std::function<std::int64_t(const ConversionStep& step, int ranks)>& cost) {
  if (from == to) return std::vector<ConversionStep>{};
  if (mesh.size() > 1) return Ways(from, to, dtype, bytes, sizes, mesh, cost).cheapest();
  auto steps = conversion_steps(from[0], to[0], dtype, bytes, mesh.axes[0].size);
  if (!steps) return std::nullopt;
  for (ConversionStep& step : *steps) step.stride = mesh.stride(0);
  return steps;
}

void emit_conversion(LocalModel& model, const std::string& name, const Spec& from, const Spec& to,
                     const std::vector<ir::Expr>& sizes, const std::string& result) {
  const int n = model.ranks();
  const auto order = [&](const Spec& spec) {
    return order_of(spec.blocks, sizes[static_cast<std::size_t>(spec.dim)].constant(), n);
  };
  // Whether the parts that follow each other are something else than the whole dimension.
  const auto permutes = [&](const Spec& spec) {
    return !spec.blocks.empty() || sizes[static_cast<std::size_t>(spec.dim)].constant() % n != 0;
  };
  const auto back = [&](const Spec& spec) {
    return inverse(order(spec), sizes[static_cast<std::size_t>(spec.dim)].constant());
  };
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
    for (std::int64_t& position : taken) position = places[static_cast<std::size_t>(position)];
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

bool can_shard(const Tensor& tensor, const Spec& spec) {
  return !spec.is_pending() || (spec.reduce == ir::ReduceKind::sum && is_reducible(tensor.dtype));
}

namespace {

// The bytes of one rank, cut.
ir::ConstantData parts_of(std::span<const std::byte> whole, const Tensor& tensor, const Spec& spec, int ranks,
                          Weights weights) {
  ir::ConstantData data;
  if (spec.is_replicated()) {
    data.per_rank.assign(static_cast<std::size_t>(ranks), whole);
    return data;
  }
  if (spec.is_pending()) {
    auto zeros = std::make_shared<std::vector<std::byte>>(whole.size());
    data.per_rank.push_back(whole);
    for (int r = 1; r < ranks; ++r) data.per_rank.emplace_back(*zeros);
    data.owner = zeros;
    return data;
  }
  const auto dim = static_cast<std::size_t>(spec.dim);
  const std::int64_t size = tensor.sizes[dim];
  const std::int64_t part = part_of(size, ranks);
  std::size_t inner = static_cast<std::size_t>(ir::size_of(tensor.dtype)), outer = 1;
  for (std::size_t k = 0; k < dim; ++k) outer *= static_cast<std::size_t>(tensor.sizes[k]);
  for (std::size_t k = dim + 1; k < tensor.sizes.size(); ++k)
    inner *= static_cast<std::size_t>(tensor.sizes[k]);
  if (weights == Weights::any_bytes && is_large(tensor)) {
    const std::size_t bytes = outer * static_cast<std::size_t>(part) * inner;
    data.per_rank.assign(static_cast<std::size_t>(ranks), whole.first(bytes));
    return data;
  }
  if (outer == 1 && spec.blocks.empty() && size % ranks == 0) {  // parts of the bytes that are there
    const std::size_t bytes = whole.size() / static_cast<std::size_t>(ranks);
    for (int r = 0; r < ranks; ++r)
      data.per_rank.push_back(whole.subspan(static_cast<std::size_t>(r) * bytes, bytes));
    return data;
  }
  const std::vector<Order> rows = rows_of_ranks(order_of(spec.blocks, size, ranks), ranks);
  auto bytes = std::make_shared<std::vector<std::vector<std::byte>>>();
  std::int64_t left = size;  // padding is zero
  for (Order row : rows) {
    const std::size_t padded = row.size();
    if (spec.blocks.empty()) row.resize(static_cast<std::size_t>(std::min(left, part)));
    left -= part;
    std::vector<std::byte>& own = bytes->emplace_back(outer * padded * inner);
    std::size_t to = 0;
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::size_t k = 0; k < row.size();) {
        std::size_t run = 1;  // neighbours are copied together
        while (k + run < row.size() && row[k + run] == row[k] + static_cast<std::int64_t>(run)) ++run;
        const std::size_t from =
            (o * static_cast<std::size_t>(size) + static_cast<std::size_t>(row[k])) * inner;
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
    std::int64_t& size = result.sizes[static_cast<std::size_t>(spec.dim)];
    size = part_of(size, ranks);
  }
  std::vector<std::span<const std::byte>>& per_rank = result.data.per_rank;
  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>(1, tensor.data.owner);
  for (const std::span<const std::byte> whole : tensor.data.per_rank) {
    const ir::ConstantData parts = parts_of(whole, tensor, spec, ranks, weights);
    per_rank.insert(per_rank.end(), parts.per_rank.begin(), parts.per_rank.end());
    if (parts.owner) owners->push_back(parts.owner);
  }
  const std::size_t known = per_rank.size(), all = static_cast<std::size_t>(before * ranks);
  ir::internal_check(known == all || tensor.data.same_on_all_ranks(), "a constant of {} ranks, expected {}",
                     known, all);
  for (std::size_t r = known; r < all; ++r) per_rank.push_back(per_rank[r - known]);
  result.data.owner = owners;
  return result;
}

}  // namespace braid::frontend::sharding
