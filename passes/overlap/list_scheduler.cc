#include "passes/overlap/list_scheduler.h"

#include <algorithm>
#include <queue>

#include "analysis/simulator.h"
#include "ir/error.h"

namespace braid::passes {
namespace {

using namespace analysis;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

enum class Class : std::uint8_t { free, start, wait, compute };

class ListScheduler {
 public:
  ListScheduler(const Problem& problem, const ListRule& rule, Admission* admission)
      : p_(problem), rule_(rule), admission_(admission), simulator_(problem) {
    const int n = p_.size();
    work_.resize(at(n), 0);
    class_.resize(at(n), Class::compute);
    channel_.resize(at(n), 0);
    missing_.resize(at(n));
    ready_.resize(at(n), 0);
    taken_.resize(at(n), 0);
    done_.resize(p_.collectives.size(), 0);
    issued_.resize(at(p_.channels));
    first_issued_.resize(at(p_.channels), 0);
    starts_.resize(at(p_.channels));
    for (int k = 0; k < n; ++k) {
      classify(k);
      work_left_ += work_[at(k)];
      missing_[at(k)] = static_cast<int>(p_.predecessors(k).size());
    }
    for (int k = 0; k < n; ++k) {
      if (missing_[at(k)] == 0) make_ready(k);
    }
  }

  std::vector<int> run() {
    order_.reserve(at(p_.size()));
    while (static_cast<int>(order_.size()) < p_.size()) {
      note_complete();
      const int n = choose();
      ir::internal_check(n >= 0, "no node is ready: the dependencies have a cycle");
      take(n);
    }
    return std::move(order_);
  }

 private:
  // A heap of ready nodes: the most urgent first, ties in input order. Those that were taken otherwise stay
  // in it until they come up.
  class Ready {
   public:
    void push(std::int64_t priority, int node) { heap_.push({priority, -node}); }
    bool empty() const { return heap_.empty(); }
    int top() const { return -heap_.top().second; }
    void pop() { heap_.pop(); }

   private:
    std::priority_queue<std::pair<std::int64_t, int>> heap_;
  };

  const Problem& p_;
  ListRule rule_;
  Admission* admission_;
  Simulator simulator_;
  std::vector<std::int64_t> work_;
  std::vector<Class> class_;
  std::vector<int> channel_;  // of the first start of a node
  std::vector<int> missing_;  // predecessors
  std::vector<char> ready_, taken_;
  std::vector<char> done_;                 // collectives seen complete
  std::vector<std::vector<int>> issued_;   // per channel, in order
  std::vector<std::size_t> first_issued_;  // that was not seen complete
  Ready free_, compute_;
  std::vector<Ready> starts_;
  std::int64_t work_left_ = 0;
  std::vector<int> order_;

  std::int64_t priority(int n) const { return rule_.priority[at(n)]; }

  std::int64_t tail(int n) const { return rule_.tails[at(n)]; }

  void classify(int n) {
    bool starts = false, waits = false;
    for (const Step& s : p_.steps_of(n)) {
      work_[at(n)] += s.work.ps;
      if (s.kind == Step::Kind::start && !s.blocking && !starts) {
        starts = true;
        channel_[at(n)] = p_.collectives[at(s.collective)].channel;
      }
      // A blocking collective stands still like a computation; waits for what the node itself starts as well.
      waits |= s.kind == Step::Kind::wait && p_.collectives[at(s.collective)].start != n;
      if (s.kind == Step::Kind::start && s.blocking) {
        work_[at(n)] += p_.collectives[at(s.collective)].cost.time.ps;
      }
    }
    class_[at(n)] = waits              ? Class::wait
                    : starts           ? Class::start
                    : work_[at(n)] > 0 ? Class::compute
                                       : Class::free;
  }

  // All that a node waits for is complete.
  bool is_over(int n) const {
    for (const Step& s : p_.steps_of(n)) {
      if (s.kind == Step::Kind::wait && p_.collectives[at(s.collective)].start != n &&
          done_[at(s.collective)] == 0) {
        return false;
      }
    }
    return true;
  }

  void make_ready(int n) {
    ready_[at(n)] = 1;
    switch (class_[at(n)]) {
      case Class::free:
        free_.push(priority(n), n);
        break;
      case Class::start:
        starts_[at(channel_[at(n)])].push(priority(n), n);
        break;
      case Class::wait:
        if (is_over(n)) over(n);
        break;
      case Class::compute:
        compute_.push(priority(n), n);
        break;
    }
  }
  // A wait that no longer blocks.
  void over(int n) { work_[at(n)] > 0 ? compute_.push(priority(n), n) : free_.push(priority(n), n); }

  void note_complete() {
    for (std::size_t ch = 0; ch < issued_.size(); ++ch) {
      while (first_issued_[ch] < issued_[ch].size() && simulator_.complete(issued_[ch][first_issued_[ch]])) {
        const int c = issued_[ch][first_issued_[ch]++];
        done_[at(c)] = 1;
        const int w = p_.collectives[at(c)].wait;
        if (w >= 0 && ready_[at(w)] != 0 && taken_[at(w)] == 0 && is_over(w)) over(w);
      }
    }
  }

  bool may_take(int n) { return admission_ == nullptr || admission_->may_take(n); }

  // The most urgent nodes of a heap that may come next, `count` at most; looks at a few more than that.
  std::vector<int> best(Ready& heap, int count) {
    const auto most = static_cast<std::size_t>(count + (admission_ == nullptr ? 4 : rule_.patience));
    std::vector<int> looked, found;
    while (!heap.empty() && static_cast<int>(found.size()) < count && looked.size() < most) {
      const int n = heap.top();
      heap.pop();
      if (taken_[at(n)] != 0) continue;
      looked.push_back(n);
      if (may_take(n)) found.push_back(n);
    }
    for (int n : looked) heap.push(priority(n), n);
    return found;
  }
  int best(Ready& heap) {
    const std::vector<int> found = best(heap, 1);
    return found.empty() ? -1 : found.front();
  }

  int choose() {
    if (const int n = best(free_); n >= 0) return n;
    const std::vector<int> computes = best(compute_, rule_.candidates);
    std::int64_t horizon = computes.empty() ? 1 : work_[at(computes.front())];
    const int start = urgent_start(horizon);
    if (start >= 0) return start;
    const int n = compute_or_wait(computes);
    if (n >= 0) return n;
    if (admission_ != nullptr) {
      const int next = admission_->next();
      if (ready_[at(next)] != 0) return next;
    }
    // Nothing to compute and nothing in flight: any start that is left.
    return urgent_start(INT64_MAX);
  }

  // The most urgent start of a channel that runs empty within the time.
  int urgent_start(std::int64_t horizon) {
    int found = -1;
    for (int ch = 0; ch < p_.channels; ++ch) {
      if (starts_[at(ch)].empty() || simulator_.backlog(ch).ps >= horizon) continue;
      const int n = best(starts_[at(ch)]);
      if (n < 0) continue;
      if (!rule_.share_fabric && horizon != INT64_MAX && fabric_is_busy(n, ch)) continue;
      if (found < 0 || priority(n) > priority(found) || (priority(n) == priority(found) && n < found))
        found = n;
    }
    return found;
  }

  // Another channel of its fabric carries something that is more urgent.
  bool fabric_is_busy(int n, int channel) const {
    const int fabric = p_.collectives[at(p_.started_by(n))].cost.fabric;
    for (int ch = 0; ch < p_.channels; ++ch) {
      if (ch == channel || first_issued_[at(ch)] == issued_[at(ch)].size()) continue;
      const Collective& c = p_.collectives[at(issued_[at(ch)][first_issued_[at(ch)]])];
      if (c.cost.fabric != fabric || c.wait < 0) continue;
      if (priority(c.wait) + c.cost.time.ps >= priority(n)) return true;
    }
    return false;
  }

  int compute_or_wait(const std::vector<int>& computes) {
    const std::int64_t now = simulator_.now().ps;
    // The two longest tails of what could be computed.
    std::int64_t urgent = 0, second = 0;
    for (const int n : computes) {
      second = std::max(second, std::min(urgent, tail(n)));
      urgent = std::max(urgent, tail(n));
    }
    // The waits that the channels come to next: when each would end.
    int wait = -1;
    std::int64_t wait_end = 0;
    for (std::size_t ch = 0; ch < issued_.size(); ++ch) {
      std::size_t looked = 0;
      for (std::size_t k = first_issued_[ch]; k < issued_[ch].size() && looked < 2; ++k) {
        const int w = p_.collectives[at(issued_[ch][k])].wait;
        if (w < 0 || ready_[at(w)] == 0 || taken_[at(w)] != 0) continue;
        ++looked;
        if (!computes.empty() && (!rule_.may_idle || tail(w) <= urgent)) continue;
        if (!may_take(w)) continue;
        Simulator probe = simulator_;
        probe.append(w);
        const std::int64_t end = probe.now().ps - work_[at(w)];
        if (wait < 0 || end < wait_end || (end == wait_end && tail(w) > tail(wait))) {
          wait = w;
          wait_end = end;
        }
        break;
      }
    }
    if (computes.empty() || wait < 0) return computes.empty() ? wait : computes.front();

    const std::int64_t blocked = wait_end + std::max({tail(wait), work_left_, urgent});
    int chosen = -1;
    std::int64_t rest = 0;
    for (std::size_t k = 0; k < computes.size(); ++k) {
      const int n = computes[k];
      const std::int64_t other = tail(n) == urgent ? second : urgent;
      const std::int64_t end = now + work_[at(n)];
      const std::int64_t r =
          std::max({now + work_left_, now + tail(n), end + other, std::max(end, wait_end) + tail(wait)});
      if (chosen < 0 || r < rest) {
        chosen = n;
        rest = r;
      }
    }
    return blocked < rest ? wait : chosen;
  }

  void take(int n) {
    if (admission_ != nullptr) admission_->take(n);
    simulator_.append(n);
    taken_[at(n)] = 1;
    order_.push_back(n);
    work_left_ -= work_[at(n)];
    for (const Step& s : p_.steps_of(n)) {
      if (s.kind == Step::Kind::start) {
        issued_[at(p_.collectives[at(s.collective)].channel)].push_back(s.collective);
      }
    }
    for (int s : p_.successors(n)) {
      if (--missing_[at(s)] == 0) make_ready(s);
    }
  }
};

}  // namespace

std::vector<int> list_schedule(const Problem& problem, const ListRule& rule, Admission* admission) {
  return ListScheduler(problem, rule, admission).run();
}

}  // namespace braid::passes
