// What every target writes beside its source: the weights, and a manifest that says what the program is.
// Shared by all targets.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codegen/weights.h"
#include "ir/schedule.h"

namespace braid::codegen {

struct ProgramFacts {
  std::string name;
  std::string target;        // cpu, cuda
  unsigned abi_version = 0;  // of the target's program interface
  std::string entry;         // the function that the library exports
  std::uint64_t fingerprint = 0;
  std::int64_t arena_bytes = 0;
  WeightLayout weights;
  std::map<int, int> aliased_outputs;  // output -> the input whose memory it is
};

// The fields that all manifests have, in their order: the interface, memory, weights, groups. Targets append
// theirs.
nlohmann::ordered_json common_manifest(const ProgramFacts& facts, const ir::Schedule& schedule);

struct TextFile {
  std::string name;
  std::string text;
};

// Writes the sources, the weights (the constants of `graph`) and manifest.json into `dir`, made if need be:
// each under a temporary name first and renamed when all are complete, so that on an error nothing new is
// there. Returns their paths, in this order. User error BR0010 where that fails.
std::vector<std::string> write_program_files(const std::string& dir, const std::vector<TextFile>& sources,
                                             const ir::Graph& graph, const WeightLayout& weights,
                                             std::uint64_t fingerprint,
                                             const nlohmann::ordered_json& manifest);

}  // namespace braid::codegen
