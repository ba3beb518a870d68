// What several programs of one network have in common, such as one for prompts and one for the steps after them: weights, and caches that go
// from one to the other. Each has one layout, whatever becomes of the activations.
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

namespace braid::split {

struct Graph;

// Readers that must take a constant in one state: a weight, or what is computed from weights while compiling in the same way. Where
// operators of different kinds read it, those of each kind do, in all programs alike; if they do not, all readers are held to one state.
struct SharedWeight {
  struct Reader {
    int program = -1, node = -1, input = 0;
  };
  std::vector<Reader> readers;
};

// An output of one program that is an input of another one.
struct SharedCache {
  int from = -1, output = -1;  // program, and index among its outputs
  int to = -1, input = -1;     // program, and value
};

struct SharedTensors {
  std::vector<SharedWeight> weights;
  std::vector<SharedCache> caches;
  int count = 0;           // weights of one name
  std::int64_t bytes = 0;  // of these
};

// Weights are initialisers of one name, element type, shape and bytes. An output is paired with a cache of another program (caches.h) if
// it has the name of the cache's input or output there, and its element type and rank. UserError BR0494 for initialisers of one name that
// differ otherwise: of integers of more than 8 bits, booleans and single elements each program may have its own; and if there are no
// weights of one name. `files` are for messages.
SharedTensors shared_tensors(std::span<const Graph* const> graphs, std::span<const std::string> files);

}  // namespace braid::split
