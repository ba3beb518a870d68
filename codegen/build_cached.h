// Compiles one source file, or takes the result from the user's cache.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace braid::codegen {

// Makes `output` with `build`, or copies it from the user's cache (codegen/object_cache.h). A cached output
// is used if the same compiler made it for the same processor from the same flags, source, headers and
// `also`, all compared by content. `compile` is the compiler with its flags, as words of a shell; `also` is
// everything else that determines the output. If a flag may name files for the linker or the compiler, beyond
// headers, `build` always runs.
void build_cached(const std::string& compile, const std::filesystem::path& source, const std::string& also,
                  const std::filesystem::path& output, const std::function<void()>& build);

// Must throw; gets the failed command and the first lines of what the compiler said.
using CompilerFailure = std::function<void(const std::string& command, const std::string& lines)>;

// Compiles `source` to `object` through that cache, with a host compiler such as g++. If `verbose`, prints
// the command before it runs.
void compile_object(const std::string& compile, const std::filesystem::path& source,
                    const std::filesystem::path& object, bool verbose, const CompilerFailure& fail);

struct Nvcc {
  std::string path;
  std::string host;   // the compiler that it calls
  std::string flags;  // words of a shell: Braid's own, which say all

  std::string command() const;
};
// The same with nvcc.
void compile_object(const Nvcc& nvcc, const std::filesystem::path& source,
                    const std::filesystem::path& object, bool verbose, const CompilerFailure& fail);

}  // namespace braid::codegen
