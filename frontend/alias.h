// Outputs that share the memory of inputs, as requested with --alias OUT=IN.
//
// If both have the same sizes, their elements have the same places. A cache grows: present = Concat(past,
// new), along any axis. Its elements stay where they are if past has room, which is decided before the model
// is lowered: growing_inputs tells which inputs get the layout of a larger tensor (ir/capacity.h). Concat
// then gives its result that layout. It remains to share the memory and to leave out the copy of past onto
// itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/schedule.h"

namespace braid::frontend {

using Aliases = std::vector<std::pair<std::string, std::string>>;  // output, input

// Returns the capacity of each input whose output has other sizes: per dimension, the larger of both upper
// bounds. Throws kAlias if an alias names an output or input that does not exist or two outputs in one
// input's memory, or if types or ranks differ.
std::map<std::string, std::vector<std::int64_t>> growing_inputs(const ir::Schedule& schedule,
                                                                const Aliases& aliases);

// Gives graph output `output` the storage of graph input `input`, and removes copies of elements onto
// themselves. Throws kAlias if element positions differ, or if an element of the input is read after the
// output has overwritten it.
void add_alias(ir::Schedule& schedule, const std::string& output, const std::string& input);

}  // namespace braid::frontend
