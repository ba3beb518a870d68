// Schedules as CSV files: a line per rank, a cell per turn, no header, rows of any length.
//
//   0F0,0F1,,0B0,,0B1         compute only: F, I, W, B, OVERLAP_F_B and idle cells
//   ,1F0,1B0,1F1,1B1,
//
//   0F0,0SEND_F0,0RECV_B0,0B0   lowered: every action, no idle cells
//   1RECV_F0,1F0,1B0,1SEND_B0
//
// A stage belongs to the rank in whose row it appears. Lines end with LF or CRLF; an empty line is a row
// without cells, and "" (as Python's csv module writes it) is one idle cell, so every row has a text. A cell
// may be in double quotes.
#pragma once

#include <string>
#include <string_view>

#include "pipeline/schedule.h"

namespace braid::pipeline {

enum class CsvDialect {
  any,
  compute_only,   // no transfers, no UNSHARD, RESHARD or REDUCE_GRAD
  compute_comms,  // lowered: no idle cells
};

struct CsvOptions {
  CsvDialect dialect = CsvDialect::any;
  std::string_view file = {};      // for messages
  RankOfStage rank_of_stage = {};  // empty: derived from the rows
};

// Parses one line without its line end.
Row parse_row(std::string_view line);

// Throws BR0800 to BR0805 with line, column, rank and cell, and BR0811 if there is no action. Does not check
// whether the schedule can run (see validate.h). Stages and micro-batches count from 0; numbers too large for
// a file of this size are rejected, so that allocations stay proportional to the text. Linear.
PipelineSchedule parse_schedule(std::string_view text, const CsvOptions& options = {});

enum class LineEnd { lf, crlf };

// The inverse of parse_schedule for rows in which every stage appears. Linear.
std::string print(const PipelineSchedule& schedule, LineEnd end = LineEnd::lf);
std::string print(const Row& row);

}  // namespace braid::pipeline
