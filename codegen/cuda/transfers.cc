#include "codegen/cuda/transfers.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "codegen/cuda/streams.h"
#include "codegen/cuda/touches.h"
#include "ir/collective_table.h"

namespace braid::codegen::cuda {
namespace {

const ir::CollectiveKernel* transfer(const ir::Graph& graph, const Unit& unit) {
  const auto* k = graph[unit.ops[0]].as<ir::CollectiveKernel>();
  return k != nullptr && ir::row_of(k->kind).point_to_point ? k : nullptr;
}

class Grouping {
 public:
  Grouping(const ir::Graph& graph, const std::vector<Unit>& units, const MemoryMap& memory)
      : graph_(graph), units_(units), partners_(units.size()), before_(units.size()) {
    for (const Unit& unit : units) touches_.push_back(touches_of(graph, unit, memory));
    pair();
  }

  std::vector<Unit> order() {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const UnitKind kind = kind_of(graph_, units_[u]);
      const bool transfers = transfer(graph_, units_[u]) != nullptr;
      std::set<std::size_t> needed;
      for (const Open& o : open_) {
        if (kind != UnitKind::nothing && conflict(graph_, touches_[u], touches_[o.unit]) != Conflict::none)
          needed.insert(o.unit);
      }
      if (!needed.empty() || (kind == UnitKind::collective && !transfers)) issue(needed);
      if (transfers)
        open_.push_back({u, out_.size()});
      else
        out_.push_back(units_[u]);
    }
    std::set<std::size_t> rest;
    for (const Open& o : open_) rest.insert(o.unit);
    issue(rest);
    return std::move(out_);
  }

 private:
  struct Open {
    std::size_t unit, place;  // before which element of out_
  };

  // The k-th send from one rank to another within a group of ranks meets the k-th receive.
  void pair() {
    using Way = std::tuple<ir::Parts, int, int>;  // the group, from, to
    std::map<Way, std::vector<std::size_t>> sends, receives;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const ir::CollectiveKernel* k = transfer(graph_, units_[u]);
      if (k == nullptr) continue;
      const ir::CommGroup& group = graph_[k->group];
      const bool send = k->kind == ir::CollectiveKind::send;
      for (int member = 0; member < group.size(); ++member) {
        if (member == k->root) continue;
        std::vector<std::size_t>& same =
            send ? sends[{group.parts, member, k->root}] : receives[{group.parts, k->root, member}];
        if (!same.empty()) before_[u].push_back(same.back());
        same.push_back(u);
      }
    }
    for (const auto& [way, from] : sends) {
      const std::vector<std::size_t>& to = receives[way];
      for (std::size_t k = 0; k < std::min(from.size(), to.size()); ++k) {
        partners_[from[k]].push_back(to[k]);
        partners_[to[k]].push_back(from[k]);
      }
    }
  }

  // The open transfers whose partners, and whose predecessors between the same ranks, are open or issued too.
  std::set<std::size_t> complete() const {
    std::set<std::size_t> out;
    for (const Open& o : open_) out.insert(o.unit);
    const auto there = [&](std::size_t u) { return issued_.contains(u) || out.contains(u); };
    const auto lacks_one = [&](std::size_t u) {
      return !std::all_of(partners_[u].begin(), partners_[u].end(), there) ||
             !std::all_of(before_[u].begin(), before_[u].end(), there);
    };
    while (std::erase_if(out, lacks_one) > 0) {
    }
    return out;
  }

  // Issues what is complete, and these with what belongs to them, as one group.
  void issue(const std::set<std::size_t>& needed) {
    std::set<std::size_t> group = complete();
    std::vector<std::size_t> found(needed.begin(), needed.end());
    while (!found.empty()) {
      const std::size_t u = found.back();
      found.pop_back();
      const bool open = std::any_of(open_.begin(), open_.end(), [&](const Open& o) { return o.unit == u; });
      if (!open || !group.insert(u).second) continue;
      for (const auto* more : {&partners_[u], &before_[u]})
        found.insert(found.end(), more->begin(), more->end());
    }
    if (group.empty()) return;
    std::size_t place = 0;
    for (const Open& o : open_) {
      if (group.contains(o.unit)) place = std::max(place, o.place);
    }
    std::vector<Unit> members;
    for (std::size_t u : group) {
      members.push_back(units_[u]);
      members.back().transfers = groups_;
    }
    ++groups_;
    out_.insert(out_.begin() + static_cast<std::ptrdiff_t>(place), members.begin(), members.end());
    std::erase_if(open_, [&](const Open& o) { return group.contains(o.unit); });
    // The others come after this group.
    for (Open& o : open_) o.place = std::max(o.place, place) + members.size();
    issued_.merge(group);
  }

  const ir::Graph& graph_;
  const std::vector<Unit>& units_;
  std::vector<std::vector<Touch>> touches_;
  std::vector<std::vector<std::size_t>> partners_, before_;  // per unit
  std::vector<Open> open_;                                   // transfers not issued yet, in order
  std::set<std::size_t> issued_;
  std::vector<Unit> out_;
  int groups_ = 0;
};

}  // namespace

std::vector<Unit> group_transfers(const ir::Graph& graph, const std::vector<Unit>& units,
                                  const MemoryMap& memory) {
  return Grouping(graph, units, memory).order();
}

}  // namespace braid::codegen::cuda
