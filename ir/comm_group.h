// Groups of ranks, and the mesh of named axes from which most of them come.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace braid::ir {

inline constexpr int kMaxRanks = 65536;

// Disjoint lists of ranks, all of one length.
using Parts = std::vector<std::vector<int>>;

// A communicator, or several independent ones: each part runs the group's collectives among its own members,
// with results of their own in one buffer of the program. The ordinary group has one part. Position in the
// part is the rank within the group. A rank in no part skips the group's collectives.
struct CommGroup {
  std::string name;
  Parts parts;

  std::int64_t size() const {
    return parts.empty() ? 0 : static_cast<std::int64_t>(parts.front().size());
  }  // of a part
  std::int64_t members() const {
    return size() * static_cast<std::int64_t>(parts.size());
  }  // of all parts together
  // The part with this rank, null if there is none. Linear in members().
  const std::vector<int>* part_of(int rank) const;
  // Returns what is wrong with the group in a world of `world` ranks: no ranks, parts of different lengths, a
  // rank that occurs twice or is out of range. Empty if it is valid.
  std::string fault(int world) const;
  friend bool operator==(const CommGroup&, const CommGroup&) = default;
};
// "0 1", or "0 1 | 2 3" of several parts.
std::string parts_text(const Parts& parts);

// Ranks as points of a grid; the last axis varies fastest.
struct MeshAxis {
  std::string name;
  int size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};
using Mesh = std::vector<MeshAxis>;

// Returns what is wrong with the mesh in a world of `world` ranks: two axes of one name, a size below 1,
// sizes whose product is not `world`. Empty if it is valid, or has no axes.
std::string mesh_fault(const Mesh& mesh, int world);
// Splits the ranks into parts that differ only along `axes` (indices into a valid mesh, none twice). In each
// part the first of the axes is the outermost, and the last varies fastest. Parts are in the order of their
// first ranks.
Parts parts_along(const Mesh& mesh, std::span<const int> axes);
// Returns the axes, in the mesh's order, from which parts_along() makes `parts`; nullopt if there are none.
// Axes of size 1 are left out, so parts of one rank give nullopt.
std::optional<std::vector<int>> axes_of(const Mesh& mesh, const Parts& parts);

}  // namespace braid::ir
