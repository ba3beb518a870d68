// Facts about a compiled program, read from its folder without the model: for `braid explain`, `braid
// inspect` and Python.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace braid {

struct ProgramFacts {
  // name, target, ranks, mesh, dims, inputs, outputs, planned as in the manifest; weight_bytes of all ranks;
  // collectives by kind; files with their bytes, null where one is not built.
  nlohmann::ordered_json facts;
  nlohmann::ordered_json collectives_in_order;  // kind, group, payload, blocking, nodes
  std::vector<std::string> collectives;         // the same, as a line each
};

// User errors of codegen::read_manifest and codegen::read_program_trace.
ProgramFacts program_facts(const std::string& dir);

}  // namespace braid
