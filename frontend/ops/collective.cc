// Collectives: ONNX Runtime's (com.microsoft, over all ranks), the project's own (ai.braid, over any group)
// and TensorRT's.
#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "frontend/ops/common.h"
#include "frontend/ops/rank_choice.h"
#include "frontend/rank_values.h"
#include "frontend/schemas.h"
#include "ir/collective_table.h"
#include "ir/element.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::GroupId;
using ir::Parts;
using ir::ReduceKind;

// Names parts of equal, ascending distance d that cover all ranks "groups_of_N", with "_every_d" if d is not
// 1.
std::optional<std::string> regular_name(const Parts& parts, int ranks) {
  const std::size_t n = parts[0].size();
  if (n < 2 || n * parts.size() != static_cast<std::size_t>(ranks)) return std::nullopt;
  const int distance = parts[0][1] - parts[0][0];
  for (const std::vector<int>& part : parts) {
    for (std::size_t k = 1; k < n; ++k) {
      if (part[k] - part[k - 1] != distance || distance < 1) return std::nullopt;
    }
  }
  return fmt::format("groups_of_{}{}", n, distance == 1 ? "" : fmt::format("_every_{}", distance));
}

// Communicators' names are limited (runtime/comm/group_rules.h).
constexpr std::size_t kLongestName = 63;

// Returns the group of these parts, under a name that no other group has: "world", "group_0_2" after its
// ranks, "groups_of_2" or "groups_0_3_and_2_1" of several parts.
GroupId make_group(OpContext& c, Parts parts) {
  std::sort(parts.begin(), parts.end());  // the order of the parts means nothing
  std::string name;
  if (parts.size() > 1) {
    for (const std::vector<int>& part : parts)
      name += fmt::format("{}{}", name.empty() ? "groups_" : "_and_", fmt::join(part, "_"));
    name = regular_name(parts, c.ranks()).value_or(name);
  } else {
    const bool world =
        static_cast<int>(parts[0].size()) == c.ranks() && std::is_sorted(parts[0].begin(), parts[0].end());
    name = world ? "world" : fmt::format("group_{}", fmt::join(parts[0], "_"));
  }
  if (name.size() > kLongestName) {
    const auto bytes = std::as_bytes(std::span(name));
    name = fmt::format("group{}_of_{}_{:016x}", parts.size() > 1 ? "s" : "", parts[0].size(),
                       ir::fnv1a(bytes.data(), bytes.size()));
  }
  return c.lowering().graph().add_partition(name, std::move(parts));
}

// `listed` as parts of `each` ranks. A rank in no part skips the node: its outputs are undefined there.
Parts parts_of(OpContext& c, const char* attribute, const std::vector<std::int64_t>& listed,
               std::int64_t each) {
  std::set<std::int64_t> seen;
  for (const std::int64_t r : listed) {
    if (r < 0 || r >= c.ranks()) {
      c.fail(errors::kInvalidGroup,
             fmt::format("attribute '{}' has rank {}, but there are {} ranks", attribute, r, c.ranks()),
             "compile for the number of ranks for which the model was split (--ranks)");
    }
    if (!seen.insert(r).second)
      c.fail(errors::kInvalidGroup, fmt::format("attribute '{}' has rank {} twice", attribute, r));
  }
  if (each < 1 || static_cast<std::int64_t>(listed.size()) % each != 0) {
    c.fail(errors::kInvalidGroup, fmt::format("attribute '{}' lists {} ranks, which cannot form groups of {}",
                                              attribute, listed.size(), each));
  }
  Parts parts;
  for (auto at = listed.begin(); at != listed.end(); at += each) parts.emplace_back(at, at + each);
  return parts;
}

std::vector<std::int64_t> all_ranks(OpContext& c) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(c.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// The group of a node: one part from attribute `group`, several from `groups`; all ranks if both are absent.
Parts group_of(OpContext& c) {
  std::vector<std::int64_t> listed = c.ints_attribute("group").value_or(std::vector<std::int64_t>{});
  const std::vector<std::int64_t> several = c.ints_attribute("groups").value_or(std::vector<std::int64_t>{});
  const bool has_size = c.domain() == kBraidDomain && c.has_attribute("group_size");
  if (!several.empty()) {
    if (!listed.empty()) c.fail(errors::kInvalidGroup, "attributes 'group' and 'groups' exclude each other");
    if (!has_size)
      c.fail(errors::kInvalidGroup, "attribute 'groups' requires 'group_size', the number of ranks in each");
    return parts_of(c, "groups", several, c.int_attribute("group_size"));
  }
  if (listed.empty()) listed = all_ranks(c);
  Parts parts = parts_of(c, "group", listed, static_cast<std::int64_t>(listed.size()));
  if (!has_size) return parts;
  if (const std::int64_t size = c.int_attribute("group_size");
      size != static_cast<std::int64_t>(listed.size())) {
    c.fail(errors::kInvalidGroup,
           fmt::format("attribute 'group_size' is {}, but the group has {} ranks", size, listed.size()));
  }
  return parts;
}

// The group of a com.microsoft operator: the whole world, which group_size must agree with.
Parts world(OpContext& c, bool has_group_size) {
  if (has_group_size) {
    const std::int64_t size = c.int_attribute("group_size", 1);
    if (size < 1)
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute 'group_size' is {}; a group must have at least one rank", size));
    if (size != c.ranks()) {
      c.fail(errors::kRankCount,
             fmt::format("attribute 'group_size' is {}, but there are {} ranks", size, c.ranks()),
             fmt::format("compile with --ranks {}", size));
    }
  }
  return group_of(c);
}

ReduceKind reduce_kind(OpContext& c, const std::string& name) {
  if (name == "product") return ReduceKind::prod;  // as PyTorch calls it
  for (ReduceKind kind :
       {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min, ReduceKind::avg}) {
    if (name == to_string(kind)) return kind;
  }
  c.fail(errors::kInvalidAttribute,
         fmt::format("attribute 'reduce_op' is '{}', expected sum, prod, max, min or avg", name));
}
ReduceKind reduce_op(OpContext& c) { return reduce_kind(c, c.string_attribute("reduce_op", "sum")); }

// Attribute `algorithm`.
ir::Algorithm algorithm(OpContext& c, ir::CollectiveKind kind) {
  const std::string name = c.string_attribute("algorithm", "");
  const std::optional<ir::Algorithm> asked = ir::algorithm_named(name);
  if (!asked || !ir::has_algorithm(kind, *asked)) {
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'algorithm' is '{}', expected {}", name,
                                                  fmt::join(ir::row_of(kind).algorithms.names(), ", ")));
  }
  return *asked == ir::Algorithm::automatic ? ir::Algorithm::unasked : *asked;
}

// Requests an algorithm for the collectives that `lower` makes. Their inputs lie in symmetric memory anyway;
// with two_shot, peers write the outputs as well.
template <class F>
void with_algorithm(OpContext& c, ir::Algorithm asked, const F& lower) {
  ir::Graph& graph = c.lowering().graph();
  const std::size_t before = graph.ops.size();
  lower();
  if (asked == ir::Algorithm::unasked) return;
  for (std::size_t k = before; k < graph.ops.size(); ++k) {
    auto* kernel = graph.ops[k].as<ir::CollectiveKernel>();
    if (kernel == nullptr) continue;
    kernel->algorithm = asked;
    if (asked != ir::Algorithm::two_shot) continue;
    for (const ir::TensorRef& out : kernel->outputs) {
      auto* layout = std::get_if<ir::CommBufferLayout>(&graph[out.buffer].layout);
      if (layout == nullptr) continue;
      layout->kind = ir::CommBufferKind::symmetric;
      graph[graph[out.buffer].storage].comm_kind = ir::CommBufferKind::symmetric;
    }
  }
}

void require_divisible(OpContext& c, Expr size, std::int64_t ranks, int axis) {
  if (!size.is_constant()) {
    if (!ir::divide_exactly(size, ranks)) {
      c.fail(errors::kShapeMismatch,
             fmt::format("the size {} of axis {} is not provably divisible by {} ranks", to_string(size),
                         axis, ranks));
    }
  } else if (size.constant() % ranks != 0) {
    c.fail(errors::kShapeMismatch,
           fmt::format("the size {} of axis {} is not divisible by {} ranks", to_string(size), axis, ranks));
  }
}

void check_counts(OpContext& c) {
  if (c.input_count() != c.output_count()) {
    c.fail(errors::kInvalidNode, fmt::format("{} inputs, but {} outputs", c.input_count(), c.output_count()));
  }
}

std::vector<TensorBox> inputs_of(OpContext& c) {
  std::vector<TensorBox> inputs;
  for (int k = 0; k < c.input_count(); ++k) inputs.push_back(c.input(k));
  return inputs;
}

std::vector<int> axis_of_each(OpContext& c) {
  std::vector<int> axes;
  for (int k = 0; k < c.input_count(); ++k) axes.push_back(c.axis_attribute(c.rank(k), 0));
  return axes;
}

// All tensors of the node in one collective; nothing for a group of one rank.
template <class F>
void coalesced(OpContext& c, const Parts& parts, const F& lower) {
  check_counts(c);
  const std::vector<TensorBox> inputs = inputs_of(c);
  for (const TensorBox& x : inputs) {
    if (x.dtype() == inputs[0].dtype()) continue;
    c.fail(errors::kTypeMismatch,
           fmt::format("coalesced tensors have the types {} and {}", to_string(inputs[0].dtype()),
                       to_string(x.dtype())),
           "a collective moves tensors of one type: use one node per type");
  }
  const std::vector<TensorBox> results = parts[0].size() == 1 ? inputs : lower(inputs, make_group(c, parts));
  for (int k = 0; k < c.input_count(); ++k) c.set_output(k, results[static_cast<std::size_t>(k)]);
}

// One collective for each tensor of the node.
template <class F>
void for_each_tensor(OpContext& c, const Parts& parts, const F& lower) {
  check_counts(c);
  for (int k = 0; k < c.input_count(); ++k) {
    c.set_output(k, parts[0].size() == 1 ? c.input(k) : lower(k, make_group(c, parts)));
  }
}

void all_reduce(OpContext& c, const Parts& parts, ReduceKind kind) {
  coalesced(c, parts, [&](const std::vector<TensorBox>& x, GroupId group) {
    return c.lowering().all_reduce(x, group, kind);
  });
}

void all_gather(OpContext& c, const Parts& parts) {
  const std::vector<int> axes = axis_of_each(c);
  coalesced(c, parts, [&](const std::vector<TensorBox>& x, GroupId group) {
    return c.lowering().all_gather(x, group, axes);
  });
}

void reduce_scatter(OpContext& c, const Parts& parts, ReduceKind kind) {
  const std::vector<int> axes = axis_of_each(c);
  for (int k = 0; k < c.input_count(); ++k) {
    const int axis = axes[static_cast<std::size_t>(k)];
    require_divisible(c, c.sizes(k)[static_cast<std::size_t>(axis)],
                      static_cast<std::int64_t>(parts[0].size()), axis);
  }
  coalesced(c, parts, [&](const std::vector<TensorBox>& x, GroupId group) {
    return c.lowering().reduce_scatter(x, group, axes, kind);
  });
}

// Sends slabs along `split` and concatenates received ones along `concat`.
void all_to_all(OpContext& c, const Parts& parts, std::int64_t split, std::int64_t concat,
                bool blocking = false) {
  for_each_tensor(c, parts, [&](int k, GroupId group) {
    if (c.rank(k) == 0) c.fail(errors::kShapeMismatch, "a scalar cannot be split into slabs");
    const int from = c.normalize_axis(split, c.rank(k)), to = c.normalize_axis(concat, c.rank(k));
    require_divisible(c, c.sizes(k)[static_cast<std::size_t>(from)],
                      static_cast<std::int64_t>(parts[0].size()), from);
    return c.lowering().all_to_all(c.input(k), group, from, to, blocking);
  });
}

void microsoft_all_reduce(OpContext& c) { all_reduce(c, world(c, false), ReduceKind::sum); }
void microsoft_all_gather(OpContext& c) { all_gather(c, world(c, true)); }
void microsoft_all_to_all(OpContext& c) { all_to_all(c, world(c, true), 0, 0); }

void braid_all_reduce(OpContext& c) {
  with_algorithm(c, algorithm(c, ir::CollectiveKind::all_reduce),
                 [&] { all_reduce(c, group_of(c), reduce_op(c)); });
}
void braid_all_gather(OpContext& c) {
  with_algorithm(c, algorithm(c, ir::CollectiveKind::all_gather), [&] { all_gather(c, group_of(c)); });
}
void braid_reduce_scatter(OpContext& c) {
  with_algorithm(c, algorithm(c, ir::CollectiveKind::reduce_scatter),
                 [&] { reduce_scatter(c, group_of(c), reduce_op(c)); });
}

void braid_all_to_all(OpContext& c) {
  const Parts parts = group_of(c);
  const std::int64_t split = c.int_attribute("split_axis", 0), concat = c.int_attribute("concat_axis", 0);
  const auto sizes = c.ints_attribute("split_sizes");
  if (!sizes || sizes->empty()) return all_to_all(c, parts, split, concat);
  if (split != 0 || concat != 0) {
    c.fail(errors::kUnsupportedForm, "attribute 'split_sizes' requires split_axis 0 and concat_axis 0");
  }
  for_each_tensor(c, parts,
                  [&](int k, GroupId group) { return uneven_all_to_all(c, c.input(k), group, *sizes); });
}

// Changes the axis along which a tensor is sharded; synchronous, like DTensor's.
void braid_shard_dim_all_to_all(OpContext& c) {
  all_to_all(c, group_of(c), c.int_attribute("shard_dim"), c.int_attribute("gather_dim"), true);
}

// Row r of a table on rank r: coordinates, and tables of positions that follow from them.
void braid_of_rank(OpContext& c) {
  const std::optional<Tensor>& table = c.value(0).constant;
  if (!table || !table->data.same_on_all_ranks())
    c.fail(errors::kUnsupportedForm, "its table must be a constant, the same on all ranks");
  if (table->sizes.empty() || table->sizes[0] != c.ranks()) {
    c.fail(
        errors::kRankCount,
        fmt::format("its table has the sizes [{}], but there are {} ranks", fmt::join(table->sizes, ", "),
                    c.ranks()),
        "the first dimension has one row per rank: compile for the number of ranks of the model (--ranks)");
  }
  Tensor row{table->dtype, {table->sizes.begin() + 1, table->sizes.end()}, {}};
  const std::span<const std::byte> all = table->data.of_rank(0);
  const std::size_t bytes = all.size() / static_cast<std::size_t>(c.ranks());
  for (int r = 0; r < c.ranks(); ++r)
    row.data.per_rank.push_back(all.subspan(static_cast<std::size_t>(r) * bytes, bytes));
  const auto equal = [&](std::span<const std::byte> other) {
    return std::equal(other.begin(), other.end(), row.data.of_rank(0).begin());
  };
  if (std::all_of(row.data.per_rank.begin(), row.data.per_rank.end(), equal)) row.data.per_rank.resize(1);
  row.data.owner = table->data.owner;
  Value value{"", row.dtype, {row.sizes.begin(), row.sizes.end()}};
  value.constant = std::move(row);
  follow_rank(value, c.lowering().graph());
  c.set_output(0, std::move(value));
}

// Functional collectives are complete when other nodes see them, so this wait is the identity.
void braid_wait_tensor(OpContext& c) { c.set_output(0, c.input(0)); }

// A position in the group.
int member(OpContext& c, const char* attribute, const Parts& parts) {
  const std::int64_t position = c.int_attribute(attribute, 0);
  if (position < 0 || position >= static_cast<std::int64_t>(parts[0].size())) {
    c.fail(errors::kInvalidAttribute, fmt::format("attribute '{}' is {}, but the group has {} ranks",
                                                  attribute, position, parts[0].size()));
  }
  return static_cast<int>(position);
}

void braid_broadcast(OpContext& c) {
  const Parts parts = group_of(c);
  const int root = member(c, "root", parts);
  for_each_tensor(c, parts,
                  [&](int k, GroupId group) { return c.lowering().broadcast(c.input(k), group, root); });
}

void braid_send(OpContext& c) {
  const Parts parts = group_of(c);
  c.lowering().send(c.input(0), make_group(c, parts), member(c, "peer", parts));
}

void braid_recv(OpContext& c) {
  const Parts parts = group_of(c);
  const DType dtype = c.dtype_of(c.int_attribute("dtype"));
  const std::vector<Expr> sizes = c.shape_values(0, "the sizes");
  for (const Expr& size : sizes) {
    if (ir::bounds(size).min < 0)
      c.fail(errors::kShapeMismatch, fmt::format("size {} may be negative", to_string(size)));
  }
  c.set_output(0, c.lowering().recv(dtype, sizes, make_group(c, parts), member(c, "peer", parts)));
}

// Every target receives the tensors of its source; ranks without a source get zeros.
void braid_batch_send_recv(OpContext& c) {
  const Parts parts = group_of(c);
  const auto n = static_cast<std::int64_t>(parts[0].size());
  const auto given = c.ints_attribute("pairs");
  if (!given || given->empty() || given->size() % 2 != 0) {
    c.fail(errors::kInvalidAttribute, "attribute 'pairs' must alternate sources and targets");
  }
  std::vector<GroupId> pairs;
  std::vector<std::int64_t> from(static_cast<std::size_t>(c.ranks()), -1);  // the pair that ends at a rank
  constexpr std::int64_t kItself = -2;
  bool some_keep = false;
  for (std::size_t k = 0; k < given->size(); k += 2) {
    const std::int64_t source = (*given)[k], target = (*given)[k + 1];
    if (source < 0 || source >= n || target < 0 || target >= n) {
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute 'pairs' has {} -> {}, but the group has {} ranks", source, target, n));
    }
    Parts ways;
    for (const std::vector<int>& part : parts) {
      ways.push_back({part[static_cast<std::size_t>(source)], part[static_cast<std::size_t>(target)]});
      std::int64_t& which = from[static_cast<std::size_t>(ways.back()[1])];
      if (which != -1)
        c.fail(errors::kInvalidAttribute, fmt::format("attribute 'pairs' has two sources for {}", target));
      which = source == target ? kItself : static_cast<std::int64_t>(pairs.size());
    }
    some_keep |= source == target;
    if (source != target) pairs.push_back(make_group(c, std::move(ways)));
  }
  check_counts(c);
  for (int k = 0; k < c.input_count(); ++k) {
    const TensorBox x = c.input(k);
    std::vector<TensorBox> candidates = c.lowering().batch_send_recv(x, pairs);
    std::vector<std::int64_t> which = from;
    if (some_keep) {  // a rank that sends to itself keeps what it has
      std::replace(which.begin(), which.end(), kItself, static_cast<std::int64_t>(candidates.size()));
      candidates.push_back(x);
    }
    c.set_output(k, pick_by_rank(c, candidates, which));
  }
}

// Returns the root of a DistCollective as a position in its group. With one group the attribute names a rank.
// With several it must be a position, as in ai.braid. A rank that is elsewhere in its own group would be
// another root, so it is refused.
int dist_root(OpContext& c, const Parts& parts) {
  const std::int64_t root = c.int_attribute("root", -1);
  if (root < 0 || root >= c.ranks()) {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'root' is {}, but there are {} ranks", root, c.ranks()));
  }
  std::optional<std::int64_t> position;  // of rank `root`
  for (const std::vector<int>& part : parts) {
    const auto at = std::find(part.begin(), part.end(), static_cast<int>(root));
    if (at != part.end()) position = at - part.begin();
  }
  if (parts.size() == 1) {
    if (!position)
      c.fail(errors::kInvalidAttribute, fmt::format("attribute 'root' is {}, which is not in the group {}",
                                                    root, fmt::join(parts[0], ",")));
  } else if (root >= static_cast<std::int64_t>(parts[0].size()) || position.value_or(root) != root) {
    c.fail(
        errors::kInvalidAttribute,
        fmt::format("attribute 'root' is {}, which does not name the same position in each of the groups {}",
                    root, ir::parts_text(parts)),
        "use ai.braid's Broadcast, whose 'root' is a position in each group");
  }
  return static_cast<int>(parts.size() == 1 ? *position : root);
}

// TensorRT's DistCollective. `groups` lists ranks, `group_size` of them to a group; each rank is in one
// group.
void dist_collective(OpContext& c) {
  std::int64_t declared = c.int_attribute("nb_rank", -1);
  if (declared > 0 && declared != c.ranks()) {
    c.fail(errors::kRankCount,
           fmt::format("attribute 'nb_rank' is {}, but there are {} ranks", declared, c.ranks()),
           fmt::format("compile with --ranks {}", declared));
  }
  std::vector<std::int64_t> listed = c.ints_attribute("groups").value_or(std::vector<std::int64_t>{});
  if (listed.empty()) listed = all_ranks(c);
  std::int64_t each = c.int_attribute("group_size", -1);
  if (each < 1) each = static_cast<std::int64_t>(listed.size());
  const Parts parts = parts_of(c, "groups", listed, each);
  const std::string operation = c.string_attribute("collective_operation", "");
  std::string reduce_name = c.string_attribute("reduce_op", "none");
  const bool reduces = operation == "all_reduce" || operation == "reduce_scatter" || operation == "reduce";
  const ReduceKind kind = reduces ? reduce_kind(c, reduce_name) : ReduceKind::sum;
  constexpr std::string_view kOperations[] = {"all_reduce", "all_gather", "reduce_scatter",
                                              "all_to_all", "broadcast",  "reduce"};
  if (std::find(std::begin(kOperations), std::end(kOperations), operation) == std::end(kOperations)) {
    c.fail(errors::kUnsupportedForm,
           fmt::format("collective_operation '{}': expected all_reduce, all_gather, reduce_scatter, "
                       "all_to_all, broadcast or reduce; results of gather and scatter would have another "
                       "shape on each rank",
                       operation));
  }
  const int root = operation == "broadcast" ? dist_root(c, parts) : -1;
  const TensorBox x = c.input(0);
  if (each == 1) return c.set_output(0, x);
  if (c.rank(0) == 0 && operation != "all_reduce" && operation != "broadcast" && operation != "reduce")
    c.fail(errors::kShapeMismatch, "a scalar cannot be split into slabs");
  if (operation == "reduce_scatter" || operation == "all_to_all") require_divisible(c, c.size(0, 0), each, 0);
  const GroupId group = make_group(c, parts);
  ir::Lowering& l = c.lowering();
  if (operation == "all_reduce" || operation == "reduce") {  // reduce: others than the root get it as well
    c.set_output(0, l.all_reduce(x, group, kind));
  } else if (operation == "all_gather") {
    c.set_output(0, l.all_gather(x, group, 0));
  } else if (operation == "reduce_scatter") {
    c.set_output(0, l.reduce_scatter(x, group, 0, kind));
  } else if (operation == "all_to_all") {
    c.set_output(0, l.all_to_all(x, group));
  } else {
    c.set_output(0, l.broadcast(x, group, root));
  }
}

}  // namespace

std::span<const OpSpec> collective_ops() {
  static const OpSpec ops[] = {
      {"", "DistCollective", 1, kNewestOpset, kAllTypes, dist_collective, work::collective(),
       rule::kCollective, kNoState, kNoSizes, true},
      {kBraidDomain, "AllGather", 1, 1, kAllTypes, braid_all_gather, work::collective(), rule::kAllGather,
       kNoState, kNoSizes, true},
      {kBraidDomain, "AllReduce", 1, 1, kNumbers, braid_all_reduce, work::collective(), rule::kAllReduce,
       kNoState, kNoSizes, true},
      {kBraidDomain, "AllToAll", 1, 1, kAllTypes, braid_all_to_all, work::collective(), rule::kAllToAll,
       kNoState, kNoSizes, true},
      {kBraidDomain, "BatchSendRecv", 1, 1, kAllTypes, braid_batch_send_recv, work::collective(),
       rule::kCollective, kNoState, kNoSizes, true},
      {kBraidDomain, "Broadcast", 1, 1, kAllTypes, braid_broadcast, work::collective(), rule::kCollective,
       kNoState, kNoSizes, true},
      {kBraidDomain, "OfRank", 1, 1, kAllTypes, braid_of_rank, work::select(),
       sharding::replicated("each rank has a value of its own"), kNoState, kNoSizes},
      {kBraidDomain, "Recv", 1, 1, TypeSet{DType::i64}, braid_recv, work::collective(), rule::kCollective,
       kNoState, kNoSizes, true},
      {kBraidDomain, "ReduceScatter", 1, 1, kNumbers, braid_reduce_scatter, work::collective(),
       rule::kReduceScatter, kNoState, kNoSizes, true},
      {kBraidDomain, "Send", 1, 1, kAllTypes, braid_send, work::collective(), rule::kCollective, kNoState,
       kNoSizes, true},
      {kBraidDomain, "ShardDimAllToAll", 1, 1, kAllTypes, braid_shard_dim_all_to_all, work::collective(),
       rule::kCollective, kNoState, kNoSizes, true},
      {kBraidDomain, "WaitTensor", 1, 1, kAllTypes, braid_wait_tensor, work::collective(), rule::kCollective,
       kNoState, kNoSizes},
      {kMicrosoftDomain, "AllGather", 1, 1, kAllTypes, microsoft_all_gather, work::collective(),
       rule::kCollective, kNoState, kNoSizes, true},
      {kMicrosoftDomain, "AllReduce", 1, 1, kNumbers, microsoft_all_reduce, work::collective(),
       rule::kCollective, kNoState, kNoSizes, true},
      {kMicrosoftDomain, "AllToAll", 1, 1, kAllTypes, microsoft_all_to_all, work::collective(),
       rule::kCollective, kNoState, kNoSizes, true},
  };
  return ops;
}

}  // namespace braid::frontend
