#include "solver/stage_cuts.h"

#include <algorithm>
#include <tuple>

#include "ir/error.h"

namespace braid::solver {
namespace {

std::size_t at(int k) { return static_cast<std::size_t>(k); }

// All stages from one cut to another.
class Segments {
 public:
  Segments(const StageChain& chain, std::optional<std::int64_t> memory) : chain_(chain), memory_(memory) {
    const int nodes = static_cast<int>(chain.nodes.size());
    for (int k = 0; k < nodes; ++k) {
      if (k == 0 || chain.may_cut[at(k)] != 0) cuts_.push_back(k);
    }
    cuts_.push_back(nodes);
    // Per node: what it shares, and the reader before it, which is in the stage or not.
    std::vector<std::vector<std::pair<int, int>>> first(at(nodes));
    for (std::size_t s = 0; s < chain.shared.size(); ++s) {
      int before = -1;
      for (const int reader : chain.shared[s].readers) {
        first[at(reader)].push_back({before, static_cast<int>(s)});
        before = reader;
      }
    }
    const std::size_t size = cuts_.size();
    compute_.assign(size * size, kForbidden);
    for (std::size_t i = 0; i + 1 < size; ++i) {
      const int begin = cuts_[i];
      Cost compute = 0;
      std::int64_t held = 0, most = 0;
      std::size_t j = i + 1;
      for (int node = begin; node < nodes; ++node) {
        compute += chain.nodes[at(node)];
        most = std::max(most, chain.live[at(node)]);
        for (const auto& [before, s] : first[at(node)]) {
          if (before >= begin) continue;
          compute += chain.shared[at(s)].cost;
          held += chain.shared[at(s)].bytes;
        }
        if (memory && held + most > *memory) break;  // longer ones take no less
        if (node + 1 == cuts_[j]) compute_[i * size + j++] = compute;
      }
    }
  }

  int cuts() const { return static_cast<int>(cuts_.size()); }
  int node(int cut) const { return cuts_[at(cut)]; }
  // kForbidden if it takes too much memory.
  Cost compute(int from, int to) const { return compute_[at(from) * cuts_.size() + at(to)]; }
  std::int64_t bytes(int from, int to) const {
    std::int64_t held = 0, most = 0;
    for (const StageChain::Shared& shared : chain_.shared) {
      const auto reader = std::lower_bound(shared.readers.begin(), shared.readers.end(), node(from));
      if (reader != shared.readers.end() && *reader < node(to)) held += shared.bytes;
    }
    for (int k = node(from); k < node(to); ++k) most = std::max(most, chain_.live[at(k)]);
    return held + most;
  }

 private:
  const StageChain& chain_;
  std::optional<std::int64_t> memory_;
  std::vector<int> cuts_;  // the first node after each cut; the last one is the end of the chain
  std::vector<Cost> compute_;
};

}  // namespace

std::optional<StageCuts> cut_stages(const StageChain& chain, int stages, const StageTransfer& transfer,
                                    std::optional<std::int64_t> memory) {
  ir::internal_check(stages >= 1 && !chain.nodes.empty(), "{} stages of {} nodes", stages,
                     chain.nodes.size());
  const Segments segments(chain, memory);
  const int cuts = segments.cuts();
  const auto sent = [&](int stage, int to) {
    const std::int64_t bytes = stage + 1 == stages ? 0 : chain.passing[at(segments.node(to))];
    return std::pair{bytes, bytes == 0 ? Cost{0} : transfer(stage, bytes)};
  };
  std::vector<std::vector<Cost>> transfers(at(stages), std::vector<Cost>(at(cuts), 0));
  for (int s = 0; s + 1 < stages; ++s) {
    for (int to = 1; to + 1 < cuts; ++to) transfers[at(s)][at(to)] = sent(s, to).second;
  }
  // By stage and the cut at its end: the best Best by `better`, with the cut before it.
  struct Best {
    Cost longest = kForbidden, transfers = 0;
    int before = -1;
  };
  const auto search = [&](auto&& better, Cost most) {
    std::vector<std::vector<Best>> table(at(stages), std::vector<Best>(at(cuts)));
    for (int s = 0; s < stages; ++s) {
      for (int to = s + 1; to < cuts; ++to) {
        if ((s + 1 == stages) != (to + 1 == cuts))
          continue;  // only the last stage ends at the end of the chain
        Best& own = table[at(s)][at(to)];
        for (int from = s == 0 ? 0 : s; from < (s == 0 ? 1 : to); ++from) {
          const Cost compute = segments.compute(from, to);
          const Best before = s == 0 ? Best{0, 0, 0} : table[at(s - 1)][at(from)];
          if (compute == kForbidden || before.longest == kForbidden) continue;
          const Cost cost = compute + transfers[at(s)][at(to)];
          if (cost > most) continue;
          const Best next{std::max(before.longest, cost), before.transfers + transfers[at(s)][at(to)], from};
          if (own.longest == kForbidden || better(next, own)) own = next;
        }
      }
    }
    return table;
  };
  const auto shorter = [](const Best& a, const Best& b) { return a.longest < b.longest; };
  const Cost longest = search(shorter, kForbidden)[at(stages - 1)][at(cuts - 1)].longest;
  if (longest == kForbidden) return std::nullopt;
  const auto fewer = [](const Best& a, const Best& b) { return a.transfers < b.transfers; };
  const auto table = search(fewer, longest);
  StageCuts result;
  result.longest = longest;
  for (int s = stages - 1, to = cuts - 1; s >= 0; --s) {
    const int from = table[at(s)][at(to)].before;
    const auto [bytes, time] = sent(s, to);
    result.stages.push_back({segments.node(from), segments.node(to), segments.compute(from, to), time,
                             segments.bytes(from, to), bytes});
    to = from;
  }
  std::reverse(result.stages.begin(), result.stages.end());
  return result;
}

}  // namespace braid::solver
