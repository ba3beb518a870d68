#include "cli/program_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/bytes_text.h"
#include "codegen/manifest.h"
#include "driver/program_facts.h"
#include "harness/program.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::cli {
namespace {

using nlohmann::ordered_json;

std::string shape_of(const ordered_json& tensor, const char* key) {
  std::vector<std::string> sizes;
  for (const ordered_json& s : tensor.value(key, ordered_json::array()))
    sizes.push_back(s.is_string() ? s.get<std::string>() : s.dump());
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

// "f32[1, 6, 64], the part S(1) of [1, 12, 64]"
std::string type_of(const ordered_json& tensor) {
  std::string text = tensor.value("dtype", "") + shape_of(tensor, "shape");
  if (const auto part = tensor.find("part"); part != tensor.end())
    text += fmt::format(", the part {} of {}", part->value("state", ""), shape_of(*part, "whole"));
  return text;
}

void tell_facts(const ordered_json& facts, Report& report) {
  const int ranks = facts.value("ranks", 1);
  report.print("program {} for {}, {} rank{}\n", facts.value("name", ""), facts.value("target", ""), ranks,
               ranks == 1 ? "" : "s");
  for (const ordered_json& d : facts.value("dims", ordered_json::array()))
    report.print("dim     {} in [{}, {}]\n", d.value("name", ""), d.value("min", 0), d.value("max", 0));
  for (const ordered_json& t : facts.value("inputs", ordered_json::array()))
    report.print("input   {}: {}{}\n", t.value("name", ""), type_of(t),
                 t.value("written", false) ? ", written by a step" : "");
  for (const ordered_json& t : facts.value("outputs", ordered_json::array()))
    report.print("output  {}: {}\n", t.value("name", ""), type_of(t));
  report.print("weights {}, of all ranks\n", bytes_text(facts["weight_bytes"].get<std::int64_t>()));
  for (const auto& [kind, count] : facts["collectives"].items())
    report.print("collective {} x {}\n", kind, count.get<int>());
  if (const auto planned = facts.find("planned"); planned != facts.end() && planned->is_object()) {
    report.print("memory of a rank: arena {}, communication segment {}\n",
                 bytes_text(planned->value("arena_bytes", 0ll)),
                 bytes_text(planned->value("comm_bytes", 0ll)));
  }
  for (const ordered_json& f : facts["files"]) {
    const ordered_json& bytes = f["bytes"];
    report.print("file    {:<24} {}\n", f["name"].get<std::string>(),
                 bytes.is_null() ? "not built" : bytes_text(bytes.get<std::int64_t>()));
  }
  report.json().update(facts);
}

}  // namespace

void tell_program(const std::string& dir, Report& report) {
  const ordered_json facts = program_facts(dir).facts;
  try {
    tell_facts(facts, report);
  } catch (const nlohmann::json::exception& error) {
    ir::user_error(errors::kNoProgram, {.file = codegen::manifest_path(dir)},
                   fmt::format("a field is not as braid compile writes it: {}", error.what()),
                   "compile the model again");
  }
}

void tell_collectives(const std::string& dir, Report& report) {
  const ProgramFacts facts = program_facts(dir);
  int sequence = 0;
  for (const std::string& collective : facts.collectives) {
    if (sequence == 0) report.print("\nCollectives in issue order\n");
    report.print("  {:>4}  {}\n", sequence++, collective);
  }
  if (sequence > 0) report.json()["collectives_in_order"] = facts.collectives_in_order;
}

void tell_nodes(const std::string& dir, Report& report) {
  const codegen::Manifest manifest = codegen::read_manifest(dir);
  if (codegen::target_named(manifest.target).abi != codegen::ProgramAbi::host) {
    ir::user_error(errors::kBadOption, {.file = dir},
                   "--kernels lists those of compiled CPU programs and of models",
                   "explain the model with --target cuda --kernels");
  }
  const std::shared_ptr<const harness::Program> program =
      harness::load_program(harness::find_program(dir, harness::DeviceChoice::automatic, dir));
  report.print("\nKernels in order\n");
  int number = 0;
  for (const BraidNode& node : program->nodes()) {
    report.print("  {:>4}  {:<28} {}\n", number++, node.name, node.label);
    report.json()["nodes"].push_back({{"name", node.name}, {"label", node.label}});
  }
}

}  // namespace braid::cli
