#include "cli/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/cuda_library.h"
#include "cli/launched.h"
#include "cli/option_checks.h"
#include "cli/option_group.h"
#include "codegen/manifest.h"
#include "driver/compile.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/program.h"

namespace braid::cli {
namespace {

// Both tables have these members under the same names.
template <class Table>
ProgramInterface read_table(const Table& table) {
  ProgramInterface program;
  program.ranks = table.ranks;
  program.sizes = table.sizes;
  for (int d = 0; d < table.dim_count; ++d)
    program.dims.push_back({table.dims[d].name, table.dims[d].min, table.dims[d].max});
  for (int k = 0; k < table.input_count; ++k) {
    const BraidTensorInfo& info = table.inputs[k];
    InputSpec spec{info.name, to_ir(info.dtype), {}};
    for (int d = 0; d < info.rank; ++d) {
      const BraidSize& size = info.sizes[d];
      spec.sizes.push_back({size.constant, size.dim >= 0 ? table.dims[size.dim].name : ""});
    }
    program.inputs.push_back(std::move(spec));
  }
  for (int k = 0; k < table.output_count; ++k) {
    const BraidTensorInfo& info = table.outputs[k];
    program.outputs.push_back(
        {info.name, to_ir(info.dtype), info.rank, info.max_bytes, info.alias_of_input, {}});
  }
  return program;
}

// Whether the shape of a manifest's part is that of the library's table.
bool fits(const InputSpec& spec, const nlohmann::json& shape) {
  if (shape.size() != spec.sizes.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t constant = spec.sizes[d].constant;
    if (shape[d].is_number_integer() != (constant >= 0)) return false;
    if (constant >= 0 && shape[d].get<std::int64_t>() != constant) return false;
  }
  return true;
}

// Adds the facts of the manifest that the program's table does not have.
void read_manifest_of(const ProgramFiles& program, ProgramInterface& table) {
  std::ifstream file(codegen::manifest_path(program.dir));
  const nlohmann::json manifest = nlohmann::json::parse(file, nullptr, false);
  const nlohmann::json none = nlohmann::json::array();
  const auto entries = [&](const char* what) -> const nlohmann::json& {
    const auto found = manifest.find(what);
    return found != manifest.end() && found->is_array() ? *found : none;
  };
  const nlohmann::json &inputs = entries("inputs"), &outputs = entries("outputs");
  for (std::size_t k = 0; k < std::min(inputs.size(), table.inputs.size()); ++k) {
    InputSpec& spec = table.inputs[k];
    spec.part = TensorPart::of(inputs[k], manifest, table.ranks);
    if (spec.part && !fits(spec, inputs[k]["shape"])) spec.part.reset();
    const auto below = inputs[k].find("index_below");
    if (below == inputs[k].end()) continue;
    spec.index_below = below->is_string() ? below->get<std::string>() : below->dump();
  }
  for (std::size_t k = 0; k < std::min(outputs.size(), table.outputs.size()); ++k) {
    ProgramInterface::Output& output = table.outputs[k];
    output.part = TensorPart::of(outputs[k], manifest, table.ranks);
    if (output.part && output.part->whole().size() != static_cast<std::size_t>(output.rank))
      output.part.reset();
  }
}

}  // namespace

void ExecuteOptions::add(CLI::App& command) {
  const OptionGroup group(command, "Execution");
  command.add_option("--threads", omp_threads, "Threads per rank (default: cores / ranks)")
      ->check(number_from(1, 1024));
  add_ranks_as(command, ranks_as);
  add_device(command, device);
}

void ExecuteOptions::add_steps(CLI::App& command) {
  const OptionGroup group(command, "Execution");
  command.add_option("--repeat", repeat, "Number of measured steps")->check(number_from(1, 1000000));
  command.add_option("--warmup", warmup, "Steps before the measured ones")->check(number_from(0, 1000000));
}

bool is_program_dir(const std::string& path) {
  std::error_code ignored;  // an error: what reads the path says so
  return std::filesystem::is_directory(path, ignored);
}

void check_device(DeviceChoice device, bool cuda, const std::string& shown) {
  if (cuda || device == DeviceChoice::automatic) return;
  ir::user_error(errors::kBadOption, {.file = shown},
                 "--device is for CUDA programs, and this one is for the CPU",
                 "compile it with --target cuda, or leave --device out");
}

ProgramFiles find_program(const std::string& dir, DeviceChoice device, const std::string& shown) {
  const codegen::Manifest manifest = codegen::read_manifest(dir);
  const codegen::Target& target = codegen::target_named(manifest.target);
  ProgramFiles program{
      .dir = dir, .shown = shown, .name = manifest.name, .abi = target.abi, .id = manifest.id};
  check_device(device, target.abi == codegen::ProgramAbi::cuda, shown);
  std::string library = target.library;
  codegen::BuildRequest request;
  if (target.abi == codegen::ProgramAbi::cuda) {
    program.emulated = request.emulated = choose_emulated(device);
    if (!program.emulated) {
      library = target.device_library;
      for (const Gpu& gpu : find_gpus()) request.architectures.push_back(gpu.architecture());
    }
  }
  program.library = (std::filesystem::path(dir) / (manifest.name + library)).string();
  if (!std::filesystem::exists(program.library)) program.library = build_program(dir, request);
  return program;
}

std::string device_line(const ProgramFiles& program) {
  if (program.abi != codegen::ProgramAbi::cuda) return {};
  return program.emulated ? "the emulated device, whose times mean nothing" : describe_gpu(0);
}

ir::DType to_ir(BraidDType dtype) {
  switch (dtype) {
    case BRAID_F32:
      return ir::DType::f32;
    case BRAID_F64:
      return ir::DType::f64;
    case BRAID_F16:
      return ir::DType::f16;
    case BRAID_BF16:
      return ir::DType::bf16;
    case BRAID_I8:
      return ir::DType::i8;
    case BRAID_U8:
      return ir::DType::u8;
    case BRAID_I16:
      return ir::DType::i16;
    case BRAID_U16:
      return ir::DType::u16;
    case BRAID_I32:
      return ir::DType::i32;
    case BRAID_U32:
      return ir::DType::u32;
    case BRAID_I64:
      return ir::DType::i64;
    case BRAID_U64:
      return ir::DType::u64;
    case BRAID_BOOL:
      return ir::DType::boolean;
  }
  throw ir::InternalError("unknown element type in a program's table");
}

rt::DType to_rt(ir::DType dtype) {
  for (int d = 0; d <= BRAID_BOOL; ++d) {
    if (to_ir(static_cast<BraidDType>(d)) == dtype) return static_cast<rt::DType>(d);
  }
  throw ir::InternalError("programs do not have this element type");
}

std::int64_t median(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

ProgramInterface interface_of(const ProgramFiles& program) {
  ProgramInterface table = program.abi == codegen::ProgramAbi::host
                               ? read_table(*rt::load_program(program.library, program.id))
                               : read_table(open_cuda_library(program).table());
  read_manifest_of(program, table);
  return table;
}

std::vector<RankResult> execute(const ProgramFiles& program,
                                const std::vector<std::vector<ir::Tensor>>& inputs,
                                const ExecuteOptions& options) {
  if (program.abi != codegen::ProgramAbi::host && (options.record || options.link)) {
    ir::user_error(errors::kBadOption, {.file = program.shown},
                   "--trace, --trace-costs and --link support only CPU programs", "leave the options out");
  }
  const int ranks = interface_of(program).ranks;
  check_environment(program, ranks);
  if (const auto environment = launched()) check_launched(*environment, program, ranks, options);
  if (program.abi == codegen::ProgramAbi::host) return execute_cpu(program, inputs, options);
  if (!program.emulated) require_gpus(launched() ? 1 : ranks);  // a launcher may show each rank only its own
  return execute_cuda(program, inputs, options);
}

std::optional<rt::LinkPacing> link_pacing(const ModelOptions& options) {
  const std::optional<CompileOptions::Link> link = options.paced_link();
  if (!link) return std::nullopt;
  return rt::LinkPacing{static_cast<std::int64_t>(link->latency_us * 1e3 + 0.5), link->gb_s};
}

std::map<std::string, std::int64_t> dim_values(const ProgramInterface& program,
                                               const std::map<std::string, ir::Bounds>& given) {
  std::map<std::string, std::int64_t> values;
  for (const ProgramInterface::Dim& d : program.dims) values[d.name] = d.max;
  for (const auto& [name, bounds] : given) {
    if (bounds.min == bounds.max && values.contains(name)) values[name] = bounds.min;
  }
  return values;
}

}  // namespace braid::cli
