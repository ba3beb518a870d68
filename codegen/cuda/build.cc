#include "codegen/cuda/build.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string_view>
#include <utility>

#include "codegen/build_cached.h"
#include "codegen/temp_dir.h"
#include "codegen/toolchain.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::codegen::cuda {

namespace fs = std::filesystem;

namespace {

// The emulated device knows the locks that a host thread holds.
constexpr const char* kWrapped =
    " -Wl,--wrap=pthread_mutex_lock,--wrap=pthread_mutex_trylock,--wrap=pthread_mutex_unlock";

std::string word(const fs::path& path) { return shell_word(path.string()); }

// "sm_90", "90", "sm_90a"
std::optional<std::string> architecture(const std::string& text) {
  std::string number = text.starts_with("sm_") ? text.substr(3) : text;
  if (number.size() < 2 || number.size() > 4) return std::nullopt;
  for (std::size_t k = 0; k < number.size(); ++k) {
    const bool digit = std::isdigit(static_cast<unsigned char>(number[k])) != 0;
    const bool variant = k > 1 && k + 1 == number.size() && (number[k] == 'a' || number[k] == 'f');
    if (!digit && !variant) return std::nullopt;
  }
  return number;
}

// The sources of runtime/cuda with one of these endings, in order of their names.
std::vector<fs::path> runtime_sources(const fs::path& headers,
                                      std::initializer_list<std::string_view> endings) {
  std::vector<fs::path> sources;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(headers / "runtime" / "cuda", ignored)) {
    const std::string ending = entry.path().extension().string();
    if (std::find(endings.begin(), endings.end(), ending) != endings.end()) sources.push_back(entry.path());
  }
  std::sort(sources.begin(), sources.end());
  return sources;
}

// One source that holds all of these, so that their common headers are read once.
fs::path write_unit(const fs::path& folder, const char* name, const std::vector<fs::path>& sources) {
  const fs::path unit = folder / name;
  std::ofstream text(unit);
  for (const fs::path& source : sources) text << "#include \"" << source.string() << "\"\n";
  return unit;
}

// The options of nvcc. Builds machine code for each architecture, and PTX of the newest, which drivers
// translate for later GPUs. PTX of sm_90a and similar architectures is left out, because it runs on no other.
std::string code_options(std::vector<std::string> architectures) {
  if (architectures.empty()) architectures = {"sm_80", "sm_90"};
  std::vector<std::string> numbers;
  for (const std::string& text : architectures) {
    const std::optional<std::string> number = architecture(text);
    constexpr int kOldest = 80;
    if (!number || std::stoi(*number) < kOldest)
      ir::user_error(errors::kNoNvcc, {}, fmt::format("'{}' is not a GPU architecture from sm_80 on", text),
                     "give for example sm_80 or sm_90a");
    numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end(), [](const std::string& a, const std::string& b) {
    return std::pair(std::stoi(a), a) < std::pair(std::stoi(b), b);
  });
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  const auto newest = std::find_if(numbers.rbegin(), numbers.rend(), [](const std::string& number) {
    return std::isdigit(static_cast<unsigned char>(number.back())) != 0;
  });
  std::string targets;
  for (const std::string& number : numbers) {
    const bool ptx = newest != numbers.rend() && number == *newest;
    const std::string code = ptx ? fmt::format("[sm_{0},compute_{0}]", number) : "sm_" + number;
    targets += " " + shell_word(fmt::format("-gencode=arch=compute_{},code={}", number, code));
  }
  return targets;
}

}  // namespace

std::string build_emulated(const std::string& dir, const std::string& name, const CudaBuildOptions& options) {
  const RuntimeFiles runtime = find_runtime(options.runtime_dir, "libbraid_emulated_device.so");
  const std::string compiler = options.compiler.empty() ? environment("CXX", "c++") : options.compiler;
  const fs::path source = fs::path(dir) / (name + ".cu");
  const fs::path target = fs::path(dir) / (name + ".emulated.so");
  const fs::path partial = fs::path(dir) / fmt::format(".{}.{}.so", name, ::getpid());
  // -fsanitize only instruments: the emulated device provides the called functions, so the linker does not
  // get the option.
  const std::string compile = fmt::format(
      "{} -x c++ -std=c++20 -O2 -g1 -fPIC -fsanitize=thread,signed-integer-overflow -fstack-clash-protection "
      "-DBRAID_EMULATED_DEVICE -I{}",
      compiler, word(runtime.headers));
  const auto fail = [&](const std::string& command, const std::string& lines) {
    ir::user_error(errors::kCompilerFailed, {.file = source.string()},
                   fmt::format("the host compiler failed on the source for the emulated device:\n    {}{}",
                               command, lines),
                   "set CXX to another compiler: g++ 12 or later");
  };
  // -Bsymbolic: the runtime's functions are those of this library, whatever else the process has loaded.
  const TempDir objects;
  const fs::path folder = objects.path(), program = folder / "program.o", host = folder / "runtime.o";
  compile_object(compile, source, program, options.verbose, fail);
  const fs::path unit = write_unit(folder, "runtime.cc", runtime_sources(runtime.headers, {".cc", ".cu"}));
  compile_object(compile, unit, host, options.verbose, fail);
  const std::string link = fmt::format("{} -shared -Wl,-Bsymbolic{} {} {} {} -Wl,-rpath,{} -pthread -o {}",
                                       compiler, kWrapped, word(program), word(host), word(runtime.library),
                                       word(runtime.library.parent_path()), word(partial));
  return run_compiler(link, partial, target, options.verbose,
                      [&](const std::string& lines) { fail(link, lines); });
}

std::optional<std::string> find_nvcc() {
  std::vector<fs::path> places;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = environment(variable, "");
    if (!root.empty()) places.push_back(fs::path(root) / "bin");
  }
  std::istringstream path(environment("PATH", ""));
  for (std::string folder; std::getline(path, folder, ':');) places.emplace_back(folder);
  places.insert(places.end(), {"/usr/local/cuda/bin", "/opt/cuda/bin"});
  for (const fs::path& place : places) {
    const fs::path nvcc = place / "nvcc";
    if (::access(nvcc.c_str(), X_OK) == 0) return nvcc.string();
  }
  return std::nullopt;
}

std::string build_nvcc(const std::string& dir, const std::string& name,
                       std::vector<std::string> architectures, const CudaBuildOptions& options) {
  const std::string targets = code_options(std::move(architectures));
  const std::optional<std::string> found = find_nvcc();
  if (!found) {
    ir::user_error(errors::kNoNvcc, {},
                   "nvcc was not found in $CUDA_HOME, $CUDA_PATH, $PATH or /usr/local/cuda",
                   "install the CUDA toolkit (or the wheels nvidia-*-cu13) and set CUDA_HOME; the emulated "
                   "device needs neither");
  }
  const RuntimeFiles runtime = find_runtime(options.runtime_dir, "");
  const std::string host = options.compiler.empty() ? environment("CXX", "c++") : options.compiler;
  std::string nccl_headers, nccl_library;
  for (const char* variable : {"NCCL_ROOT", "NCCL_HOME"}) {
    const fs::path root = environment(variable, "");
    if (root.empty() || !nccl_headers.empty()) continue;
    nccl_headers = " -I" + word(root / "include");
    nccl_library = fmt::format(" -L{0} -Xlinker=-rpath={0}", word(root / "lib"));
  }
  const fs::path source = fs::path(dir) / (name + ".cu");
  const fs::path target = fs::path(dir) / (name + ".cuda.so");
  const fs::path partial = fs::path(dir) / fmt::format(".{}.{}.so", name, ::getpid());
  const Nvcc nvcc{
      *found, host,
      fmt::format("-std=c++20 -O2{} -Xcompiler=-fPIC -I{}{}", targets, word(runtime.headers), nccl_headers)};
  const auto fail = [&](const std::string& command, const std::string& lines) {
    ir::user_error(errors::kNvccFailed, {.file = source.string()},
                   fmt::format("nvcc failed:\n    {}{}", command, lines),
                   "use CUDA 12.3 and NCCL 2.18 or later; NCCL_ROOT gives the path of NCCL");
  };
  const TempDir temporary;
  const fs::path folder = temporary.path();
  std::string objects;
  const auto compile = [&](const fs::path& from, const char* to) {
    compile_object(nvcc, from, folder / to, options.verbose, fail);
    objects += " " + word(folder / to);
  };
  compile(source, "program.o");
  compile(write_unit(folder, "runtime.cc", runtime_sources(runtime.headers, {".cc"})), "runtime.o");
  compile(write_unit(folder, "kernels.cu", runtime_sources(runtime.headers, {".cu"})), "kernels.o");
  const std::string link =
      fmt::format("{} -shared -Xlinker=-Bsymbolic -cudart=shared{} -o {} -lcublasLt -lcublas -lnccl{}",
                  nvcc.command(), objects, word(partial), nccl_library);
  return run_compiler(link, partial, target, options.verbose,
                      [&](const std::string& lines) { fail(link, lines); });
}

}  // namespace braid::codegen::cuda
