// A pipeline schedule as a plain value: each rank's row of actions in issue order, and which rank owns which
// stage. Generators make it, lowering passes rewrite it; simulators, the proof and the search read it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/action.h"

namespace braid::pipeline {

// The cells of one rank. A container is one cell: its header, directly followed by its members.
using Row = std::vector<Action>;

struct Schedule {
  std::vector<std::int32_t> rank_of_stage;  // one per stage
  std::vector<Row> rows;                    // one per rank
  std::int32_t microbatches = 0;

  int ranks() const { return static_cast<int>(rows.size()); }
  int stages() const { return static_cast<int>(rank_of_stage.size()); }

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// The number of row entries of the cell that begins at `position`: 1, or 1 + members of a container.
inline std::size_t cell_size(const Row& row, std::size_t position) {
  const Action a = row[position];
  return is_container(a.kind) ? 1 + static_cast<std::size_t>(a.microbatch) : 1;
}

// The actions of the cell at `position`: the action itself, or the members of a container.
inline std::span<const Action> members(const Row& row, std::size_t position) {
  const std::span<const Action> all(row);
  return is_container(row[position].kind) ? all.subspan(position + 1, cell_size(row, position) - 1)
                                          : all.subspan(position, 1);
}

// visit(std::size_t cell index, std::size_t position in the row, std::span<const Action> members)
template <class Visit>
void each_cell(const Row& row, Visit visit) {
  std::size_t cell = 0;
  for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) visit(cell++, p, members(row, p));
}

}  // namespace braid::pipeline
