// Every scheduler on every graph of the corpus (bench/graphs): makespan, bounds, gap, exposed communication,
// memory and scheduling time, without a memory cap and with one. All but the times is equal on every run.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analysis/measure.h"
#include "bench/overlap/small_graphs.h"
#include "bench/overlap/table.h"
#include "ir/error.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/pass_context.h"
#include "passes/runner.h"

namespace braid::bench {
namespace {

using namespace braid::passes;
using namespace braid::analysis;
using Kind = Scheduler::Kind;

const std::vector<Scheduler> kSchedulers = {
    {"input order", "", Kind::input},
    {"first generation", "decide_global_ordering_of_comms,sink_waits,raise_comms,reorder_compute_for_overlap",
     Kind::pass},
    {"schedule_for_comm", "schedule_for_comm", Kind::pass},
    {"simple_overlap", "simple_overlap", Kind::pass},
    {"reorder_for_peak_memory", "reorder_for_peak_memory", Kind::pass},
    {"peak memory preserving",
     "reorder_communication_preserving_peak_memory,sink_waits_iterative,reorder_communication_preserving_"
     "peak_memory",
     Kind::pass},
    {"bucketed, peak memory preserving",
     "bucket_saturated,reorder_communication_preserving_peak_memory,sink_waits_iterative,"
     "reorder_communication_preserving_peak_memory",
     Kind::pass},
    {"scheduled, then bucketed", "schedule_for_comm,bucket_preserving_overlap", Kind::pass},
    {"earliest start, latest wait", "earliest_start_latest_wait", Kind::rival},
    {"latency hiding (XLA-like)", "latency_hiding", Kind::rival},
    {"SimpleFSDP-like", "simple_fsdp", Kind::rival},
    {"braid_schedule", "braid_schedule", Kind::own},
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Those whose passes exist in this build.
std::vector<Scheduler> available() {
  std::vector<Scheduler> out;
  for (const Scheduler& s : kSchedulers) {
    try {
      parse_pass_list(s.passes);
      out.push_back(s);
    } catch (const ir::UserError& e) {
      fmt::print(stderr, "not measured: {} ({})\n", s.name, e.what());
    }
  }
  return out;
}

// Takes the schedule, so that it is not in memory twice.
std::optional<Result> run(const Scheduler& scheduler, ir::Schedule schedule,
                          std::shared_ptr<const CostModel> costs, Time input_bound,
                          std::optional<std::int64_t> cap) {
  PassContext context;
  context.costs = costs;
  context.memory_cap = cap;
  RunOptions options;
  options.verify = false;  // its time is not the passes'; once at the end is enough here
  options.context = &context;
  Result result;
  try {
    for (const PassRecord& r : run_passes(schedule, parse_pass_list(scheduler.passes), options))
      result.seconds += r.seconds;
  } catch (const ir::UserError& e) {
    if (!cap) throw;
    return std::nullopt;  // says itself that it cannot keep the cap
  }
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  result.resident = std::int64_t{used.ru_maxrss} * 1024;  // Linux counts in KiB
  if (const auto problems = ir::verify(schedule); !problems.empty()) {
    throw std::runtime_error(scheduler.name + " made an illegal schedule: " + problems.front().message);
  }
  const Measurement m = measure(schedule, *costs);
  result.makespan = m.makespan;
  result.bound = m.bounds.best();
  result.exposed = m.exposed;
  result.live = m.live_peak;
  result.planned = m.planned_bytes;
  if (result.makespan < std::max(result.bound, input_bound)) {
    throw std::runtime_error(scheduler.name + ": faster than a lower bound says");
  }
  return result;
}

// Peak resident bytes of a process of its own. Its time counts for nothing: it copies every page that it
// shares.
std::int64_t resident_alone(const Scheduler& scheduler, ir::Schedule& input,
                            std::shared_ptr<const CostModel> costs, Time input_bound) {
#ifdef __GLIBC__
  malloc_trim(0);  // returns memory that this process has freed
#endif
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start a process");
  if (child == 0) {
    int status = 1;
    try {
      const std::int64_t own =
          run(scheduler, std::move(input), std::move(costs), input_bound, std::nullopt)->resident;
      if (write(ends[1], &own, sizeof own) == static_cast<ssize_t>(sizeof own)) status = 0;
    } catch (const std::exception& e) {
      fmt::print(stderr, "{}: {}\n", scheduler.name, e.what());
    }
    _exit(status);
  }
  close(ends[1]);
  std::int64_t resident = 0;
  const ssize_t got = read(ends[0], &resident, sizeof resident);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0 || got != static_cast<ssize_t>(sizeof resident))
    throw std::runtime_error(scheduler.name + " failed");
  return resident;
}

}  // namespace
}  // namespace braid::bench

int main(int argc, char** argv) {
  using namespace braid::bench;
  CLI::App app("Schedulers beside each other on the corpus of bench/graphs");
  std::string corpus;
  std::vector<std::string> only;
  bool large = false;
  int cases = 0;
  app.add_option("CORPUS", corpus, "folder that bench/graphs/generate.py wrote");
  app.add_option("--small", cases, "instead of the corpus: this many random graphs against their optimum");
  app.add_option("--only", only, "names of graphs");
  std::vector<std::string> chosen;
  app.add_option("--schedulers", chosen, "names of schedulers; the input order is always measured");
  std::string times;
  app.add_option("--times", times,
                 "file for the table of seconds, which differs from run to run; else with the rest");
  app.add_flag("--large", large, "only the large graphs, and only their times and memory");
  std::string plugin;
  app.add_option("--plugin", plugin, "library with the rivals");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!plugin.empty()) load_plugin(plugin);
    if (cases > 0) {
      fmt::print("## Small graphs against the optimum\n\n{}\n", small_graphs_table(available(), cases));
      return 0;
    }
    const auto manifest = nlohmann::json::parse(read_file(corpus + "/manifest.json"));
    std::vector<Scheduler> schedulers = available();
    if (!chosen.empty()) {
      std::erase_if(schedulers, [&](const Scheduler& s) {
        return s.kind != Kind::input && std::find(chosen.begin(), chosen.end(), s.name) == chosen.end();
      });
    }
    std::vector<GraphResults> free, capped;
    for (const auto& entry : manifest.at("graphs")) {
      const std::string name = entry.at("name");
      if (!only.empty() && std::find(only.begin(), only.end(), name) == only.end()) continue;
      if (only.empty() && entry.at("large").get<bool>() != large) continue;
      const std::string file = corpus + "/" + entry.at("file").get<std::string>();
      braid::ir::Schedule input = braid::ir::parse_schedule(read_file(file), file);
      const auto costs = braid::analysis::cost_model_for(entry.at("machine"));
      GraphResults g;
      g.name = name;
      g.machine = entry.at("machine");
      g.small = entry.at("small");
      g.nodes = static_cast<int>(input.nodes.size());
      if (g.small) g.optimum = shortest_makespan(input, *costs);
      g.input_bound = braid::analysis::measure(input, *costs, {.planned = false}).input_bound;
      GraphResults c = g;
      std::vector<std::int64_t> resident;  // before this process itself grows
      for (const Scheduler& s : schedulers)
        resident.push_back(large ? resident_alone(s, input, costs, g.input_bound) : 0);
      for (const Scheduler& s : schedulers) {
        fmt::print(stderr, "{}: {}\n", name, s.name);
        g.results.push_back(run(s, input, costs, g.input_bound, std::nullopt));
        g.results.back()->resident = resident[g.results.size() - 1];
        if (!c.cap) c.cap = g.results.front()->planned + g.results.front()->planned / 20;
        if (!large) c.results.push_back(run(s, input, costs, g.input_bound, c.cap));
      }
      free.push_back(std::move(g));
      capped.push_back(std::move(c));
    }
    if (!large) {
      fmt::print("## Without a memory cap\n\n{}\n{}\n", summary(schedulers, free),
                 schedule_table(schedulers, free));
      fmt::print("## At the planned bytes of the input order + 5 %\n\n{}\n{}\n", summary(schedulers, capped),
                 schedule_table(schedulers, capped));
    }
    std::string seconds = time_table(schedulers, free);
    if (large) {
      seconds += "\nPeak resident memory of a process that holds the graph and runs the passes, MiB:\n\n" +
                 resident_table(schedulers, free);
    }
    if (times.empty()) {
      fmt::print("## Scheduling time, seconds\n\n{}\n", seconds);
    } else if (!(std::ofstream(times) << seconds)) {
      throw std::runtime_error("cannot write " + times);
    }
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "overlap_bench: {}\n", e.what());
    return 1;
  }
}
