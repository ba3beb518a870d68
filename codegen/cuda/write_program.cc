#include "codegen/cuda/write_program.h"

#include <nlohmann/json.hpp>

#include "codegen/cuda/standalone.h"
#include "codegen/manifest.h"
#include "runtime/cuda_abi.h"

namespace braid::codegen::cuda {

nlohmann::ordered_json manifest(const CudaProgram& program, const ir::Schedule& schedule) {
  nlohmann::ordered_json m = common_manifest(
      {program.name, kTargetName, BRAID_CUDA_ABI_VERSION, "braid_cuda_program_" + program.name, program.id,
       program.arena_bytes, program.weights, program.aliased_outputs},
      schedule);
  m["kernels"] = program.kernels;
  m["precise"] = program.precise;
  m["streams"] = {{"compute", "low priority"},
                  {"communication", program.streams.collectives ? "high priority" : "none"}};
  m["events"] = program.streams.events;
  return m;
}

void write_cuda(const CudaProgram& program, const ir::Schedule& schedule, ProgramFolder& folder,
                bool standalone) {
  const std::string source = cuda_source(std::span(&program, 1));
  std::vector<TextFile> files = {{program.name + ".cu", source}, {program.name + ".h", program.header}};
  nlohmann::ordered_json m = manifest(program, schedule);
  if (standalone) {
    for (TextFile& file : standalone_files(program.name, source)) {
      m["files"].push_back(file.name);
      files.push_back(std::move(file));
    }
  }
  folder.write(files, schedule.graph, program.weights, program.id, m);
}

}  // namespace braid::codegen::cuda
