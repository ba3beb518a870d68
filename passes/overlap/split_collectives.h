// Splits a collective into several: between the operands of a coalesced one, and within operands if every
// element is treated in the same way (splitting.h says where cuts may be).
//
// A large collective delays later ones on its channel and every user of a part of it; its parts can be
// started and waited for one by one. Each part pays its own latency, so this pass alone gains nothing: it
// prepares for later passes. braid_schedule splits by itself if that shortens the schedule.
//
// Contract: the results stay the same, bit for bit if the engine reduces in one order; nothing is copied; all
// other nodes keep their order. The report says why a collective stays whole. If the split schedule exceeds
// the context's cap, all stay whole. User errors: 571, 572.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct SplitCollectives {
  static constexpr std::string_view kName = "split_collectives";
  static constexpr std::string_view kDescription = "splits collectives into several";
  static constexpr bool kMayReorderCollectives = true;  // there are more of them

  std::int64_t chunks = 0;
  std::int64_t max_bytes = 0;
  std::int64_t min_bytes = 0;

  static std::vector<PassOption<SplitCollectives>> options() {
    return {{"chunks", &SplitCollectives::chunks, "parts that each is split into"},
            {"max_bytes", &SplitCollectives::max_bytes, "or: maximum payload bytes of a part"},
            {"min_bytes", &SplitCollectives::min_bytes, "smaller collectives stay whole"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);

 private:
  void check_options() const;
};

}  // namespace braid::passes
