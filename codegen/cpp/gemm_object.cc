#include "codegen/cpp/gemm_object.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "codegen/object_cache.h"
#include "codegen/toolchain.h"
#include "ir/error.h"
#include "runtime/hash.h"

namespace braid::codegen::cpp {

namespace fs = std::filesystem;

namespace {

// The file that the shell would run as the first word of the command, links resolved: "c++" may later mean another
// file.
std::string resolved(const std::string& command) {
  std::istringstream words(command);
  std::string program;
  words >> program;
  std::vector<fs::path> places = {program};
  if (program.find('/') == std::string::npos) {
    places.clear();
    std::istringstream path(environment("PATH", ""));
    for (std::string folder; std::getline(path, folder, ':');) places.push_back(fs::path(folder) / program);
  }
  std::error_code ignored;
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place, ignored)) return fs::canonical(place, ignored).string();
  }
  return program;
}

// The key of the object; empty if the compiler does not report what it needs.
//
// With -v a compiler prints its version and the options that it passes to itself, in which -march=native has
// become the processor that it found. The preprocessed source has the contents of every header.
std::string key_of(const std::string& compile, const std::string& compiler, const fs::path& source) {
  const CommandResult said =
      run_command(fmt::format("{{ {} -v -E {}; }} 2>&1", compile, shell_word(source.string())));
  if (said.status != 0) return {};
  const std::string text = resolved(compiler) + "\n" + compile + "\n" + said.output;
  return fmt::format("gemm-{:016x}{:016x}", rt::fnv1a(text), rt::checksum(text.data(), text.size()));
}

}  // namespace

void make_gemm_object(const std::string& compiler, const std::string& flags, const fs::path& headers,
                      const fs::path& object, bool verbose,
                      const std::function<void(const std::string& lines)>& fail) {
  const fs::path source = headers / "runtime" / "host" / "gemm_kernels.cc";
  const std::string compile = fmt::format("{} {} -I{}", compiler, flags, shell_word(headers.string()));
  const std::optional<ObjectCache> cache = ObjectCache::of_user();
  const std::string key = cache ? key_of(compile, compiler, source) : std::string();
  if (!key.empty()) {
    if (const std::optional<std::string> found = cache->find(key)) {
      std::ofstream file(object, std::ios::binary);
      file << *found;
      file.close();
      if (!file) {
        ir::user_error(10, {.file = object.string()}, "cannot be written",
                       "is the disk full, or the folder read-only?");
      }
      return;
    }
  }
  const fs::path partial = object.string() + ".partial";
  run_compiler(
      fmt::format("{} -c {} -o {}", compile, shell_word(source.string()), shell_word(partial.string())),
      partial, object, verbose, fail);
  if (key.empty()) return;
  std::ifstream file(object, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  if (file) cache->store(key, contents.str());
}

}  // namespace braid::codegen::cpp
