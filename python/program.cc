#include "python/program.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "codegen/cuda/gpus.h"
#include "codegen/manifest.h"
#include "codegen/target.h"
#include "driver/compile.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "python/compiled_runner.h"
#include "python/cuda_runner.h"
#include "python/exchange.h"
#include "runtime/capacity.h"

namespace braid::python {
namespace {

// Refuses options that are only for CUDA programs.
void refuse_device(const SessionOptions& options, const std::string& target) {
  const auto refuse = [&](const std::string& what) {
    ir::user_error(errors::kBadOption, {},
                   fmt::format("{} is for CUDA programs, and this one is for the {}", what, target),
                   "leave it out, or compile with target='cuda'");
  };
  if (!options.device.empty()) refuse(fmt::format("device='{}'", options.device));
  if (options.stream != kNoStream) refuse("stream=");
}

template <class Table>
void check_counts(const Table& table, const std::vector<TensorInfo>& inputs,
                  const std::vector<TensorInfo>& outputs) {
  if (static_cast<std::size_t>(table.input_count) != inputs.size() ||
      static_cast<std::size_t>(table.output_count) != outputs.size())
    throw rt::ProgramError(rt::kCannotOpen,
                           "the library has other inputs and outputs than its manifest says");
}

template <class Table>
void read_bytes(const Table& table, std::vector<TensorInfo>& inputs, std::vector<TensorInfo>& outputs) {
  check_counts(table, inputs, outputs);
  for (std::size_t k = 0; k < inputs.size(); ++k) inputs[k].max_bytes = table.inputs[k].max_bytes;
  for (std::size_t k = 0; k < outputs.size(); ++k) outputs[k].max_bytes = table.outputs[k].max_bytes;
}

class CompiledProgram : public Program {
 public:
  CompiledProgram(const std::string& dir, const codegen::Manifest& manifest, const codegen::Target& target)
      : dir_(dir) {
    read_manifest_of(dir);
    library_ = (std::filesystem::path(dir) / (manifest.name + target.library)).string();
    if (!std::filesystem::exists(library_)) library_ = build_program(dir);
    table_ = rt::load_program(library_, manifest.id);
    read_bytes(*table_, inputs_, outputs_);
  }

  std::unique_ptr<Runner> open(const SessionOptions& options) override {
    refuse_device(options, "CPU");
    return open_compiled({.table = table_, .library = library_, .dir = dir_}, options.threads);
  }

 private:
  std::string dir_, library_;
  const BraidProgram* table_ = nullptr;
};

class CudaProgram : public Program {
 public:
  CudaProgram(const std::string& dir, codegen::Manifest manifest, const codegen::Target& target)
      : dir_(dir), target_(target), of_(std::move(manifest)) {
    read_manifest_of(dir);
  }

  std::unique_ptr<Runner> open(const SessionOptions& options) override {
    const std::shared_ptr<const rt::CudaLibrary> library = library_for(options.device);
    return open_cuda({.library = library, .dir = dir_, .emulated = options.device == "emulated"}, options);
  }

  void use_device(const std::string& device) override {
    const std::shared_ptr<const rt::CudaLibrary> library = library_for(device);
    const std::lock_guard lock(mutex_);
    read_bytes(library->table(), inputs_, outputs_);
  }

 private:
  // Built if it is missing, and loaded once.
  std::shared_ptr<const rt::CudaLibrary> library_for(const std::string& device) {
    check_device(device);
    const bool emulated = device == "emulated";
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const rt::CudaLibrary>& library = emulated ? emulated_ : gpu_;
    if (library != nullptr) return library;
    codegen::BuildRequest request{.emulated = emulated};
    for (const codegen::cuda::Gpu& gpu : codegen::cuda::find_gpus_here())
      request.architectures.push_back(gpu.architecture());
    std::string path =
        (std::filesystem::path(dir_) / (of_.name + (emulated ? target_.library : target_.device_library)))
            .string();
    if (!std::filesystem::exists(path)) path = build_program(dir_, request);
    auto opened = std::make_shared<rt::CudaLibrary>(path, of_.name, of_.id);
    check_counts(opened->table(), inputs_, outputs_);
    library = std::move(opened);
    return library;
  }

  const std::string dir_;
  const codegen::Target& target_;
  const codegen::Manifest of_;
  std::mutex mutex_;
  std::shared_ptr<const rt::CudaLibrary> emulated_, gpu_;
};

class InterpretedRunner : public Runner {
 public:
  InterpretedRunner(std::shared_ptr<const Program> keep, const InterpretedProgram& program)
      : keep_(std::move(keep)), program_(program) {}
  int rank() const override { return 0; }

  void prepare(std::span<const rt::TensorView> inputs) override { shapes_ = output_shapes(tensors(inputs)); }
  std::span<const std::int64_t> output_shape(std::size_t index) const override { return shapes_.at(index); }

  void run(const Step& step) override {
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
      for (ir::Expr size : graph[output.buffer].sizes) shapes.back().push_back(ir::evaluate(size, value_of));
    }
    return shapes;
  }

  std::shared_ptr<const Program> keep_;
  const InterpretedProgram& program_;
  Shapes shapes_;
};

}  // namespace

ir::Tensor to_ir(const rt::TensorView& view, std::span<const std::int64_t> capacities) {
  const std::optional<ir::DType> dtype = ir::dtype_from_string(rt::to_string(view.dtype));
  ir::Tensor tensor = ir::make_tensor(dtype.value(), {view.shape.begin(), view.shape.end()});
  rt::from_memory(rt::room_of(capacities, view.shape), view.shape, rt::size_of(view.dtype), view.data,
                  tensor.bytes.data());
  return tensor;
}

rt::DType to_runtime(ir::DType dtype) { return dtype_from_ir_name(ir::to_string(dtype)); }

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

std::shared_ptr<Program> load_program(const std::string& dir) {
  const codegen::Manifest manifest = codegen::read_manifest(dir);
  const codegen::Target& target = codegen::target_named(manifest.target);
  if (target.abi == codegen::ProgramAbi::cuda) return std::make_shared<CudaProgram>(dir, manifest, target);
  return std::make_shared<CompiledProgram>(dir, manifest, target);
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

std::unique_ptr<Runner> InterpretedProgram::open(const SessionOptions& options) {
  refuse_device(options, "interpreter");
  if (schedule_.graph.ranks > 1) {
    ir::user_error(errors::kOnlyLaunched, {},
                   fmt::format("the program has {} ranks, which the interpreter runs all in one process",
                               schedule_.graph.ranks),
                   "use program.launch()");
  }
  return std::make_unique<InterpretedRunner>(shared_from_this(), *this);
}

std::vector<std::vector<ir::Tensor>> InterpretedProgram::run(
    const std::vector<std::vector<ir::Tensor>>& inputs) const {
  return ir::run(schedule_, inputs, {.use_plan = schedule_.plan.has_value()}).outputs;
}

}  // namespace braid::python
