#include "passes/overlap/schedule_for_comm.h"

#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

using Key = std::tuple<int, int, int>;  // first collective blocked, is a wait, node
using Ready = std::priority_queue<Key, std::vector<Key>, std::greater<>>;

class ListScheduler {
 public:
  ListScheduler(const Reordering& r, const ScheduleForComm& wishes) : r_(r), p_(r.problem), wishes_(wishes) {
    blocks_.assign(at(p_.size()), std::numeric_limits<int>::max());
    if (wishes.raise) {
      int index = 0;
      for (int n = 0; n < p_.size(); ++n) {
        if (r.starts(n)) blocks_[at(n)] = index++;
      }
      for (int n = p_.size(); n-- > 0;) {
        for (int after : p_.successors(n)) blocks_[at(n)] = std::min(blocks_[at(n)], blocks_[at(after)]);
      }
    }
    for (int n = 0; n < p_.size(); ++n) missing_.push_back(static_cast<int>(p_.predecessors(n).size()));
  }

  std::vector<int> run() {
    for (int n = 0; n < p_.size(); ++n) {
      if (missing_[at(n)] == 0) make_ready(n);
    }
    while (!compute_.empty() || !comm_.empty()) {
      Ready& from = comm_.empty() || (!compute_.empty() && compute_.top() < comm_.top()) ? compute_ : comm_;
      const int node = take(from);
      if (!wishes_.overlap) continue;
      Time budget;
      for (const Step& s : p_.steps_of(node)) {
        if (s.kind == Step::Kind::start && !s.blocking) budget += p_.collectives[at(s.collective)].cost.time;
      }
      while (budget.ps > 0 && !compute_.empty()) budget -= p_.compute_time(take(compute_));
    }
    return std::move(order_);
  }

 private:
  const Reordering& r_;
  const Problem& p_;
  const ScheduleForComm& wishes_;
  std::vector<int> blocks_, missing_;
  Ready compute_, comm_;
  std::vector<int> order_;

  void make_ready(int n) {
    const bool communicates = r_.communicates(n);
    (communicates ? comm_ : compute_).push({blocks_[at(n)], wishes_.sink && r_.waits(n) ? 1 : 0, n});
  }
  int take(Ready& from) {
    const int node = std::get<2>(from.top());
    from.pop();
    order_.push_back(node);
    for (int after : p_.successors(node)) {
      if (--missing_[at(after)] == 0) make_ready(after);
    }
    return node;
  }
};

}  // namespace

bool ScheduleForComm::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [this](Reordering& r) { return ListScheduler(r, *this).run(); });
}

}  // namespace braid::passes
