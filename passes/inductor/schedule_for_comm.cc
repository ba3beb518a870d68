#include "passes/inductor/schedule_for_comm.h"

#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "analysis/topological.h"
#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

using Key = std::tuple<int, int, NodeId>;  // first collective blocked, is a wait, node
using Ready = std::priority_queue<Key, std::vector<Key>, std::greater<>>;

class ListScheduler {
 public:
  ListScheduler(const Reordering& r, const ScheduleForComm& wishes)
      : r_(r),
        p_(r.problem),
        wishes_(wishes),
        blocks_(wishes.raise ? r.first_start_of()
                             : IdVector<NodeId, int>(p_.nodes(), std::numeric_limits<int>::max())),
        readiness_(p_) {}

  Order run() {
    readiness_.begin([&](NodeId n) { make_ready(n); });
    while (!compute_.empty() || !comm_.empty()) {
      Ready& from = comm_.empty() || (!compute_.empty() && compute_.top() < comm_.top()) ? compute_ : comm_;
      const NodeId node = take(from);
      if (!wishes_.overlap) continue;
      Time budget;
      for (const Step& s : p_.steps_of(node)) {
        if (s.kind == Step::Kind::start && !s.blocking) budget += p_.collectives[s.collective].cost.time;
      }
      while (budget.ps > 0 && !compute_.empty()) budget -= p_.compute_time(take(compute_));
    }
    return std::move(order_);
  }

 private:
  const Reordering& r_;
  const Problem& p_;
  const ScheduleForComm& wishes_;
  IdVector<NodeId, int> blocks_;
  Readiness readiness_;
  Ready compute_, comm_;
  Order order_;

  void make_ready(NodeId n) {
    const bool communicates = r_.communicates(n);
    (communicates ? comm_ : compute_).push({blocks_[n], wishes_.sink && r_.waits(n) ? 1 : 0, n});
  }
  NodeId take(Ready& from) {
    const NodeId node = std::get<2>(from.top());
    from.pop();
    order_.push_back(node);
    readiness_.take(node, [&](NodeId n) { make_ready(n); });
    return node;
  }
};

}  // namespace

bool ScheduleForComm::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [this](Reordering& r) { return ListScheduler(r, *this).run(); });
}

}  // namespace braid::passes
