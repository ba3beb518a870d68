// Checks that every schedule must pass, whatever made it.
#pragma once

#include <limits>
#include <string>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/support/dump_schedule.h"

namespace braid::test {

// Empty if the verifier finds nothing and the schedule comes back from its text in every field. Constants
// larger than 1 MB are compared by hash.
inline std::string text_and_verifier_complaints(const ir::Schedule& schedule) {
  std::string out;
  for (const ir::Violation& v : ir::verify(schedule))
    out += v.rule + ": '" + v.node + "': " + v.message + "\n";
  const ir::PrintOptions options{.inline_bytes = 1 << 20};
  const std::string text = ir::print(schedule, options);
  const ir::Schedule back = ir::parse_schedule(text);
  if (ir::print(back, options) != text) out += "the text changes when it is read and printed again\n";
  if (text.find("elided(") != std::string::npos || text.find("file(") != std::string::npos) return out;
  if (dump(back) != dump(schedule)) out += "what is read from the text differs:\n" + text;
  return out;
}

}  // namespace braid::test
