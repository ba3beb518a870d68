#include "passes/overlap/list_scheduler.h"

#include <algorithm>
#include <queue>

#include "analysis/simulator.h"
#include "ir/error.h"

namespace braid::passes {
namespace {

using namespace analysis;

enum class Class : std::uint8_t { free, start, wait, compute };

class ListScheduler {
 public:
  ListScheduler(const Problem& problem, const ListRule& rule, Admission* admission)
      : p_(problem), rule_(rule), admission_(admission), simulator_(problem) {
    work_.assign(p_.nodes(), 0);
    class_.assign(p_.nodes(), Class::compute);
    channel_.assign(p_.nodes(), ChannelId{0});
    missing_.assign(p_.nodes(), 0);
    ready_.assign(p_.nodes(), 0);
    taken_.assign(p_.nodes(), 0);
    done_.assign(p_.collectives.ids(), 0);
    issued_.assign(p_.channel_ids(), {});
    first_issued_.assign(p_.channel_ids(), 0);
    starts_.assign(p_.channel_ids(), {});
    for (const NodeId n : p_.nodes()) {
      classify(n);
      work_left_ += work_[n];
      missing_[n] = p_.predecessors(n).size();
    }
    for (const NodeId n : p_.nodes()) {
      if (missing_[n] == 0) make_ready(n);
    }
  }

  Order run() {
    order_.reserve(p_.nodes().size());
    while (order_.size() < p_.nodes().size()) {
      note_complete();
      const NodeId n = choose();
      ir::internal_check(n.valid(), "no node is ready: the dependencies have a cycle");
      take(n);
    }
    return std::move(order_);
  }

 private:
  // A heap of ready nodes: the most urgent first, ties in input order. Nodes that were taken by another route
  // stay in the heap until they reach its top.
  class Ready {
   public:
    void push(std::int64_t priority, NodeId node) { heap_.push({priority, -node.index}); }
    bool empty() const { return heap_.empty(); }
    NodeId top() const { return {-heap_.top().second}; }
    void pop() { heap_.pop(); }

   private:
    std::priority_queue<std::pair<std::int64_t, int>> heap_;
  };

  const Problem& p_;
  ListRule rule_;
  Admission* admission_;
  Simulator simulator_;
  IdVector<NodeId, std::int64_t> work_;
  IdVector<NodeId, Class> class_;
  IdVector<NodeId, ChannelId> channel_;    // of the first start of a node
  IdVector<NodeId, std::size_t> missing_;  // predecessors
  IdVector<NodeId, char> ready_, taken_;
  IdVector<CollectiveId, char> done_;                      // seen complete
  IdVector<ChannelId, std::vector<CollectiveId>> issued_;  // in order
  IdVector<ChannelId, std::size_t> first_issued_;          // that was not seen complete
  Ready free_, compute_;
  IdVector<ChannelId, Ready> starts_;
  std::int64_t work_left_ = 0;
  Order order_;

  std::int64_t priority(NodeId n) const { return rule_.priority[n]; }

  std::int64_t tail(NodeId n) const { return rule_.tails[n]; }

  void classify(NodeId n) {
    bool starts = false, waits = false;
    for (const Step& s : p_.steps_of(n)) {
      work_[n] += s.work.ps;
      if (s.kind == Step::Kind::start && !s.blocking && !starts) {
        starts = true;
        channel_[n] = p_.collectives[s.collective].channel;
      }
      // A blocking collective occupies the stream like a computation, and so does a wait for the node's own
      // start.
      waits |= s.kind == Step::Kind::wait && p_.collectives[s.collective].start != n;
      if (s.kind == Step::Kind::start && s.blocking) {
        work_[n] += p_.collectives[s.collective].cost.time.ps;
      }
    }
    class_[n] = waits ? Class::wait : starts ? Class::start : work_[n] > 0 ? Class::compute : Class::free;
  }

  // Whether everything that the node waits for is complete.
  bool is_over(NodeId n) const {
    for (const Step& s : p_.steps_of(n)) {
      if (s.kind == Step::Kind::wait && p_.collectives[s.collective].start != n && done_[s.collective] == 0) {
        return false;
      }
    }
    return true;
  }

  void make_ready(NodeId n) {
    ready_[n] = 1;
    switch (class_[n]) {
      case Class::free:
        free_.push(priority(n), n);
        break;
      case Class::start:
        starts_[channel_[n]].push(priority(n), n);
        break;
      case Class::wait:
        if (is_over(n)) over(n);
        break;
      case Class::compute:
        compute_.push(priority(n), n);
        break;
    }
  }
  // Handles a wait that no longer blocks.
  void over(NodeId n) { work_[n] > 0 ? compute_.push(priority(n), n) : free_.push(priority(n), n); }

  void note_complete() {
    for (const ChannelId ch : issued_.ids()) {
      while (first_issued_[ch] < issued_[ch].size() && simulator_.complete(issued_[ch][first_issued_[ch]])) {
        const CollectiveId c = issued_[ch][first_issued_[ch]++];
        done_[c] = 1;
        const NodeId w = p_.collectives[c].wait;
        if (w.valid() && ready_[w] != 0 && taken_[w] == 0 && is_over(w)) over(w);
      }
    }
  }

  bool may_take(NodeId n) { return admission_ == nullptr || admission_->may_take(n); }

  // Returns at most `count` of the most urgent nodes of a heap that may come next; looks at a few more than
  // that.
  std::vector<NodeId> best(Ready& heap, int count) {
    const int most = count + (admission_ == nullptr ? 4 : rule_.patience);
    std::vector<NodeId> looked, found;
    while (!heap.empty() && std::ssize(found) < count && std::ssize(looked) < most) {
      const NodeId n = heap.top();
      heap.pop();
      if (taken_[n] != 0) continue;
      looked.push_back(n);
      if (may_take(n)) found.push_back(n);
    }
    for (NodeId n : looked) heap.push(priority(n), n);
    return found;
  }
  NodeId best(Ready& heap) {
    const std::vector<NodeId> found = best(heap, 1);
    return found.empty() ? NodeId{} : found.front();
  }

  NodeId choose() {
    if (const NodeId n = best(free_); n.valid()) return n;
    const std::vector<NodeId> computes = best(compute_, rule_.candidates);
    std::int64_t horizon = computes.empty() ? 1 : work_[computes.front()];
    const NodeId start = urgent_start(horizon);
    if (start.valid()) return start;
    const NodeId n = compute_or_wait(computes);
    if (n.valid()) return n;
    if (admission_ != nullptr) {
      const NodeId next = admission_->next();
      if (ready_[next] != 0) return next;
    }
    // Nothing is left to compute and nothing is in flight: take any remaining start.
    return urgent_start(INT64_MAX);
  }

  // The most urgent start of a channel that becomes idle within the time.
  NodeId urgent_start(std::int64_t horizon) {
    NodeId found;
    for (ChannelId ch : p_.channel_ids()) {
      if (starts_[ch].empty() || simulator_.backlog(ch).ps >= horizon) continue;
      const NodeId n = best(starts_[ch]);
      if (!n.valid()) continue;
      if (!rule_.share_fabric && horizon != INT64_MAX && fabric_is_busy(n, ch)) continue;
      if (!found.valid() || priority(n) > priority(found) || (priority(n) == priority(found) && n < found))
        found = n;
    }
    return found;
  }

  // Whether another channel of its fabric carries something more urgent.
  bool fabric_is_busy(NodeId n, ChannelId channel) const {
    const int fabric = p_.collectives[p_.started_by(n)].cost.fabric;
    for (ChannelId ch : p_.channel_ids()) {
      if (ch == channel || first_issued_[ch] == issued_[ch].size()) continue;
      const Collective& c = p_.collectives[issued_[ch][first_issued_[ch]]];
      if (c.cost.fabric != fabric || !c.wait.valid()) continue;
      if (priority(c.wait) + c.cost.time.ps >= priority(n)) return true;
    }
    return false;
  }

  NodeId compute_or_wait(const std::vector<NodeId>& computes) {
    const std::int64_t now = simulator_.now().ps;
    // The two longest tails of the candidates for compute.
    std::int64_t urgent = 0, second = 0;
    for (const NodeId n : computes) {
      second = std::max(second, std::min(urgent, tail(n)));
      urgent = std::max(urgent, tail(n));
    }
    // The next waits of the channels, and when each would end.
    NodeId wait;
    std::int64_t wait_end = 0;
    for (const ChannelId ch : issued_.ids()) {
      std::size_t looked = 0;
      for (std::size_t k = first_issued_[ch]; k < issued_[ch].size() && looked < 2; ++k) {
        const NodeId w = p_.collectives[issued_[ch][k]].wait;
        if (!w.valid() || ready_[w] == 0 || taken_[w] != 0) continue;
        ++looked;
        if (!computes.empty() && (!rule_.may_idle || tail(w) <= urgent)) continue;
        if (!may_take(w)) continue;
        Simulator probe = simulator_;
        probe.append(w);
        const std::int64_t end = probe.now().ps - work_[w];
        if (!wait.valid() || end < wait_end || (end == wait_end && tail(w) > tail(wait))) {
          wait = w;
          wait_end = end;
        }
        break;
      }
    }
    if (computes.empty() || !wait.valid()) return computes.empty() ? wait : computes.front();

    const std::int64_t blocked = wait_end + std::max({tail(wait), work_left_, urgent});
    NodeId chosen;
    std::int64_t rest = 0;
    for (const NodeId n : computes) {
      const std::int64_t other = tail(n) == urgent ? second : urgent;
      const std::int64_t end = now + work_[n];
      const std::int64_t r =
          std::max({now + work_left_, now + tail(n), end + other, std::max(end, wait_end) + tail(wait)});
      if (!chosen.valid() || r < rest) {
        chosen = n;
        rest = r;
      }
    }
    return blocked < rest ? wait : chosen;
  }

  void take(NodeId n) {
    if (admission_ != nullptr) admission_->take(n);
    simulator_.append(n);
    taken_[n] = 1;
    order_.push_back(n);
    work_left_ -= work_[n];
    for (const Step& s : p_.steps_of(n)) {
      if (s.kind == Step::Kind::start) {
        issued_[p_.collectives[s.collective].channel].push_back(s.collective);
      }
    }
    for (const NodeId s : p_.successors(n)) {
      if (--missing_[s] == 0) make_ready(s);
    }
  }
};

}  // namespace

Order list_schedule(const Problem& problem, const ListRule& rule, Admission* admission) {
  return ListScheduler(problem, rule, admission).run();
}

}  // namespace braid::passes
