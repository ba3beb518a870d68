// Tensors that several programs of one network share, such as one program for prompts and one for the steps
// after them: weights, and caches that go from one to the other. Each has one layout, whatever the layout of
// the activations.
//
//   prefill   x ─ q ─ attention ─ o ─ y ─ present
//                 │               │         │
//                 Wq              Wo        │
//                 │               │         │
//   decode    x ─ q ─ attention ─ o ─ y   past
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "split/ids.h"

namespace braid::split {

struct Graph;

using ProgramId = ir::Id<struct ProgramTag>;

// Readers that must take a constant in one state: a weight, or a value that is computed from weights while
// compiling in the same way. If operators of several kinds read it and all its programs have each kind, the
// readers of each kind have a state of their own. Otherwise all readers have one state.
struct SharedWeight {
  struct Reader {
    ProgramId program;
    NodeId node;
    int input = 0;
  };
  std::vector<Reader> readers;
};

// An output of one program that is an input of another one.
struct SharedCache {
  ProgramId from;
  int output = -1;  // its index among the outputs
  ProgramId to;
  ValueId input;
};

struct SharedTensors {
  std::vector<SharedWeight> weights;
  std::vector<SharedCache> caches;
  int count = 0;           // the number of weights with a common name
  std::int64_t bytes = 0;  // the bytes of these
};

// Finds shared weights and caches. Weights are initialisers of one name, element type, shape and bytes. An
// output is paired with a cache of another program (caches.h) if it has the name of the cache's input or
// output there, and its element type and rank. Throws UserError BR0494 if there are no weights of one name,
// or if initialisers of one name differ otherwise. Integers of more than 8 bits, booleans and single elements
// may differ. `files` are for messages.
SharedTensors shared_tensors(std::span<const Graph* const> graphs, std::span<const std::string> files);

}  // namespace braid::split
