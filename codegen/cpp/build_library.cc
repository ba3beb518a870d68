#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "codegen/cpp/emit.h"
#include "codegen/toolchain.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

namespace fs = std::filesystem;

std::string build_library(const std::string& dir, const std::string& name, const BuildOptions& options) {
  const RuntimeFiles runtime = find_runtime(options.runtime_dir, "libbraid_runtime.a");
  const std::string compiler = options.compiler.empty() ? environment("CXX", "c++") : options.compiler;
  const std::string flags =
      options.flags.empty() ? environment("BRAID_CXXFLAGS", kDefaultFlags) : options.flags;
  const fs::path source = fs::path(dir) / (name + ".cc");
  const fs::path target = fs::path(dir) / (name + ".so");
  const fs::path partial = fs::path(dir) / fmt::format(".{}.{}.so", name, ::getpid());
  // The runtime inside stays inside: a process may load several programs of different versions.
  const std::string command = fmt::format(
      "{} {} {} -fvisibility=hidden -shared -I{} {} {} -ldnnl -lrt -lpthread -Wl,--exclude-libs,ALL -o {}",
      compiler, flags, kNeededFlags, shell_word(runtime.headers.string()), shell_word(source.string()),
      shell_word(runtime.library.string()), shell_word(partial.string()));
  return run_compiler(command, partial, target, options.verbose, [&](const std::string& lines) {
    ir::user_error(603, {.file = source.string()},
                   fmt::format("the host compiler failed:\n    {}{}", command, lines),
                   "CXX and BRAID_CXXFLAGS choose another compiler and other flags (default: c++ and -O3 "
                   "-march=native)");
  });
}

}  // namespace braid::codegen::cpp
