#include "harness/program_files.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "codegen/cuda/gpus.h"
#include "driver/compile.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::harness {
namespace {

bool choose_emulated(DeviceChoice choice) {
  if (choice == DeviceChoice::emulated) return true;
  std::string why;
  if (!codegen::cuda::find_gpus(&why).empty()) return false;
  if (choice == DeviceChoice::gpu)
    ir::user_error(errors::kNoGpu, {}, fmt::format("there is no GPU: {}", why),
                   "--device emulated needs none");
  static bool said = false;
  if (!said) {
    fmt::print(stderr,
               "{}: the program runs on the emulated device, which checks all accesses; its times mean "
               "nothing\n",
               why);
  }
  said = true;
  return true;
}

}  // namespace

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
  const bool cuda = codegen::target_named(manifest.target).abi == codegen::ProgramAbi::cuda;
  check_device(device, cuda, shown);
  codegen::BuildRequest request;
  if (cuda) {
    request.emulated = choose_emulated(device);
    if (!request.emulated)
      for (const codegen::cuda::Gpu& gpu : codegen::cuda::find_gpus())
        request.architectures.push_back(gpu.architecture());
  }
  return find_library(dir, manifest, request, shown);
}

ProgramFiles find_library(const std::string& dir, const codegen::Manifest& manifest,
                          const codegen::BuildRequest& request, const std::string& shown) {
  const codegen::Target& target = codegen::target_named(manifest.target);
  const bool gpu = target.abi == codegen::ProgramAbi::cuda && !request.emulated;
  const std::string file = manifest.name + (gpu ? target.device_library : target.library);
  ProgramFiles program{.dir = dir,
                       .shown = shown,
                       .name = manifest.name,
                       .abi = target.abi,
                       .library = (std::filesystem::path(dir) / file).string(),
                       .emulated = request.emulated,
                       .id = manifest.id};
  if (!std::filesystem::exists(program.library)) program.library = build_program(dir, request);
  return program;
}

std::string device_line(const ProgramFiles& program) {
  if (program.abi != codegen::ProgramAbi::cuda) return {};
  return program.emulated ? "the emulated device, whose times mean nothing" : codegen::cuda::describe_gpu(0);
}

}  // namespace braid::harness
