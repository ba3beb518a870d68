// The results of all schedulers on all graphs, and the tables that say what follows from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/costs/time.h"

namespace braid::bench {

struct Scheduler {
  std::string name;
  std::string passes;  // as for braid opt --passes; empty: the input order
  enum class Kind : std::uint8_t { input, pass, rival, own } kind = Kind::pass;
};

// One scheduler on one graph.
struct Result {
  analysis::Time makespan, bound, exposed;
  std::int64_t live = 0, planned = 0;  // bytes
  double seconds = 0;                  // of the passes, without verifying
  // Most memory that the process had until the passes were through, input graph and program included, if it
  // ran nothing else before; else 0.
  std::int64_t resident = 0;
  double gap() const {
    return bound.ps > 0 ? static_cast<double>(makespan.ps) / static_cast<double>(bound.ps) - 1 : 0;
  }
};

struct GraphResults {
  std::string name, machine;
  bool small = false;
  int nodes = 0;
  analysis::Time input_bound;
  std::optional<analysis::Time> optimum;       // of all orders, without a cap; small graphs
  std::optional<std::int64_t> cap;             // planned bytes
  std::vector<std::optional<Result>> results;  // one per scheduler; nothing: it could not keep the cap
};

// Columns that are equal on every run.
std::string schedule_table(const std::vector<Scheduler>& schedulers, const std::vector<GraphResults>& graphs);
// Summarises the scheduler of kind `own`: its gap over the graphs that leave room, and how it compares with
// its rivals.
std::string summary(const std::vector<Scheduler>& schedulers, const std::vector<GraphResults>& graphs);
// Seconds per scheduler and graph.
std::string time_table(const std::vector<Scheduler>& schedulers, const std::vector<GraphResults>& graphs);
// MiB resident per scheduler and graph.
std::string resident_table(const std::vector<Scheduler>& schedulers, const std::vector<GraphResults>& graphs);

}  // namespace braid::bench
