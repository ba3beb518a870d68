#include "codegen/toolchain.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <span>
#include <sstream>
#include <vector>

#include "codegen/leftovers.h"
#include "codegen/temp_dir.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/environment.h"
#include "runtime/sealed_file.h"

namespace braid::codegen {

namespace fs = std::filesystem;

namespace {

constexpr int kShownLines = 12;  // of a compiler's output

// The first `count` lines, indented, from the first error on: warnings may come before it.
std::string first_lines(const std::string& text, int count) {
  const std::size_t error = text.find("error");
  const std::size_t line_begin = error == std::string::npos ? std::string::npos : text.rfind('\n', error);
  std::istringstream lines(line_begin == std::string::npos ? text : text.substr(line_begin + 1));
  std::string out, line;
  for (int k = 0; k < count && std::getline(lines, line); ++k) out += "\n    " + line;
  return out;
}

}  // namespace

// Runs the command in a process group of its own, so that all its processes can be ended together. It gets a
// folder of its own for temporary files ($TMPDIR), so that a killed compiler leaves no files.
CommandResult run_command(const std::string& command) {
  const TempDir temporary;
  const std::string said = (fs::path(temporary.path()) / "said").string();
  const std::string script = "TMPDIR=" + shell_word(temporary.path()) + "; export TMPDIR; " + command;
  const char* const arguments[] = {"sh", "-c", script.c_str(), nullptr};
  // The child begins when this process has noted its group; if this process ends before, so does the child.
  int begin[2];
  if (::pipe2(begin, O_CLOEXEC) != 0) return {127, "cannot create a pipe"};
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::close(begin[1]);
    char go = 0;
    const int files[] = {::open("/dev/null", O_RDONLY), ::open(said.c_str(), O_WRONLY | O_CREAT, 0600)};
    if (::read(begin[0], &go, 1) == 1 && files[1] >= 0 && ::dup2(files[0], 0) == 0 &&
        ::dup2(files[1], 1) == 1)
      ::execv("/bin/sh", const_cast<char* const*>(arguments));
    ::_exit(127);
  }
  ::close(begin[0]);
  CommandResult result{127, "cannot start a shell"};
  if (child > 0) {
    ::setpgid(child, child);  // parent and child both call it: either may be first
    const LeftoverProcesses group(child);
    (void)!::write(begin[1], "", 1);
    while (::waitpid(child, &result.status, 0) < 0 && errno == EINTR) {
    }
    std::ifstream file(said, std::ios::binary);
    result.output.assign(std::istreambuf_iterator<char>(file), {});
  }
  ::close(begin[1]);
  return result;
}

std::string environment(const char* name, const std::string& otherwise) {
  const char* value = rt::environment_value(name);
  return value != nullptr ? value : otherwise;
}

std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

RuntimeFiles find_runtime(const std::string& given, const std::string& library_file) {
  std::vector<fs::path> places;
  const std::string wanted = given.empty() ? environment("BRAID_RUNTIME_DIR", "") : given;
  if (!wanted.empty()) {
    places.emplace_back(wanted);
  } else {
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(&find_runtime), &info) != 0 && info.dli_fname != nullptr) {
      const fs::path self = fs::absolute(info.dli_fname).parent_path();
      places.insert(places.end(), {self / "..", self / ".." / "..", self});
    }
    places.emplace_back(BRAID_BUILD_TREE);
  }
  std::vector<std::string> tried;
  for (const fs::path& root : places) {
    for (const char* lib : {"lib", "lib64", "lib/x86_64-linux-gnu", "."}) {
      const fs::path library = library_file.empty() ? fs::path() : root / lib / library_file;
      if (!library.empty() && !fs::exists(library)) continue;
      for (const fs::path& headers :
           {root / "include" / "braid", root, root / "..", fs::path(BRAID_SOURCE_TREE)}) {
        if (!fs::exists(headers / "runtime" / "program_abi.h")) continue;
        std::ifstream file(fs::path(library).replace_extension(".link"));
        std::string link;
        std::getline(file, link);
        // A relocatable package names its own folder so.
        constexpr std::string_view kFolder = "$LIBRARY_FOLDER";
        const std::string folder = shell_word(fs::weakly_canonical(library.parent_path()).string());
        for (std::size_t at = link.find(kFolder); at != std::string::npos;
             at = link.find(kFolder, at + folder.size()))
          link.replace(at, kFolder.size(), folder);
        return {fs::weakly_canonical(headers), library.empty() ? library : fs::weakly_canonical(library),
                link};
      }
    }
    std::error_code ignored;  // the build tree, on another machine
    if (fs::exists(root, ignored)) tried.push_back(root.lexically_normal().string());
  }
  ir::user_error(
      errors::kNoRuntime, {},
      fmt::format("{} is not in {}",
                  library_file.empty() ? "runtime/program_abi.h" : library_file + " with its headers",
                  fmt::join(tried, ", ")),
      "set BRAID_RUNTIME_DIR to the folder where Braid is installed or was built");
}

std::string run_compiler(const std::string& command, const fs::path& partial, const fs::path& target,
                         bool verbose, const std::function<void(const std::string& lines)>& fail) {
  if (verbose) fmt::print(stderr, "{}\n", command);
  const Leftover half_made(partial);
  const CommandResult result = run_command("{ " + command + "; } 2>&1");
  if (result.status != 0) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    fail(first_lines(result.output, kShownLines));
    throw ir::InternalError("the failure of a compiler was not reported");
  }
  fs::rename(partial, target);
  return target.string();
}

void seal_library(const std::string& library, std::uint64_t compilation_id) {
  std::fstream file(library, std::ios::binary | std::ios::in | std::ios::out);
  std::ostringstream contents;
  contents << file.rdbuf();
  const std::string bytes = contents.str();
  const rt::Seal seal = rt::make_seal(std::as_bytes(std::span(bytes)), compilation_id);
  file.seekp(0, std::ios::end);
  file.write(reinterpret_cast<const char*>(&seal), sizeof seal);
  file.close();
  if (!file)
    ir::user_error(errors::kCannotWrite, {.file = library}, "cannot be written",
                   "is the disk full, or the folder read-only?");
}

}  // namespace braid::codegen
