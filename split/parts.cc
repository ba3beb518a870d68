#include "split/parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <numeric>

#include "split/graph.h"

namespace braid::split {
namespace {

constexpr std::int64_t kPadding = -1;

using Positions = std::vector<std::int64_t>;  // of a dimension, or kPadding

Positions positions(std::int64_t count) {
  Positions all(count);
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

// Returns the positions of a rank's part of a dimension.
Positions part_of(const Positions& all, const AxisSpec& axis, int rank) {
  const std::int64_t size = std::ssize(all);
  const Positions order = order_of(axis.spec.blocks, size, axis.ranks);
  const std::int64_t own = std::ssize(order) / axis.ranks;
  Positions part;
  for (std::int64_t k = rank * own; k < (rank + 1) * own; ++k) {
    const bool padding = axis.spec.blocks.empty() && k >= size;
    part.push_back(padding ? kPadding : all[order[k]]);
  }
  return part;
}

// Copies elements at `kept` positions of each dimension; the others stay zero.
class Copy {
 public:
  Copy(const ir::Tensor& from, const std::vector<Positions>& kept, ir::Tensor& to)
      : from_(from), kept_(kept), to_(to), element_(ir::size_of(from.dtype)) {}

  void run(std::size_t dim = 0, std::int64_t from = 0, std::int64_t to = 0) {
    if (dim == kept_.size()) {
      std::memcpy(to_.bytes.data() + to * element_, from_.bytes.data() + from * element_, element_);
      return;
    }
    const Positions& kept = kept_[dim];  // ascending
    if (dim + 1 == kept_.size() && !kept.empty() && kept.front() == 0 &&
        kept.back() + 1 == std::ssize(kept)) {
      std::memcpy(to_.bytes.data() + to * kept.size() * element_,
                  from_.bytes.data() + from * from_.sizes[dim] * element_, kept.size() * element_);
      return;
    }
    for (std::size_t k = 0; k < kept.size(); ++k) {
      if (kept[k] != kPadding) run(dim + 1, from * from_.sizes[dim] + kept[k], to * std::ssize(kept) + k);
    }
  }

 private:
  const ir::Tensor& from_;
  const std::vector<Positions>& kept_;
  ir::Tensor& to_;
  std::size_t element_;
};

// By dimension: those of a rank's part of a tensor of that size.
std::vector<Positions> kept_of(const std::vector<std::int64_t>& sizes, const std::vector<AxisSpec>& axes,
                               int rank, bool padding) {
  std::vector<Positions> kept;
  for (const std::int64_t size : sizes) kept.push_back(positions(size));
  int ranks = 1;
  for (const AxisSpec& axis : axes) ranks *= axis.ranks;
  for (const AxisSpec& axis : axes) {
    ranks /= axis.ranks;
    if (!axis.spec.is_split()) continue;
    Positions& of_dim = kept.at(axis.spec.dim);
    of_dim = part_of(of_dim, axis, rank / ranks % axis.ranks);
  }
  if (!padding) {
    for (Positions& of_dim : kept) std::erase(of_dim, kPadding);
  }
  return kept;
}

ir::Tensor elements_at(const ir::Tensor& whole, const std::vector<Positions>& kept) {
  std::vector<std::int64_t> sizes;
  for (const Positions& of_dim : kept) sizes.push_back(std::ssize(of_dim));
  ir::Tensor part = ir::make_tensor(whole.dtype, sizes);
  Copy(whole, kept, part).run();
  return part;
}

}  // namespace

ir::Tensor part_of(const ir::Tensor& whole, const std::vector<AxisSpec>& axes, int rank, bool padding) {
  return elements_at(whole, kept_of(whole.sizes, axes, rank, padding));
}

std::vector<std::int64_t> sizes_without_padding(std::vector<std::int64_t> whole,
                                                const std::vector<AxisSpec>& axes, int rank) {
  const std::vector<Positions> kept = kept_of(whole, axes, rank, false);
  for (std::size_t d = 0; d < whole.size(); ++d) whole[d] = std::ssize(kept[d]);
  return whole;
}

std::optional<std::vector<AxisSpec>> axis_specs(std::string_view text, const Mesh& mesh,
                                                const KnownSizes& whole, const KnownSizes& local) {
  const std::optional<MeshSpec> states = parse_mesh_spec(text, mesh);
  if (!states || whole.size() != local.size()) return std::nullopt;
  std::vector<AxisSpec> axes;
  KnownSizes left = whole;
  for (std::size_t k = 0; k < states->size(); ++k) {
    const Spec& state = (*states)[k];
    const int ranks = mesh.axes[k].size;
    if (ranks < 1) return std::nullopt;
    axes.push_back({ranks, state});
    if (!state.is_split()) continue;
    if (state.dim >= count_of(left)) return std::nullopt;
    std::optional<std::int64_t>& size = left[state.dim];
    if (!size || *size < 1) return std::nullopt;
    std::int64_t rest = *size;
    for (const std::int64_t block : state.blocks) {
      if (block < 1 || block > rest || block % ranks != 0) return std::nullopt;
      rest -= block;
    }
    if (!state.blocks.empty() && rest != 0) return std::nullopt;
    size = part_of(*size, ranks);
  }
  for (std::size_t d = 0; d < left.size(); ++d) {
    if ((left[d] && *left[d] < 0) || (left[d] && local[d] && *left[d] != *local[d])) return std::nullopt;
  }
  return axes;
}

std::vector<std::string> impossible_parts(const ir::Graph& graph) {
  const Mesh mesh = graph.mesh.empty() ? Mesh::line(graph.ranks) : Mesh{graph.mesh};
  std::vector<std::string> found;
  const auto check = [&](const auto& all, const char* what) {
    for (const auto& one : all) {
      if (!one.part) continue;
      const std::vector<ir::Expr>&whole = one.part->whole, &local = graph[one.buffer].sizes;
      KnownSizes known_whole, known_local;
      std::vector<std::string> whole_text, local_text;
      for (const ir::Expr& size : whole) {
        known_whole.push_back(static_size(size));
        whole_text.push_back(to_string(size));
      }
      for (const ir::Expr& size : local) {
        known_local.push_back(static_size(size));
        local_text.push_back(to_string(size));
      }
      bool possible = axis_specs(one.part->state, mesh, known_whole, known_local).has_value();
      for (std::size_t d = 0; possible && d < whole.size(); ++d) {
        // A dimension of unknown size is not split.
        if (known_whole[d] && known_local[d]) continue;
        possible = !ir::provably_less(whole[d], local[d]) && !ir::provably_less(local[d], whole[d]);
      }
      if (!possible)
        found.push_back(fmt::format("the {} '{}' is [{}], which \"{}\" of [{}] is not on {}", what, one.name,
                                    fmt::join(local_text, ", "), one.part->state, fmt::join(whole_text, ", "),
                                    graph.mesh.empty() ? fmt::format("{} ranks without a mesh", graph.ranks)
                                                       : fmt::format("the mesh [{}]", to_string(mesh))));
    }
  };
  check(graph.inputs, "input");
  check(graph.outputs, "output");
  return found;
}

ir::Tensor without_padding(const ir::Tensor& part, const std::vector<std::int64_t>& sizes) {
  if (sizes == part.sizes) return part;
  std::vector<Positions> kept;
  for (const std::int64_t size : sizes) kept.push_back(positions(size));
  return elements_at(part, kept);
}

}  // namespace braid::split
