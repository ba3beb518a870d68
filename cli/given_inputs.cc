#include "cli/given_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/launched.h"
#include "harness/program_files.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::cli {

using harness::GivenInputs;
using harness::InputOptions;
using harness::ProgramInterface;

namespace {

// Reports names in --dim that the program does not have. A text has all of its dimensions, so this is an
// error. Those of a compiled model may have been fixed, so this is only a note.
void check_dim_names(const ProgramInterface& table, const ModelOptions& model) {
  const bool text = is_text(model.model);
  if (!text && !harness::is_program_dir(model.model)) return;
  std::vector<std::string> names;
  for (const ProgramInterface::Dim& dim : table.dims) names.push_back(dim.name);
  for (const auto& [name, bounds] : model.dim_bounds()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string why = fmt::format("--dim {}: the program has no dimension of this name", name);
    const std::string near = harness::nearest(name, names);
    const std::string hint = near.empty() ? names.empty() ? "leave it out: all its sizes are fixed"
                                                          : fmt::format("it has {}", fmt::join(names, ", "))
                                          : fmt::format("did you mean '{}'?", near);
    if (text) ir::user_error(errors::kBadOption, {.file = model.model}, why, hint);
    if (harness::launched_rank() <= 0) fmt::print(stderr, "note: {}; {}\n", why, hint);
  }
}

}  // namespace

GivenInputs make_inputs(const ProgramInterface& table, const ModelOptions& model, const InputOptions& options,
                        Report& report) {
  check_dim_names(table, model);
  GivenInputs inputs = harness::make_inputs(table, harness::dim_values(table, model.dim_bounds()), options);
  nlohmann::ordered_json& list = report.json()["inputs"] = nlohmann::ordered_json::array();
  for (std::size_t k = 0; k < table.inputs.size(); ++k) {
    const bool random =
        std::find(inputs.random.begin(), inputs.random.end(), table.inputs[k].name) != inputs.random.end();
    list.push_back({{"name", table.inputs[k].name},
                    {"dtype", to_string(inputs.ranks[0][k].dtype)},
                    {"shape", inputs.ranks[0][k].sizes},
                    {"random", random}});
    if (random) list.back()["seed"] = *options.random;
  }
  return inputs;
}

GivenInputs make_inputs_or_draw(const ProgramInterface& table, const ModelOptions& model,
                                InputOptions options, Report& report) {
  const bool asked = options.random.has_value();
  if (!asked) options.random = harness::kDefaultSeed;
  GivenInputs inputs = make_inputs(table, model, options, report);
  if (!asked && !inputs.random.empty() && harness::launched_rank() <= 0) {
    fmt::print(stderr, "note: {} {} random (--random {}); give {} with --input NAME=FILE.npy\n",
               fmt::join(inputs.random, ", "), inputs.random.size() == 1 ? "is" : "are",
               harness::kDefaultSeed, inputs.random.size() == 1 ? "it" : "them");
  }
  return inputs;
}

}  // namespace braid::cli
