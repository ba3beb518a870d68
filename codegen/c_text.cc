#include "codegen/c_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/coordinate.h"
#include "ir/element.h"
#include "ir/error.h"

namespace braid::codegen {

std::string c_identifier(std::string_view name) {
  std::string out;
  for (char c : name) {
    const bool good = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (good) {
      out += c;
    } else if (!out.empty() && out.back() != '_') {
      out += '_';
    }
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  if (out.empty()) return "n";
  if (std::isdigit(static_cast<unsigned char>(out[0])) != 0) out.insert(0, "n_");
  return out;
}

std::string dim_identifier(ir::Expr dim) {
  const bool coordinate = ir::is_coordinate(dim);
  std::string name = dim.dim_name();
  if (coordinate) name = name.substr(name.find('(') + 1, name.size() - name.find('(') - 2);
  const std::string text = c_identifier(name);
  if (text == name) return (coordinate ? "coordinate_" : "dim_") + text;
  return fmt::format("{}_{}_{:016x}", coordinate ? "coordinates" : "dimension", text,
                     ir::fnv1a(reinterpret_cast<const std::byte*>(name.data()), name.size()));
}

std::string coordinate_text(const ir::Mesh& mesh, ir::Expr coordinate, std::string_view rank) {
  const std::optional<int> axis = ir::axis_of(mesh, coordinate);
  ir::internal_check(axis.has_value(), "the mesh has no axis of {}", coordinate.dim_name());
  return fmt::format("{} / {} % {}", rank, ir::stride_of(mesh, *axis),
                     mesh[static_cast<std::size_t>(*axis)].size);
}

std::string c_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20 || u >= 0x7f) {
      out += fmt::format("\\{:03o}", u);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string c_comment(std::string_view text) {
  std::string out;
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    out += u < 0x20 || u == 0x7f || c == '\\' ? ' ' : c;
  }
  return out;
}

std::string abi_dtype(ir::DType dtype) {
  dtype = byte_type(dtype);
  std::string name = "BRAID_";
  for (char c : ir::to_string(dtype)) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string abi_ranks(const ir::CommGroup& group) {
  std::string text;
  for (const std::vector<int>& part : group.parts)
    text += (text.empty() ? "" : ", ") + fmt::format("{}", fmt::join(part, ", "));
  return text;
}

std::string CNames::unique(std::string_view wanted) {
  std::string name(wanted);
  for (int k = 2; !taken_.insert(name).second; ++k) name = fmt::format("{}_{}", wanted, k);
  return name;
}

namespace {

// Returns the commas after which a statement may be broken, by bracket depth: the last one of each depth
// within `room` columns. Empty if the statement fits. A comment after the statement stays whole.
std::vector<std::size_t> breaks(std::string_view statement, std::size_t room) {
  std::vector<std::size_t> last;
  std::size_t depth = 0, k = 0;
  bool quoted = false;
  for (; k < statement.size(); ++k) {
    const char c = statement[k];
    if (c == '"' && (k == 0 || statement[k - 1] != '\\')) quoted = !quoted;
    if (quoted) continue;
    if (statement.substr(k).starts_with("//")) break;
    if (c == '(' || c == '{' || c == '[') ++depth;
    if ((c == ')' || c == '}' || c == ']') && depth > 0) --depth;
    if (k >= room || !statement.substr(k).starts_with(", ")) continue;
    if (last.size() <= depth) last.resize(depth + 1, 0);
    last[depth] = k + 1;
  }
  return k <= room ? std::vector<std::size_t>{} : last;
}

}  // namespace

std::string wrapped(std::string_view statement, std::size_t indent) {
  constexpr std::size_t kColumns = 110;
  if (statement.empty()) return "\n";
  std::string out;
  const std::size_t first = std::min(statement.find_first_not_of(' '), statement.size());
  std::size_t margin = indent;
  for (;;) {
    const std::size_t room = margin < kColumns ? kColumns - margin : 0;
    const std::vector<std::size_t> places = breaks(statement, room);
    if (places.empty()) return out + std::string(margin, ' ') + std::string(statement) + "\n";
    // Breaks at the lowest depth that leaves a line at least a quarter full.
    const auto full_enough =
        std::find_if(places.begin(), places.end(), [&](std::size_t k) { return 4 * k >= room; });
    const std::size_t cut =
        full_enough != places.end() ? *full_enough : *std::max_element(places.begin(), places.end());
    out += std::string(margin, ' ') + std::string(statement.substr(0, cut)) + "\n";
    statement.remove_prefix(cut + 1);
    margin = indent + first + 4;
  }
}

}  // namespace braid::codegen
