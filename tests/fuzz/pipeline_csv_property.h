// The property of every text that is read as a pipeline schedule; shared by the fuzz target and the test that
// runs everywhere.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/csv.h"
#include "pipeline/lower.h"
#include "pipeline/memory_timeline.h"
#include "pipeline/simulate.h"
#include "pipeline/step_table.h"

namespace braid::test {

enum class CsvOutcome { not_read, not_valid, blocked, runs };

inline void require(bool condition, std::string_view what, std::string_view text) {
  if (condition) return;
  std::cerr << what << '\n' << text << '\n';
  std::abort();
}

inline CsvOutcome check_pipeline_csv(std::string_view text) {
  using namespace pipeline;
  PipelineSchedule schedule;
  try {
    schedule = parse_schedule(text);
  } catch (const ir::UserError& error) {
    require(((error.code() >= 800 && error.code() <= 805) || error.code() == errors::kNoActions) &&
                error.location().line > 0,
            "an error without a place", text);
    return CsvOutcome::not_read;
  }
  require(parse_schedule(print(schedule)) == schedule, "does not print to itself", text);
  require(parse_schedule(print(schedule, LineEnd::crlf)) == schedule, "does not print to itself with CRLF",
          text);

  bool transfers = false;
  for (const Row& row : schedule.rows) {
    for (const Action a : row) transfers = transfers || is_send(a.kind) || is_recv(a.kind);
  }
  try {
    validate(schedule, {.transfers = transfers});
  } catch (const ir::UserError&) {
    return CsvOutcome::not_valid;
  }
  try {
    const QueuePolicy policy{QueuePolicy::Kind::pair, 0};
    const PipelineSchedule rows = transfers ? schedule : lower(schedule, {.channels = policy}).schedule;
    const PassingOrder certificate = require_deadlock_free(rows, policy);
    require(check_certificate(rows, certificate).empty(), "a certificate that does not hold", text);
    require(!step_table(rows).deadlock(), "proved, but the step table stops", text);
    const PipelineCosts costs = unit_costs(rows);
    const Simulation simulation = simulate(rows, costs, policy);  // throws where ranks wait for each other
    memory_timeline(rows, costs, simulation);
  } catch (const ir::UserError& error) {
    require(error.code() >= 837 && error.code() <= 839, error.what(), text);
    return CsvOutcome::blocked;
  }
  return CsvOutcome::runs;
}

}  // namespace braid::test
