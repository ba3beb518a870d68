#include "codegen/cpp/build_library.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/cpp/emit.h"
#include "codegen/cpp/gemm_object.h"
#include "codegen/toolchain.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

namespace fs = std::filesystem;

namespace {

bool multiplies_matrices(const fs::path& source) {
  std::ifstream file(source, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str().find(kGemmKernels) != std::string::npos;
}

}  // namespace

std::string build_library(const std::string& dir, const std::string& name, const BuildOptions& options) {
  const RuntimeFiles runtime = find_runtime(options.runtime_dir, "libbraid_runtime.a");
  const std::string compiler = options.compiler.empty() ? environment("CXX", "c++") : options.compiler;
  const std::string flags = fmt::format(
      "{} {} -fvisibility=hidden",
      options.flags.empty() ? environment("BRAID_CXXFLAGS", kDefaultFlags) : options.flags, kNeededFlags);
  const fs::path source = fs::path(dir) / (name + ".cc");
  const fs::path target = fs::path(dir) / (name + ".so");
  const fs::path partial = fs::path(dir) / fmt::format(".{}.{}.so", name, ::getpid());
  const fs::path kernels = fs::path(dir) / fmt::format(".{}.{}.gemm.o", name, ::getpid());
  const std::string linked = shell_word(runtime.library.string());
  std::string command;
  const auto fail = [&](const std::string& lines) {
    ir::user_error(603, {.file = source.string()},
                   fmt::format("the host compiler failed:\n    {}{}", command, lines),
                   "set CXX and BRAID_CXXFLAGS for another compiler and other flags (default: c++ and -O3 "
                   "-march=native)");
  };
  // The runtime inside is not exported: a process may load several programs of different versions.
  const auto link_with = [&](const std::string& objects) {
    command = fmt::format("{} {} -shared -I{} {} {} -ldnnl -lrt -lpthread -Wl,--exclude-libs,ALL -o {}",
                          compiler, flags, shell_word(runtime.headers.string()), shell_word(source.string()),
                          objects, shell_word(partial.string()));
    return run_compiler(command, partial, target, options.verbose, fail);
  };
  if (!multiplies_matrices(source)) return link_with(linked);
  command = compiler;
  make_gemm_object(compiler, flags, runtime.headers, kernels, options.verbose, fail);
  const struct Remove {
    const fs::path& path;
    ~Remove() {
      std::error_code ignored;
      fs::remove(path, ignored);
    }
  } remove{kernels};
  return link_with(shell_word(kernels.string()) + " " + linked);
}

}  // namespace braid::codegen::cpp
