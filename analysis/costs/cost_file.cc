#include "analysis/costs/cost_file.h"

#include <nlohmann/json.hpp>

#include "ir/error_numbers.h"
#include "ir/input_file.h"
#include "ir/json_document.h"

namespace braid::analysis {

CostEntries parse_cost_file(const std::string& text, const std::string& file) {
  const ir::JsonDocument doc(text, file, errors::kCostFileNotJson, errors::kBadCostFile);
  ir::JsonObject root = doc.object();
  root.integer("version", 1, 1);
  CostEntries result;
  for (const auto& [name, value] : root.object("ns").entries())
    result.emplace(name, value.number({0, kMaxNs}));
  root.finish();
  return result;
}

CostEntries read_cost_file(const std::string& path) {
  return parse_cost_file(ir::read_text_file(path), path);
}

std::string write_cost_file(const CostEntries& entries) {
  nlohmann::ordered_json root;
  root["version"] = 1;
  root["ns"] = nlohmann::ordered_json::object();
  for (const auto& [name, ns] : entries) root["ns"][name] = ns;
  return root.dump(1) + "\n";
}

}  // namespace braid::analysis
