// The collectives of all ranks, matched with each other: what is compared, and what the deadlock proof works
// on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/collective_trace.h"
#include "ir/id_vector.h"

namespace braid::check {

// Where collectives are numbered: a group, or one direction between two members of it.
struct Stream {
  std::string group;
  std::vector<int> ranks;                      // world ranks of the group
  int source = -1, destination = -1;           // world ranks; of sends and receives only
  ir::IdVector<int, int> members;              // who takes part
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

// UserError BR0902, and BR0900 where ranks mean different groups by one name.
Projection project(const std::vector<ir::CollectiveTrace>& traces);

// UserError BR0900 where members of a stream do different things.
void compare(const Projection& projection);

// What a member does in terms that its peers must share: text without names.
std::string agreement_key(const Stream& stream, const ir::TraceEvent& event);

}  // namespace braid::check
