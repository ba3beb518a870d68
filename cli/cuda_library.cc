#include "cli/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "codegen/manifest.h"
#include "ir/error.h"
#include "runtime/library_file.h"
#include "runtime/program.h"

namespace braid::cli {
namespace {

void* symbol(const ProgramFiles& program, const std::string& name) {
  // Opening again gives the same handle; nothing is ever closed, since threads of the device may still run.
  void* library = dlopen(std::filesystem::absolute(program.library).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* found = library ? dlsym(library, name.c_str()) : nullptr;
  if (!found) {
    const char* why = dlerror();
    ir::user_error(codegen::kNoProgram, {.file = program.library},
                   fmt::format("not a library of a CUDA program: {}", why ? why : name),
                   "compile the model again");
  }
  return found;
}

}  // namespace

const BraidCudaProgram* load_cuda_program(const ProgramFiles& program) {
  rt::check_library(program.library, rt::SealNeed::required, program.id);
  const auto entry =
      reinterpret_cast<BraidCudaProgramFunction>(symbol(program, "braid_cuda_program_" + program.name));
  return entry();
}

decltype(&braid_cuda_host_run) load_host_run(const ProgramFiles& program) {
  return reinterpret_cast<decltype(&braid_cuda_host_run)>(symbol(program, "braid_cuda_host_run"));
}

std::string take_emulated_findings(const ProgramFiles& program) {
  using Findings = int (*)(char*, unsigned long, int);
  const auto findings = reinterpret_cast<Findings>(symbol(program, "braid_emulated_findings"));
  std::string text(1 << 16, '\0');
  if (findings(text.data(), text.size(), 1) == 0) return {};
  text.resize(std::strlen(text.c_str()));
  return text;
}

}  // namespace braid::cli
