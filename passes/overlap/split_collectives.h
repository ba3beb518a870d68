// Makes several collectives of one: between the operands of a coalesced one, and within operands where every
// element is treated alike (splitting.h says where cuts may be).
//
// A large collective holds up what comes behind it on its channel and everybody who needs a part of it; its
// parts can be started and waited for one by one. Each pays a latency of its own, so this pass alone gains
// nothing: it is for the passes behind it, and braid_schedule splits by itself where that ends earlier.
//
// Contract: the results stay the same, bit for bit where the engine reduces in one order; nothing is copied;
// the order of all other nodes stays. What stays whole says why in the report. With a cap in the context that
// the split schedule would not keep, all stay whole. User errors: 571, 572.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct SplitCollectives {
  static constexpr std::string_view kName = "split_collectives";
  static constexpr std::string_view kDescription = "makes several collectives of one";
  static constexpr bool kMayReorderCollectives = true;  // there are more of them

  std::int64_t chunks = 0;
  std::int64_t max_bytes = 0;
  std::int64_t min_bytes = 0;

  static std::vector<PassOption<SplitCollectives>> options() {
    return {{"chunks", &SplitCollectives::chunks, "parts that each is split into"},
            {"max_bytes", &SplitCollectives::max_bytes, "or: bytes of payload that a part has at most"},
            {"min_bytes", &SplitCollectives::min_bytes, "what has less stays whole"}};
  }
  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
