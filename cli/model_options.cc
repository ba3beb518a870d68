#include "cli/model_options.h"

#include <fmt/format.h>

#include <cstdio>
#include <ranges>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/command_line.h"
#include "driver/option_table.h"
#include "explain/overlap_log.h"
#include "harness/fixed_inputs.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::cli {
namespace {

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(list, ',')) parts.emplace_back(part.begin(), part.end());
  return parts;
}

template <class Value>
void add(Command command, const Option& row, Value& value) {
  const std::string name = fmt::format("--{}", row.name);
  const std::string help = help_text(row, OptionStyle::command_line);
  if constexpr (std::is_same_v<Value, bool>) {
    command.flag(name, value, help);
  } else {
    const Argument option = command.option(name, value, help);
    const OptionTraits& traits = row.traits;
    if (traits.least < traits.most) {
      if constexpr (std::is_same_v<Value, double>)
        option.from(traits.least, traits.most);
      else
        option.from(static_cast<int>(traits.least), static_cast<int>(traits.most));
    }
    if (traits.commas) option.comma_separated();
    if (std::is_same_v<Value, std::vector<std::string>>) option.one_value();
    if (!traits.choices.empty()) option.one_of(split(traits.choices));
    if (traits.bytes) option.bytes();
  }
}

void add(Command command, const Option& row, ModelOptions& options) {
  const OptionGroup group(command, row.heading.empty() ? "Options" : std::string(row.heading));
  std::visit([&](auto* value) { add(command, row, *value); }, row.value(options));
}

}  // namespace

void add_options(Command command, ModelOptions& options, std::string_view without) {
  options.import.note = [](const std::string& text) { fmt::print(stderr, "note: {}\n", text); };
  for (const Option& row : option_table()) {
    if (!row.heading.empty() && row.name != without) add(command, row, options);
  }
}

void add_option(Command command, ModelOptions& options, std::string_view name) {
  add(command, option_named(name), options);
}

CompileOptions compile_options(const ModelOptions& given, const Report& report) {
  CompileOptions options = given.compile_options();
  options.import.fixed = harness::read_fixed_inputs(given.binds);
  options.run.print = [&report](const std::string& text) { report.text(text); };
  if (auto log = explain::overlap_log_observer()) options.run.observers.push_back(*log);
  return options;
}

void refuse_for_text(const ModelOptions& options) {
  if (!is_text(options.model)) return;
  const auto refuse = [&](const char* name, const std::string& text, const char* has, const char* hint) {
    ir::user_error(errors::kBadOption, {.file = options.model},
                   fmt::format("{}: IR text has its own {}", options.option(name, text), has), hint);
  };
  if (!options.dims.empty())
    refuse("dim", options.dims[0], "dimensions", "write the bounds into the text: dim NAME in [MIN, MAX]");
  if (!options.capacities.empty())
    refuse("capacity", options.capacities[0], "capacities",
           "write the capacity into the text: dim NAME in [0, CAPACITY]");
  if (!options.aliases.empty())
    refuse("alias", options.aliases[0], "aliases",
           "write the alias into the text: NAME: f32[...] output alias $INPUT");
  if (!options.binds.empty())
    refuse("bind", options.binds[0], "constants", "make the input a constant in the text");
}

}  // namespace braid::cli
