#include "driver/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "codegen/manifest.h"
#include "codegen/toolchain.h"
#include "driver/split.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/input_file.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/choose_layouts.h"
#include "passes/dead_code.h"
#include "passes/default_passes.h"
#include "passes/drop_roundings.h"
#include "passes/fuse_epilogues.h"
#include "passes/fuse_horizontal.h"
#include "passes/fuse_vertical.h"
#include "passes/lower_precision.h"
#include "passes/merge_loops.h"
#include "passes/name_post_ops.h"
#include "passes/plan_memory.h"
#include "split/parts.h"

namespace braid {
bool is_text(const std::string& model) {
  std::error_code ignored;  // an error: the parser's caller says that the file cannot be read
  return model.ends_with(".braid") && !std::filesystem::is_directory(model, ignored);
}

std::string program_name(const std::string& model_path) {
  std::string name = std::filesystem::path(model_path).filename().string();
  for (const char* tail : {".onnx", ".braid", ".rank{rank}", "{rank}"}) {
    if (name.size() > std::string_view(tail).size() && name.ends_with(tail)) {
      name.resize(name.size() - std::string_view(tail).size());
    }
  }
  for (char& c : name) {
    const bool letter =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!letter) c = '_';
  }
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) name.insert(0, "_");
  return name;
}

ir::Schedule lower(const CompileOptions& options) {
  if (options.split.wanted()) {
    SplitReport report;
    return lower_split(options, options.split_report ? *options.split_report : report);
  }
  if (!is_text(options.model)) return frontend::import_model(options.model, options.import);
  ir::Schedule schedule = ir::parse_schedule(ir::read_text_file(options.model), options.model);
  // An illegal text is the user's error; after a pass the same would be ours.
  std::vector<ir::Violation> violations = ir::verify(schedule);
  if (violations.empty()) {
    for (std::string& text : split::impossible_parts(schedule.graph))
      violations.push_back({"structure", "part", std::move(text)});
  }
  if (!violations.empty()) {
    std::string text = "the text does not describe a legal program:";
    for (std::size_t k = 0; k < std::min<std::size_t>(violations.size(), 5); ++k) {
      text += fmt::format("\n    {} ({}): {}", violations[k].node, violations[k].rule, violations[k].message);
    }
    ir::user_error(errors::kIllegalProgram, {.file = options.model}, text, "see the rules in docs/ir.md");
  }
  return schedule;
}

passes::LowerPrecision lower_precision(const CompileOptions& options) {
  return {.type = options.precision, .keep = options.keep_f32};
}

namespace {
constexpr const char* kLegalise = "legalise";

// Inserts legalisation after the last pass that makes or changes kernels. The parts of a node that the
// target's kernels leave to others must be known before scheduling and planning.
void insert_legalisation(std::vector<passes::Pass>& list, const passes::Pass& legalise) {
  constexpr std::string_view kBefore[] = {passes::FuseEpilogues::kName, passes::FuseVertical::kName,
                                          passes::FuseHorizontal::kName, passes::MergeLoops::kName,
                                          passes::NamePostOps::kName};
  const auto plan = std::find_if(list.begin(), list.end(), [](const passes::Pass& pass) {
    return pass.name() == passes::PlanMemory::kName;
  });
  if (plan == list.end()) return;
  const auto last =
      std::find_if(std::make_reverse_iterator(plan), list.rend(), [&](const passes::Pass& pass) {
        return std::find(std::begin(kBefore), std::end(kBefore), pass.name()) != std::end(kBefore);
      });
  list.insert(last.base(), legalise);
}

// Inserts vertical fusion after legalisation: a part that legalisation split off an epilogue may fuse with
// its readers, e.g. a residual with the norm after it. The second legalisation divides nodes that the target
// cannot run.
void fuse_leftovers(std::vector<passes::Pass>& list) {
  const auto legalise = std::find_if(list.begin(), list.end(),
                                     [](const passes::Pass& pass) { return pass.name() == kLegalise; });
  if (legalise == list.end()) return;
  const passes::Pass again = *legalise;
  list.insert(legalise + 1, {passes::FuseVertical(), again});
}

// Inserted after the last fusion pass, which fuse_leftovers() put after the first legalisation. A product
// that stores a step of its epilogue stores it in the type to which the model rounds it there.
void insert_roundings(std::vector<passes::Pass>& list) {
  constexpr std::string_view kFusing[] = {passes::FuseEpilogues::kName, passes::FuseVertical::kName,
                                          passes::FuseHorizontal::kName};
  const auto last = std::find_if(list.rbegin(), list.rend(), [&](const passes::Pass& pass) {
    return std::find(std::begin(kFusing), std::end(kFusing), pass.name()) != std::end(kFusing);
  });
  if (last != list.rend()) list.insert(last.base(), passes::DropRoundings());
}

// Inserted before all passes that change products or the producers of their operands. A dead_code at the
// front of the list stays first, so that unused operations are left out.
void insert_precision(std::vector<passes::Pass>& list, const CompileOptions& options) {
  if (options.precision == "f32") return;
  const bool first = !list.empty() && list.front().name() == passes::DeadCode::kName;
  list.insert(list.begin() + (first ? 1 : 0), lower_precision(options));
}

// Inserts the target's passes after choose_layouts, except those that the list names itself, with options of
// its own.
void insert_after_layouts(std::vector<passes::Pass>& list, const std::vector<passes::Pass>& added) {
  const auto find = [&](std::string_view name) {
    return std::find_if(list.begin(), list.end(),
                        [&](const passes::Pass& pass) { return pass.name() == name; });
  };
  std::vector<passes::Pass> missing;
  for (const passes::Pass& pass : added) {
    if (find(pass.name()) == list.end()) missing.push_back(pass);
  }
  const auto layouts = find(passes::ChooseLayouts::kName);
  list.insert(layouts == list.end() ? list.begin() : layouts + 1, missing.begin(), missing.end());
}

// The passes for the user and the target, then the list, with the target's legalisation in it.
std::vector<passes::Pass> pass_list(const CompileOptions& options, const codegen::Target& target,
                                    const passes::Pass& legalise) {
  std::vector<passes::Pass> list = target.first;
  if (!options.force_kernels.empty()) list.insert(list.begin(), passes::ForceKernels{options.force_kernels});
  std::vector<passes::Pass> asked =
      options.passes ? passes::parse_pass_list(*options.passes) : passes::default_passes();
  insert_precision(asked, options);
  insert_after_layouts(asked, target.after_layouts);
  insert_legalisation(asked, legalise);
  if (!options.passes) {
    fuse_leftovers(asked);
    insert_roundings(asked);
  }
  list.insert(list.end(), asked.begin(), asked.end());
  return list;
}

}  // namespace

passes::PassContext pass_context(const CompileOptions& options) {
  passes::PassContext context;
  const codegen::Target& target = codegen::target_named(options.target);
  const std::string machine = options.machine.empty() ? target.machine : options.machine;
  if (options.cost_file.empty() && !options.link) {
    context.costs = analysis::cost_model_for(machine);
  } else {
    analysis::Machine described = analysis::load_machine(machine);
    if (options.link)
      described = with_paced_link(std::move(described), options.link->latency_us, options.link->gb_s);
    context.costs = std::make_shared<const analysis::CostModel>(
        std::move(described), analysis::CostOptions{.cost_file = options.cost_file});
  }
  context.memory_cap = options.memory_cap;
  context.engine = target.engine;
  return context;
}

std::vector<passes::PassRecord> optimise(ir::Schedule& schedule, const CompileOptions& options) {
  passes::PassContext context = pass_context(options);
  return optimise(schedule, options, context);
}

std::vector<passes::PassRecord> optimise(ir::Schedule& schedule, const CompileOptions& options,
                                         passes::PassContext& context) {
  const codegen::Target& target = codegen::target_named(options.target);
  const passes::Pass legalise(kLegalise,
                              [&target](ir::Schedule& s) { return codegen::legalise(s, target.limits); });
  passes::RunOptions run = options.run;
  run.context = &context;
  std::vector<passes::PassRecord> records =
      passes::run_passes(schedule, pass_list(options, target, legalise), run);
  // A text may contain a plan, and a plug-in's pass may fuse after legalisation.
  if (schedule.plan) {
    legalise.run(schedule, context);
    if (!schedule.plan) passes::PlanMemory().run(schedule, context);
  }
  return records;
}

StagedProgram::StagedProgram(const ir::Schedule& schedule, const CompileOptions& options)
    : target_(codegen::target_named(options.target)), folder_(options.output_dir) {
  const std::string name = options.name.empty() ? program_name(options.model) : options.name;
  if (!schedule.plan) {
    ir::user_error(errors::kNoPlan, {.file = options.model}, "no pass has planned the memory of the program",
                   "end the list of --passes with plan_memory");
  }
  program_ = target_.emit(schedule,
                          {.name = name,
                           .checked = options.checked,
                           .precise = options.precise,
                           .standalone = options.standalone},
                          folder_);
}

void StagedProgram::build(const BuildRequest& request) {
  codegen::seal_library(target_.build(folder_.aside(), program_.name, request), program_.id);
}

std::vector<std::string> StagedProgram::publish() { return folder_.publish(); }

std::vector<std::string> emit_program(const ir::Schedule& schedule, const CompileOptions& options) {
  return StagedProgram(schedule, options).publish();
}

std::string build_program(const std::string& dir, const BuildRequest& request) {
  namespace fs = std::filesystem;
  const codegen::Manifest manifest = codegen::read_manifest(dir);
  const codegen::Target& target = codegen::target_named(manifest.target);
  const std::string file = manifest.name + target.files.front();
  const fs::path source = fs::path(dir) / file;
  if (ir::read_text_file(source.string()).find(fmt::format("0x{:016x}u", manifest.id)) == std::string::npos) {
    ir::user_error(errors::kNoProgram, {.file = source.string()},
                   "belongs to another compilation than its manifest", "compile the model again");
  }
  codegen::ProgramFolder folder(dir);
  fs::copy_file(source, fs::path(folder.aside()) / file);
  const fs::path library = target.build(folder.aside(), manifest.name, request);
  codegen::seal_library(library.string(), manifest.id);
  return folder.publish_library(library.filename().string(), manifest);
}

CompileResult compile(const CompileOptions& options) {
  CompileResult result;
  result.schedule = lower(options);
  result.passes = optimise(result.schedule, options);
  result.files = emit_program(result.schedule, options);
  return result;
}

}  // namespace braid
