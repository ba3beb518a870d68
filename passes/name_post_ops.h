// Names the steps of a GEMM's epilogue that matrix libraries know (ir/post_ops.h). The program states them,
// so no code generator has to find them.
//
//   before                                         after
//     y = gemm a, b epilogue {                       y = gemm a, b epilogue {
//       %0 = acc f32                                   ...
//       %1 = load %bias[i1]                          } as %2 = add_vector %1, %4 = relu
//       ...
//
// Contract: the computed values stay bitwise the same. Every epilogue is named anew.
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
