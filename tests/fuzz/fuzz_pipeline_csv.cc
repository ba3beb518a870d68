// libFuzzer target: any text is a schedule or a user error with a place; schedules print and parse to
// themselves; what validates is lowered, proved and simulated, or refused, but never crashes or hangs.
#include <cstdint>
#include <string_view>

#include "tests/fuzz/pipeline_csv_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  braid::test::check_pipeline_csv(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
