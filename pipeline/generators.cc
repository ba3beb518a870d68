#include "pipeline/generators.h"

#include <cctype>
#include <string>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/published_schedules.h"

namespace braid::pipeline {
namespace {

constexpr Generator kGenerators[] = {
    {"GPipe", "", "S = P", "all forwards, then all backwards", generate_gpipe},
    {"1F1B", "PipeDreamFlush", "S = P, M >= P", "backwards as early as possible", generate_1f1b},
    {"Interleaved1F1B", "", "S = V*P, M in equal rounds", "1F1B over several stages per rank",
     generate_interleaved_1f1b},
    {"LoopedBFS", "", "S = V*P", "all micro-batches through a stage, then the next one", generate_looped_bfs},
    {"InterleavedZeroBubble", "ZB1P", "S = V*P, M in equal rounds", "weight gradients fill the bubbles",
     generate_interleaved_zero_bubble},
    {"ZBVZeroBubble", "ZBV", "S = 2*P", "stages in a V, no rank idle in between", generate_zbv},
    {"DualPipeV", "", "S = 2*P, M >= S", "stages in a V, forwards beside backwards", generate_dualpipev},
    {"Inference", "", "S = P", "forwards only", generate_inference},
    {"InterleavedInference", "", "S = V*P, M in equal rounds", "forwards only, several stages per rank",
     generate_interleaved_inference},
};

std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c != '-' && c != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

}  // namespace

std::span<const Generator> generators() { return kGenerators; }

const Generator& find_generator(std::string_view name) {
  const std::string wanted = plain(name);
  std::string known;
  for (const Generator& g : kGenerators) {
    if (wanted == plain(g.name) || (!g.alias.empty() && wanted == plain(g.alias))) return g;
    known += known.empty() ? "" : ", ";
    known += g.name;
    if (!g.alias.empty()) known += fmt::format(" ({})", g.alias);
  }
  ir::user_error(errors::kUnknownSchedule, {}, fmt::format("there is no schedule '{}'", name), known);
}

}  // namespace braid::pipeline
