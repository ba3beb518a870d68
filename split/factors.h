// How a node can be split: its letters, and the legal combinations of states that follow from them, on one mesh axis.
//
// A letter is an extent that runs through dimensions of inputs and outputs, like m, k and n of a product; splitting the letter among the
// ranks splits all of these dimensions:
//
//   pass        it is in every output: each rank computes its part
//   reduction   it is in no output, which is then pending: each rank has a part of the sum, maximum, ...
//
// A dimension may be several extents of the letter, one after another, each times an inner size (`segments`): heads*size is
// {size}; a fused query-key-value dimension of 3*heads*size is {size, size, size}, which gives a blocked split. Dimensions
// without a letter are whole on every rank. Beside letters, `linear` says which pending inputs pass through a node.
//
// All-replicated is always legal and needs no letter.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "split/spec.h"

namespace braid::split {

struct Graph;
struct GraphNode;

// Where a letter is.
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
  // Inputs that must be pending with the letter split: what is added once, such as the bias of a product whose sum is split.
  std::vector<int> pending_inputs;
  bool blocked = true;  // whether it may be split in blocks
  // Whether it may be split among ranks that do not divide its size. Padding then takes part in whatever the node computes: it must stay
  // padding, or be hidden by the local form. Only of letters whose dimensions consist of it alone.
  bool padded = false;
  // If positive: only among more ranks than this and a multiple of it. Query heads that share so few key heads that several ranks
  // need the same one.
  std::int64_t more_ranks_than = 0;
};

// Pending inputs that pass through: all of `inputs` are pending, the others replicated, and so the outputs are pending.
struct Linear {
  std::vector<int> inputs;
  std::vector<ir::ReduceKind> kinds;
};

struct Factors {
  std::vector<Letter> letters;
  std::vector<Linear> linear;
};

// One legal combination. Absent inputs and outputs count as replicated.
struct Strategy {
  std::vector<Spec> inputs, outputs;
  int letter = -1;  // of the node's factors; -1: none is split
  Blocks blocks;    // of the letter
};

// The blocks that a letter has if the occurrence has the spec's blocks; nullopt if the letter cannot be cut so.
std::optional<Blocks> letter_blocks(const Letter& letter, const Occurrence& at, const Blocks& blocks);
// The blocks of a dimension where the letter has those.
Blocks dimension_blocks(const Letter& letter, const Occurrence& at, const Blocks& blocks);

// By value and dimension: lists of blocks that splits or joins of the graph suggest (beside one block).
using BlockCandidates = std::map<std::pair<int, int>, std::set<Blocks>>;
const BlockCandidates& block_candidates(const Graph& graph, int ranks);

// All legal combinations, the replicated one first. A dimension is split only if its size is static, positive and every
// block of it divisible by `ranks`.
std::vector<Strategy> strategies(const Graph& graph, const GraphNode& node, int ranks,
                                 const BlockCandidates& candidates);

}  // namespace braid::split
