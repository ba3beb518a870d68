// The abilities of a target's kernels, for passes that choose between forms of a computation.
#pragma once

namespace braid::passes {

// The defaults are those of a processor.
struct TargetKernels {
  bool byte_tables = true;     // looks functions of one byte up in tables faster than it computes them
  bool fast_byte_sums = true;  // multiplies bytes faster than f32
};

}  // namespace braid::passes
