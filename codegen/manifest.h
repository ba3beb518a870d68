// manifest.json describes a compiled program and lists its files. Shared by all targets.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
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
  std::map<int, int> aliased_outputs;  // output -> the input whose memory it shares
};

// The fields of all manifests, in order: interface, memory, files, weights, groups. Targets append theirs.
nlohmann::ordered_json common_manifest(const ProgramFacts& facts, const ir::Schedule& schedule);

std::string manifest_path(const std::string& dir);
// nullopt if `dir` has no manifest that is a JSON object.
std::optional<nlohmann::ordered_json> manifest_json(const std::string& dir);
std::string manifest_text(const nlohmann::ordered_json& manifest);
// The manifest of a folder while one program's files replace another's: it names the files of both.
std::string unfinished_manifest(const std::vector<std::string>& files);

// The part of a manifest that Braid itself reads.
struct Manifest {
  std::string name;
  std::string target;
  std::uint64_t id = 0;
  std::vector<std::string> files;  // the program's; libraries may not have been built yet
};

// User errors BR0008 if the folder holds no program, BR0016 if a compilation into it was interrupted.
Manifest read_manifest(const std::string& dir);
// The files named by the manifest in `dir`, finished or not. nullopt if there is no manifest of Braid's.
std::optional<std::vector<std::string>> files_of_program(const std::string& dir);

}  // namespace braid::codegen
