// The collectives of all ranks, matched with each other: what compare() and the deadlock proof work on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/collective_trace.h"
#include "ir/id_vector.h"

namespace braid::check {

// A sequence in which collectives are numbered: one part of a group, or one direction between two of its
// members.
struct Stream {
  std::string group;
  std::vector<int> ranks;                      // world ranks of the part
  int source = -1, destination = -1;           // world ranks; of sends and receives only
  ir::IdVector<int, int> members;              // ranks that take part
  ir::IdVector<int, std::vector<int>> events;  // of each member: indices of starts in its trace

  bool paired() const { return source >= 0; }
};
std::string title(const Stream& stream);  // "group 'tp' (ranks 0 1)"

struct Projection {
  ir::IdVector<int, const ir::CollectiveTrace*> of_rank;
  ir::IdVector<int, Stream> streams;                            // in order of first use
  ir::IdVector<int, std::map<int, std::pair<int, int>>> place;  // [rank][event] -> stream, number in it

  const ir::TraceEvent& event(int rank, int index) const { return ir::at(of_rank[rank]->events, index); }
};

// User error BR0902, and BR0900 if ranks use one name for different groups.
Projection project(const std::vector<ir::CollectiveTrace>& traces);

// User error BR0900 if members of a stream do different things.
void compare(const Projection& projection);

// Returns what a member does, as text without names: everything on which its peers must agree.
std::string agreement_key(const Stream& stream, const ir::TraceEvent& event);

}  // namespace braid::check
