// Chooses where the channels of activations lie in memory. Kernels of convolutions are fastest if the
// channels of an element are adjacent (channels-last). ONNX orders the channels before the spatial
// dimensions.
//
//   before                                         after
//     %y: f32[1, 64, 56, 56]                         %y: f32[1, 64, 56, 56] strides [200704, 1, 3584, 64]
//       = convolution %x ...                           = convolution %x ...
//     %z: f32[1, 64, 56, 56]                         %z: f32[1, 64, 56, 56] strides [200704, 1, 3584, 64]
//       = pointwise [1, 64, 56, 56] { ... %y ... }     = pointwise [1, 56, 56, 64] { ... %y ... }
//
// Contract
//   1. Each connected region is decided as a whole: the tensors that convolutions read and write, those that
//      loops compute from them elementwise, and pools of these become channels-last together. Types, sizes
//      and values stay. Pools alone are as fast in rows.
//   2. Only row-major activations change, with the views of their parts, and only where every access is one
//      index per dimension, provably in range. Inputs, outputs, constants and communication buffers keep
//      their layout.
//   3. A transposition stands at the border: other readers (products, collectives, external kernels) read a
//      row-major copy, made once, before the first of them.
//   4. Loops iterate in the order of the memory that they write.
#pragma once

#include <string_view>

#include "ir/schedule.h"

namespace braid::passes {

struct ChooseLayouts {
  static constexpr std::string_view kName = "choose_layouts";
  static constexpr std::string_view kDescription =
      "stores what convolutions touch channels-last, and pools of that";
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
