// Solves published auto-sharding problems (google/iopddl, the contest of ASPLOS and EuroSys 2025) with the
// search that chooses how to split a model. Prints cost, bound and time on one thread as Markdown.
//   auto_parallel_bench FILE.json... [--budget CELLS]
//   auto_parallel_bench MODEL.onnx... --ranks 2,4,8 [--mesh dp=2,tp=4]... [--machine NAME] [--dim NAME=SIZE]
// A file holds one problem in the contest's form: nodes with an interval of life, costs and usages per
// strategy; edges with costs per combination; a limit on what may be in use at once.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "frontend/import.h"
#include "ir/error.h"
#include "solver/problem.h"
#include "split/candidates.h"
#include "split/mesh.h"

namespace braid {
namespace {

using namespace solver;
using namespace split;

// The contest marks what is impossible with this cost.
constexpr Cost kImpossible = 1'000'000'000'000'000'000;

std::vector<Cost> read_costs(const nlohmann::json& values) {
  std::vector<Cost> costs = values.get<std::vector<Cost>>();
  for (Cost& cost : costs) {
    if (cost >= kImpossible) cost = kForbidden;
  }
  return costs;
}

Problem read_problem(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot read " + file);
  const nlohmann::json json = nlohmann::json::parse(stream).at("problem");
  Problem problem;
  const auto& nodes = json.at("nodes");
  for (const auto& costs : nodes.at("costs")) problem.variables.push_back(read_costs(costs));
  const auto& edges = json.at("edges");
  for (std::size_t e = 0; e < edges.at("nodes").size(); ++e) {
    const auto& ends = edges.at("nodes")[e];
    std::vector<Cost> costs = read_costs(edges.at("costs")[e]);
    if (ends.size() == 1) {
      std::vector<Cost>& own = problem.variables.at(ends[0].get<std::size_t>()).edit();
      for (std::size_t c = 0; c < own.size(); ++c) {
        own[c] = own[c] == kForbidden || costs.at(c) == kForbidden ? kForbidden : own[c] + costs[c];
      }
    } else {
      problem.edges.push_back({{ends[0].get<int>()}, {ends[1].get<int>()}, std::move(costs)});
    }
  }
  // Live memory has its local maxima just before an end that follows a begin: one row for each such moment.
  struct Event {
    std::int64_t time;
    bool begins;
    int node;
  };
  std::vector<Event> events;
  const auto& intervals = nodes.at("intervals");
  for (std::size_t v = 0; v < intervals.size(); ++v) {
    const auto begin = intervals[v][0].get<std::int64_t>(), end = intervals[v][1].get<std::int64_t>();
    if (begin >= end) continue;
    events.push_back({begin, true, static_cast<int>(v)});
    events.push_back({end, false, static_cast<int>(v)});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.time, a.begins, a.node) < std::tie(b.time, b.begins, b.node);
  });
  std::vector<int> first(intervals.size(), 0);
  int rows = 0;
  bool grew = false;
  for (const Event& event : events) {
    if (event.begins) {
      first[event.node] = rows;
      grew = true;
      continue;
    }
    if (grew) ++rows, grew = false;
    if (first[event.node] == rows) continue;
    problem.usages.push_back({{event.node},
                              solver::IdVector<solver::ChoiceId, std::int64_t>(
                                  nodes.at("usages")[event.node].get<std::vector<std::int64_t>>()),
                              {{{first[event.node]}, {rows}}}});
  }
  problem.limits.assign(rows, json.at("usage_limit").get<std::int64_t>());
  return problem;
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Meshes that are searched together, and what that takes in each turn.
struct Stage {
  std::vector<Mesh> meshes;
  std::vector<double> processor, seconds;
};

// Searches a model's plans and bounds on some meshes, without timing the import. Either all meshes are
// searched together, or in stages, as --devices does: one-axis meshes, then those of several axes with equal
// numbers of ranks. A stage need not reach bounds that earlier stages found. Each turn imports the model
// again.
void search_model(const std::string& file, const std::vector<Mesh>& meshes, bool at_once,
                  const std::string& machine, const std::vector<std::string>& dims, bool split_caches,
                  int turns) {
  frontend::ImportOptions import;
  for (const std::string& dim : dims) {
    const std::size_t equals = dim.rfind('=');
    const std::int64_t size = std::stoll(dim.substr(equals + 1));
    import.dims[dim.substr(0, equals)] = {size, size};
  }
  const auto costs = analysis::cost_model_for(machine);
  std::vector<Stage> stages;
  const auto kind = [](const Mesh& mesh) {
    return std::pair(mesh.size(), mesh.size() > 1 ? mesh.ranks() : 0);
  };
  for (const Mesh& mesh : meshes) {
    if (stages.empty() || (!at_once && kind(stages.back().meshes[0]) != kind(mesh))) stages.emplace_back();
    stages.back().meshes.push_back(mesh);
  }
  Stage all;
  for (int turn = 0; turn < turns; ++turn) {
    frontend::PlainModel model(file, import);
    SearchOptions search;
    search.caches = split_caches;
    double processor = 0, seconds = 0;
    for (Stage& stage : stages) {
      model.with_graph([&](const Graph& graph) {
        const double processor_before = processor_seconds(), before = seconds_now();
        const std::vector<FoundPlans> found = find_plans(graph, stage.meshes, costs, search);
        stage.seconds.push_back(seconds_now() - before);
        stage.processor.push_back(processor_seconds() - processor_before);
        for (const FoundPlans& one : found) search.known.add(one.loads, one.order);
      });
      processor += stage.processor.back();
      seconds += stage.seconds.back();
    }
    all.processor.push_back(processor);
    all.seconds.push_back(seconds);
  }
  fmt::print("| model | meshes | processor s | s |\n|---|---|---:|---:|\n");
  const auto print = [&](const std::string& name, const Stage& stage) {
    fmt::print("| {} | {} | {:.3f} | {:.3f} |\n", file, name, median(stage.processor), median(stage.seconds));
  };
  for (const Stage& stage : stages) {
    std::string names;
    for (const Mesh& mesh : stage.meshes) names += (names.empty() ? "" : "; ") + to_string(mesh);
    print(names, stage);
  }
  print("together", all);
}

int run(int argc, char** argv) {
  CLI::App app{"Published auto-sharding problems"};
  std::vector<std::string> files;
  SolveOptions options;
  app.add_option("files", files, "problems, uncompressed")->required();
  app.add_option("--budget", options.budget, "table cells to compute");
  std::vector<int> ranks;
  std::vector<std::string> meshes;
  std::vector<std::string> dims;
  std::string machine = "h100";
  app.add_option("--ranks", ranks, "numbers of ranks for models")->delimiter(',');
  app.add_option("--mesh", meshes, "axes with their sizes, for models");
  app.add_option("--machine", machine, "of models");
  app.add_option("--dim", dims, "NAME=SIZE, of models");
  bool at_once = false;
  app.add_flag("--at-once", at_once, "all meshes are searched together");
  bool split_caches = false;
  app.add_flag("--split-caches", split_caches, "caches of models may stay in parts");
  int turns = 1;
  app.add_option("--turns", turns, "of which the medians are printed, of models");
  CLI11_PARSE(app, argc, argv);
  std::vector<Mesh> all;
  for (const int n : ranks) all.push_back(Mesh::line(n));
  for (const std::string& mesh : meshes) all.push_back(parse_mesh(mesh, "--mesh"));
  if (!all.empty()) {
    for (const std::string& file : files)
      search_model(file, all, at_once, machine, dims, split_caches, turns);
    return 0;
  }
  fmt::print(
      "| problem | variables | pairs | memory rows | cost | bound | gap | method | search nodes | million "
      "cells | seconds |\n");
  fmt::print("|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|\n");
  for (const std::string& file : files) {
    const Problem problem = read_problem(file);
    const double begin = processor_seconds();
    const Solution solution = solve(problem, options);
    const double seconds = processor_seconds() - begin;
    if (solution.feasible() && price(problem, solution.choice) != solution.cost)
      throw std::runtime_error("wrong cost");
    const std::string cost = solution.feasible() ? fmt::format("{}", solution.cost) : "none found";
    const std::string gap = solution.status == Status::kOptimal ? "optimal"
                            : solution.feasible() ? fmt::format("{:.2f} %", solution.gap() * 100)
                                                  : "";
    fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1f} | {:.1f} |\n",
               std::filesystem::path(file).stem().string(), problem.variables.size(), problem.edges.size(),
               problem.limits.size(), cost, solution.bound, gap, solution.method, solution.branches,
               static_cast<double>(solution.cells) / 1e6, seconds);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  try {
    return braid::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "auto_parallel_bench: {}\n", error.what());
    return 1;
  }
}
