// libFuzzer target: any text is a schedule or a user error with a place, and schedules print and parse to
// themselves. Start from tests/corpus/bad_texts.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "ir/error.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace braid::ir;
  try {
    const Schedule s = parse_schedule(std::string_view(reinterpret_cast<const char*>(data), size));
    const std::string text = print(s);
    if (print(parse_schedule(text)) != text) {
      std::cerr << text;
      std::abort();
    }
    verify(s);
  } catch (const UserError& e) {
    if (e.location().line == 0 && e.code() != 301 && e.code() != 304) std::abort();
  }
  return 0;
}
