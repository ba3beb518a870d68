// Collectives along the mesh axes before the one that is being split (split.h): each rank of a group has a
// part along this axis, and they exchange these. A dimension that they gather or cut stays whole: its parts
// would lie in another order. A plain model has none.
#include "frontend/sharding/rules.h"
#include "split/conversion_steps.h"

namespace braid::frontend::sharding {
namespace {

// Sums of sums; what moves elements passes any.
std::vector<Linear> passing(const NodeView& node, const Rule& rule) {
  if (rule.pending == Pending::any) return linear_of(node, rule.pending);
  const std::string reduce = node.string_attribute("reduce_op", "");
  for (const ir::ReduceKind kind :
       {ir::ReduceKind::sum, ir::ReduceKind::prod, ir::ReduceKind::max, ir::ReduceKind::min}) {
    if (reduce == to_string(kind)) return {{{0}, {kind}}};
  }
  return {};
}

Factors all_reduce(const NodeView& node, const Rule& rule) {
  return {broadcast_letters(node, {0}), passing(node, rule)};
}

Factors along_axis(const NodeView& node, const Rule& rule) {
  const int axis = NodeView::axis(node.int_attribute("axis", 0), node.rank(0));
  return {broadcast_letters(node, {0}, {axis}), passing(node, rule)};
}

Factors all_to_all(const NodeView& node, const Rule& rule) {
  const int from = NodeView::axis(node.int_attribute("split_axis", 0), node.rank(0));
  const int to = NodeView::axis(node.int_attribute("concat_axis", 0), node.rank(0));
  return {broadcast_letters(node, {0}, {from, to}), passing(node, rule)};
}

}  // namespace

namespace rule {
constexpr Rule kAllGather = Rule(along_axis, Pending::any).exchanging(StepKind::all_gather);
constexpr Rule kAllReduce = Rule(all_reduce).exchanging(StepKind::all_reduce);
constexpr Rule kAllToAll = Rule(all_to_all, Pending::any).exchanging(StepKind::all_to_all);
constexpr Rule kReduceScatter = Rule(along_axis).exchanging(StepKind::reduce_scatter);
}  // namespace rule

}  // namespace braid::frontend::sharding
