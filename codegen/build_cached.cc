#include "codegen/build_cached.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "codegen/object_cache.h"
#include "codegen/toolchain.h"
#include "ir/error.h"
#include "runtime/hash.h"

namespace braid::codegen {

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

// Empty if the compiler does not report what is needed.
//
// With -v a compiler prints its version and the options that it passes to itself, in which -march=native has become the
// processor that it found. The preprocessed source has the contents of every header; with -P and from the source's own folder
// it does not say where they are.
std::string key_of(const std::string& compile, const fs::path& source, const std::string& also) {
  const CommandResult said = run_command(fmt::format("cd {} && {{ {} -v -E -P {}; }} 2>&1",
                                                     shell_word(source.parent_path().string()), compile,
                                                     shell_word(source.filename().string())));
  if (said.status != 0) return {};
  const std::string text = resolved(compile) + "\n" + compile + "\n" + also + "\n" + said.output;
  return fmt::format("{:016x}{:016x}", rt::fnv1a(text), rt::checksum(text.data(), text.size()));
}

}  // namespace

void build_cached(const std::string& compile, const fs::path& source, const std::string& also,
                  const fs::path& output, const std::function<void()>& build) {
  const std::optional<ObjectCache> cache = ObjectCache::of_user();
  const std::string key = cache ? key_of(compile, source, also) : std::string();
  if (!key.empty()) {
    if (const std::optional<std::string> found = cache->find(key)) {
      std::ofstream file(output, std::ios::binary);
      file << *found;
      file.close();
      if (!file) {
        ir::user_error(10, {.file = output.string()}, "cannot be written",
                       "is the disk full, or the folder read-only?");
      }
      return;
    }
  }
  build();
  if (key.empty()) return;
  std::ifstream file(output, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  if (file) cache->store(key, contents.str());
}

void compile_object(const std::string& compile, const fs::path& source, const fs::path& object, bool verbose,
                    const CompilerFailure& fail) {
  build_cached(compile, source, "object", object, [&] {
    const fs::path partial = object.string() + ".partial";
    const std::string command =
        fmt::format("{} -c {} -o {}", compile, shell_word(source.string()), shell_word(partial.string()));
    run_compiler(command, partial, object, verbose, [&](const std::string& lines) { fail(command, lines); });
  });
}

}  // namespace braid::codegen
