// What a compiler makes of one source file, or the same from the user's cache.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace braid::codegen {

// Makes `output` with `build`, or copies it from the user's cache (codegen/object_cache.h) if that holds what the same compiler
// made for the same processor from the same flags, source, headers and `also`, all compared by content. `compile` is the
// compiler with its flags, as words of a shell; `also` is whatever else decides the output. Flags that may name files for the linker
// or the compiler, beyond headers, make it build always.
void build_cached(const std::string& compile, const std::filesystem::path& source, const std::string& also,
                  const std::filesystem::path& output, const std::function<void()>& build);

// Must throw; gets the failed command and the first lines of what the compiler said.
using CompilerFailure = std::function<void(const std::string& command, const std::string& lines)>;

// Compiles `source` to `object` in that way, with a host compiler such as g++. Prints the command, if one is run, first if `verbose`.
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
