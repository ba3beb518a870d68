#include "cli/pass_json.h"

#include <nlohmann/json.hpp>

namespace braid::cli {

nlohmann::ordered_json passes_json(std::span<const passes::PassRecord> records) {
  constexpr const char* kOutcomes[] = {"changed", "unchanged", "disabled", "bisected"};
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const passes::PassRecord& r : records) {
    all.push_back({{"name", r.name},
                   {"outcome", kOutcomes[static_cast<int>(r.outcome)]},
                   {"milliseconds", r.seconds * 1e3},
                   {"verify_milliseconds", r.verify_seconds * 1e3}});
  }
  return all;
}

nlohmann::ordered_json known_passes_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const passes::Pass& pass : passes::pass_registry().all()) {
    nlohmann::ordered_json& entry = all.emplace_back();
    entry = {{"name", pass.name()}, {"description", pass.description()}};
    for (const passes::OptionInfo& o : pass.options())
      entry["options"].push_back({{"name", o.name}, {"default", o.default_value}, {"help", o.help}});
  }
  return all;
}

}  // namespace braid::cli
