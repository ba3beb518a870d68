// Emit and build: programs of planned schedules.
#pragma once

#include <string>
#include <vector>

#include "codegen/program_folder.h"
#include "codegen/target.h"
#include "driver/compile_options.h"
#include "ir/schedule.h"

namespace braid {

using codegen::BuildRequest;

// A program that will be put into options.output_dir: made in a temporary folder and published as a whole
// (codegen/program_folder.h).
class StagedProgram {
 public:
  // Emit: source, weights and manifest.
  StagedProgram(const ir::Schedule& schedule, const CompileOptions& options);
  // Build: the target's compiler makes a shared library.
  void build(const BuildRequest& request);
  // Returns the paths of the program's files.
  std::vector<std::string> publish();

 private:
  const codegen::Target& target_;
  codegen::ProgramFolder folder_;
  codegen::Emitted program_;
};

// Emits and publishes source, weights and manifest. Returns their paths.
std::vector<std::string> emit_program(const ir::Schedule& schedule, const CompileOptions& options);
// Builds the library of the program in `dir` and adds it. Returns its path. User errors of read_manifest, and
// BR0008 if source and manifest belong to two compilations.
std::string build_program(const std::string& dir, const BuildRequest& request = {});

}  // namespace braid
