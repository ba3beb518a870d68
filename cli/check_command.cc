// braid check: proves that all ranks agree on their collectives and cannot deadlock, or shows a witness.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>

#include "analysis/check/check_traces.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/report.h"
#include "codegen/trace_json.h"
#include "driver/compile.h"
#include "driver/optimise.h"
#include "frontend/import.h"
#include "harness/program_files.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::cli {
namespace {

struct CheckOptions {
  ModelOptions model;  // `model` stays empty: `files` holds them
  std::vector<std::string> files;
  std::string channels;
  bool as_written = false;
};

std::optional<int> rank_in_name(const std::string& path) {
  static const std::regex pattern("rank_?([0-9]{1,6})(?![0-9])");
  const std::string name = std::filesystem::path(path).lexically_normal().filename().string();
  std::smatch match;
  if (!std::regex_search(name, match, pattern)) return std::nullopt;
  return std::stoi(match[1]);
}

// Sorts files by the ranks in their names if all have one (unlike a shell's pattern, "model.rank10.onnx"
// comes after "model.rank9.onnx"); otherwise keeps the given order.
std::vector<std::string> in_rank_order(std::vector<std::string> files) {
  const bool all =
      std::all_of(files.begin(), files.end(), [](const auto& f) { return rank_in_name(f).has_value(); });
  if (!all || files.size() == 1) return files;
  std::stable_sort(files.begin(), files.end(),
                   [](const auto& a, const auto& b) { return *rank_in_name(a) < *rank_in_name(b); });
  for (std::size_t r = 0; r < files.size(); ++r) {
    if (*rank_in_name(files[r]) == static_cast<int>(r)) continue;
    ir::user_error(errors::kBadOption, {.file = files[r]},
                   fmt::format("{} files are given, but none is for rank {}", files.size(), r),
                   "give one file for each rank or one for all");
  }
  return files;
}

// The programs of several ranks need not have the same dimensions: each takes the bounds of its own.
using DimNames = std::map<std::string, std::set<std::string>>;  // by file
DimNames dim_names(const CheckOptions& o) {
  DimNames names;
  if (o.files.size() < 2 || o.model.dims.empty()) return names;
  std::set<std::string> all;
  for (const std::string& file : o.files) {
    if (harness::is_program_dir(file) || is_text(file)) return {};
    names[file] = frontend::dimension_names(file);
    all.insert(names[file].begin(), names[file].end());
  }
  for (const auto& [name, bounds] : o.model.dim_bounds()) {
    if (all.contains(name)) continue;
    ir::user_error(errors::kInvalidDimension, {},
                   fmt::format("none of the {} models has a dimension '{}'", o.files.size(), name),
                   all.empty() ? "all their dimensions are constant"
                               : fmt::format("their dimensions are {}", fmt::join(all, ", ")));
  }
  return names;
}

ir::CollectiveTrace trace_of(const CheckOptions& o, const Report& report, const std::string& file,
                             const DimNames& names) {
  if (harness::is_program_dir(file)) return codegen::read_program_trace(file);
  ModelOptions one = o.model;
  one.model = file;
  refuse_for_text(one);
  if (one.import.ranks == 1 && o.files.size() > 1 && !one.split.wanted())
    one.import.ranks = static_cast<int>(o.files.size());
  CompileOptions options = compile_options(one, report);
  if (const auto own = names.find(file); own != names.end()) {
    std::erase_if(options.import.dims, [&](const auto& dim) { return !own->second.contains(dim.first); });
  }
  options.split.weights = false;
  ir::Schedule schedule = lower(options);
  if (!o.as_written && !is_text(file)) optimise(schedule, options);
  return ir::collective_trace(schedule, file);
}

ir::ChannelPolicy parse_channels(const std::string& text) {
  for (const auto policy : {ir::ChannelPolicy::global, ir::ChannelPolicy::communicator,
                            ir::ChannelPolicy::pair, ir::ChannelPolicy::edge}) {
    if (to_string(policy) == text) return policy;
  }
  throw ir::InternalError("a channel policy that the parser let through: " + text);
}

int run(const CheckOptions& o, Report& report) {
  std::vector<ir::CollectiveTrace> traces;
  const DimNames names = dim_names(o);
  for (const std::string& file : in_rank_order(o.files)) {
    traces.push_back(trace_of(o, report, file, names));
    if (!o.channels.empty()) traces.back().channels = parse_channels(o.channels);
  }
  const std::string certificate = to_string(check::check_traces(traces));
  report.json() = {{"agree", true}, {"certificate", certificate}};
  report.text(certificate);
  return 0;
}

}  // namespace

void add_check(Command app, Invocation& chosen) {
  auto o = std::make_shared<CheckOptions>();
  const Command command =
      app.subcommand("check", "Prove that all ranks agree on their collectives and cannot deadlock");
  command.footer(
      "Examples: braid check out\n"
      "          braid check stage.rank*.onnx --dim batch=1..8\n"
      "          braid check rank0.braid rank1.braid --channels communicator");
  command
      .option("FILE", o->files,
              "Compiled folders, ONNX models or IR texts (.braid): one for all ranks, or one for each rank, "
              "in this order or with rank<R> in their names")
      .required();
  command
      .option("--channels", o->channels,
              "Channel policy (which collectives of a rank share a queue), instead of the programs'")
      .one_of({"global", "communicator", "pair", "edge"});
  command.flag("--as-written", o->as_written,
               "Check models as lowered, before any pass (IR texts always are)");
  add_options(command, o->model);
  command.callback([o, &chosen] { chosen = [o](Report& report) { return run(*o, report); }; });
}

}  // namespace braid::cli
