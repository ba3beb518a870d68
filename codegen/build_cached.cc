#include "codegen/build_cached.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "codegen/object_cache.h"
#include "codegen/toolchain.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/hash.h"

namespace braid::codegen {

namespace fs = std::filesystem;

namespace {

// Returns the file that the shell would run for the first word of the command, with links resolved: "c++" may
// later mean another file.
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

// Whether the words after the compiler determine the output completely, together with the headers that they
// lead to. No word may name another file, pass options to the linker, or need expansion by the shell.
bool flags_say_all(const std::string& compile) {
  if (compile.find_first_of("\\\"$`;&|<>()*?[]{}~\n") != std::string::npos) return false;
  constexpr std::string_view kHarmless[] = {"-O", "-g", "-m",    "-f",       "-W", "-D",
                                            "-U", "-I", "-std=", "-pthread", "-x"};
  constexpr std::string_view kHarmful[] = {"-Wl,",           "-Wa,",     "-Wp,",     "-fprofile-use",
                                           "-fauto-profile", "-fplugin", "-fuse-ld="};
  const auto one_of = [](std::string_view word, const auto& list) {
    return std::any_of(std::begin(list), std::end(list),
                       [&](std::string_view p) { return word.starts_with(p); });
  };
  std::istringstream words(compile);
  std::string word;
  words >> word;  // the compiler
  bool quoted = false;
  while (words >> word) {
    // A quoted path may contain blanks; only our own options are quoted.
    const bool inside = quoted;
    if (std::count(word.begin(), word.end(), '\'') % 2 != 0) quoted = !quoted;
    if (inside || word == "c++") continue;
    if (word.front() == '\'') word.erase(0, 1);
    if (!one_of(word, kHarmless) || one_of(word, kHarmful)) return false;
  }
  return true;
}

std::string contents_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Returns the settings, beyond headers, that the environment adds to a compilation. A script may read all
// variables.
std::string surroundings(const std::string& compiler) {
  std::string text;
  for (const char* name : {"LD_RUN_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"})
    text += environment(name, "") + "\n";
  char magic[2] = {};
  std::ifstream(compiler, std::ios::binary).read(magic, sizeof magic);
  if (magic[0] != '#' || magic[1] != '!') return text;
  text += contents_of(compiler);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view setting = *variable;
    if (!setting.starts_with("_=") && !setting.starts_with("SHLVL=")) text += std::string(setting) + "\n";
  }
  return text;
}

void replace_all(std::string& text, const std::string& what, std::string_view with) {
  if (what.empty()) return;  // a source without a folder
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

std::string hash_of(const std::string& text) {
  return fmt::format("{:016x}{:016x}", rt::fnv1a(text), rt::checksum(text.data(), text.size()));
}

// Returns an empty key if the flags do not determine the output, or if the compiler does not report what is
// needed.
//
// With -v a compiler prints its version and the options that it passes to itself, in which -march=native is
// replaced by the processor that it found. The preprocessed source has the contents of every header; with -P
// it does not say where they are.
std::string key_of(const std::string& compile, const fs::path& source, const std::string& also) {
  if (!flags_say_all(compile)) return {};
  const CommandResult said =
      run_command(fmt::format("{{ {} -v -E -P {}; }} 2>&1", compile, shell_word(source.string())));
  if (said.status != 0) return {};
  std::string report = said.output;
  replace_all(report, source.string(), "SOURCE");  // which lies in a folder of its own each time
  replace_all(report, source.parent_path().string(), "FOLDER");
  const std::string compiler = resolved(compile);
  const std::string text = compiler + "\n" + compile + "\n" + also + "\n" + surroundings(compiler) + report;
  return hash_of(text);
}

// nvcc does not say what it passes to itself; that follows from its version, the flags and its variables.
std::string key_of(const Nvcc& nvcc, const fs::path& source) {
  const CommandResult said =
      run_command(fmt::format("{{ {} --version && {} -v && {} -E {}; }} 2>&1", shell_word(nvcc.path),
                              nvcc.host, nvcc.command(), shell_word(source.string())));
  if (said.status != 0) return {};
  const std::string program = resolved(nvcc.path);
  std::string text = program + "\n" + resolved(nvcc.host) + "\n" + nvcc.flags + "\n" + surroundings(program);
  for (const char* name : {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"}) text += environment(name, "") + "\n";
  std::string report = said.output;
  replace_all(report, source.string(), "SOURCE");
  return hash_of(text + report);
}

using MakeKey = std::function<std::string()>;

void build_with_key(const MakeKey& make_key, const fs::path& output, const std::function<void()>& build) {
  const std::optional<ObjectCache> cache = ObjectCache::of_user();
  const std::string key = cache ? make_key() : std::string();
  if (!key.empty()) {
    if (const std::optional<std::string> found = cache->find(key)) {
      std::ofstream file(output, std::ios::binary);
      file << *found;
      file.close();
      if (!file) {
        ir::user_error(errors::kCannotWrite, {.file = output.string()}, "cannot be written",
                       "is the disk full, or the folder read-only?");
      }
      return;
    }
  }
  build();
  if (key.empty()) return;
  cache->store(key, contents_of(output));
}

void compile_one(const std::string& compile, const fs::path& source, const fs::path& object, bool verbose,
                 const CompilerFailure& fail) {
  const fs::path partial = object.string() + ".partial";
  const std::string command =
      fmt::format("{} -c {} -o {}", compile, shell_word(source.string()), shell_word(partial.string()));
  run_compiler(command, partial, object, verbose, [&](const std::string& lines) { fail(command, lines); });
}

}  // namespace

void build_cached(const std::string& compile, const fs::path& source, const std::string& also,
                  const fs::path& output, const std::function<void()>& build) {
  build_with_key([&] { return key_of(compile, source, also); }, output, build);
}

void compile_object(const std::string& compile, const fs::path& source, const fs::path& object, bool verbose,
                    const CompilerFailure& fail) {
  build_with_key([&] { return key_of(compile, source, "object"); }, object,
                 [&] { compile_one(compile, source, object, verbose, fail); });
}

std::string Nvcc::command() const {
  return fmt::format("{} -ccbin {} {}", shell_word(path), shell_word(host), flags);
}

void compile_object(const Nvcc& nvcc, const fs::path& source, const fs::path& object, bool verbose,
                    const CompilerFailure& fail) {
  build_with_key([&] { return key_of(nvcc, source); }, object,
                 [&] { compile_one(nvcc.command(), source, object, verbose, fail); });
}

}  // namespace braid::codegen
