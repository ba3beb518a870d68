// From an emitted program to a library.
#pragma once

#include <string>

namespace braid::codegen::cpp {

struct BuildOptions {
  std::string compiler;     // empty: $CXX, else c++
  std::string flags;        // empty: $BRAID_CXXFLAGS, else kDefaultFlags
  std::string cpu;          // for -march; empty: what the flags say
  std::string runtime_dir;  // see codegen/toolchain.h
  bool verbose = false;     // print the command
};
inline constexpr const char* kDefaultFlags = "-O3 -march=native";
// Always passed: without these the loops do not vectorise (see runtime/vec_math.h).
inline constexpr const char* kNeededFlags =
    "-std=c++20 -fopenmp -fPIC -fno-math-errno -fno-trapping-math -ffp-contract=fast";

// Compiles DIR/<name>.cc, links it with the runtime to DIR/<name>.so and returns the path of that. User error
// BR0603, with the compiler's first lines, if this fails; BR0604 if the runtime library is not found.
std::string build_library(const std::string& dir, const std::string& name, const BuildOptions& options = {});

}  // namespace braid::codegen::cpp
