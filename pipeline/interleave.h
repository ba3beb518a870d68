// The order of stages and micro-batches in schedules with several stages per rank: a round of micro-batches
// goes through the first stage of a rank, then through its next one, and so on.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "pipeline/generator_sizes.h"

namespace braid::pipeline {

// Enumerates the forwards (or backwards) of one rank.
class Interleave {
 public:
  // Throws BR0809 if the micro-batches do not divide into rounds with at least one micro-batch per rank.
  Interleave(std::string_view name, const GeneratorOptions& o)
      : ranks_(o.ranks), local_(o.stages / o.ranks), microbatches_(o.microbatches) {
    const std::int32_t rounds = std::max(1, o.microbatches / o.ranks);
    if (o.microbatches % rounds != 0) {
      refuse_sizes(name, o, fmt::format("the micro-batches cannot be divided into {} equal rounds", rounds));
    }
    per_round_ = o.microbatches / rounds;
  }

  std::int32_t per_round() const { return per_round_; }
  std::int32_t local_stages() const { return local_; }
  std::int32_t actions() const { return local_ * microbatches_; }

  // The k-th forward and the k-th backward of a rank, k from 0.
  Action forward(std::int32_t rank, std::int32_t k) const {
    return {ActionKind::forward, chunk(k) * ranks_ + rank, microbatch(k)};
  }
  Action backward(ActionKind kind, std::int32_t rank, std::int32_t k) const {
    return {kind, (local_ - 1 - chunk(k)) * ranks_ + rank, microbatch(k)};
  }

 private:
  std::int32_t chunk(std::int32_t k) const { return k / per_round_ % local_; }
  std::int32_t microbatch(std::int32_t k) const {
    return k / (per_round_ * local_) * per_round_ + k % per_round_;
  }

  std::int32_t ranks_, local_, microbatches_, per_round_ = 1;
};

}  // namespace braid::pipeline
