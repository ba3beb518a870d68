#include "cli/program_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/bytes_text.h"
#include "cli/errors.h"
#include "cli/execute.h"
#include "codegen/manifest.h"
#include "codegen/trace_json.h"
#include "ir/error.h"
#include "runtime/program.h"

namespace braid::cli {
namespace {

using nlohmann::ordered_json;

ordered_json manifest_of(const std::string& dir) {
  (void)codegen::read_manifest(dir);  // refuses what is no program
  std::ifstream file(codegen::manifest_path(dir));
  return ordered_json::parse(file, nullptr, false);
}

std::string type_of(const ordered_json& tensor) {
  std::vector<std::string> sizes;
  for (const ordered_json& s : tensor.value("shape", ordered_json::array()))
    sizes.push_back(s.is_string() ? s.get<std::string>() : s.dump());
  return fmt::format("{}[{}]", tensor.value("dtype", ""), fmt::join(sizes, ", "));
}

}  // namespace

void tell_program(const std::string& dir, Report& report) {
  const ordered_json m = manifest_of(dir);
  const int ranks = m.value("ranks", 1);
  report.print("program {} for {}, {} rank{}\n", m.value("name", ""), m.value("target", ""), ranks,
               ranks == 1 ? "" : "s");
  for (const ordered_json& d : m.value("dims", ordered_json::array()))
    report.print("dim     {} in [{}, {}]\n", d.value("name", ""), d.value("min", 0), d.value("max", 0));
  for (const ordered_json& t : m.value("inputs", ordered_json::array()))
    report.print("input   {}: {}{}\n", t.value("name", ""), type_of(t),
                 t.value("written", false) ? ", written by a step" : "");
  for (const ordered_json& t : m.value("outputs", ordered_json::array()))
    report.print("output  {}: {}\n", t.value("name", ""), type_of(t));

  std::int64_t weights = 0;
  for (const ordered_json& w : m.value("weights", ordered_json::array())) weights += w.value("bytes", 0ll);
  report.print("weights {}, of all ranks\n", bytes_text(weights));
  std::map<std::string, int> collectives;
  for (const ir::TraceEvent& e : codegen::read_program_trace(dir).events) {
    if (e.step == ir::TraceEvent::Step::start) ++collectives[std::string(to_string(e.kind))];
  }
  for (const auto& [kind, count] : collectives) report.print("collective {} x {}\n", kind, count);
  if (const auto planned = m.find("planned"); planned != m.end() && planned->is_object()) {
    report.print("memory of a rank: arena {}, communication segment {}\n",
                 bytes_text(planned->value("arena_bytes", 0ll)),
                 bytes_text(planned->value("comm_bytes", 0ll)));
  }
  ordered_json& json = report.json();
  for (const char* key : {"name", "target", "ranks", "dims", "inputs", "outputs", "planned"}) {
    if (m.contains(key)) json[key] = m[key];
  }
  json["weight_bytes"] = weights;
  json["collectives"] = collectives;
  json["files"] = ordered_json::array();
  for (const ordered_json& f : m.value("files", ordered_json::array())) {
    std::error_code missing;
    const auto bytes = std::filesystem::file_size(std::filesystem::path(dir) / f.get<std::string>(), missing);
    json["files"].push_back({{"name", f}, {"bytes", missing ? ordered_json() : ordered_json(bytes)}});
    report.print("file    {:<24} {}\n", f.get<std::string>(),
                 missing ? "not built" : bytes_text(static_cast<std::int64_t>(bytes)));
  }
}

void tell_collectives(const std::string& dir, Report& report) {
  const ir::CollectiveTrace trace = codegen::read_program_trace(dir);
  int sequence = 0;
  for (const ir::TraceEvent& e : trace.events) {
    if (e.step != ir::TraceEvent::Step::start) continue;
    if (sequence == 0) report.print("\nCollectives in issue order\n");
    const ir::CommGroup& group = trace.groups[static_cast<std::size_t>(e.group)];
    report.print("  {:>4}  {} over {}\n", sequence++, describe(e), group.name);
    report.json()["collectives_in_order"].push_back({{"kind", to_string(e.kind)},
                                                     {"group", group.name},
                                                     {"payload", e.payload},
                                                     {"blocking", e.blocking},
                                                     {"nodes", e.origins}});
  }
}

void tell_nodes(const std::string& dir, Report& report) {
  const codegen::Manifest manifest = codegen::read_manifest(dir);
  if (codegen::target_named(manifest.target).abi != codegen::ProgramAbi::host) {
    ir::user_error(kBadOption, {.file = dir}, "--kernels lists those of compiled CPU programs and of models",
                   "explain the model with --target cuda --kernels");
  }
  const ProgramFiles files = find_program(dir, DeviceChoice::automatic);
  const BraidProgram& table = *rt::load_program(files.library, files.id);
  report.print("\nKernels in order\n");
  for (int k = 0; k < table.node_count; ++k) {
    report.print("  {:>4}  {:<28} {}\n", k, table.nodes[k].name, table.nodes[k].label);
    report.json()["nodes"].push_back({{"name", table.nodes[k].name}, {"label", table.nodes[k].label}});
  }
}

}  // namespace braid::cli
