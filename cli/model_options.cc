#include "cli/model_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <sstream>

#include "cli/option_checks.h"
#include "cli/option_group.h"
#include "driver/split_texts.h"
#include "explain/overlap_log.h"
#include "frontend/import.h"
#include "frontend/signature.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::cli {
namespace {

[[noreturn]] void bad_dim(const std::string& given) {
  ir::user_error(errors::kBadOption, {}, given + ": malformed",
                 "write --dim NAME=SIZE or --dim NAME=MIN..MAX with sizes of at least 0");
}

std::int64_t number(std::string_view digits, const std::string& whole) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 0) bad_dim(whole);
  return value;
}

// "4" or "1..8".
ir::Bounds parse_bounds(std::string_view value, const std::string& given) {
  const std::size_t dots = value.find("..");
  if (dots != std::string_view::npos)
    return {number(value.substr(0, dots), given), number(value.substr(dots + 2), given)};
  const std::int64_t size = number(value, given);
  return {size, size};
}

std::pair<std::string, std::string> split_pair(const std::string& text, const char* option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    ir::user_error(errors::kBadOption, {}, fmt::format("{} {}: malformed", option, text), "write NAME=VALUE");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

std::pair<std::string, ir::Bounds> parse_dim(const std::string& text) {
  // The last '=': names of dimensions may contain any character.
  const std::size_t equals = text.rfind('=');
  const std::string given = "--dim " + text;
  if (equals == std::string::npos || equals == 0) bad_dim(given);
  return {text.substr(0, equals), parse_bounds(std::string_view(text).substr(equals + 1), given)};
}

void ModelOptions::add_dimensions(CLI::App& command) {
  const OptionGroup group(command, "Model");
  command.add_option("--ranks", ranks, "Number of ranks (world size)")->check(number_from(1, 1024));
  command
      .add_option("--devices", devices,
                  "Split a plain model over as many of N devices as make a step shortest")
      ->check(number_from(1, 1024));
  command.add_option("--tp", tensor_ranks, "Split a plain model over exactly N devices")
      ->check(number_from(1, 1024));
  command.add_option(
      "--mesh", mesh,
      "Split a plain model over exactly the devices of a mesh, such as dp=2,tp=4: ranks along the last "
      "axis are neighbours");
  command.add_option("--plan", plan,
                     "Split a plain model as the plan in this file says (compile --emit plan)");
  command.add_option("--configuration", configuration,
                     "Split a model by ONNX's annotations for this configuration of devices");
  command
      .add_option(
          "--at", at,
          "NAME=SIZE,...[*STEPS], with --devices, --tp, --mesh or --plan: a step is priced at these sizes of "
          "bounded dimensions instead of their upper bounds; several: one plan is chosen for all, each with "
          "its number of steps, such as --at sequence=128,past=0 --at sequence=1,past=512*100")
      ->allow_extra_args(false);
  command
      .add_option(
          "--with", with,
          "FILE[:NAME=SIZE,...][*STEPS], with --devices, --tp or --mesh: another model of the same "
          "weights, such as one for single tokens beside one for prompts; one layout of the weights is "
          "chosen for the steps of all. --at '*STEPS' says how many the model itself has")
      ->allow_extra_args(false);
  command.add_flag(
      "--split-caches", split_caches,
      "With --devices, --tp or --mesh: caches may stay split, each rank takes and returns its part");
  command
      .add_option("--memory-limit", memory_limit,
                  "With --devices, --tp or --mesh: bytes of a device that weights, inputs, outputs and "
                  "planned memory "
                  "may take (default: what the machine has, if its description says): 40GB (10^9 bytes "
                  "each), 32GiB (2^30)")
      ->check(not_negative)
      ->transform(CLI::AsSizeValue(true));
  command.add_option(
      "--keep", keep,
      "With --devices, --tp or --mesh: lines of a partial plan in this file are fixed, the rest is chosen");
  command.add_flag(
      "--strict", strict,
      "With --devices, --tp or --mesh: an error if an operator without a rule stays whole, or if one "
      "conversion takes more than --conversion-share of the step");
  command
      .add_option("--conversion-share", conversion_share,
                  "With --strict: percent of the step that one conversion may take")
      ->check(number_from(0.0, 100.0));
  command.add_option("--dim", dims, "NAME=SIZE fixes a dimension, NAME=MIN..MAX bounds it")
      ->allow_extra_args(false);
  command.add_option("--default-dim", default_dim,
                     "MAX or MIN..MAX for all dimensions without --dim (a MAX alone: 1..MAX)");
  command.add_option("--alias", aliases, "OUT=IN: the output shares the input's memory")
      ->allow_extra_args(false);
}

void ModelOptions::add_passes(CLI::App& command) {
  const OptionGroup group(command, "Passes and costs");
  command
      .add_option(
          "--precision", precision,
          "Type in which products with constant weights compute, where it pays: f32 (as the model says), "
          "bf16, f16, int8")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "int8"}));
  command.add_flag(
      "--precise", precise,
      "CUDA: every operation is computed as IEEE says; otherwise quotients, roots, exp and erf have "
      "cheaper forms with stated errors");
  command.add_option("--passes", passes,
                     "Comma-separated pass list instead of the default one; with options: name:a=1:b=2, or "
                     "quoted 'name{a=1,b=2}'");
  command.add_option("--disable", disable, "Passes to skip")->delimiter(',')->allow_extra_args(false);
  command.add_option("--print-after", print_after, "Passes after which to print the IR, or 'all'")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--plugin", plugins, "Shared libraries with additional passes, operators and kernels")
      ->allow_extra_args(false);
  command.add_option("--bisect", bisect, "Run only the first N passes of the list")
      ->check(number_from(0, 1'000'000));
  command.add_option(
      "--machine", machine,
      "Machine for costs: see opt --list-machines, or a .json file; default: cpu, or h100 for CUDA");
  command.add_option("--costs", costs,
                     "Cost file: measured times by operation, which take precedence over the machine's");
  command
      .add_option("--memory-cap", memory_cap,
                  "Planned bytes that no pass may exceed: 1000000, 40GB (10^9 bytes each), 32GiB (2^30)")
      ->check(not_negative)
      ->transform(CLI::AsSizeValue(true));
  command
      .add_option(
          "--force-kernel", force_kernels,
          "COLLECTIVE=KERNEL: the kernel of a collective (its name, a kind, or *): one_shot, two_shot, "
          "library, automatic; KERNEL:blocking also drops the wait")
      ->allow_extra_args(false);
  command.add_option("--link", link,
                     "Link between ranks as LATENCY,GB/s, for example 100us,1.5: used for costs and, if the "
                     "program runs, for pacing its ranks");
  command.add_flag("--no-verify", no_verify, "Do not run the verifier after each pass");
}

void ModelOptions::add_target(CLI::App& command) {
  const OptionGroup group(command, "Model");
  command.add_option("--target", target, "cpu, cuda, or cuda:sm_80,sm_90");
}

CompileOptions ModelOptions::compile_options(const Report& report) const {
  for (const std::string& p : plugins) passes::load_plugin(p);
  CompileOptions options;
  options.model = model;
  options.import.ranks = ranks;
  options.import.dims = dim_bounds();
  options.import.dims.merge(default_dims(model));
  for (const std::string& a : aliases) options.import.aliases.push_back(split_pair(a, "--alias"));
  options.import.note = [](const std::string& text) { fmt::print(stderr, "note: {}\n", text); };
  options.split = {devices, tensor_ranks, plan, split_caches, mesh, strict, conversion_share};
  if (memory_limit >= 0) options.split.memory_limit = memory_limit;
  options.split.keep_file = keep;
  options.split.configuration = configuration;
  read_split_texts(options, at, with, [&](const std::string& of) { return default_dims(of); });
  if (!options.split.wanted() &&
      (strict || memory_limit >= 0 || !keep.empty() || !at.empty() || !with.empty()))
    ir::user_error(errors::kBadOption, {},
                   "--with, --strict, --memory-limit, --keep and --at are about a split",
                   "give --devices, --tp or --mesh");
  if (!passes.empty()) options.passes = passes;
  options.precision = precision;
  options.run.verify = !no_verify;
  options.run.disable = disable;
  options.run.print_after = print_after;
  options.machine = machine;
  options.cost_file = costs;
  options.link = paced_link();
  for (const std::string& f : force_kernels) options.force_kernels.push_back(passes::parse_forced_kernel(f));
  if (memory_cap >= 0) options.memory_cap = memory_cap;
  if (bisect >= 0) options.run.bisect = bisect;
  options.run.print = [&report](const std::string& text) { report.text(text); };
  if (auto log = explain::overlap_log_observer()) options.run.observers.push_back(*log);
  const std::size_t colon = target.find(':');
  options.target = target.substr(0, colon);
  const codegen::Target& known = codegen::target_named(options.target);
  if (colon != std::string::npos && !known.has_architectures) {
    ir::user_error(errors::kBadOption, {},
                   fmt::format("--target {}: {} has no architectures", target, options.target),
                   fmt::format("write --target {}", options.target));
  }
  options.precise = precise;
  if (precise && !known.has_precise) {
    ir::user_error(errors::kBadOption, {}, "--precise supports only programs for cuda",
                   "write --target cuda, or leave it out");
  }
  if (precision == "int8" && known.abi == codegen::ProgramAbi::cuda) {
    ir::user_error(errors::kBadOption, {}, "--precision int8 supports only programs for cpu",
                   "write --precision bf16 or f16");
  }
  std::istringstream list(colon == std::string::npos ? "" : target.substr(colon + 1));
  for (std::string one; std::getline(list, one, ',');) options.architectures.push_back(one);
  return options;
}

std::optional<CompileOptions::Link> ModelOptions::paced_link() const {
  if (link.empty()) return std::nullopt;
  const auto refuse = [&]() {
    ir::user_error(errors::kBadOption, {}, fmt::format("--link {}: expected a latency and a bandwidth", link),
                   "write LATENCY,GB/s, for example 100us,1.5 or 2ms,0.5 (units: ns, us, ms)");
  };
  const std::size_t comma = link.find(',');
  if (comma == std::string::npos) refuse();
  const auto figure = [&](std::string_view text, std::string_view& unit) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || !(value >= 0 && value <= 1e9)) refuse();
    unit = text.substr(static_cast<std::size_t>(end - text.data()));
    return value;
  };
  const std::string_view all = link;
  std::string_view time_unit, rate_unit;
  const double latency = figure(all.substr(0, comma), time_unit);
  const double rate = figure(all.substr(comma + 1), rate_unit);
  double us = 1;
  if (time_unit == "ns") {
    us = 1e-3;
  } else if (time_unit == "ms") {
    us = 1e3;
  } else if (!time_unit.empty() && time_unit != "us") {
    refuse();
  }
  if (!(rate > 0) || (!rate_unit.empty() && rate_unit != "GB/s")) refuse();
  return CompileOptions::Link{latency * us, rate};
}

void ModelOptions::refuse_for_text() const {
  if (!is_text(model)) return;
  if (!dims.empty()) {
    ir::user_error(errors::kBadOption, {.file = model},
                   fmt::format("--dim {}: IR text has its own dimensions", dims[0]),
                   "write the bounds into the text: dim NAME in [MIN, MAX]");
  }
  if (!aliases.empty()) {
    ir::user_error(errors::kBadOption, {.file = model},
                   fmt::format("--alias {}: IR text has its own aliases", aliases[0]),
                   "write the alias into the text: NAME: f32[...] output alias $INPUT");
  }
}

std::map<std::string, ir::Bounds> ModelOptions::default_dims(const std::string& of) const {
  if (default_dim.empty() || of.empty() || is_text(of)) return {};
  ir::Bounds fallback = parse_bounds(default_dim, "--default-dim " + default_dim);
  if (default_dim.find("..") == std::string::npos) fallback.min = std::min<std::int64_t>(1, fallback.max);
  const std::map<std::string, ir::Bounds> added = frontend::default_dims(of, dim_bounds(), fallback);
  for (const auto& [name, b] : added) {
    fmt::print(stderr, "note: dimension '{}' is not given: --default-dim makes it {}..{}\n", name, b.min,
               b.max);
  }
  return added;
}

std::map<std::string, ir::Bounds> ModelOptions::dim_bounds() const {
  std::map<std::string, ir::Bounds> all;
  for (const std::string& d : dims) {
    auto [name, bounds] = parse_dim(d);
    if (!all.emplace(name, bounds).second) {
      ir::user_error(errors::kBadOption, {}, fmt::format("--dim {} is given twice", name),
                     "give each dimension once");
    }
  }
  return all;
}

}  // namespace braid::cli
