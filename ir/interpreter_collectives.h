// Collectives among simulated ranks: which ranks have started, which may continue, and what data moves.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/interpreter_memory.h"

namespace braid::ir {

// One collective in execution. Parties are the ranks of a group, or of one of its parts, in order; for send
// and recv, source and destination.
struct Exchange {
  struct Party {
    int rank = -1;
    const Operation* op = nullptr;  // null: not started
    const CollectiveKernel* kernel = nullptr;
    RankMemory* memory = nullptr;
    std::vector<ByteView> inputs, outputs;
    // Its inputs, copied once the party may change them although others have not read them yet.
    std::optional<std::vector<std::vector<std::byte>>> copy;
    bool done = false;  // has its results
  };
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::vector<Party> parties;
  bool at_once = false;  // in place or blocking: all inputs are read when the first party gets its results

  bool all_started() const;
  bool all_done() const;
  std::string missing(bool results) const;  // "ranks 1, 3": not started, or without results
};

class Exchanges {
 public:
  // Returns null if the rank takes no part. User error (BR0410) if the collective does not match what others
  // have started.
  Exchange* start(RankMemory& memory, const Operation& op, const CollectiveKernel& kernel);
  // Requires all_started(). `keep`: others still read the inputs from memory until the release.
  void finish(Exchange& exchange, int rank, bool keep);

 private:
  std::map<std::string, std::vector<std::unique_ptr<Exchange>>>
      exchanges_;                                               // by group and direction, in start order
  std::map<std::pair<std::string, int>, std::size_t> started_;  // how many of them a rank has started
};

}  // namespace braid::ir
