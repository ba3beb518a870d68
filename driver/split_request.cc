#include "driver/split_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "split/mesh.h"

namespace braid {

using frontend::sharding::DeviceConfiguration;

namespace {

void check_contradictions(const CompileOptions& options) {
  const SplitOptions& split = options.split;
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    ir::user_error(errors::kSplitRequest, {.file = options.model}, message, hint);
  };
  const auto four = [&] {
    return fmt::format("{}, {}, {} and {}", options.option("devices"), options.option("tp"),
                       options.option("mesh"), options.option("plan"));
  };
  const auto with_plan = [&](const char* name) {
    return fmt::format("{} and {} are given together", options.option(name), options.option("plan"));
  };
  if ((split.devices > 0) + (split.tensor_ranks > 0) + !split.mesh.empty() + !split.plan_file.empty() > 1)
    refuse(four() + " are given together", "give one of them: a mesh and a plan have their number of ranks");
  if ((split.memory_limit || !split.keep_file.empty()) && !split.plan_file.empty())
    refuse(fmt::format("{} is given together with {} or {}", options.option("plan"),
                       options.option("memory-limit"), options.option("keep")),
           "a plan is obeyed as it is");
  if (split.strict && !split.plan_file.empty()) refuse(with_plan("strict"), "a plan is obeyed as it is");
  if (split.caches && !split.plan_file.empty())
    refuse(with_plan("split-caches"), "a plan says what becomes of the caches");
  if (!split.configuration.empty() && !split.plan_file.empty())
    refuse(with_plan("configuration"), "a complete plan leaves nothing to annotations");
  if (!split.mesh.empty() && split::parse_mesh(split.mesh, options.option("mesh")).find("pp") >= 0)
    ir::user_error(
        errors::kStages, {.file = options.model},
        options.option("mesh", split.mesh) + ": programs of several pipeline stages are not generated yet",
        "'braid explain --devices N' prints where the model would be cut; leave out the axis pp");
  if (options.import.ranks > 1)
    refuse("a model that is split already is compiled with " + options.option("ranks"),
           fmt::format("leave out {}, or {}", options.option("ranks"), four()));
  if (options.model.find("{rank}") != std::string::npos)
    ir::user_error(errors::kCannotSplit, {.file = options.model},
                   "a model with one file per rank is split already",
                   "compile it with " + options.option("ranks"));
  if (is_text(options.model))
    refuse("IR text is the program of a rank and cannot be split", "split the ONNX model that it comes from");
}

// Annotations count wherever --devices, --tp or --mesh are given.
void refuse_annotations(const std::string& model, const CompileOptions& options) {
  const auto found = frontend::sharding::device_configuration(model, "");
  if (found && !found->nodes.empty())
    ir::user_error(errors::kSplitRequest, {.file = model},
                   fmt::format("{} is given, and the model has annotations for the configuration '{}'",
                               options.option("with"), found->name),
                   "annotations are obeyed for one program at a time: remove them, or leave out " +
                       options.option("with"));
}

// UserError BR0484 for sizes that the dimensions of a model do not have. `name`: the option that gives them.
void check_sizes(const StepSizes& sizes, const std::map<std::string, ir::Bounds>& dims,
                 const std::string& model, const CompileOptions& options, const char* name) {
  for (const auto& [dim, size] : sizes.dims) {
    const auto known = dims.find(dim);
    const std::string given = options.option(name, fmt::format("{}={}", dim, size));
    const std::string hint = fmt::format("{} gives sizes within the bounds of {} or {}", options.option(name),
                                         options.option("dim"), options.option("default-dim"));
    if (known == dims.end())
      ir::user_error(errors::kSplitRequest, {.file = model},
                     fmt::format("{}: the dimension has no bounds", given), hint);
    if (size < known->second.min || size > known->second.max)
      ir::user_error(errors::kSplitRequest, {.file = model},
                     fmt::format("{}: the dimension is {}..{}", given, known->second.min, known->second.max),
                     hint);
  }
}

void check_with(const CompileOptions& options) {
  const SplitOptions& split = options.split;
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    ir::user_error(errors::kSplitRequest, {.file = options.model}, message, hint);
  };
  if (!split.plan_file.empty())
    refuse(fmt::format("{} and {} are given together", options.option("with"), options.option("plan")),
           "a plan is obeyed as it is: it needs no other program");
  if (!split.configuration.empty())
    refuse(
        fmt::format("{} and {} are given together", options.option("with"), options.option("configuration")),
        fmt::format(
            "annotations are obeyed for one program at a time: give the others the plan that they have "
            "made ({})",
            options.option("keep")));
  std::vector<std::string> files = {options.model};
  for (const SplitWith& with : split.with) {
    if (is_text(with.model) || with.model.find("{rank}") != std::string::npos)
      ir::user_error(errors::kSplitWith, {.file = with.model},
                     options.option("with") + " needs a plain ONNX model",
                     "IR text, and models with one file per rank, are split already");
    const auto same_file = [&](const std::string& other) {
      std::error_code error;
      return other == with.model || std::filesystem::equivalent(other, with.model, error);
    };
    if (std::ranges::any_of(files, same_file))
      ir::user_error(errors::kSplitWith, {.file = with.model},
                     options.option("with") + " names a model that is given already",
                     "several sizes of one model are " + options.option("at", "NAME=SIZE,...*STEPS"));
    files.push_back(with.model);
  }
  refuse_annotations(options.model, options);
  for (const SplitWith& with : split.with) {
    check_sizes(with.sizes, with.dims, with.model, options, "with");
    refuse_annotations(with.model, options);
  }
}

}  // namespace

void check_split_request(const CompileOptions& options) {
  const SplitOptions& split = options.split;
  check_contradictions(options);
  if (!split.with.empty()) check_with(options);
  for (const StepSizes& sizes : split.sizes)
    check_sizes(sizes, options.import.dims, options.model, options, "at");
}

std::shared_ptr<const DeviceConfiguration> obeyed_annotations(const CompileOptions& options) {
  const SplitOptions& split = options.split;
  auto found = frontend::sharding::device_configuration(options.model, split.configuration);
  if (!found || (found->nodes.empty() && split.configuration.empty())) return nullptr;
  const std::optional<split::Mesh> mesh =
      split.mesh.empty() ? std::nullopt
                         : std::optional(split::parse_mesh(split.mesh, options.option("mesh")));
  const int asked = mesh ? mesh->ranks() : split.tensor_ranks;
  if (asked > 0 ? asked != found->devices : split.devices > 0 && split.devices < found->devices) {
    ir::user_error(errors::kSplitRequest, {.file = options.model},
                   fmt::format("the configuration '{}' of the model is for {} devices, not for {}",
                               found->name, found->devices, std::max(asked, split.devices)),
                   fmt::format("give {}, or another split with {}",
                               options.option("tp", std::to_string(found->devices)), options.option("plan")));
  }
  // Otherwise the configuration keeps its own mesh.
  if (mesh) found->mesh = *mesh;
  return std::make_shared<const DeviceConfiguration>(std::move(*found));
}

}  // namespace braid
