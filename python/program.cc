#include "python/program.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "codegen/cuda/gpus.h"
#include "codegen/manifest.h"
#include "codegen/target.h"
#include "harness/interface.h"
#include "harness/launched.h"
#include "harness/program.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/measured_dims.h"
#include "python/exchange.h"
#include "runtime/capacity.h"

namespace braid::python {
namespace {

// User error BR0013 if there is no such GPU, BR0003 if it is no device.
void check_device(const std::string& device) {
  if (device == "emulated") return;
  int number = 0;
  if (device != "gpu") {
    const bool numbered = device.starts_with("gpu:");
    const char* const end = device.data() + device.size();
    const auto [at, error] = numbered ? std::from_chars(device.data() + 4, end, number)
                                      : std::from_chars_result{end, std::errc::invalid_argument};
    if (error != std::errc() || at != end || number < 0) {
      ir::user_error(errors::kBadOption, {}, fmt::format("device='{}' is not a device", device),
                     "write 'gpu', 'gpu:N' or 'emulated'");
    }
  }
  std::string why;
  const auto gpus = static_cast<int>(codegen::cuda::find_gpus_here(&why).size());
  if (number < gpus) return;
  ir::user_error(errors::kNoGpu, {},
                 gpus == 0 ? fmt::format("there is no GPU: {}", why)
                           : fmt::format("there is no GPU {}: the driver shows {}", number, gpus),
                 "device='emulated' needs none");
}

// This process as one rank of the program in `dir`, by the variables of torchrun, MPI or Slurm. User errors:
// BR0012 for a variable, BR0011 for another number of ranks, BR0734 without a launcher.
rt::RankEnvironment launched_rank(const std::string& dir, int ranks) {
  rt::RankEnvironment environment = harness::rank_environment();
  if (environment.launcher.empty()) {
    ir::user_error(
        errors::kOnlyLaunched, {.file = dir},
        fmt::format("the program has {} ranks, and no launcher has started this process as one", ranks),
        fmt::format("use program.launch(), or start {} processes with torchrun, mpirun or srun", ranks));
  }
  if (environment.size != ranks) {
    ir::user_error(errors::kLaunchedRanks, {.file = dir},
                   fmt::format("{} started {} ranks, but the program is for {}", environment.launcher,
                               environment.size, ranks),
                   fmt::format("start {} ranks, or compile with ranks={}", ranks, environment.size));
  }
  return environment;
}

// Refuses options that are only for CUDA programs.
void refuse_device(const harness::SessionOptions& options, const std::string& target) {
  const auto refuse = [&](const std::string& what) {
    ir::user_error(errors::kBadOption, {},
                   fmt::format("{} is for CUDA programs, and this one is for the {}", what, target),
                   "leave it out, or compile with target='cuda'");
  };
  if (!options.device.empty()) refuse(fmt::format("device='{}'", options.device));
  if (options.stream != harness::kNoStream) refuse("stream=");
}

// A program of `braid compile`, for the CPU or for CUDA. A CUDA program has a library per kind of device.
class CompiledProgram : public Program {
 public:
  CompiledProgram(const std::string& dir, codegen::Manifest manifest)
      : dir_(dir),
        cuda_(codegen::target_named(manifest.target).abi == codegen::ProgramAbi::cuda),
        of_(std::move(manifest)) {
    read_manifest_of(dir);
    if (!cuda_) read_bytes(*loaded(""));
  }

  std::unique_ptr<harness::Session> open(const harness::SessionOptions& options) override {
    if (!cuda_) refuse_device(options, "CPU");
    const std::shared_ptr<const harness::Program> program = loaded(options.device);
    harness::SessionOptions of_rank = options;
    harness::check_environment(cuda_);
    // A program of one rank has no peers, however this process was started.
    if (const int ranks = program->interface().ranks; ranks > 1)
      of_rank.environment = launched_rank(dir_, ranks);
    return program->open(of_rank);
  }

  void use_device(const std::string& device) override {
    if (!cuda_) return;
    const std::shared_ptr<const harness::Program> program = loaded(device);
    const std::lock_guard lock(mutex_);
    read_bytes(*program);
  }

 private:
  // Built if it is missing, and loaded once.
  std::shared_ptr<const harness::Program> loaded(const std::string& device) {
    if (cuda_) check_device(device);
    codegen::BuildRequest request{.emulated = device == "emulated"};
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const harness::Program>& program = request.emulated ? emulated_ : loaded_;
    if (program != nullptr) return program;
    if (cuda_)
      for (const codegen::cuda::Gpu& gpu : codegen::cuda::find_gpus_here())
        request.architectures.push_back(gpu.architecture());
    auto found = harness::load_program(harness::find_library(dir_, of_, request, dir_));
    const harness::ProgramInterface& table = found->interface();
    if (table.inputs.size() != inputs_.size() || table.outputs.size() != outputs_.size())
      throw rt::ProgramError(rt::kCannotOpen,
                             "the library has other inputs and outputs than its manifest says");
    program = std::move(found);
    return program;
  }

  void read_bytes(const harness::Program& program) {
    const harness::ProgramInterface& table = program.interface();
    for (std::size_t k = 0; k < inputs_.size(); ++k) inputs_[k].max_bytes = table.inputs[k].max_bytes;
    for (std::size_t k = 0; k < outputs_.size(); ++k) outputs_[k].max_bytes = table.outputs[k].max_bytes;
  }

  const std::string dir_;
  const bool cuda_;
  const codegen::Manifest of_;
  std::mutex mutex_;
  std::shared_ptr<const harness::Program> emulated_, loaded_;  // for the emulated device, and otherwise
};

class InterpretedSession : public harness::Session {
 public:
  InterpretedSession(std::shared_ptr<const Program> keep, const InterpretedProgram& program)
      : keep_(std::move(keep)), program_(program) {}
  int rank() const override { return 0; }

  void prepare(std::span<const rt::TensorView> inputs) override { shapes_ = output_shapes(tensors(inputs)); }
  std::span<const std::int64_t> output_shape(std::size_t index) const override { return shapes_.at(index); }

  std::span<const std::int64_t> result_shape(std::size_t index) const override { return results_.at(index); }

  void run(const harness::Step& step) override {
    const std::span<const rt::TensorView> outputs = step.outputs;
    std::vector<ir::Tensor> given = tensors(step.inputs);
    const Shapes expected = output_shapes(given);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const auto shape = outputs[k].shape;
      if (std::equal(shape.begin(), shape.end(), expected[k].begin(), expected[k].end())) continue;
      throw rt::ProgramError(rt::kWrongInput, fmt::format("output '{}' has shape [{}], expected [{}]",
                                                          program_.outputs()[k].name, fmt::join(shape, ","),
                                                          fmt::join(expected[k], ",")));
    }
    const std::vector<std::vector<ir::Tensor>> results = program_.run({std::move(given)});
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const ir::Tensor& result = results[0][k];
      results_.at(k) = result.sizes;
      rt::to_memory(rt::room_of(program_.outputs()[k].capacities, result.sizes), result.sizes,
                    static_cast<std::size_t>(ir::size_of(result.dtype)), result.bytes.data(),
                    outputs[k].data);
    }
  }

 private:
  using Shapes = std::vector<std::vector<std::int64_t>>;

  std::vector<ir::Tensor> tensors(std::span<const rt::TensorView> views) const {
    std::vector<ir::Tensor> tensors;
    for (std::size_t k = 0; k < views.size(); ++k)
      tensors.push_back(to_ir(views[k], program_.inputs()[k].capacities));
    return tensors;
  }

  Shapes output_shapes(const std::vector<ir::Tensor>& inputs) const {
    const ir::Graph& graph = program_.schedule().graph;
    const std::map<std::string, std::int64_t> dims = ir::bind_dims(graph, inputs);
    const auto value_of = [&](ir::Expr dim) { return dims.at(std::string(dim.dim_name())); };
    Shapes shapes;
    for (const ir::GraphOutput& output : graph.outputs) {
      shapes.emplace_back();
      for (ir::Expr size : graph[output.buffer].sizes)
        shapes.back().push_back(ir::is_measured(graph, size) ? ir::bounds(size).max
                                                             : ir::evaluate(size, value_of));
    }
    return shapes;
  }

  std::shared_ptr<const Program> keep_;
  const InterpretedProgram& program_;
  Shapes shapes_;
  Shapes results_ = Shapes(program_.outputs().size());
};

}  // namespace

ir::Tensor to_ir(const rt::TensorView& view, std::span<const std::int64_t> capacities) {
  ir::Tensor tensor = ir::make_tensor(harness::to_ir(view.dtype), {view.shape.begin(), view.shape.end()});
  rt::from_memory(rt::room_of(capacities, view.shape), view.shape, rt::size_of(view.dtype), view.data,
                  tensor.bytes.data());
  return tensor;
}

void Program::read_manifest_of(const std::string& dir) {
  std::ostringstream text;
  text << std::ifstream(codegen::manifest_path(dir)).rdbuf();
  manifest_ = text.str();
  try {
    read_interface();
  } catch (const nlohmann::json::exception& error) {
    ir::user_error(errors::kNoProgram, {.file = codegen::manifest_path(dir)},
                   fmt::format("not the manifest of a compiled program: {}", error.what()),
                   "compile the model again");
  }
}

void Program::read_interface() {
  const nlohmann::json manifest = nlohmann::json::parse(manifest_);
  const auto info = [](const nlohmann::json& tensor) {
    const auto type = tensor.at("dtype").get<std::string>();
    if (!ir::dtype_from_string(type)) {
      ir::user_error(
          errors::kNoProgram, {},
          fmt::format("not the manifest of a compiled program: there is no element type '{}'", type),
          "compile the model again");
    }
    TensorInfo read{tensor.at("name"), dtype_from_ir_name(type), tensor.value("written", false), -1};
    read.capacities = tensor.value("capacities", std::vector<std::int64_t>{});
    if (!read.capacities.empty() && read.capacities.size() != tensor.at("shape").size()) {
      ir::user_error(errors::kNoProgram, {},
                     fmt::format("not the manifest of a compiled program: '{}' has {} capacities", read.name,
                                 read.capacities.size()),
                     "compile the model again");
    }
    return read;
  };
  for (const nlohmann::json& input : manifest.at("inputs")) inputs_.push_back(info(input));
  for (const nlohmann::json& output : manifest.at("outputs")) {
    outputs_.push_back(info(output));
    const std::string alias = output.value("alias_of", "");
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      if (inputs_[k].name == alias) outputs_.back().alias_of_input = static_cast<int>(k);
    }
  }
}

std::pair<std::string, std::string> default_device() {
  std::string why;
  if (!codegen::cuda::find_gpus_here(&why).empty()) return {"gpu", ""};
  return {"emulated", why};
}

std::shared_ptr<Program> load_program(const std::string& dir) {
  return std::make_shared<CompiledProgram>(dir, codegen::read_manifest(dir));
}

InterpretedProgram::InterpretedProgram(ir::Schedule schedule, const std::string& name)
    : schedule_(std::move(schedule)) {
  codegen::ProgramFacts facts{.name = name, .target = "cpu"};
  if (schedule_.plan) facts.arena_bytes = schedule_.plan->arena_bytes;
  const ir::Graph& graph = schedule_.graph;
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      if (root_storage(graph, graph.outputs[k].buffer) == root_storage(graph, graph.inputs[i].buffer))
        facts.aliased_outputs[static_cast<int>(k)] = static_cast<int>(i);
    }
  }
  nlohmann::ordered_json manifest = codegen::common_manifest(facts, schedule_);
  manifest["target"] = "interpreter";
  manifest.erase("files");
  manifest_ = manifest.dump();
  read_interface();
}

std::unique_ptr<harness::Session> InterpretedProgram::open(const harness::SessionOptions& options) {
  refuse_device(options, "interpreter");
  if (schedule_.graph.ranks > 1) {
    ir::user_error(errors::kOnlyLaunched, {},
                   fmt::format("the program has {} ranks, which the interpreter runs all in one process",
                               schedule_.graph.ranks),
                   "use program.launch()");
  }
  return std::make_unique<InterpretedSession>(shared_from_this(), *this);
}

std::vector<std::vector<ir::Tensor>> InterpretedProgram::run(
    const std::vector<std::vector<ir::Tensor>>& inputs) const {
  return ir::run(schedule_, inputs, {.use_plan = schedule_.plan.has_value()}).outputs;
}

}  // namespace braid::python
