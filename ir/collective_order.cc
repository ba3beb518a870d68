#include "ir/collective_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/collective_table.h"

namespace braid::ir {
namespace {

using Names = std::vector<std::string>;

// The names of `of` that `other` has as well.
Names common(const Names& of, const Names& other) {
  const std::set<std::string_view> known(other.begin(), other.end());
  Names out;
  std::ranges::copy_if(of, std::back_inserter(out),
                       [&](const std::string& name) { return known.contains(name); });
  return out;
}

std::string first_difference(const Names& before, const Names& after) {
  for (std::size_t k = 0;; ++k) {
    if (k < before.size() && k < after.size() && before[k] == after[k]) continue;
    const auto name = [&](const Names& names) {
      return k < names.size() ? fmt::format("'{}'", names[k]) : std::string("none");
    };
    return fmt::format("number {} was {}, now it is {}", k, name(before), name(after));
  }
}

}  // namespace

std::vector<Queue> queues_of(const Schedule& schedule, OpId start) {
  const auto& kernel = *schedule.graph[start].as<CollectiveKernel>();
  const int group = kernel.group.index;
  switch (schedule.channels) {
    case ChannelPolicy::global:
      return {{-1, -1, -1}};
    case ChannelPolicy::communicator:
      return {{group, -1, -1}};
    case ChannelPolicy::pair:
    case ChannelPolicy::edge:
      break;
  }
  const bool edge = schedule.channels == ChannelPolicy::edge;
  if (row_of(kernel.kind).point_to_point)
    return {{group, kernel.root, edge && kernel.kind == CollectiveKind::recv ? 1 : 0}};
  std::vector<Queue> out;
  for (int peer = 0; peer < static_cast<int>(schedule.graph[kernel.group].size()); ++peer) {
    out.push_back({group, peer, 0});
    if (edge) out.push_back({group, peer, 1});
  }
  return out;
}

namespace {

// Counts the transfers from one member of a pair to the other.
class Meetings {
 public:
  explicit Meetings(const Graph& graph) : graph_(graph) {}

  bool all_meet(const std::vector<OpId>& ops) {
    return std::ranges::all_of(ops, [&](OpId op) { return meets(op); });
  }

 private:
  bool meets(OpId id) {
    if (const auto* region = graph_[id].as<RegionKernel>())
      return std::ranges::all_of(region->regions, [&](const Region& r) { return all_meet(r.ops); });
    if (const auto* kernel = graph_[id].as<CollectiveKernel>(); kernel != nullptr && is_transfer(*kernel)) {
      number_of_[id] = started_[key_of(*kernel, false)]++;
      return !kernel->blocking || other_has_started(id);
    }
    const auto* wait = graph_[id].as<WaitKernel>();
    const auto* release = graph_[id].as<ReleaseKernel>();
    const OpId start = wait != nullptr ? wait->start : release != nullptr ? release->start : OpId{};
    if (!number_of_.contains(start)) return true;
    const auto& kernel = *graph_[start].as<CollectiveKernel>();
    if (wait == nullptr)
      return kernel.kind == CollectiveKind::recv ||
             received_.contains({key_of(kernel, true), number_of_[start]});
    if (kernel.kind == CollectiveKind::recv) received_.emplace(key_of(kernel, false), number_of_[start]);
    return other_has_started(start);
  }

  bool is_transfer(const CollectiveKernel& kernel) const { return row_of(kernel.kind).point_to_point; }
  using Key = std::tuple<GroupId, int, bool>;  // group, source, send or receive
  Key key_of(const CollectiveKernel& kernel, bool other) const {
    const bool send = kernel.kind == CollectiveKind::send;
    return {kernel.group, send ? 1 - kernel.root : kernel.root, send != other};
  }
  // In a larger group a rank may receive from several others; nothing is known of such transfers.
  bool other_has_started(OpId start) {
    const auto& kernel = *graph_[start].as<CollectiveKernel>();
    return graph_[kernel.group].size() == 2 && number_of_[start] < started_[key_of(kernel, true)];
  }

  const Graph& graph_;
  std::map<Key, int> started_;
  std::map<OpId, int> number_of_;  // of a start among those of its kind
  std::set<std::pair<Key, int>> received_;
};

}  // namespace

bool transfers_meet(const Schedule& schedule) {
  return Meetings(schedule.graph).all_meet(execution_order(schedule));
}

CollectiveOrder::CollectiveOrder(const Schedule& schedule) {
  for (const OpId op : execution_order(schedule)) add(schedule, op);
  if (messages_.empty()) of_queue_.clear();
}

void CollectiveOrder::add(const Schedule& schedule, OpId id) {
  const Graph& graph = schedule.graph;
  const Operation& op = graph[id];
  if (const auto* region = op.as<RegionKernel>()) {
    for (const Region& r : region->regions) {
      for (const OpId inner : r.ops) add(schedule, inner);
    }
  }
  const auto* kernel = op.as<CollectiveKernel>();
  if (kernel == nullptr) return;
  const std::string& group = graph[kernel->group].name;
  of_group_[group].push_back(op.name);
  for (const auto& [queue_group, member, direction] : queues_of(schedule, id))
    of_queue_[{queue_group < 0 ? std::string() : group, member, direction}].push_back(op.name);
  if (row_of(kernel->kind).point_to_point)
    messages_[{group, static_cast<int>(kernel->kind), kernel->root}].push_back(op.name);
}

std::string CollectiveOrder::change(const CollectiveOrder& after, bool may_reorder) const {
  if (!may_reorder && of_group_ != after.of_group_)
    return "changed the order of collectives without being allowed to";
  for (const auto* messages : {&messages_, &after.messages_}) {
    for (const auto& [key, unused] : *messages) {
      const auto of = [&](const CollectiveOrder& order) {
        const auto at = order.messages_.find(key);
        return at == order.messages_.end() ? Names{} : at->second;
      };
      if (of(*this) == of(after)) continue;
      return fmt::format(
          "changed the messages of a pair, which the other side counts: of the {}s of group '{}' with member "
          "{}, {}",
          to_string(static_cast<CollectiveKind>(std::get<1>(key))), std::get<0>(key), std::get<2>(key),
          first_difference(of(*this), of(after)));
    }
  }
  for (const auto& [queue, names] : of_queue_) {
    const auto now = after.of_queue_.find(queue);
    if (now == after.of_queue_.end()) continue;
    const Names was = common(names, now->second), is = common(now->second, names);
    if (was == is) continue;
    return fmt::format(
        "changed the order of collectives in a program with sends and receives: in one queue, {}",
        first_difference(was, is));
  }
  return {};
}

}  // namespace braid::ir
