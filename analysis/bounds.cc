#include "analysis/bounds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

#include "analysis/chains.h"

namespace braid::analysis {
namespace {

// A piece of work on one resource.
struct Task {
  Time head, work, tail;
  Permille slowdown = 1000;
  int fabric = -1;     // -1: the compute stream
  bool alone = false;  // never overlaps the other kind
};

struct Tasks {
  std::vector<Task> compute, comm;
  std::vector<int> channel;  // of comm
};

Time sum_of(const std::vector<Job>& jobs) {
  Time sum;
  for (const Job& j : jobs) sum += j.work;
  return sum;
}

std::vector<Job> jobs_of(const std::vector<Task>& tasks, int fabric = -1) {
  std::vector<Job> jobs;
  for (const Task& t : tasks) {
    if (t.fabric == fabric) jobs.push_back({t.head, t.work, t.tail});
  }
  return jobs;
}

// The work of one slow-down that may lie before each candidate r, or after each candidate q.
struct WorkClass {
  double slowdown = 1;  // infinite: never overlaps the other kind
  double total = 0;
  std::vector<double> early, late;
};

// The compute stream or a fabric.
struct Resource {
  std::vector<WorkClass> classes;     // least slowed down first
  std::vector<double> before, after;  // the most work that fits before each r, after each q
};

// The most work that the resource can do before each of the times, if everything begins as early as its head
// allows.
std::vector<double> done_before(std::vector<std::pair<std::int64_t, std::int64_t>> head_and_work,
                                std::span<const std::int64_t> times) {
  std::sort(head_and_work.begin(), head_and_work.end());
  std::vector<double> out;
  std::int64_t now = 0, done = 0, open = 0;  // open: work that has begun or may begin at `now`
  std::size_t next = 0;
  for (const std::int64_t r : times) {  // ascending
    while (now < r) {
      while (next < head_and_work.size() && head_and_work[next].first <= now) {
        open += head_and_work[next++].second;
      }
      std::int64_t until = r;
      if (next < head_and_work.size()) until = std::min(until, head_and_work[next].first);
      const std::int64_t part = std::min(open, until - now);
      open -= part;
      done += part;
      now = until;
    }
    out.push_back(static_cast<double>(done));
  }
  return out;
}

class Contention {
 public:
  Contention(const Tasks& tasks, int fabrics, Time known) : known_(known) {
    heads_ = candidates(tasks, [](const Task& t) { return t.head.ps; });
    tails_ = candidates(tasks, [](const Task& t) { return t.tail.ps; });
    compute_ = resource(tasks.compute, -1);
    for (int f = 0; f < fabrics; ++f) fabrics_.push_back(resource(tasks.comm, f));
  }

  Time bound() {
    double best = 0;
    for (std::size_t r = 0; r < heads_.size(); ++r) {
      for (std::size_t q = 0; q < tails_.size(); ++q) {
        // Beyond the known bound, the two windows might overlap.
        if (heads_[r] + tails_[q] > known_.ps) continue;
        const auto outside = static_cast<double>(heads_[r] + tails_[q]);
        best = std::max(best, outside + window(r, q, best - outside));
      }
    }
    // Margin for the rounding of the arithmetic above.
    const double safe = std::floor(best - 1 - best * 1e-13);
    return {safe > 0 ? static_cast<std::int64_t>(safe) : 0};
  }

 private:
  static constexpr std::size_t kQuantiles = 8;
  static constexpr std::size_t kMaxClasses = 16;

  Time known_;
  std::vector<std::int64_t> heads_, tails_;
  Resource compute_;
  std::vector<Resource> fabrics_;
  double last_both_ = 0;  // the minimiser of the last window: a good guess for the next one

  // 0, the earliest begins on each resource, and some between.
  template <class Key>
  static std::vector<std::int64_t> candidates(const Tasks& tasks, Key key) {
    std::vector<std::int64_t> out = {0};
    const auto pick = [&](const std::vector<Task>& of, int fabric) {
      std::vector<std::int64_t> keys;
      for (const Task& t : of) {
        if (t.fabric == fabric && t.work.ps > 0) keys.push_back(key(t));
      }
      if (keys.empty()) return;
      std::sort(keys.begin(), keys.end());
      for (std::size_t k = 0; k <= kQuantiles; ++k) out.push_back(keys[(keys.size() - 1) * k / kQuantiles]);
      // Those at the end matter most.
      for (std::size_t k = 0; k < std::min<std::size_t>(keys.size(), 3); ++k) out.push_back(keys[k]);
    };
    pick(tasks.compute, -1);
    int fabrics = 0;
    for (const Task& t : tasks.comm) fabrics = std::max(fabrics, t.fabric + 1);
    for (int f = 0; f < std::min(fabrics, 4); ++f) pick(tasks.comm, f);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  Resource resource(const std::vector<Task>& tasks, int fabric) const {
    Resource out;
    std::vector<Permille> slowdowns;
    for (const Task& t : tasks) {
      if (t.fabric == fabric && !t.alone) slowdowns.push_back(t.slowdown);
    }
    std::sort(slowdowns.begin(), slowdowns.end());
    slowdowns.erase(std::unique(slowdowns.begin(), slowdowns.end()), slowdowns.end());
    // Too many: merge several into the least slowed down of them.
    if (slowdowns.size() > kMaxClasses) {
      std::vector<Permille> fewer;
      for (std::size_t k = 0; k < kMaxClasses; ++k)
        fewer.push_back(slowdowns[slowdowns.size() * k / kMaxClasses]);
      slowdowns = std::move(fewer);
    }
    out.classes.resize(slowdowns.size() + 1);
    for (std::size_t c = 0; c < out.classes.size(); ++c) {
      out.classes[c].slowdown = c < slowdowns.size() ? slowdowns[c] / 1000.0 : INFINITY;
      out.classes[c].early.assign(heads_.size(), 0);
      out.classes[c].late.assign(tails_.size(), 0);
    }
    std::vector<std::pair<std::int64_t, std::int64_t>> by_head, by_tail;
    for (const Task& t : tasks) {
      if (t.fabric != fabric || t.work.ps == 0) continue;
      const auto above = std::upper_bound(slowdowns.begin(), slowdowns.end(), t.slowdown);
      WorkClass& c =
          out.classes[t.alone ? slowdowns.size() : static_cast<std::size_t>(above - slowdowns.begin()) - 1];
      const auto work = static_cast<double>(t.work.ps);
      c.total += work;
      // At the first candidate above it; summed up below.
      const auto r = std::upper_bound(heads_.begin(), heads_.end(), t.head.ps) - heads_.begin();
      const auto q = std::upper_bound(tails_.begin(), tails_.end(), t.tail.ps) - tails_.begin();
      if (r < std::ssize(heads_)) c.early[ir::offset_of(r)] += work;
      if (q < std::ssize(tails_)) c.late[ir::offset_of(q)] += work;
      by_head.emplace_back(t.head.ps, t.work.ps);
      by_tail.emplace_back(t.tail.ps, t.work.ps);
    }
    for (WorkClass& c : out.classes) {
      for (std::size_t k = 1; k < c.early.size(); ++k) c.early[k] += c.early[k - 1];
      for (std::size_t k = 1; k < c.late.size(); ++k) c.late[k] += c.late[k - 1];
    }
    out.before = done_before(std::move(by_head), heads_);
    out.after = done_before(std::move(by_tail), tails_);
    return out;
  }

  struct Amount {
    double slowdown, work;
  };
  // Returns the work left for the window: the most slowed-down work leaves first, as far as it may lie
  // outside. Amounts x can leave if they split into early and late parts: sum((x - late)+) <= before,
  // sum((x - early)+) <= after, sum(x) <= both.
  static std::vector<Amount> left(const Resource& resource, std::size_t r, std::size_t q) {
    const double before = resource.before[r], after = resource.after[q];
    double must_be_early = 0, must_be_late = 0, gone = 0;
    std::vector<Amount> out(resource.classes.size());
    for (std::size_t k = resource.classes.size(); k-- > 0;) {
      const WorkClass& c = resource.classes[k];
      const double x =
          std::max(0.0, std::min({c.total, c.early[r] + c.late[q], c.late[q] + before - must_be_early,
                                  c.early[r] + after - must_be_late, before + after - gone}));
      must_be_early += std::max(0.0, x - c.late[q]);
      must_be_late += std::max(0.0, x - c.early[r]);
      gone += x;
      out[k] = {c.slowdown, c.total - x};
    }
    return out;
  }

  // Time of the work in the window if both kinds are busy for `both`.
  static double time_of(const std::vector<Amount>& compute, const std::vector<std::vector<Amount>>& fabrics,
                        double both) {
    double time = 0, rest = both;
    for (const Amount& a : compute) {
      time += a.work;
      if (std::isinf(a.slowdown)) continue;
      const double use = std::min(rest, a.work * a.slowdown);
      time += use * (1 - 1 / a.slowdown);
      rest -= use;
    }
    double longest = 0;
    for (const std::vector<Amount>& amounts : fabrics) {
      double load = 0, budget = both;
      for (const Amount& a : amounts) {
        load += a.work;
        if (std::isinf(a.slowdown)) continue;
        const double use = std::min(budget, a.work * a.slowdown);
        load -= use / a.slowdown;
        budget -= use;
      }
      longest = std::max(longest, load);
    }
    return time + longest;
  }

  // The bound of the window; 0 if it is at most `needed`.
  double window(std::size_t r, std::size_t q, double needed) {
    const std::vector<Amount> compute = left(compute_, r, q);
    std::vector<std::vector<Amount>> fabrics;
    for (const Resource& f : fabrics_) fabrics.push_back(left(f, r, q));
    double lo = 0, hi = 0;
    for (const Amount& a : compute) hi += std::isinf(a.slowdown) ? 0 : a.work * a.slowdown;
    if (time_of(compute, fabrics, last_both_) <= needed) return 0;
    // Convex: of two points, the minimum is not beyond the worse one. Slopes are at most 1, so the error
    // within the last interval is less than its length.
    while (hi - lo > 0.25) {
      const double third = (hi - lo) / 3;
      const double a = lo + third, b = hi - third;
      if (time_of(compute, fabrics, a) <= time_of(compute, fabrics, b)) {
        hi = b;
      } else {
        lo = a;
      }
    }
    last_both_ = lo;
    return time_of(compute, fabrics, lo) - (hi - lo);
  }
};

Bounds bounds_of(const Problem& p, const ChainOptions& options) {
  const HeadsAndTails chains = heads_and_tails(p, options);
  const Beside beside = what_runs_beside(p);
  // A part of a collective of several tensors has less before and after it than the whole.
  const bool any_loose =
      options.floors && std::any_of(p.collectives.begin(), p.collectives.end(),
                                    [](const Collective& c) { return c.smallest_floor < c.cost.floor; });
  Tasks tasks;
  std::vector<Job> stream;
  for (const StepId s : p.steps.ids()) {
    const Step& step = p.steps[s];
    if (step.kind == Step::Kind::compute && step.work.ps > 0) {
      tasks.compute.push_back({chains.step_head[s], step.work, chains.step_tail[s], step.slowdown, -1,
                               !any_loose && beside.with_any[s] == 0});
      stream.push_back({chains.step_head[s], step.work, chains.step_tail[s]});
    } else if (step.kind == Step::Kind::start && step.blocking) {
      const CollectiveCost& cost = p.collectives[step.collective].cost;
      stream.push_back({chains.collective_head[step.collective], options.floors ? cost.floor : cost.time,
                        chains.collective_tail[step.collective]});
    }
  }
  std::map<ChannelId, std::vector<Job>> channels;
  for (CollectiveId c : p.collectives.ids()) {
    const Collective& collective = p.collectives[c];
    const Time work = options.floors ? collective.cost.floor : collective.cost.time;
    const Time head = chains.collective_head[c], tail = chains.collective_tail[c];
    const bool loose = options.floors && collective.smallest_floor < collective.cost.floor;
    const Time hidden = loose ? work : std::min(work, beside.most_hidden[c]);
    if (hidden.ps > 0) {
      tasks.comm.push_back({head, hidden, tail, collective.cost.slowdown, collective.cost.fabric});
    }
    if (hidden < work) {
      tasks.comm.push_back({head, work - hidden, tail, 1000, collective.cost.fabric, true});
    }
    channels[options.channel_order ? collective.channel : ChannelId{0}].push_back({head, work, tail});
  }
  Bounds out;
  out.critical_path = chains.critical_path;
  const auto resource = [&](std::vector<Job> jobs) {
    out.load = std::max(out.load, sum_of(jobs));
    out.head_and_tail = std::max(out.head_and_tail, one_machine_bound(std::move(jobs)));
  };
  resource(std::move(stream));
  for (int f = 0; f < p.fabrics; ++f) resource(jobs_of(tasks.comm, f));
  // A channel that is spread over several fabrics may be busier than each of them. In the input graph, other
  // algorithms may use other channels.
  if (options.channel_order) {
    for (auto& [channel, jobs] : channels) resource(std::move(jobs));
  }
  const Time known = std::max({out.critical_path, out.load, out.head_and_tail});
  out.contention = Contention(tasks, p.fabrics, known).bound();
  return out;
}

}  // namespace

Time Bounds::best() const { return std::max({critical_path, load, head_and_tail, contention}); }

Bounds lower_bounds(const Problem& problem) { return bounds_of(problem, {}); }

Time input_bound(const Problem& problem) {
  return bounds_of(problem, {.channel_order = false, .floors = true}).best();
}

Time one_machine_bound(std::vector<Job> jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.head < b.head; });
  // Among the jobs that may run, the one with the longest tail runs first.
  using Entry = std::pair<Time, std::int64_t>;  // tail, work left
  std::priority_queue<Entry> ready;
  Time now, bound;
  std::size_t next = 0;
  while (next < jobs.size() || !ready.empty()) {
    if (ready.empty()) now = std::max(now, jobs[next].head);
    while (next < jobs.size() && jobs[next].head <= now) {
      ready.emplace(jobs[next].tail, jobs[next].work.ps);
      ++next;
    }
    auto [tail, work] = ready.top();
    ready.pop();
    std::int64_t run = work;
    if (next < jobs.size()) run = std::min(run, (jobs[next].head - now).ps);
    now.ps += run;
    if (run < work) {
      ready.emplace(tail, work - run);
    } else {
      bound = std::max(bound, now + tail);
    }
  }
  return bound;
}

}  // namespace braid::analysis
