// Every form of every collective as programs, with what must come out: written once, run by the tests of each
// engine (tests/codegen/collective_forms_test.cc, tests/codegen_cuda/collective_forms_test.cc).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "ir/tensor.h"

namespace braid::test {

struct CollectiveCase {
  std::string name;                             // an identifier; unique among all numbers of ranks
  ir::CommGroup group;                          // the ranks that take part
  bool in_place = false;                        // from in_place_collective_cases
  ir::Schedule schedule;                        // before all passes
  std::vector<std::vector<ir::Tensor>> inputs;  // per rank
  // Per rank and output; nothing where no result is defined, as on ranks that are not in the group.
  std::vector<std::vector<std::optional<ir::Tensor>>> expected;
};

// ONNX nodes of all operator sets over these groups: all ranks; on three and more, all but rank 0, backwards;
// on an even number of at least four, the odd and the even ranks, each on their own.
std::vector<CollectiveCase> onnx_collective_cases(int ranks);
// IR text: in place, and into memory that is already there; over the same groups. Or in place by kernels that
// read peers' memory.
std::vector<CollectiveCase> in_place_collective_cases(int ranks, bool peer_reading = false);
// ONNX nodes that ask for a kernel that reads peers' memory (attribute `algorithm`), and IR text in place,
// over the same groups. Not among collective_cases().
std::vector<CollectiveCase> peer_reading_collective_cases(int ranks);
// The first two.
std::vector<CollectiveCase> collective_cases(int ranks);

// Fails the test where an output is more than 1e-5 (relative above 1) from what is expected.
void expect_results(const CollectiveCase& c, const std::vector<std::vector<ir::Tensor>>& outputs,
                    const std::string& engine);

}  // namespace braid::test
