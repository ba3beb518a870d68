// Names the steps of a GEMM's epilogue that matrix libraries know (ir/post_ops.h): what a target's product is
// asked to do is written in the program, not found out by each code generator.
//
//   before                                         after
//     y = gemm a, b epilogue {                       y = gemm a, b epilogue {
//       %0 = acc f32                                   ...
//       %1 = load %bias[i1]                          } as %2 = add_vector %1, %4 = relu
//       ...
//
// Contract: what is computed stays as it is, bit by bit. Every epilogue is named anew.
#pragma once

#include <string_view>

#include "ir/schedule.h"

namespace braid::passes {

struct NamePostOps {
  static constexpr std::string_view kName = "name_post_ops";
  static constexpr std::string_view kDescription = "names the steps of a GEMM's epilogue that libraries know";
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
