#include "tests/support/random_problem.h"

#include <algorithm>
#include <limits>
#include <random>

#include "analysis/simulator.h"
#include "tests/support/build_problem.h"

namespace braid::test {
namespace {

using namespace analysis;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  bool chance(double p) { return static_cast<double>(engine_() >> 11) * 0x1.0p-53 < p; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace

Problem random_problem(std::uint64_t seed, const RandomProblemOptions& o) {
  Random random(seed);
  ProblemBuilder b;
  std::vector<NodeId> open;  // start nodes without a wait
  IdVector<int, NodeId> last(first_ids<int>(o.channels));
  const auto slowdown = [&] { return o.contention ? 1000 + 100 * random.below(6) : 1000; };
  while (b.problem.size() < o.nodes) {
    std::vector<NodeId> after;
    for (const NodeId n : b.problem.nodes()) {
      if (random.chance(o.edges)) after.push_back(n);
    }
    const int kind = random.below(10);
    if (kind < 3) {
      const int channel = random.below(o.channels);
      ProblemBuilder::Options options{.channel = channel,
                                      .fabric = channel % o.fabrics,
                                      .slowdown = slowdown(),
                                      .blocking = o.blocking && random.chance(0.15)};
      if (o.channel_order && last[channel].valid()) after.push_back(last[channel]);
      const NodeId s = b.start(random.below(o.max_time + 1), after, options);
      last[channel] = s;
      if (!options.blocking) open.push_back(s);
    } else if (kind < 6 && !open.empty()) {
      const int k = random.below(count_of(open));
      const NodeId s = at(open, k);
      open.erase(open.begin() + k);
      b.wait(s, after);
    } else if (o.groups && kind == 9) {
      // compute, a wait of something open, compute
      std::vector<Step> steps(1);
      steps[0].work = {random.below(o.max_time + 1)};
      steps[0].slowdown = slowdown();
      if (!open.empty()) {
        const NodeId s = open.back();
        open.pop_back();
        after.push_back(s);
        steps.push_back({Step::Kind::wait, false, b.problem.started_by(s)});
        b.problem.collectives[b.problem.started_by(s)].wait = NodeId{b.problem.size()};
      }
      steps.push_back(steps[0]);
      b.node(steps, after);
    } else {
      b.compute(random.below(o.max_time + 1), after, slowdown());
    }
  }
  return b.build();
}

Order random_order(const Problem& p, std::uint64_t seed) {
  Random random(seed);
  IdVector<NodeId, std::size_t> missing(p.nodes());
  std::vector<NodeId> ready;
  Order order;
  for (NodeId n : p.nodes()) {
    missing[n] = p.predecessors(n).size();
    if (missing[n] == 0) ready.push_back(n);
  }
  while (!ready.empty()) {
    const int k = random.below(count_of(ready));
    const NodeId n = at(ready, k);
    ready.erase(ready.begin() + k);
    order.push_back(n);
    for (const NodeId s : p.successors(n)) {
      if (--missing[s] == 0) ready.push_back(s);
    }
  }
  return order;
}

double slow_makespan(const Problem& p, OrderView order) {
  std::vector<Step> program;
  for (NodeId n : order) {
    for (const Step& s : p.steps_of(n)) program.push_back(s);
  }
  struct Flight {
    CollectiveId collective;
    double left;
  };
  std::vector<Flight> flights;  // in the order of issue
  double now = 0, compute_left = -1;
  std::size_t pc = 0;
  const auto flying = [&](CollectiveId c) {
    return std::any_of(flights.begin(), flights.end(), [&](const Flight& f) { return f.collective == c; });
  };
  while (true) {
    // First come the events that take no time.
    IdVector<ChannelId, char> channel_busy(p.channel_ids(), 0);
    std::vector<std::size_t> heads;
    for (std::size_t k = 0; k < flights.size(); ++k) {
      char& busy = channel_busy[p.collectives[flights[k].collective].channel];
      if (!busy) heads.push_back(k);
      busy = 1;
    }
    const auto ended =
        std::find_if(heads.begin(), heads.end(), [&](std::size_t k) { return flights[k].left <= 1e-9; });
    if (ended != heads.end()) {
      flights.erase(flights.begin() + static_cast<std::ptrdiff_t>(*ended));
      continue;
    }
    bool computing = false;
    if (pc < program.size()) {
      const Step& s = program[pc];
      if (s.kind == Step::Kind::compute) {
        if (compute_left < 0) compute_left = static_cast<double>(s.work.ps);
        if (compute_left <= 1e-9) {
          compute_left = -1;
          ++pc;
          continue;
        }
        computing = true;
      } else if (s.kind == Step::Kind::start) {
        if (compute_left != -2) {  // not issued yet
          flights.push_back({s.collective, static_cast<double>(p.collectives[s.collective].cost.time.ps)});
          compute_left = -2;
          continue;
        }
        if (!s.blocking || !flying(s.collective)) {
          compute_left = -1;
          ++pc;
          continue;
        }
      } else if (s.kind == Step::Kind::release || !flying(s.collective)) {
        ++pc;
        continue;
      }
    } else if (flights.empty()) {
      return now;
    }
    // Rates until the next event.
    IdVector<int, int> sharing(first_ids<int>(p.fabrics), 0);
    for (std::size_t k : heads) ++sharing[p.collectives[flights[k].collective].cost.fabric];
    const auto rate = [&](std::size_t k) {
      const CollectiveCost& c = p.collectives[flights[k].collective].cost;
      return 1.0 / (sharing[c.fabric] * (computing ? c.slowdown / 1000.0 : 1.0));
    };
    const double compute_rate = computing && !flights.empty() ? 1000.0 / program[pc].slowdown : 1.0;
    double dt = computing ? compute_left / compute_rate : std::numeric_limits<double>::infinity();
    for (std::size_t k : heads) dt = std::min(dt, flights[k].left / rate(k));
    for (std::size_t k : heads) flights[k].left -= dt * rate(k);
    if (computing) compute_left = std::max(0.0, compute_left - dt * compute_rate);
    now += dt;
  }
}

namespace {

class Search {
 public:
  explicit Search(const Problem& p) : p_(p), missing_(p.nodes()) {
    for (NodeId n : p.nodes()) {
      missing_[n] = count_of(p.predecessors(n));
      work_ += p.compute_time(n);
    }
    best_.makespan = Time::max();
  }
  Optimum run() {
    extend(Simulator(p_), work_);
    return best_;
  }

 private:
  const Problem& p_;
  IdVector<NodeId, int> missing_;
  Order order_;
  Time work_;
  Optimum best_;

  void extend(const Simulator& state, Time work) {
    if (state.now() + work >= best_.makespan) return;
    if (order_.size() == p_.nodes().size()) {
      const Time t = state.finish();
      if (t < best_.makespan) best_ = {t, order_};
      return;
    }
    for (NodeId n : p_.nodes()) {
      if (missing_[n] != 0) continue;
      missing_[n] = -1;
      for (const NodeId s : p_.successors(n)) --missing_[s];
      order_.push_back(n);
      Simulator next = state;
      next.append(n);
      extend(next, work - p_.compute_time(n));
      order_.pop_back();
      for (const NodeId s : p_.successors(n)) ++missing_[s];
      missing_[n] = 0;
    }
  }
};

}  // namespace

Optimum exhaustive_optimum(const Problem& problem) { return Search(problem).run(); }

}  // namespace braid::test
