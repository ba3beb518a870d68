// Collectives: ONNX Runtime's (com.microsoft, over all ranks) and the project's own (ai.braid, over any
// group).
#include <algorithm>
#include <set>

#include "frontend/ops/common.h"
#include "frontend/schemas.h"

namespace braid::frontend {
namespace {

using ir::GroupId;
using ir::ReduceKind;

// "world", or "group_0_2" after its ranks.
GroupId make_group(OpContext& c, const std::vector<int>& ranks) {
  const bool world =
      static_cast<int>(ranks.size()) == c.ranks() && std::is_sorted(ranks.begin(), ranks.end());
  return c.lowering().graph().add_group(world ? "world" : fmt::format("group_{}", fmt::join(ranks, "_")),
                                        ranks);
}

// Attribute `group`; all ranks where there is none. A rank outside of the group passes the node over: what
// the node's outputs hold there is undefined.
std::vector<int> group_ranks(OpContext& c) {
  std::vector<int> ranks;
  const auto given = c.ints_attribute("group");
  if (!given || given->empty()) {
    for (int r = 0; r < c.ranks(); ++r) ranks.push_back(r);
    return ranks;
  }
  std::set<std::int64_t> seen;
  for (std::int64_t r : *given) {
    if (r < 0 || r >= c.ranks()) {
      c.fail(kInvalidGroup,
             fmt::format("attribute 'group' has rank {}, but there are {} ranks", r, c.ranks()),
             "compile for as many ranks as the model was split for (--ranks)");
    }
    if (!seen.insert(r).second) c.fail(kInvalidGroup, fmt::format("attribute 'group' has rank {} twice", r));
    ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

// The group of a com.microsoft operator: the whole world, which group_size must agree with.
std::vector<int> world(OpContext& c, bool has_group_size) {
  if (has_group_size) {
    const std::int64_t size = c.int_attribute("group_size", 1);
    if (size < 1)
      c.fail(kInvalidAttribute,
             fmt::format("attribute 'group_size' is {}; a group has at least one rank", size));
    if (size != c.ranks()) {
      c.fail(kRankCount, fmt::format("attribute 'group_size' is {}, but there are {} ranks", size, c.ranks()),
             fmt::format("compile with --ranks {}", size));
    }
  }
  return group_ranks(c);
}

ReduceKind reduce_op(OpContext& c) {
  const std::string name = c.string_attribute("reduce_op", "sum");
  for (ReduceKind kind :
       {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min, ReduceKind::avg}) {
    if (name == to_string(kind)) return kind;
  }
  c.fail(kInvalidAttribute,
         fmt::format("attribute 'reduce_op' is '{}', expected sum, prod, max, min or avg", name));
}

void require_divisible(OpContext& c, Expr size, std::int64_t ranks, int axis) {
  if (!size.is_constant()) {
    if (!ir::divide_exactly(size, ranks)) {
      c.fail(kShapeMismatch, fmt::format("the size {} of axis {} is not known to be divisible by {} ranks",
                                         to_string(size), axis, ranks));
    }
  } else if (size.constant() % ranks != 0) {
    c.fail(kShapeMismatch,
           fmt::format("the size {} of axis {} is not divisible by {} ranks", to_string(size), axis, ranks));
  }
}

// Applies one collective to every pair of input and output. A group of one rank has nothing to do.
template <class F>
void for_each_tensor(OpContext& c, const std::vector<int>& ranks, const F& lower) {
  if (c.input_count() != c.output_count()) {
    c.fail(kInvalidNode, fmt::format("{} inputs, but {} outputs", c.input_count(), c.output_count()));
  }
  for (int k = 0; k < c.input_count(); ++k) {
    c.set_output(k, ranks.size() == 1 ? c.input(k) : lower(k, make_group(c, ranks)));
  }
}

void all_reduce(OpContext& c, const std::vector<int>& ranks, ReduceKind kind) {
  for_each_tensor(c, ranks,
                  [&](int k, GroupId group) { return c.lowering().all_reduce(c.input(k), group, kind); });
}

void all_gather(OpContext& c, const std::vector<int>& ranks) {
  for_each_tensor(c, ranks, [&](int k, GroupId group) {
    return c.lowering().all_gather(c.input(k), group, c.axis_attribute(c.rank(k), 0));
  });
}

void all_to_all(OpContext& c, const std::vector<int>& ranks) {
  for_each_tensor(c, ranks, [&](int k, GroupId group) {
    if (c.rank(k) == 0) c.fail(kShapeMismatch, "a scalar cannot be cut into slabs");
    require_divisible(c, c.sizes(k)[0], static_cast<std::int64_t>(ranks.size()), 0);
    return c.lowering().all_to_all(c.input(k), group);
  });
}

void microsoft_all_reduce(OpContext& c) { all_reduce(c, world(c, false), ReduceKind::sum); }
void microsoft_all_gather(OpContext& c) { all_gather(c, world(c, true)); }
void microsoft_all_to_all(OpContext& c) { all_to_all(c, world(c, true)); }

void braid_all_reduce(OpContext& c) { all_reduce(c, group_ranks(c), reduce_op(c)); }
void braid_all_gather(OpContext& c) { all_gather(c, group_ranks(c)); }
void braid_all_to_all(OpContext& c) { all_to_all(c, group_ranks(c)); }

void braid_reduce_scatter(OpContext& c) {
  const std::vector<int> ranks = group_ranks(c);
  const ReduceKind kind = reduce_op(c);
  for_each_tensor(c, ranks, [&](int k, GroupId group) {
    const int axis = c.axis_attribute(c.rank(k), 0);
    require_divisible(c, c.sizes(k)[static_cast<std::size_t>(axis)], static_cast<std::int64_t>(ranks.size()),
                      axis);
    return c.lowering().reduce_scatter(c.input(k), group, axis, kind);
  });
}

// A position in the group.
int member(OpContext& c, const char* attribute, const std::vector<int>& ranks) {
  const std::int64_t position = c.int_attribute(attribute, 0);
  if (position < 0 || position >= static_cast<std::int64_t>(ranks.size())) {
    c.fail(kInvalidAttribute, fmt::format("attribute '{}' is {}, but the group has {} ranks", attribute,
                                          position, ranks.size()));
  }
  return static_cast<int>(position);
}

void braid_broadcast(OpContext& c) {
  const std::vector<int> ranks = group_ranks(c);
  const int root = member(c, "root", ranks);
  for_each_tensor(c, ranks,
                  [&](int k, GroupId group) { return c.lowering().broadcast(c.input(k), group, root); });
}

void braid_send(OpContext& c) {
  const std::vector<int> ranks = group_ranks(c);
  c.lowering().send(c.input(0), make_group(c, ranks), member(c, "peer", ranks));
}

void braid_recv(OpContext& c) {
  const std::vector<int> ranks = group_ranks(c);
  const DType dtype = c.dtype_of(c.int_attribute("dtype"));
  c.set_output(0, c.lowering().recv(dtype, c.shape_values(0, "the sizes"), make_group(c, ranks),
                                    member(c, "peer", ranks)));
}

const OpSpec kOps[] = {
    {kBraidDomain, "AllGather", 1, 1, kAllTypes, braid_all_gather, true},
    {kBraidDomain, "AllReduce", 1, 1, kNumbers, braid_all_reduce, true},
    {kBraidDomain, "AllToAll", 1, 1, kAllTypes, braid_all_to_all, true},
    {kBraidDomain, "Broadcast", 1, 1, kAllTypes, braid_broadcast, true},
    {kBraidDomain, "Recv", 1, 1, {DType::i64}, braid_recv, true},
    {kBraidDomain, "ReduceScatter", 1, 1, kNumbers, braid_reduce_scatter, true},
    {kBraidDomain, "Send", 1, 1, kAllTypes, braid_send, true},
    {kMicrosoftDomain, "AllGather", 1, 1, kAllTypes, microsoft_all_gather, true},
    {kMicrosoftDomain, "AllReduce", 1, 1, kNumbers, microsoft_all_reduce, true},
    {kMicrosoftDomain, "AllToAll", 1, 1, kAllTypes, microsoft_all_to_all, true},
};

}  // namespace

std::span<const OpSpec> collective_ops() { return kOps; }

}  // namespace braid::frontend
