// Collectives along the mesh axes before the one that is being split (split.h): each rank of a group has a
// part along this axis, and they exchange these. A dimension that they gather or cut stays whole: its parts
// would lie in another order. A plain model has none.
#include "frontend/schemas.h"
#include "frontend/sharding/rules.h"

namespace braid::frontend::sharding {
namespace {

// Sums of sums; what moves elements passes any.
std::vector<Linear> passing(const NodeView& node) {
  const std::string reduce = node.string_attribute("reduce_op", "");
  if (reduce.empty() && node.op() != "AllReduce" && node.op() != "ReduceScatter")
    return linear_of(node, Pending::any);
  for (const ir::ReduceKind kind :
       {ir::ReduceKind::sum, ir::ReduceKind::prod, ir::ReduceKind::max, ir::ReduceKind::min}) {
    if (reduce == to_string(kind)) return {{{0}, {kind}}};
  }
  return {};
}

Factors all_reduce(const NodeView& node, const Rule&) {
  return {broadcast_letters(node, {0}), passing(node)};
}

Factors along_axis(const NodeView& node, const Rule&) {
  const int axis = NodeView::axis(node.int_attribute("axis", 0), node.rank(0));
  return {broadcast_letters(node, {0}, {axis}), passing(node)};
}

Factors all_to_all(const NodeView& node, const Rule&) {
  const int from = NodeView::axis(node.int_attribute("split_axis", 0), node.rank(0));
  const int to = NodeView::axis(node.int_attribute("concat_axis", 0), node.rank(0));
  return {broadcast_letters(node, {0}, {from, to}), passing(node)};
}

const Rule kRules[] = {
    {kBraidDomain, "AllGather", along_axis},
    {kBraidDomain, "AllReduce", all_reduce},
    {kBraidDomain, "AllToAll", all_to_all},
    {kBraidDomain, "ReduceScatter", along_axis},
};

}  // namespace

std::span<const Rule> collective_rules() { return kRules; }

}  // namespace braid::frontend::sharding
