// The files of an emitted program.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "codegen/cuda/emit.h"
#include "codegen/program_folder.h"

namespace braid::codegen::cuda {

// Describes the program for people and tools: the fields of the C++ target's manifest and those of this
// target.
nlohmann::ordered_json manifest(const CudaProgram& program, const ir::Schedule& schedule);

// Writes all files, unpublished, into `folder`; with `standalone` also the files needed to build it without
// Braid.
void write_cuda(const CudaProgram& program, const ir::Schedule& schedule, ProgramFolder& folder,
                bool standalone = false);

}  // namespace braid::codegen::cuda
