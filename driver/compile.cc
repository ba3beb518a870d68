#include "driver/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/cpp/emit.h"
#include "codegen/cpp/limits.h"
#include "codegen/cuda/build.h"
#include "codegen/cuda/limits.h"
#include "codegen/cuda/supported.h"
#include "codegen/manifest.h"
#include "codegen/toolchain.h"
#include "ir/error.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/default_passes.h"
#include "passes/fuse_epilogues.h"
#include "passes/fuse_horizontal.h"
#include "passes/fuse_vertical.h"
#include "passes/merge_loops.h"
#include "passes/plan_memory.h"

namespace braid {
namespace {

constexpr int kFileNotReadable = 1;
constexpr int kIllegalProgram = 513;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) ir::user_error(kFileNotReadable, {.file = path}, "cannot read the file", "check the path");
  return text.str();
}

}  // namespace

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
  if (!options.model.ends_with(".braid")) return frontend::import_model(options.model, options.import);
  ir::Schedule schedule = ir::parse_schedule(read_text(options.model), options.model);
  // What a user wrote is the user's to mend; after a pass the same would be our fault.
  const std::vector<ir::Violation> violations = ir::verify(schedule);
  if (!violations.empty()) {
    std::string text = "the text does not describe a legal program:";
    for (std::size_t k = 0; k < std::min<std::size_t>(violations.size(), 5); ++k) {
      text += fmt::format("\n    {} ({}): {}", violations[k].node, violations[k].rule, violations[k].message);
    }
    ir::user_error(kIllegalProgram, {.file = options.model}, text, "see the rules in docs/ir.md");
  }
  return schedule;
}

namespace {
bool sends(const ir::Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [](const ir::Operation& op) {
    const auto* k = op.as<ir::CollectiveKernel>();
    return k != nullptr && k->kind == ir::CollectiveKind::send;
  });
}

// What the target's kernels need memory for is known before anything is scheduled or planned: behind the last
// pass that fuses.
std::vector<passes::Pass> with_legalisation(std::vector<passes::Pass> list, const passes::Pass& legalise) {
  const auto plan = std::find_if(list.begin(), list.end(), [](const passes::Pass& pass) {
    return pass.name() == passes::PlanMemory::kName;
  });
  if (plan == list.end()) return list;
  const auto last = std::find_if(std::make_reverse_iterator(plan), list.rend(), [](const passes::Pass& pass) {
    return pass.name() == passes::FuseEpilogues::kName || pass.name() == passes::FuseVertical::kName ||
           pass.name() == passes::FuseHorizontal::kName || pass.name() == passes::MergeLoops::kName;
  });
  list.insert(last.base(), legalise);
  return list;
}
}  // namespace

passes::PassContext pass_context(const CompileOptions& options) {
  passes::PassContext context;
  const std::string target = options.target == Target::cuda ? passes::kDefaultMachine : passes::kCpuMachine;
  const std::string machine = options.machine.empty() ? target : options.machine;
  if (options.cost_file.empty() && !options.link) {
    context.costs = passes::cost_model_for(machine);
  } else {
    passes::Machine described = passes::load_machine(machine);
    if (options.link)
      described = with_paced_link(std::move(described), options.link->latency_us, options.link->gb_s);
    context.costs = std::make_shared<const passes::CostModel>(
        std::move(described), passes::CostOptions{.cost_file = options.cost_file});
  }
  context.memory_cap = options.memory_cap;
  context.engine =
      options.target == Target::cuda ? passes::CommEngine::nccl : passes::CommEngine::shared_memory;
  return context;
}

std::vector<passes::PassRecord> optimise(ir::Schedule& schedule, const CompileOptions& options) {
  passes::PassContext context = pass_context(options);
  return optimise(schedule, options, context);
}

std::vector<passes::PassRecord> optimise(ir::Schedule& schedule, const CompileOptions& options,
                                         passes::PassContext& context) {
  const auto legalise = [limits = options.target == Target::cuda ? codegen::cuda::kernel_limits()
                                                                 : codegen::cpp::kernel_limits()](
                            ir::Schedule& schedule) { return codegen::legalise(schedule, limits); };
  const std::vector<passes::Pass> list =
      with_legalisation(options.passes ? passes::parse_pass_list(*options.passes) : passes::default_passes(),
                        passes::Pass("legalise", legalise));
  if (!options.force_kernels.empty()) passes::force_kernels(schedule, options.force_kernels, context);
  passes::RunOptions run = options.run;
  run.context = &context;
  // One stream has all collectives of a CUDA program: where none stands between a send and its receive,
  // passes must put none there. What the program declares stays.
  const ir::ChannelPolicy written = schedule.channels;
  const bool one_order = options.target == Target::cuda && written == ir::ChannelPolicy::communicator &&
                         sends(schedule.graph) && !codegen::cuda::parted_transfer(schedule);
  if (one_order) schedule.channels = ir::ChannelPolicy::global;
  std::vector<passes::PassRecord> records = passes::run_passes(schedule, list, run);
  if (one_order && schedule.channels == ir::ChannelPolicy::global) schedule.channels = written;
  // A text may bring a plan of its own, and a pass of a plug-in may fuse after all.
  if (schedule.plan && legalise(schedule)) passes::PlanMemory().run(schedule, context);
  return records;
}

namespace {

// Makes the library of a source that lies in `dir`, and seals it.
std::string build_and_seal(const std::string& dir, const std::string& name, bool cuda, std::uint64_t id,
                           const BuildRequest& request) {
  const std::string library = !cuda ? codegen::cpp::build_library(dir, name)
                              : request.emulated
                                  ? codegen::cuda::build_emulated(dir, name)
                                  : codegen::cuda::build_nvcc(dir, name, request.architectures);
  codegen::seal_library(library, id);
  return library;
}

}  // namespace

StagedProgram::StagedProgram(const ir::Schedule& schedule, const CompileOptions& options)
    : folder_(options.output_dir), cuda_(options.target == Target::cuda) {
  const std::string name = options.name.empty() ? program_name(options.model) : options.name;
  if (cuda_) {
    const codegen::cuda::CudaProgram program = codegen::cuda::emit_cuda(schedule, {.name = name});
    codegen::cuda::write_cuda(program, schedule, folder_);
    name_ = program.name;
    id_ = program.id;
  } else {
    const codegen::cpp::EmittedProgram program =
        codegen::cpp::emit_cpp(schedule, {.name = name, .checked = options.checked});
    codegen::cpp::write_program(program, schedule.graph, folder_);
    name_ = program.name;
    id_ = program.id;
  }
}

void StagedProgram::build(const BuildRequest& request) {
  build_and_seal(folder_.aside(), name_, cuda_, id_, request);
}

std::vector<std::string> StagedProgram::publish() { return folder_.publish(); }

std::vector<std::string> emit_program(const ir::Schedule& schedule, const CompileOptions& options) {
  return StagedProgram(schedule, options).publish();
}

std::string build_program(const std::string& dir, const BuildRequest& request) {
  namespace fs = std::filesystem;
  const codegen::Manifest manifest = codegen::read_manifest(dir);
  const std::string file = manifest.name + (manifest.cuda ? ".cu" : ".cc");
  const fs::path source = fs::path(dir) / file;
  if (read_text(source.string()).find(fmt::format("0x{:016x}u", manifest.id)) == std::string::npos) {
    ir::user_error(codegen::kNoProgram, {.file = source.string()},
                   "belongs to another compilation than its manifest", "compile the model again");
  }
  codegen::ProgramFolder folder(dir);
  fs::copy_file(source, fs::path(folder.aside()) / file);
  const fs::path library = build_and_seal(folder.aside(), manifest.name, manifest.cuda, manifest.id, request);
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
