// A pipeline schedule as a plain value: each rank's row of actions in issue order, and which rank owns which
// stage. Generators make it, lowering passes rewrite it; simulators, the proof and the search read it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/action.h"
#include "pipeline/ids.h"

namespace braid::pipeline {

// The cells of one rank. A container is one cell: its header, directly followed by its members.
using Row = std::vector<Action>;

struct PipelineSchedule {
  RankOfStage rank_of_stage;
  PerRank<Row> rows;
  std::int32_t microbatches = 0;

  int ranks() const { return count_of(rows); }
  int stages() const { return count_of(rank_of_stage); }

  friend bool operator==(const PipelineSchedule&, const PipelineSchedule&) = default;
};

// The schedule with the row that rewrite(rank, row) returns for each rank, called in ascending order.
template <class Rewrite>
PipelineSchedule with_rows(const PipelineSchedule& schedule, const Rewrite& rewrite) {
  PipelineSchedule out{schedule.rank_of_stage, {}, schedule.microbatches};
  out.rows.reserve(schedule.rows.size());
  for (const int rank : schedule.rows.ids()) out.rows.push_back(rewrite(rank, schedule.rows[rank]));
  return out;
}

// The number of row entries of the cell that begins at `position`: 1, or 1 + members of a container.
inline std::size_t cell_size(const Row& row, std::size_t position) {
  const Action a = row[position];
  return is_container(a.kind) ? 1 + static_cast<std::size_t>(a.microbatch) : 1;
}

// The first position of the cell that holds the entry.
inline std::size_t cell_begin(const Row& row, std::size_t entry) {
  std::size_t p = 0;
  while (p + cell_size(row, p) <= entry) p += cell_size(row, p);
  return p;
}

// The entries of the cell at `position`: the action, or the header and the members of a container.
inline std::span<const Action> entries(const Row& row, std::size_t position) {
  return std::span(row).subspan(position, cell_size(row, position));
}
// The actions of the cell: the action itself, or the members of a container.
inline std::span<const Action> members(const Row& row, std::size_t position) {
  const std::span all(row);
  return is_container(row[position].kind) ? all.subspan(position + 1, cell_size(row, position) - 1)
                                          : all.subspan(position, 1);
}

inline void append(Row& row, std::span<const Action> entries) {
  for (const Action a : entries) row.push_back(a);  // few: faster than an insertion of a range
}

// visit(std::size_t cell index, std::size_t position in the row, std::span<const Action> members)
template <class Visit>
void each_cell(const Row& row, Visit visit) {
  std::size_t cell = 0;
  for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) visit(cell++, p, members(row, p));
}

}  // namespace braid::pipeline
