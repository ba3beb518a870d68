// Prints schedules in canonical form: print(parse_schedule(text)) == text for every text that print() wrote.
// The format is specified in docs/ir.md.
#pragma once

#include <cstdint>
#include <string>

#include "ir/schedule.h"

namespace braid::ir {

struct PrintOptions {
  // Constants of up to this many bytes (per rank) are written out. Larger ones become `elided(hash)`, unless
  // they repeat one value or lie in a file, to which the text then refers.
  std::int64_t inline_bytes = 1024;
  bool origins = true;
};

std::string print(const Schedule& schedule, const PrintOptions& options = {});
// One operation with its results, regions included.
std::string print(const Graph& graph, OpId op);

}  // namespace braid::ir
