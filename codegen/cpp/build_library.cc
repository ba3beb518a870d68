#include "codegen/cpp/build_library.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/build_cached.h"
#include "codegen/toolchain.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/hash.h"

namespace braid::codegen::cpp {

namespace fs = std::filesystem;

std::string build_library(const std::string& dir, const std::string& name, const BuildOptions& options) {
  const RuntimeFiles runtime = find_runtime(options.runtime_dir, "libbraid_runtime.a");
  const std::string compiler = options.compiler.empty() ? environment("CXX", "c++") : options.compiler;
  std::string flags = options.flags.empty() ? environment("BRAID_CXXFLAGS", kDefaultFlags) : options.flags;
  if (!options.cpu.empty()) flags += " " + shell_word("-march=" + options.cpu);
  const std::string compile = fmt::format("{} {} {} -fvisibility=hidden -I{}", compiler, flags, kNeededFlags,
                                          shell_word(runtime.headers.string()));
  const fs::path source = fs::path(dir) / (name + ".cc");
  const fs::path target = fs::path(dir) / (name + ".so");
  const fs::path partial = fs::path(dir) / fmt::format(".{}.{}.so", name, ::getpid());
  // The runtime inside is not exported: a process may load several programs of different versions.
  const std::string link = runtime.link + " -Wl,--exclude-libs,ALL";
  const auto build = [&] {
    const std::string command =
        fmt::format("{} -shared {} {} {} -o {}", compile, shell_word(source.string()),
                    shell_word(runtime.library.string()), link, shell_word(partial.string()));
    run_compiler(command, partial, target, options.verbose, [&](const std::string& lines) {
      ir::user_error(errors::kCompilerFailed, {.file = source.string()},
                     fmt::format("the host compiler failed:\n    {}{}", command, lines),
                     "set CXX and BRAID_CXXFLAGS for another compiler and other flags (default: c++ and -O3 "
                     "-march=native)");
    });
  };
  std::ostringstream linked;
  linked << std::ifstream(runtime.library, std::ios::binary).rdbuf();
  const std::string also =
      fmt::format("library {} {:016x}", link, rt::checksum(linked.view().data(), linked.view().size()));
  build_cached(compile, source, also, target, build);
  // Sets the permissions that a linker sets, also for a copy from the cache.
  const fs::perms may = fs::status(target).permissions();
  for (const auto& [read, run] : {std::pair{fs::perms::owner_read, fs::perms::owner_exec},
                                  {fs::perms::group_read, fs::perms::group_exec},
                                  {fs::perms::others_read, fs::perms::others_exec}}) {
    if ((may & read) != fs::perms::none) fs::permissions(target, run, fs::perm_options::add);
  }
  return target.string();
}

}  // namespace braid::codegen::cpp
