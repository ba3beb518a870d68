#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include "codegen/cpp/emit.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

namespace fs = std::filesystem;

namespace {

std::string environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// What generated code is compiled against and linked with.
struct Runtime {
  fs::path headers;  // holds runtime/program_abi.h
  fs::path library;
};

std::optional<Runtime> runtime_in(const fs::path& root) {
  for (const char* lib : {"lib", "lib64", "lib/x86_64-linux-gnu", "."}) {
    const fs::path library = root / lib / "libbraid_runtime.a";
    if (!fs::exists(library)) continue;
    for (const fs::path& headers : {root / "include" / "braid", root, root / "..", fs::path(BRAID_SOURCE_TREE)}) {
      if (fs::exists(headers / "runtime" / "program_abi.h")) return Runtime{fs::weakly_canonical(headers), fs::weakly_canonical(library)};
    }
  }
  return std::nullopt;
}

Runtime find_runtime(const BuildOptions& options) {
  std::vector<fs::path> places;
  const std::string given = options.runtime_dir.empty() ? environment("BRAID_RUNTIME_DIR", "") : options.runtime_dir;
  if (!given.empty()) {
    places.emplace_back(given);
  } else {
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(&build_library), &info) && info.dli_fname) {
      const fs::path self = fs::absolute(info.dli_fname).parent_path();
      places.push_back(self / "..");
      places.push_back(self / ".." / "..");
      places.push_back(self);
    }
    places.emplace_back(BRAID_BUILD_TREE);
  }
  for (const fs::path& place : places) {
    if (auto found = runtime_in(place)) return *found;
  }
  std::vector<std::string> tried;
  for (const fs::path& p : places) tried.push_back(p.lexically_normal().string());
  ir::user_error(604, {}, fmt::format("libbraid_runtime.a and its headers are not in {}", fmt::join(tried, ", ")),
                 "set BRAID_RUNTIME_DIR to the folder where Braid is installed or was built");
}

}  // namespace

std::string build_library(const std::string& dir, const std::string& name, const BuildOptions& options) {
  const Runtime runtime = find_runtime(options);
  const std::string compiler = options.compiler.empty() ? environment("CXX", "c++") : options.compiler;
  const std::string flags = options.flags.empty() ? environment("BRAID_CXXFLAGS", kDefaultFlags) : options.flags;
  const fs::path source = fs::path(dir) / (name + ".cc");
  const fs::path target = fs::path(dir) / (name + ".so");
  const fs::path partial = fs::path(dir) / fmt::format(".{}.{}.so", name, ::getpid());
  // The runtime inside stays inside: a process may load several programs of different versions.
  const std::string command =
      fmt::format("{} {} {} -fvisibility=hidden -shared -I{} {} {} -ldnnl -lrt -lpthread -Wl,--exclude-libs,ALL -o {} 2>&1", compiler, flags,
                  kNeededFlags, shell_word(runtime.headers.string()), shell_word(source.string()), shell_word(runtime.library.string()),
                  shell_word(partial.string()));
  if (options.verbose) fmt::print(stderr, "{}\n", command);
  std::string output;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) ir::user_error(603, {source.string(), {}, {}}, "the host compiler cannot be started", "is CXX set to a C++20 compiler?");
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  const int status = ::pclose(pipe);
  std::error_code ignored;
  if (status != 0) {
    fs::remove(partial, ignored);
    std::istringstream lines(output);
    std::string first, line;
    for (int k = 0; k < 12 && std::getline(lines, line); ++k) first += "\n    " + line;
    ir::user_error(603, {source.string(), {}, {}}, fmt::format("the host compiler failed:\n    {}{}", command, first),
                   "CXX and BRAID_CXXFLAGS choose another compiler and other flags (default: c++ and -O3 -march=native)");
  }
  fs::rename(partial, target);
  return target.string();
}

}  // namespace braid::codegen::cpp
