// The ranks as a grid with named axes, and states on all of its axes.
//
// On [dp=2, tp=4], rank 4*i + j has the coordinates (i, j), so members of a group along the last axis are
// neighbours. Each axis has a state of its own (spec.h). A later axis cuts what the axes before it have left:
// on a dimension that both split, parts of dp lie one after another and each of them is cut by tp. A tensor
// that is pending on both is the sum over dp of sums over tp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/comm_group.h"
#include "split/ids.h"
#include "split/spec.h"

namespace braid::split {

using ir::MeshAxis;

struct Mesh {
  ir::Mesh axes;  // one axis without a name has the name ""

  // One axis without a name.
  static Mesh line(int ranks) { return {{{"", ranks}}}; }
  int size() const { return count_of(axes); }
  int ranks() const;
  // The number of ranks along all axes before this one together.
  int ranks_before(int axis) const;
  // The distance from one member of a group along the axis to the next.
  int stride(int axis) const;
  int find(const std::string& name) const;  // -1: none
  bool has_names() const { return !axes.empty() && !axes[0].name.empty(); }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

// "dp=2, tp=4" or "8".
std::string to_string(const Mesh& mesh);
// Parses "dp=2, tp=4": names of letters, digits and _, sizes of at least 1. Throws UserError kSplitRequest if
// the text is malformed, an axis is given twice, or there are more than 1024 ranks; `what` says where the
// text is from.
Mesh parse_mesh(const std::string& text, const std::string& what);
// Returns all meshes of that many ranks with that many axes of at least 2 each, in the order of their sizes;
// names are dp, tp or dp, ep, tp.
std::vector<Mesh> meshes_of(int ranks, int axes);

// States by axis.
using MeshSpec = std::vector<Spec>;
struct MeshSpecHash {
  std::size_t operator()(const MeshSpec& spec) const;
};
// "S(0) on dp, S(1) on tp"; "R" if it is replicated on all axes; as to_string(Spec) if the mesh has no names.
std::string to_string(const MeshSpec& spec, const Mesh& mesh);
// Parses the output of to_string; a mesh of one axis needs no name. Returns nullopt if it is no state on that
// mesh.
std::optional<MeshSpec> parse_mesh_spec(std::string_view text, const Mesh& mesh);
bool is_replicated(const MeshSpec& spec);
bool is_pending(const MeshSpec& spec);  // on any axis
// The number of parts of a tensor in that state.
int parts_of(const MeshSpec& spec, const Mesh& mesh);

// Whether an axis may split that dimension into padded parts: no other axis splits it.
bool may_pad(const MeshSpec& spec, int axis, std::int64_t size, const Mesh& mesh);
// Whether some axis does so. `sizes` are those of the whole tensor; negative if only known at run time.
bool is_padded(const MeshSpec& spec, const std::vector<std::int64_t>& sizes, const Mesh& mesh);

// Converts states that rules give for the whole tensor on each axis alone to states of what the axes before
// have left: a dimension that several axes split is cut again and again. `sizes` are those of the whole
// tensor; negative if only known at run time. Returns nullopt if its sizes or blocks cannot be cut that way,
// or if it would be pending with two reductions.
std::optional<MeshSpec> cut_in_turn(const MeshSpec& whole, const std::vector<std::int64_t>& sizes,
                                    const Mesh& mesh);

}  // namespace braid::split
