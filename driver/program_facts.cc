#include "driver/program_facts.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "codegen/manifest.h"
#include "codegen/trace_json.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid {

using nlohmann::ordered_json;

namespace {

ProgramFacts read_facts(const std::string& dir) {
  const ordered_json m = codegen::manifest_json(dir).value();
  ProgramFacts out;
  for (const char* key : {"name", "target", "ranks", "mesh", "dims", "inputs", "outputs", "planned"}) {
    if (m.contains(key)) out.facts[key] = m[key];
  }
  std::int64_t weights = 0;
  for (const ordered_json& w : m.value("weights", ordered_json::array())) weights += w.value("bytes", 0ll);
  out.facts["weight_bytes"] = weights;
  const ir::CollectiveTrace trace = codegen::read_program_trace(dir);
  std::map<std::string, int> counts;
  out.collectives_in_order = ordered_json::array();
  for (const ir::TraceEvent& e : trace.events) {
    if (e.step != ir::TraceEvent::Step::start) continue;
    ++counts[std::string(to_string(e.kind))];
    const ir::CommGroup& group = trace.groups[static_cast<std::size_t>(e.group)];
    out.collectives.push_back(fmt::format("{} over {}", describe(e), group.name));
    out.collectives_in_order.push_back({{"kind", to_string(e.kind)},
                                        {"group", group.name},
                                        {"payload", e.payload},
                                        {"blocking", e.blocking},
                                        {"nodes", e.origins}});
  }
  out.facts["collectives"] = counts;
  out.facts["files"] = ordered_json::array();
  for (const ordered_json& f : m.value("files", ordered_json::array())) {
    std::error_code missing;
    const auto bytes = std::filesystem::file_size(std::filesystem::path(dir) / f.get<std::string>(), missing);
    out.facts["files"].push_back({{"name", f}, {"bytes", missing ? ordered_json() : ordered_json(bytes)}});
  }
  return out;
}

}  // namespace

ProgramFacts program_facts(const std::string& dir) {
  (void)codegen::read_manifest(dir);  // throws if the folder has no program
  try {
    return read_facts(dir);
  } catch (const nlohmann::json::exception& error) {
    ir::user_error(errors::kNoProgram, {.file = codegen::manifest_path(dir)},
                   fmt::format("not the manifest of a compiled program: {}", error.what()),
                   "compile the model again");
  }
}

}  // namespace braid
