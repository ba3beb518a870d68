// A planned schedule as one C++ source file, with its header, weights and manifest.
//
//   Schedule (fused, planned)
//     --emit_cpp-->       EmittedProgram
//     --write_program-->  DIR/{name.cc,name.h,weights*.bin,manifest.json}
//     --build_library-->  DIR/name.so
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codegen/program_folder.h"
#include "codegen/weights.h"
#include "ir/schedule.h"

namespace braid::codegen::cpp {

struct EmitOptions {
  std::string name;  // of the program; empty: the graph's name. Made a C identifier.
  // The program checks at run time that each buffer is born, touched and dead when the plan says so
  // (runtime/lifecycle.h). Slow.
  bool checked = false;
};

struct EmittedProgram {
  std::string name;
  std::string source;
  std::string header;
  nlohmann::ordered_json manifest;
  WeightLayout weights;
  std::uint64_t id = 0;  // of the compilation
};

// Deterministic: equal schedules give equal bytes. User errors: BR0601 (operations that this target does not
// have, all in one message), BR0602 (constants without data). Internal error where the schedule has no memory
// plan.
EmittedProgram emit_cpp(const ir::Schedule& schedule, const EmitOptions& options = {});

// Writes all files, unpublished, into `folder`. `graph` is the one emitted: its constants are written.
void write_program(const EmittedProgram& program, const ir::Graph& graph, ProgramFolder& folder);

struct BuildOptions {
  std::string compiler;     // empty: $CXX, else c++
  std::string flags;        // empty: $BRAID_CXXFLAGS, else kDefaultFlags
  std::string runtime_dir;  // see codegen/toolchain.h
  bool verbose = false;     // print the command
};
// What a source names that multiplies matrices: it is linked with the kernels for that.
inline constexpr const char* kGemmKernels = "kHostGemm";
inline constexpr const char* kDefaultFlags = "-O3 -march=native";
// Without these the loops do not vectorise (see runtime/vec_math.h); always given.
inline constexpr const char* kNeededFlags =
    "-std=c++20 -fopenmp -fPIC -fno-math-errno -fno-trapping-math -ffp-contract=fast";

// Compiles DIR/<name>.cc and links it with the runtime to DIR/<name>.so, whose path is returned. User error
// BR0603 with the compiler's first lines where that fails, BR0604 where the runtime library is not found.
std::string build_library(const std::string& dir, const std::string& name, const BuildOptions& options = {});

}  // namespace braid::codegen::cpp
