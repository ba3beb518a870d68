#include "codegen/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "codegen/c_text.h"
#include "codegen/index_limits.h"
#include "codegen/target.h"
#include "codegen/trace_json.h"
#include "ir/capacity.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/written_inputs.h"

namespace braid::codegen {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

ordered_json size(ir::Expr e) {
  return e.is_constant() ? ordered_json(e.constant()) : ordered_json(to_string(e));
}

ordered_json shape(const std::vector<ir::Expr>& sizes) {
  ordered_json all = ordered_json::array();
  for (ir::Expr e : sizes) all.push_back(size(e));
  return all;
}

template <class Interface>
ordered_json tensor(const ir::Graph& graph, const Interface& i) {
  ordered_json t;
  t["name"] = i.name;
  t["dtype"] = std::string(to_string(graph[i.buffer].dtype));
  t["shape"] = shape(graph[i.buffer].sizes);
  if (const auto room = ir::capacities(graph, i.buffer)) t["capacities"] = *room;
  if (i.part) t["part"] = {{"state", i.part->state}, {"whole", shape(i.part->whole)}};
  return t;
}

}  // namespace

ordered_json common_manifest(const ProgramFacts& facts, const ir::Schedule& schedule) {
  const ir::Graph& graph = schedule.graph;
  ordered_json m;
  m["name"] = facts.name;
  m["target"] = facts.target;
  m["abi_version"] = facts.abi_version;
  m["entry"] = facts.entry;
  m["compilation_id"] = fmt::format("{:016x}", facts.id);
  m["ranks"] = graph.ranks;
  for (const ir::MeshAxis& axis : graph.mesh)
    m["mesh"].push_back({{"name", axis.name}, {"ranks", axis.size}});
  m["dims"] = ordered_json::array();
  for (ir::Expr d : graph.dims)
    m["dims"].push_back({{"name", d.dim_name()}, {"min", ir::bounds(d).min}, {"max", ir::bounds(d).max}});
  m["inputs"] = ordered_json::array();
  const std::vector<std::optional<ir::Expr>> limits = index_limits(schedule);
  const std::vector<bool> written = ir::written_inputs(schedule);
  for (std::size_t k = 0; k < graph.inputs.size(); ++k) {
    ordered_json t = tensor(graph, graph.inputs[k]);
    if (limits[k]) t["index_below"] = size(*limits[k]);
    if (written[k]) t["written"] = true;
    m["inputs"].push_back(std::move(t));
  }
  m["outputs"] = ordered_json::array();
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    ordered_json t = tensor(graph, graph.outputs[k]);
    if (const auto alias = facts.aliased_outputs.find(static_cast<int>(k));
        alias != facts.aliased_outputs.end())
      t["alias_of"] = graph.inputs[static_cast<std::size_t>(alias->second)].name;
    if (!graph.outputs[k].classes.empty()) t["classes"] = graph.outputs[k].classes;
    m["outputs"].push_back(std::move(t));
  }
  m["arena_bytes"] = facts.arena_bytes;
  m["planned"] = ordered_json::object();
  if (schedule.plan) {
    m["planned"] = {{"arena_bytes", schedule.plan->arena_bytes},
                    {"comm_bytes", schedule.plan->comm_bytes},
                    {"live_peak_bytes", schedule.plan->live_peak_bytes}};
  }
  m["files"] = ordered_json::array();
  for (const std::string& kind : target_named(facts.target).files) m["files"].push_back(facts.name + kind);
  for (const std::string& file : weight_files(graph, facts.weights)) m["files"].push_back(file);
  m["weights"] = ordered_json::array();
  for (const std::string& file : weight_files(graph, facts.weights)) {
    m["weights"].push_back(
        {{"file", file},
         {"bytes", file == "weights.bin" ? facts.weights.shared_bytes : facts.weights.rank_bytes}});
  }
  m["groups"] = ordered_json::array();
  for (const ir::CommGroup& g : graph.groups) {
    ordered_json group = {{"name", g.name}};
    if (g.parts.size() == 1)
      group["ranks"] = g.parts[0];
    else
      group["parts"] = g.parts;
    m["groups"].push_back(std::move(group));
  }
  m["channels"] = std::string(to_string(schedule.channels));
  m["collective_trace"] = trace_json(ir::collective_trace(schedule, facts.name));
  return m;
}

namespace {

// Whether a standalone program has such a file besides its source.
bool is_standalone_file(const std::string& name) {
  if (name == "CMakeLists.txt") return true;
  constexpr std::string_view kKinds[] = {".h", ".inc", ".cc", ".cu", ".cmake"};
  const fs::path path = name;
  if (!name.starts_with("runtime/") || path != path.lexically_normal() ||
      name.find("..") != std::string::npos)
    return false;
  return std::find(std::begin(kKinds), std::end(kKinds), path.extension()) != std::end(kKinds);
}

// Whether programs have such a file: nothing else is ever replaced or removed, whatever a manifest names.
bool is_program_file(const std::string& name) {
  if (name == "weights.bin") return true;
  constexpr std::string_view kRank = "weights.rank", kBin = ".bin";
  if (name.starts_with(kRank) && name.ends_with(kBin) && name.size() > kRank.size() + kBin.size()) {
    const std::string_view number =
        std::string_view(name).substr(kRank.size(), name.size() - kRank.size() - kBin.size());
    return std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  }
  if (is_standalone_file(name)) return true;
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos || c_identifier(name.substr(0, dot)) != name.substr(0, dot)) return false;
  const std::string kind = name.substr(dot);
  return std::any_of(targets().begin(), targets().end(), [&](const Target& target) {
    return std::find(target.files.begin(), target.files.end(), kind) != target.files.end();
  });
}

// The program's files, as the manifest lists them; those of older manifests follow from the program's name.
std::optional<std::vector<std::string>> named_files(const ordered_json& json) {
  std::vector<std::string> files;
  const auto list = json.find("files");
  if (list == json.end()) {
    const auto name = json.find("name");
    if (name == json.end() || !name->is_string() || !json.contains("entry")) return std::nullopt;
    for (const Target& target : targets()) {
      for (const std::string& kind : target.files) files.push_back(name->get<std::string>() + kind);
    }
    files.emplace_back("weights.bin");
    if (const auto ranks = json.find("ranks"); ranks != json.end() && ranks->is_number_unsigned()) {
      for (std::uint64_t r = 0; r < std::min<std::uint64_t>(ranks->get<std::uint64_t>(), 1024); ++r)
        files.push_back(fmt::format("weights.rank{}.bin", r));
    }
  } else {
    if (!list->is_array()) return std::nullopt;
    for (const ordered_json& file : *list) {
      if (!file.is_string()) return std::nullopt;
      files.push_back(file.get<std::string>());
    }
  }
  if (!std::all_of(files.begin(), files.end(), is_program_file)) return std::nullopt;
  return files;
}

}  // namespace

std::string manifest_path(const std::string& dir) { return (fs::path(dir) / "manifest.json").string(); }

std::optional<ordered_json> manifest_json(const std::string& dir) {
  const std::string path = manifest_path(dir);
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;  // a pipe would wait for its writer
  std::ifstream file(path, std::ios::binary);
  ordered_json json = ordered_json::parse(file, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

std::string manifest_text(const ordered_json& manifest) {
  return manifest.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string unfinished_manifest(const std::vector<std::string>& files) {
  return manifest_text({{"unfinished", "a compilation into this folder is unfinished"}, {"files", files}});
}

std::optional<std::vector<std::string>> files_of_program(const std::string& dir) {
  const std::optional<ordered_json> json = manifest_json(dir);
  return json ? named_files(*json) : std::nullopt;
}

Manifest read_manifest(const std::string& dir) {
  const std::string path = manifest_path(dir);
  const auto refuse = [&](const std::string& why) {
    ir::user_error(errors::kNoProgram, {.file = path}, why,
                   "create one with: braid compile MODEL.onnx -o DIR");
  };
  const std::optional<ordered_json> json = manifest_json(dir);
  if (!json) {
    std::error_code ignored;
    const bool unreadable = fs::is_regular_file(path, ignored) && !std::ifstream(path).is_open();
    refuse(unreadable ? fmt::format("it cannot be read: {}", std::strerror(errno))
                      : std::string("there is no compiled program here"));
  }
  if (json->contains("unfinished")) {
    ir::user_error(errors::kUnfinishedProgram, {.file = dir},
                   "a compilation into this folder is unfinished, so its files may belong to two programs",
                   "wait for it to finish, or compile the model again");
  }
  const auto text = [&](const char* field) {
    const auto value = json->find(field);
    if (value == json->end() || !value->is_string())
      refuse(fmt::format("not the manifest of a compiled program: '{}' is not a string", field));
    return value->get<std::string>();
  };
  Manifest manifest;
  manifest.name = text("name");
  if (c_identifier(manifest.name) != manifest.name)
    refuse("not the manifest of a compiled program: 'name' is not an identifier");
  manifest.target = text("target");
  if (find_target(manifest.target) == nullptr)
    refuse("not the manifest of a compiled program: its 'target' is unknown");
  const std::string id = text("compilation_id");
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), manifest.id, 16);
  if (error != std::errc() || end != id.data() + id.size() || id.size() != 16 || manifest.id == 0)
    refuse(
        "not the manifest of a compiled program: 'compilation_id' is not a number of 16 hexadecimal digits");
  std::optional<std::vector<std::string>> files = named_files(*json);
  if (!files) refuse("not the manifest of a compiled program: 'files' does not list its files");
  manifest.files = std::move(*files);
  return manifest;
}

}  // namespace braid::codegen
