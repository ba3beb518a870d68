#include "cli/output_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid::cli {

std::vector<std::string> output_names(const ProgramInterface& table) {
  std::vector<std::string> out;
  for (const auto& output : table.outputs) {
    std::string name = output.name;
    for (char& c : name) {
      if (c == '/' || c == '\0') c = '_';
    }
    const auto taken = [&](const std::string& n) {
      return std::find(out.begin(), out.end(), n) != out.end();
    };
    std::string file = name;
    for (int k = 2; taken(file); ++k) file = fmt::format("{}_{}", name, k);
    out.push_back(std::move(file));
  }
  return out;
}

}  // namespace braid::cli
