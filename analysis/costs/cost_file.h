// Cost files: times of single operations and nodes, measured (`braid run --trace-costs` writes one) or made
// up.
//
//   {"version": 1, "ns": {"layer0.qkv": 12345.5, "layer0.all_gather": 87000}}
//
// A name is that of an operation or of a fused node. A collective's time is the time in flight; "NAME.issue"
// is the time that its start takes in the calling thread, and the names of its wait and release give theirs.
// Names that a graph does not have are ignored, so that one file serves a graph before and after passes.
#pragma once

#include <map>
#include <string>

namespace braid::analysis {

using CostEntries = std::map<std::string, double>;  // name -> nanoseconds
// The highest cost: eleven days, a thousand of which still fit a Time.
inline constexpr double kMaxNs = 1e15;

// User errors 1 (cannot be read), 556 (not JSON) and 557 (not a cost file), with line and column.
CostEntries read_cost_file(const std::string& path);
CostEntries parse_cost_file(const std::string& text, const std::string& file);
// Names in alphabetical order; reads back to the same entries.
std::string write_cost_file(const CostEntries& entries);

}  // namespace braid::analysis
