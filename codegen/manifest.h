// manifest.json: says what a compiled program is and which files are its own. Shared by all targets.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "codegen/weights.h"
#include "ir/schedule.h"

namespace braid::codegen {

struct ProgramFacts {
  std::string name;
  std::string target;        // codegen/target.h
  unsigned abi_version = 0;  // of the target's program interface
  std::string entry;         // the function that the library exports
  std::uint64_t id = 0;      // of the compilation
  std::int64_t arena_bytes = 0;
  WeightLayout weights;
  std::map<int, int> aliased_outputs;  // output -> the input whose memory it is
};

// The fields that all manifests have, in their order: the interface, memory, files, weights, groups. Targets
// append theirs.
nlohmann::ordered_json common_manifest(const ProgramFacts& facts, const ir::Schedule& schedule);

std::string manifest_path(const std::string& dir);
std::string manifest_text(const nlohmann::ordered_json& manifest);
// Stands in a folder while the files of one program replace those of another: names both.
std::string unfinished_manifest(const std::vector<std::string>& files);

// What Braid itself reads of a manifest.
struct Manifest {
  std::string name;
  std::string target;
  std::uint64_t id = 0;
  std::vector<std::string> files;  // the program's; libraries may not have been built yet
};

inline constexpr int kNoProgram = 8, kUnfinishedProgram = 16;
// User errors BR0008 where the folder holds no program, BR0016 where a compilation into it was cut off.
Manifest read_manifest(const std::string& dir);
// The files that the manifest in `dir` names, be it finished or not. Nothing where there is none of Braid's.
std::optional<std::vector<std::string>> files_of_program(const std::string& dir);

}  // namespace braid::codegen
