#include "split/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>

#include "ir/coordinate.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::split {

int Mesh::ranks() const { return ranks_before(size()); }

int Mesh::ranks_before(int axis) const {
  return std::accumulate(axes.begin(), axes.begin() + axis, 1,
                         [](int n, const MeshAxis& a) { return n * a.size; });
}

int Mesh::stride(int axis) const { return ir::stride_of(axes, axis); }

int Mesh::find(const std::string& name) const {
  for (int axis = 0; axis < size(); ++axis) {
    if (axes[axis].name == name) return axis;
  }
  return -1;
}

std::string to_string(const Mesh& mesh) {
  if (!mesh.has_names()) return fmt::format("{}", mesh.ranks());
  std::string text;
  for (const MeshAxis& axis : mesh.axes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", axis.name, axis.size);
  return text;
}

namespace {

constexpr std::int64_t kMostMeshRanks = 1024;

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_name(std::string_view text) {
  const auto letter = [](unsigned char c) { return std::isalpha(c) != 0 || c == '_'; };
  return !text.empty() && letter(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(),
                     [&](unsigned char c) { return letter(c) || std::isdigit(c) != 0; });
}

}  // namespace

Mesh parse_mesh(const std::string& text, const std::string& what) {
  const auto refuse = [&](const std::string& why) {
    ir::user_error(
        errors::kSplitRequest, {}, fmt::format("{} {}: {}", what, text, why),
        "write the axes with their sizes, such as dp=2,tp=4: ranks along the last one are neighbours");
  };
  Mesh mesh;
  std::int64_t ranks = 1;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    const std::size_t equals = one.find('=');
    const std::string_view name = trimmed(one.substr(0, equals));
    if (equals == std::string_view::npos || !is_name(name))
      refuse(fmt::format("'{}' is no axis with a size", trimmed(one)));
    const std::string_view digits = trimmed(one.substr(equals + 1));
    int size = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (error != std::errc() || end != digits.data() + digits.size() || size < 1 || size > kMostMeshRanks)
      refuse(fmt::format("the size of axis '{}' is '{}', expected 1 to {}", name, digits, kMostMeshRanks));
    if (mesh.find(std::string(name)) >= 0) refuse(fmt::format("axis '{}' is given twice", name));
    ranks *= size;
    if (ranks > kMostMeshRanks) refuse(fmt::format("there are more than {} ranks", kMostMeshRanks));
    mesh.axes.push_back({std::string(name), size});
    if (comma == std::string_view::npos) return mesh;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<Mesh> meshes_of(int ranks, int axes) {
  std::vector<std::vector<int>> sizes = {{}};
  for (int k = 0; k < axes; ++k) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& known : sizes) {
      const int left = std::accumulate(known.begin(), known.end(), ranks, [](int n, int s) { return n / s; });
      for (int s = 2; s <= left; ++s) {
        if (left % s != 0 || (k + 1 == axes && s != left)) continue;
        longer.push_back(known);
        longer.back().push_back(s);
      }
    }
    sizes = std::move(longer);
  }
  constexpr const char* kNames[] = {"dp", "ep", "tp"};
  std::vector<Mesh> meshes;
  for (const std::vector<int>& own : sizes) {
    Mesh& mesh = meshes.emplace_back();
    for (int k = 0; k < axes; ++k) {
      const bool last = k + 1 == axes;
      const std::string name = last ? "tp" : k < 2 ? kNames[k] : fmt::format("axis{}", k);
      mesh.axes.push_back({name, own[k]});
    }
  }
  return meshes;
}

std::size_t MeshSpecHash::operator()(const MeshSpec& spec) const {
  std::uint64_t hash = spec.size();
  const auto mix = [&](std::uint64_t next) { hash = (hash ^ next ^ (hash >> 29)) * 0x9e3779b97f4a7c15u; };
  for (const Spec& own : spec) {
    mix(static_cast<std::uint64_t>(own.kind) + 4 * static_cast<std::uint64_t>(own.reduce) +
        std::uint64_t{64} * own.dim);
    for (const std::int64_t block : own.blocks) mix(block);
  }
  return hash;
}

std::string to_string(const MeshSpec& spec, const Mesh& mesh) {
  if (!mesh.has_names()) return to_string(spec.at(0));
  std::string text;
  for (std::size_t k = 0; k < spec.size(); ++k) {
    if (spec[k].is_replicated()) continue;
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", to_string(spec[k]), mesh.axes[k].name);
  }
  return text.empty() ? "R" : text;
}

std::optional<MeshSpec> parse_mesh_spec(std::string_view text, const Mesh& mesh) {
  constexpr std::string_view kOn = " on ", kNext = ", ";
  MeshSpec spec(mesh.axes.size());
  if (text == "R") return spec;
  std::vector<bool> given(spec.size(), false);
  while (!text.empty()) {
    std::string_view own = text.substr(0, text.find(kNext));
    text.remove_prefix(std::min(text.size(), own.size() + kNext.size()));
    int axis = spec.size() == 1 ? 0 : -1;
    if (const std::size_t on = own.find(kOn); on != std::string_view::npos) {
      axis = mesh.find(std::string(own.substr(on + kOn.size())));
      own = own.substr(0, on);
    }
    const std::optional<Spec> state = parse_spec(own);
    if (!state || axis < 0 || given[axis]) return std::nullopt;
    spec[axis] = *state;
    given[axis] = true;
  }
  return spec;
}

bool is_replicated(const MeshSpec& spec) {
  return std::all_of(spec.begin(), spec.end(), [](const Spec& s) { return s.is_replicated(); });
}

bool is_pending(const MeshSpec& spec) { return std::ranges::any_of(spec, &Spec::is_pending); }

int parts_of(const MeshSpec& spec, const Mesh& mesh) {
  int parts = 1;
  for (std::size_t k = 0; k < spec.size(); ++k) parts *= spec[k].is_split() ? mesh.axes[k].size : 1;
  return parts;
}

namespace {

// Whether the list is one shorter list `times` times; then that one.
std::optional<Blocks> repeated(const Blocks& blocks, int times) {
  const auto n = std::ssize(blocks) / times;
  if (n == 0 || std::ssize(blocks) % times != 0) return std::nullopt;
  for (auto k = n; k < std::ssize(blocks); ++k) {
    if (blocks[k] != blocks[k - n]) return std::nullopt;
  }
  return Blocks(blocks.begin(), blocks.begin() + n);
}

bool all_divisible(const Blocks& blocks, int parts) {
  return std::all_of(blocks.begin(), blocks.end(), [&](std::int64_t b) { return b > 0 && b % parts == 0; });
}

// Two splits of one dimension of that size: the second one as a state of the parts of the first.
std::optional<Spec> after(const Spec& first, int parts, const Spec& next, int next_parts, std::int64_t size) {
  const Blocks one = first.blocks.empty() ? Blocks{size} : first.blocks;
  const Blocks two = next.blocks.empty() ? Blocks{size} : next.blocks;
  if (one == two) {
    if (!all_divisible(one, parts * next_parts)) return std::nullopt;
    Blocks own = one;
    for (std::int64_t& block : own) block /= parts;
    return Spec::split(next.dim, std::move(own));
  }
  if (first.blocks.empty()) {  // parts are made of whole blocks
    std::optional<Blocks> own = repeated(two, parts);
    if (!own || !all_divisible(*own, next_parts)) return std::nullopt;
    return Spec::split(next.dim, std::move(*own));
  }
  if (next.blocks.empty() && repeated(one, next_parts) && all_divisible(one, parts))
    return Spec::split(next.dim);
  return std::nullopt;
}

}  // namespace

bool may_pad(const MeshSpec& spec, int axis, std::int64_t size, const Mesh& mesh) {
  for (int j = 0; j < count_of(spec); ++j) {
    if (j != axis && spec[j].is_split() && spec[j].dim == spec[axis].dim) return false;
  }
  return spec[axis].blocks.empty() && can_pad(size, mesh.axes[axis].size);
}

bool is_padded(const MeshSpec& spec, const std::vector<std::int64_t>& sizes, const Mesh& mesh) {
  for (std::size_t k = 0; k < spec.size(); ++k) {
    // The sizes of a value without readers may be unknown.
    if (!spec[k].is_split() || spec[k].dim >= count_of(sizes)) continue;
    const std::int64_t size = sizes[spec[k].dim];
    if (size > 0 && spec[k].blocks.empty() && size % mesh.axes[k].size != 0) return true;
  }
  return false;
}

std::optional<MeshSpec> cut_in_turn(const MeshSpec& whole, const std::vector<std::int64_t>& sizes,
                                    const Mesh& mesh) {
  MeshSpec result;
  std::optional<ir::ReduceKind> reduce;
  for (int k = 0; k < count_of(whole); ++k) {
    Spec own = whole[k];
    if (own.is_pending()) {
      if (reduce && *reduce != own.reduce) return std::nullopt;
      reduce = own.reduce;
    }
    if (own.is_split()) {
      std::int64_t size = sizes.at(own.dim);
      const bool even = all_divisible(own.blocks.empty() ? Blocks{size} : own.blocks, mesh.axes[k].size);
      if (size <= 0 || (!even && !may_pad(whole, k, size, mesh))) return std::nullopt;
      for (int j = 0; j < k; ++j) {
        if (!result[j].is_split() || result[j].dim != own.dim) continue;
        const std::optional<Spec> next = after(result[j], mesh.axes[j].size, own, mesh.axes[k].size, size);
        if (!next) return std::nullopt;
        own = *next;
        size /= mesh.axes[j].size;
      }
    }
    result.push_back(std::move(own));
  }
  return result;
}

}  // namespace braid::split
