// Conversions between states as nodes of the rank-local model, and the parts of constants on ranks.
#pragma once

#include <string>
#include <vector>

#include "frontend/sharding/local.h"
#include "frontend/sharding/split_names.h"
#include "split/spec.h"

namespace braid::frontend::sharding {

// Emits the nodes that convert `name`, a tensor of these whole sizes, into `result`. Requires a possible
// conversion between different states.
void emit_conversion(LocalModel& model, const std::string& name, const Spec& from, const Spec& to,
                     const std::vector<ir::Expr>& sizes, const std::string& result);

// Whether a program has its weights, or is made only to be priced: then parts of large weights have the right
// sizes but any bytes.
enum class Weights : std::uint8_t { cut, any_bytes };
// Whether parts of the tensor may have any bytes with Weights::any_bytes.
bool is_large(const Tensor& tensor);
// Returns the parts of a constant of `before` ranks: rank q * ranks + r has part r of what rank q had. For
// pending sums, part 0 is the whole tensor and the others are zeros. Requires can_shard
// (split/conversion_steps.h).
Tensor shard(const Tensor& tensor, const Spec& spec, int ranks, int before = 1,
             Weights weights = Weights::cut);

}  // namespace braid::frontend::sharding
