// braid pipeline search: the shortest order of computations for given costs, delays and memory.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/pipeline_commands.h"
#include "cli/pipeline_input.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/csv.h"
#include "pipeline/known_schedules.h"
#include "pipeline/placement.h"
#include "pipeline/search.h"
#include "pipeline/search_costs.h"

namespace braid::cli {
namespace {

struct SearchOptions {
  std::string costs;
  PipelineInput sizes;
  std::string forward = "1", input = "1", weight = "1", delay = "0";
  std::string activation_bytes = "0", weight_bytes = "0", byte_cap;
  bool fused = false, lowered = false;
  std::int64_t budget = 0;
  std::string channels = "edge";
  std::string output;
};

// A unit of a number of bytes: a power of ten, or of two.
struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {{"B", 1},    {"kB", 1e3},   {"KB", 1e3},      {"MB", 1e6},
                           {"GB", 1e9}, {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

// The factor of the unit at `at`, which is moved past it; 1 if there is none.
double unit(const char*& at, const char* end) {
  const std::string_view rest(at, static_cast<std::size_t>(end - at));
  const std::string_view word = rest.substr(0, rest.find(','));
  for (const Unit& u : kUnits) {
    if (word != u.name) continue;
    at += word.size();
    return u.bytes;
  }
  return 1;
}

// "1.5" or "1.5,2,1": one number for all, or one for each; of bytes, with units.
std::vector<double> numbers(const std::string& option, const std::string& text, std::size_t count) {
  const bool of_bytes = option.find("byte") != std::string::npos;
  std::vector<double> values;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    double value = 0;
    auto [next, error] = std::from_chars(at, end, value);
    if (of_bytes && error == std::errc()) value *= unit(next, end);
    if (error != std::errc() || !std::isfinite(value) || value < 0 || (next != end && *next != ',')) {
      ir::user_error(errors::kBadOption, {}, fmt::format("{} {}: malformed", option, text),
                     of_bytes
                         ? "give non-negative numbers, separated by commas; units: kB, MB, GB, KiB, MiB, GiB"
                         : "give non-negative numbers, separated by commas");
    }
    values.push_back(value);
    if (next == end) break;
    at = next + 1;
  }
  if (values.size() == 1) values.resize(count, values[0]);
  if (values.size() != count) {
    ir::user_error(errors::kBadOption, {},
                   fmt::format("{} {}: got {} numbers, expected 1 or {}", option, text, values.size(), count),
                   "give one for all or one for each");
  }
  return values;
}

analysis::Time microseconds(const std::string& option, double us) {
  if (us > 1e12)
    ir::user_error(errors::kBadOption, {}, fmt::format("{}: {} us is too long", option, us),
                   "give at most 1e12");
  return analysis::Time::from_us(us);
}

std::int64_t bytes(const std::string& option, double value) {
  if (value > 9e15 || value != std::floor(value)) {
    ir::user_error(errors::kBadOption, {}, fmt::format("{}: {} is not a number of bytes", option, value),
                   "give an integer below 9e15");
  }
  return static_cast<std::int64_t>(value);
}

struct Task {
  pipeline::SearchProblem problem;
  std::optional<pipeline::PipelineCosts> costs;  // of the file
};

pipeline::PerRank<std::int64_t> byte_caps(const SearchOptions& o) {
  pipeline::PerRank<std::int64_t> caps;
  if (o.byte_cap.empty()) return caps;
  for (const double cap : numbers("--byte-cap", o.byte_cap, static_cast<std::size_t>(o.sizes.ranks))) {
    caps.push_back(bytes("--byte-cap", cap));
  }
  return caps;
}

Task task(const SearchOptions& o) {
  const PipelineInput& z = o.sizes;
  if (z.ranks == 0 || z.microbatches == 0) {
    ir::user_error(errors::kBadOption, {}, "a search requires --ranks and --microbatches",
                   "braid pipeline search --ranks 4 --microbatches 8 --forward 10 --input 11 --weight 9");
  }
  pipeline::SearchProblem p;
  p.ranks = z.ranks;
  p.microbatches = z.microbatches;
  const auto stages = static_cast<std::size_t>(z.stages == 0 ? z.ranks : z.stages);
  p.rank_of_stage = pipeline::parse_placement(z.placement.empty() ? "loop" : z.placement, z.ranks,
                                              static_cast<int>(stages));
  if (!o.costs.empty()) {
    const pipeline::PipelineCosts costs = pipeline::read_costs(o.costs, static_cast<int>(stages));
    return {search_problem(costs, p.rank_of_stage, z.ranks, z.microbatches, !o.fused, byte_caps(o)), costs};
  }
  p.split_backward = !o.fused;
  const std::vector<double> forward = numbers("--forward", o.forward, stages),
                            input = numbers("--input", o.input, stages),
                            weight = numbers("--weight", o.weight, stages),
                            kept = numbers("--activation-bytes", o.activation_bytes, stages),
                            rest = numbers("--weight-bytes", o.weight_bytes, stages);
  for (std::size_t s = 0; s < stages; ++s) {
    const double backward = o.fused ? input[s] + weight[s] : input[s];
    p.stages.push_back({microseconds("--forward", forward[s]), microseconds("--input", backward),
                        microseconds("--weight", o.fused ? 0 : weight[s]),
                        bytes("--activation-bytes", kept[s]), bytes("--weight-bytes", rest[s])});
  }
  if (stages > 1) {
    const std::vector<double> delay = numbers("--delay", o.delay, stages - 1);
    for (std::size_t s = 0; s + 1 < stages; ++s) {
      const bool same = p.rank_of_stage[s] == p.rank_of_stage[s + 1];
      p.forward_delay.push_back(same ? analysis::Time{} : microseconds("--delay", delay[s]));
    }
    p.backward_delay = p.forward_delay;
  }
  p.byte_cap = byte_caps(o);
  return {std::move(p), std::nullopt};
}

int run(const SearchOptions& o, Report& report) {
  const Task searched = task(o);
  const pipeline::SearchProblem& p = searched.problem;
  const std::vector<pipeline::NamedSchedule> known = known_schedules(p);
  pipeline::SearchOptions options;
  options.node_budget = o.budget;
  if (searched.costs) options.costs = &*searched.costs;
  options.channels = pipeline::parse_queue_policy(o.channels);
  const pipeline::SearchResult result = search(p, known, options);
  const pipeline::PipelineSchedule schedule =
      o.lowered ? result.executable.lowered : to_schedule(p, result.executable.orders);
  const bool to_terminal = o.output.empty() || o.output == "-";
  report.json()["result"] = to_text(result);
  if (to_terminal) {
    fmt::print(stderr, "{}", to_text(result));
  } else {
    report.text(to_text(result));
  }
  write_output(report, "csv", o.output, pipeline::print(schedule));
  return 0;
}

}  // namespace

void add_pipeline_search(Command pipeline, Invocation& chosen) {
  auto o = std::make_shared<SearchOptions>();
  const Command command =
      pipeline.subcommand("search", "Find the shortest schedule and bound its distance from the optimum");
  command.footer(
      "Times are in microseconds; a list has one number for all, or one for each stage (--delay: each pair "
      "of "
      "neighbouring stages, --byte-cap: each rank).\n"
      "Example: braid pipeline search --ranks 4 --microbatches 8 --forward 10,11,10,14 --input 10 --weight 9 "
      "--delay 2");
  o->sizes.add_sizes(command);
  const Argument costs =
      command.option("--costs", o->costs, "JSON with times, bytes and links, instead of the options");
  command.option("--forward", o->forward, "Time of F (default 1)").excludes(costs);
  command.option("--input", o->input, "Time of I (default 1)").excludes(costs);
  command.option("--weight", o->weight, "Time of W (default 1)").excludes(costs);
  command.flag("--fused-backward", o->fused, "One backward B instead of I and W; it takes the time of both");
  command.option("--delay", o->delay, "Time of a transfer between neighbouring stages (default 0)")
      .excludes(costs);
  command
      .option("--activation-bytes", o->activation_bytes, "What a forward keeps for its backward (default 0)")
      .excludes(costs);
  command.option("--weight-bytes", o->weight_bytes, "The part of it that remains from I to W (default 0)")
      .excludes(costs);
  command.option(
      "--byte-cap", o->byte_cap,
      "Maximum bytes of activations on a rank, for example 40GB (10^9 each) or 32GiB (default: no cap)");
  command.option("--budget", o->budget, "Candidates to examine (default: some seconds)")
      .from(std::int64_t{0});
  command.option(
      "--channels", o->channels,
      "How transfers share queues: rank, pair or edge, with :K for K buffered messages (default edge)");
  command.flag("--lowered", o->lowered, "Write the schedule with its transfers");
  command.option("-o,--output", o->output, "CSV file to write (default: the terminal)");
  command.callback([o, &chosen] { chosen = [o](Report& report) { return run(*o, report); }; });
}

}  // namespace braid::cli
