// The published schedules, each as rows of computations and idle cells. add_send_recv.h turns them into rows
// with transfers.
//
// Idle cells stand where the published listings have them: they shift when a rank takes its turn, and so
// where add_send_recv puts RECVs.
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
  std::string_view alias;  // what papers call it, or empty
  std::string_view sizes;  // which it is defined for
  std::string_view summary;
  // Linear. Throws BR0809 for sizes that the schedule is not defined for, BR0810 when stages *
  // (micro-batches + 4 * ranks) reach 2^27: idle cells grow with the ranks.
  Schedule (*generate)(const GeneratorOptions&);
};

std::span<const Generator> generators();

// By name or alias; capitals, '-' and '_' do not matter. Throws BR0808 with all names.
const Generator& find_generator(std::string_view name);

}  // namespace braid::pipeline
