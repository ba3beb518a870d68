#include "driver/model_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "codegen/target.h"
#include "driver/split_texts.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid {
namespace {

[[noreturn]] void malformed(const ModelOptions& options, const std::string& given) {
  const std::string form = options.style == OptionStyle::python
                               ? "MAX or MIN..MAX"  // of default_dim, its only text
                               : fmt::format("{} or {}", options.option("dim", "NAME=SIZE"),
                                             options.option("dim", "NAME=MIN..MAX"));
  ir::user_error(errors::kBadOption, {}, given + ": malformed",
                 fmt::format("write {} with sizes of at least 0", form));
}

// "4" or "1..8".
ir::Bounds parse_bounds(const ModelOptions& options, std::string_view value, const std::string& given) {
  const auto number = [&](std::string_view digits) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (error != std::errc{} || end != digits.data() + digits.size() || size < 0) malformed(options, given);
    return size;
  };
  const std::size_t dots = value.find("..");
  if (dots != std::string_view::npos) return {number(value.substr(0, dots)), number(value.substr(dots + 2))};
  const std::int64_t size = number(value);
  return {size, size};
}

std::pair<std::string, std::string> split_pair(const std::string& text, const std::string& given) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    ir::user_error(errors::kBadOption, {}, given + ": malformed", "write NAME=VALUE");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void refuse_without_split(const ModelOptions& options) {
  const SplitOptions& split = options.split;
  // The command line ignores --split-caches of a model that is not split.
  const bool caches = options.style == OptionStyle::python;
  if (split.wanted() || (!split.strict && !split.memory_limit && split.keep_file.empty() &&
                         options.at.empty() && options.with.empty() && !(caches && split.caches)))
    return;
  std::vector<std::string> names;
  for (const char* name : {"with", "strict", "memory-limit", "keep"}) names.push_back(options.option(name));
  if (caches) names.push_back(options.option("split-caches"));
  ir::user_error(errors::kBadOption, {},
                 fmt::format("{} and {} are about a split", fmt::join(names, ", "), options.option("at")),
                 fmt::format("give {}, {} or {}", options.option("devices"), options.option("tp"),
                             options.option("mesh")));
}

// Takes the architectures out of options.target, and refuses options that the target does not have.
void read_target(CompileOptions& options) {
  const std::string given = options.target;
  const std::size_t colon = given.find(':');
  options.target = given.substr(0, colon);
  const codegen::Target& known = codegen::target_named(options.target);
  const auto refuse = [](const std::string& message, const std::string& hint) {
    ir::user_error(errors::kBadOption, {}, message, hint);
  };
  if (colon != std::string::npos && !known.has_architectures)
    refuse(fmt::format("{}: {} has no architectures", options.option("target", given), options.target),
           "write " + options.option("target", options.target));
  if (options.precise && !known.has_precise)
    refuse(options.option("precise") + " supports only programs for cuda",
           fmt::format("write {}, or leave it out", options.option("target", "cuda")));
  if (options.precision == "int8" && known.abi == codegen::ProgramAbi::cuda)
    refuse(options.option("precision", "int8") + " supports only programs for cpu",
           fmt::format("write {} or f16", options.option("precision", "bf16")));
  if (options.precision == "tf32" && known.abi != codegen::ProgramAbi::cuda)
    refuse(options.option("precision", "tf32") + " supports only programs for cuda",
           fmt::format("write {} or f16", options.option("precision", "bf16")));
  if (options.checked && !known.has_checked)
    refuse(options.option("checked") + " supports only programs for cpu",
           "run the CUDA program on the emulated device, which checks all accesses");
  if (options.standalone && !known.has_standalone)
    refuse(options.option("standalone") + " supports only programs for cuda",
           "docs/generated-code.md says how to build a C++ program without braid");
  std::istringstream list(colon == std::string::npos ? "" : given.substr(colon + 1));
  for (std::string one; std::getline(list, one, ',');) options.architectures.push_back(one);
}

}  // namespace

CompileOptions ModelOptions::compile_options() const {
  for (const std::string& p : plugins) passes::load_plugin(p);
  CompileOptions options = *this;
  options.import.dims = dim_bounds();
  options.import.dims.merge(default_dims(model));
  read_capacities(options.import);
  for (const std::string& a : aliases) options.import.aliases.push_back(split_pair(a, option("alias", a)));
  read_split_texts(options, at, with, [&](const std::string& of) { return default_dims(of); });
  refuse_without_split(*this);
  if (passes && passes->empty()) options.passes.reset();
  options.run.verify = !no_verify;
  options.link = paced_link();
  for (const std::string& f : forced_kernels)
    options.force_kernels.push_back(passes::parse_forced_kernel(f, option("force-kernel", f)));
  read_target(options);
  return options;
}

std::map<std::string, ir::Bounds> ModelOptions::dim_bounds() const {
  std::map<std::string, ir::Bounds> all = import.dims;
  for (const std::string& text : dims) {
    // The last '=': names of dimensions may contain any character.
    const std::size_t equals = text.rfind('=');
    const std::string given = option("dim", text);
    if (equals == std::string::npos || equals == 0) malformed(*this, given);
    const std::string name = text.substr(0, equals);
    if (!all.emplace(name, parse_bounds(*this, std::string_view(text).substr(equals + 1), given)).second)
      ir::user_error(errors::kBadOption, {}, option("dim", name) + " is given twice",
                     "give each dimension once");
  }
  return all;
}

void ModelOptions::read_capacities(frontend::ImportOptions& options) const {
  for (const std::string& text : capacities) {
    // The last '=': names of values may contain any character.
    const std::size_t equals = text.rfind('=');
    const std::size_t digits = equals == std::string::npos ? 0 : equals + 1;
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + digits, end, number);
    if (error != std::errc{} || at != end || number < 0 || equals == 0)
      ir::user_error(errors::kBadOption, {}, option("capacity", text) + ": malformed",
                     fmt::format("write {} or {} with a number of at least 0", option("capacity", "NAME=N"),
                                 option("capacity", "N")));
    const bool fresh = equals == std::string::npos
                           ? !std::exchange(options.default_capacity, number).has_value()
                           : options.capacities.emplace(text.substr(0, equals), number).second;
    if (!fresh)
      ir::user_error(errors::kBadOption, {}, option("capacity", text) + " is given twice",
                     "give each capacity once");
  }
}

std::map<std::string, ir::Bounds> ModelOptions::default_dims(const std::string& of) const {
  if (default_dim.empty() || of.empty() || is_text(of)) return {};
  ir::Bounds fallback = parse_bounds(*this, default_dim, option("default-dim", default_dim));
  if (default_dim.find("..") == std::string::npos) fallback.min = std::min<std::int64_t>(1, fallback.max);
  const std::map<std::string, ir::Bounds> added = frontend::default_dims(of, dim_bounds(), fallback);
  for (const auto& [name, b] : added) {
    if (import.note)
      import.note(fmt::format("dimension '{}' is not given: {} makes it {}..{}", name, option("default-dim"),
                              b.min, b.max));
  }
  return added;
}

std::optional<CompileOptions::Link> ModelOptions::paced_link() const {
  if (link_text.empty()) return std::nullopt;
  const auto refuse = [&]() {
    ir::user_error(errors::kBadOption, {}, option("link", link_text) + ": expected a latency and a bandwidth",
                   "write LATENCY,GB/s, for example 100us,1.5 or 2ms,0.5 (units: ns, us, ms)");
  };
  const std::size_t comma = link_text.find(',');
  if (comma == std::string::npos) refuse();
  const auto figure = [&](std::string_view text, std::string_view& unit) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || !(value >= 0 && value <= 1e9)) refuse();
    unit = text.substr(static_cast<std::size_t>(end - text.data()));
    return value;
  };
  const std::string_view all = link_text;
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
  return Link{latency * us, rate};
}

}  // namespace braid
