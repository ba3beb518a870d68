#include "solver/stage_cuts.h"

#include <algorithm>
#include <tuple>

#include "ir/error.h"

namespace braid::solver {
namespace {

using CutId = ir::Id<struct CutTag>;  // the beginning of the chain is one, and its end

// All stages from one cut to another.
class Segments {
 public:
  Segments(const StageChain& chain, std::optional<std::int64_t> memory) : chain_(chain), memory_(memory) {
    for (const ChainNodeId k : chain.nodes.ids()) {
      if (cuts_.empty() || chain.may_cut[k] != 0) cuts_.push_back(k);
    }
    cuts_.push_back(chain.nodes.end_id());
    // Per node: what it shares, and the reader before it, which is in the stage or not.
    struct Reading {
      ChainNodeId before;
      const StageChain::Shared* shared;
    };
    IdVector<ChainNodeId, std::vector<Reading>> readings(chain.nodes.ids());
    for (const StageChain::Shared& shared : chain.shared) {
      ChainNodeId before;
      for (const ChainNodeId reader : shared.readers) {
        readings[reader].push_back({before, &shared});
        before = reader;
      }
    }
    compute_.resize(cuts_.size(), IdVector<CutId, Cost>(cuts_.ids(), kForbidden));
    for (const CutId from : cuts_.ids()) {
      Cost compute = 0;
      std::int64_t held = 0, most = 0;
      CutId to = from + 1;
      for (const ChainNodeId node : IdRange(cuts_[from], chain.nodes.end_id())) {
        compute += chain.nodes[node];
        most = std::max(most, chain.live[node]);
        for (const Reading& reading : readings[node]) {
          if (reading.before >= cuts_[from]) continue;
          compute += reading.shared->cost;
          held += reading.shared->bytes;
        }
        if (memory && held + most > *memory) break;  // longer ones take no less
        if (node + 1 == cuts_[to]) compute_[from][to++] = compute;
      }
    }
  }

  IdRange<CutId> cuts() const { return cuts_.ids(); }
  ChainNodeId node(CutId cut) const { return cuts_[cut]; }
  // kForbidden if it takes too much memory.
  Cost compute(CutId from, CutId to) const { return compute_[from][to]; }
  std::int64_t bytes(CutId from, CutId to) const {
    std::int64_t held = 0, most = 0;
    for (const StageChain::Shared& shared : chain_.shared) {
      const auto reader = std::lower_bound(shared.readers.begin(), shared.readers.end(), node(from));
      if (reader != shared.readers.end() && *reader < node(to)) held += shared.bytes;
    }
    for (const std::int64_t live : chain_.live.slice(node(from), node(to))) most = std::max(most, live);
    return held + most;
  }

 private:
  const StageChain& chain_;
  std::optional<std::int64_t> memory_;
  IdVector<CutId, ChainNodeId> cuts_;  // the first node after each cut; the last one is the end of the chain
  IdVector<CutId, IdVector<CutId, Cost>> compute_;
};

}  // namespace

std::optional<StageCuts> cut_stages(const StageChain& chain, int stages, const StageTransfer& transfer,
                                    std::optional<std::int64_t> memory) {
  ir::internal_check(stages >= 1 && !chain.nodes.empty(), "{} stages of {} nodes", stages,
                     chain.nodes.size());
  const Segments segments(chain, memory);
  const CutId begin{0}, end = *segments.cuts().end() - 1;
  const auto sent = [&](int stage, CutId to) {
    const std::int64_t bytes = stage + 1 == stages ? 0 : chain.passing[segments.node(to)];
    return std::pair{bytes, bytes == 0 ? Cost{0} : transfer(stage, bytes)};
  };
  IdVector<int, IdVector<CutId, Cost>> transfers(first_ids<int>(stages),
                                                 IdVector<CutId, Cost>(segments.cuts(), 0));
  for (int s = 0; s + 1 < stages; ++s) {
    for (CutId to = begin + 1; to < end; ++to) transfers[s][to] = sent(s, to).second;
  }
  // By stage and the cut at its end: the best Best by `better`, with the cut before it.
  struct Best {
    Cost longest = kForbidden, transfers = 0;
    CutId before;
  };
  const auto search = [&](auto&& better, Cost most) {
    IdVector<int, IdVector<CutId, Best>> table(first_ids<int>(stages),
                                               IdVector<CutId, Best>(segments.cuts()));
    for (int s = 0; s < stages; ++s) {
      for (CutId to = begin + s + 1; to <= end; ++to) {
        if ((s + 1 == stages) != (to == end)) continue;  // only the last stage ends at the end of the chain
        Best& own = table[s][to];
        for (CutId from = begin + s; from < (s == 0 ? begin + 1 : to); ++from) {
          const Cost compute = segments.compute(from, to);
          const Best before = s == 0 ? Best{0, 0, begin} : table[s - 1][from];
          if (compute == kForbidden || before.longest == kForbidden) continue;
          const Cost cost = compute + transfers[s][to];
          if (cost > most) continue;
          const Best next{std::max(before.longest, cost), before.transfers + transfers[s][to], from};
          if (own.longest == kForbidden || better(next, own)) own = next;
        }
      }
    }
    return table;
  };
  const auto shorter = [](const Best& a, const Best& b) { return a.longest < b.longest; };
  const Cost longest = search(shorter, kForbidden)[stages - 1][end].longest;
  if (longest == kForbidden) return std::nullopt;
  const auto fewer = [](const Best& a, const Best& b) { return a.transfers < b.transfers; };
  const auto table = search(fewer, longest);
  StageCuts result;
  result.longest = longest;
  CutId to = end;
  for (int s = stages - 1; s >= 0; --s) {
    const CutId from = table[s][to].before;
    const auto [bytes, time] = sent(s, to);
    result.stages.push_back({segments.node(from), segments.node(to), segments.compute(from, to), time,
                             segments.bytes(from, to), bytes});
    to = from;
  }
  std::reverse(result.stages.begin(), result.stages.end());
  return result;
}

}  // namespace braid::solver
