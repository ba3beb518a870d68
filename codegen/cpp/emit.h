// A planned schedule as one C++ source file, with its header, weights and manifest.
//
//   Schedule (fused, planned)
//     --emit_cpp-->       EmittedProgram
//     --write_program-->  DIR/{name.cc,name.h,weights*.bin,manifest.json}
//     --build_library-->  DIR/name.so
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "codegen/program_folder.h"
#include "codegen/weights.h"
#include "ir/schedule.h"

namespace braid::codegen::cpp {

struct EmitOptions {
  std::string name;  // of the program; empty: the graph's name. Made a C identifier.
  // The program checks at run time that every access respects the buffers' lifetimes in the plan
  // (runtime/lifecycle.h). Slow.
  bool checked = false;
};

inline constexpr const char* kTargetName = "cpu";

struct EmittedProgram {
  std::string name;
  std::string source;
  std::string header;
  std::shared_ptr<const nlohmann::ordered_json> manifest;
  WeightLayout weights;
  std::uint64_t id = 0;  // of the compilation
};

// Deterministic: equal schedules give equal bytes. User errors: BR0601 (unsupported operations, all in one
// message), BR0602 (constants without data). Internal error if the schedule has no memory plan.
EmittedProgram emit_cpp(const ir::Schedule& schedule, const EmitOptions& options = {});

// Writes all files, unpublished, into `folder`. `graph` must be the one emitted: its constants are written.
void write_program(const EmittedProgram& program, const ir::Graph& graph, ProgramFolder& folder);

}  // namespace braid::codegen::cpp
