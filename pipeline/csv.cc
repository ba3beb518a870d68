#include "pipeline/csv.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/text.h"

namespace braid::pipeline {
namespace {

constexpr std::size_t kTypicalCell = 9;  // characters, to reserve memory

class LineParser {
 public:
  LineParser(std::string_view line, TextLocation location, CsvDialect dialect)
      : line_(line), location_(location), dialect_(dialect) {}

  Row parse() {
    Row row;
    if (line_.empty()) return row;
    row.reserve(1 + static_cast<std::size_t>(std::count(line_.begin(), line_.end(), ',')));
    for (location_.cell = 0;; ++location_.cell) {
      location_.column = static_cast<int>(at_) + 1;
      const std::string_view cell = next();
      const std::size_t begin = row.size();
      parse_cell(cell, row, location_);
      check_dialect(row[begin], cell);
      if (at_ == line_.size()) return row;
      ++at_;  // the comma
    }
  }

 private:
  std::string_view next() {
    const std::size_t begin = at_;
    if (at_ < line_.size() && line_[at_] == '"') {
      const std::size_t close = line_.find('"', at_ + 1);
      if (close == std::string_view::npos) fail(errors::kBadCell, "the closing '\"' is missing");
      at_ = close + 1;
      if (at_ < line_.size() && line_[at_] != ',')
        fail(errors::kBadCell, "unexpected text after the closing '\"'");
      ++location_.column;
      return line_.substr(begin + 1, close - begin - 1);
    }
    at_ = std::min(line_.find(',', at_), line_.size());
    return line_.substr(begin, at_ - begin);
  }

  void check_dialect(Action a, std::string_view cell) {
    if (dialect_ == CsvDialect::compute_only && a.kind != ActionKind::idle && !is_compute(a.kind) &&
        a.kind != ActionKind::overlap_f_b) {
      fail(errors::kWrongDialect,
           fmt::format("'{}' is not a computation, but the file must be compute-only", cell));
    }
    if (dialect_ == CsvDialect::compute_comms && a.kind == ActionKind::idle) {
      fail(errors::kWrongDialect, "a lowered schedule must not have idle cells");
    }
  }

  [[noreturn]] void fail(int code, const std::string& what) const {
    ir::Location location{.file = std::string(location_.file)};
    location.line = std::max(location_.rank, 0) + 1;
    location.column = location_.column;
    ir::user_error(
        code, location,
        location_.rank < 0 ? what : fmt::format("rank {}, cell {}: {}", location_.rank, location_.cell, what),
        "lowered files contain transfers and no idle cells, compute-only files idle cells and no transfers");
  }

  std::string_view line_;
  TextLocation location_;
  CsvDialect dialect_;
  std::size_t at_ = 0;
};

[[noreturn]] void fail(int code, const CsvOptions& options, int rank, const std::string& what,
                       const std::string& hint) {
  ir::Location location{.file = std::string(options.file)};
  location.line = rank + 1;
  location.column = 1;
  ir::user_error(code, location, what, hint);
}

// visit(rank, cell, action) for every action that has a stage.
template <class Visit>
void each_action(const PipelineSchedule& schedule, Visit visit) {
  for (const int rank : schedule.rows.ids()) {
    each_cell(schedule.rows[rank], [&](std::size_t cell, std::size_t, std::span<const Action> all) {
      for (const Action a : all)
        if (a.kind != ActionKind::idle) visit(rank, cell, a);
    });
  }
}

// Determines the sizes of the schedule; numbers that imply gaps are refused before anything is allocated for
// them.
void count(PipelineSchedule& schedule, const CsvOptions& options, std::int32_t& stages) {
  std::int64_t actions = 0;
  each_action(schedule, [&](int, std::size_t, Action) { ++actions; });
  // Nothing would be wrong with it: no rank waits, and nothing is missing.
  if (actions == 0)
    fail(errors::kNoActions, options, 0, "the schedule has no action",
         "each line has the actions of one rank: 0F0,0B0");
  each_action(schedule, [&](int rank, std::size_t cell, Action a) {
    const bool stage = options.rank_of_stage.empty() && a.stage >= actions;
    if (stage || a.microbatch >= actions) {
      fail(
          errors::kMissingStage, options, rank,
          fmt::format("rank {}, cell {}: {}: {} {} is too large for a schedule of {} actions", rank, cell,
                      to_string(a), stage ? "stage" : "micro-batch", stage ? a.stage : a.microbatch, actions),
          "stages and micro-batches count from 0 without gaps");
    }
    stages = std::max(stages, a.stage + 1);
    schedule.microbatches = std::max(schedule.microbatches, a.microbatch + 1);
  });
  // Every micro-batch goes through every stage. Small files pass: validate names what is missing.
  constexpr std::int64_t kSmall = 1 << 20;
  if (std::int64_t{stages} * schedule.microbatches > std::max(actions, kSmall)) {
    fail(errors::kMissingStage, options, 0,
         fmt::format("{} stages and {} micro-batches are too many for a schedule of {} actions", stages,
                     schedule.microbatches, actions),
         "every micro-batch goes through every stage");
  }
}

void place_stages(PipelineSchedule& schedule, const CsvOptions& options, std::int32_t stages) {
  const bool given = !options.rank_of_stage.empty();
  schedule.rank_of_stage = given ? options.rank_of_stage : RankOfStage(first_ids<int>(stages), -1);
  each_action(schedule, [&](int rank, std::size_t cell, Action a) {
    if (a.stage >= schedule.stages()) {
      fail(errors::kStageOnTwoRanks, options, rank,
           fmt::format("rank {}, cell {}: {}: the placement has only {} stages", rank, cell, to_string(a),
                       schedule.stages()),
           "stages count from 0");
    }
    std::int32_t& owner = schedule.rank_of_stage[a.stage];
    if (owner == -1) owner = rank;
    if (owner != rank) {
      fail(errors::kStageOnTwoRanks, options, rank,
           fmt::format("rank {}, cell {}: {}: stage {} {} rank {}", rank, cell, to_string(a), a.stage,
                       given ? "is placed on" : "appears on", owner),
           "all actions of a stage must be in the row of one rank");
    }
  });
  for (const int s : schedule.rank_of_stage.ids()) {
    if (schedule.rank_of_stage[s] == -1) {
      fail(errors::kMissingStage, options, 0,
           fmt::format("stage {} appears on no rank, but there are {} stages", s, stages),
           "stages count from 0 without gaps");
    }
  }
}

void append_row(std::string& text, const Row& row) {
  if (row.size() == 1 && row[0].kind == ActionKind::idle) {
    text += "\"\"";  // an empty line would be a row without cells
    return;
  }
  for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) {
    if (p != 0) text += ',';
    append_cell(text, row, p);
  }
}

}  // namespace

Row parse_row(std::string_view line) { return LineParser(line, {}, CsvDialect::any).parse(); }

PipelineSchedule parse_schedule(std::string_view text, const CsvOptions& options) {
  PipelineSchedule schedule;
  for (int rank = 0; !text.empty(); ++rank) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    schedule.rows.push_back(LineParser(line, {.file = options.file, .rank = rank}, options.dialect).parse());
  }
  std::int32_t stages = 0;
  count(schedule, options, stages);
  place_stages(schedule, options, stages);
  return schedule;
}

std::string print(const PipelineSchedule& schedule, LineEnd end) {
  std::size_t cells = 0;
  for (const Row& row : schedule.rows) cells += row.size() + 1;
  std::string text;
  text.reserve(cells * kTypicalCell);
  for (const Row& row : schedule.rows) {
    append_row(text, row);
    text += end == LineEnd::crlf ? "\r\n" : "\n";
  }
  return text;
}

std::string print(const Row& row) {
  std::string text;
  append_row(text, row);
  return text;
}

}  // namespace braid::pipeline
