// How a node can be split on one mesh axis: its letters, and the legal combinations of states that follow
// from them.
//
// A letter is an extent that runs through dimensions of inputs and outputs, like m, k and n of a product.
// Splitting the letter among the ranks splits all of these dimensions:
//
//   pass        it is in every output: each rank computes its part
//   reduction   it is in no output, which is then pending: each rank has a part of the sum, maximum, ...
//
// A dimension may be several extents of the letter, one after another, each times an inner size (`segments`):
// heads*size is {size}; a fused query-key-value dimension of 3*heads*size is {size, size, size}, which gives
// a blocked split. Dimensions without a letter are whole on every rank. In addition to letters, `linear` says
// which pending inputs pass through a node.
//
// The replicated combination is always legal and needs no letter.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "split/ids.h"
#include "split/spec.h"

namespace braid::split {

struct Graph;
struct GraphNode;

// A place where a letter occurs.
struct Occurrence {
  bool output = false;
  int index = 0;  // of the input or output
  int dim = 0;
  std::vector<std::int64_t> segments{1};  // the dimension's size is the letter's times their sum
};

struct Letter {
  std::string name;
  std::int64_t size = 0;
  std::optional<ir::ReduceKind> reduce;  // of outputs that lack the letter
  std::vector<Occurrence> at;
  // Inputs that must be pending when the letter is split because they are added once, such as the bias of a
  // product whose sum is split.
  std::vector<int> pending_inputs;
  bool blocked = true;  // whether it may be split in blocks
  // Whether ranks that do not divide its size may split it. Padding then takes part in whatever the node
  // computes: it must stay padding, or be hidden by the local form. Only for letters whose dimensions consist
  // of the letter alone.
  bool padded = false;
  // If positive, only more ranks than this, and a multiple of it, may split the letter. For query heads that
  // share so few key heads that several ranks need the same one.
  std::int64_t more_ranks_than = 0;
};

using Letters = IdVector<LetterId, Letter>;

// Pending inputs that pass through: all of `inputs` are pending, the others replicated, and so the outputs
// are pending.
struct Linear {
  std::vector<int> inputs;
  std::vector<ir::ReduceKind> kinds;
};

struct Factors {
  Letters letters;
  std::vector<Linear> linear;
};

// One legal combination. Absent inputs and outputs count as replicated.
struct Strategy {
  std::vector<Spec> inputs, outputs;
  LetterId letter;  // of the node's factors; invalid: none is split
  Blocks blocks;    // of the letter
};

// Returns the blocks that a letter has if the occurrence has these blocks; nullopt if the letter cannot be
// cut that way.
std::optional<Blocks> letter_blocks(const Letter& letter, const Occurrence& at, const Blocks& blocks);
// Returns the blocks of a dimension whose letter has these blocks.
Blocks dimension_blocks(const Letter& letter, const Occurrence& at, const Blocks& blocks);

// Lists of blocks, by value and dimension, that splits or joins of the graph suggest in addition to one
// block.
using BlockCandidates = std::map<std::pair<ValueId, int>, std::set<Blocks>>;
const BlockCandidates& block_candidates(const Graph& graph, int ranks);

// Returns all legal combinations, the replicated one first. A dimension is split only if its size is static
// and positive and `ranks` divides every block of it, or padded parts are allowed.
std::vector<Strategy> strategies(const Graph& graph, const GraphNode& node, int ranks,
                                 const BlockCandidates& candidates);

}  // namespace braid::split
