// The published schedules as rows of computations and idle cells. add_send_recv.h inserts the transfers.
//
// Idle cells are where the published listings have them: they shift a rank's turns and thereby where
// add_send_recv puts RECVs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pipeline/schedule.h"

namespace braid::pipeline {

struct GeneratorOptions {
  std::int32_t ranks = 1;
  std::int32_t stages = 1;
  std::int32_t microbatches = 1;
};

struct Generator {
  std::string_view name;   // "Interleaved1F1B", as in torch.distributed.pipelining
  std::string_view alias;  // its name in papers, or empty
  std::string_view sizes;  // for which it is defined
  std::string_view summary;
  // Linear. Throws BR0809 for sizes for which the schedule is not defined, BR0810 if stages * (micro-batches
  // + 4 * ranks) reaches 2^27 (idle cells grow with the ranks).
  PipelineSchedule (*generate)(const GeneratorOptions&);
};

std::span<const Generator> generators();

// Finds a generator by name or alias, ignoring case, '-' and '_'. Throws BR0808 with all names.
const Generator& find_generator(std::string_view name);

}  // namespace braid::pipeline
