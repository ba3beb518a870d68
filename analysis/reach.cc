#include "analysis/reach.h"

namespace braid::analysis {

Reach::Reach(const Problem& p)
    : words_((p.collectives.size() + 63) / 64), rows_(words_ * p.collectives.size(), 0) {
  IdVector<NodeId, CollectiveSet> sets;
  each_block(p, [&](CollectiveId first, CollectiveId last) {
    const auto starts = [](const Step& s) { return s.kind == Step::Kind::start; };
    gather(p, Side::before, first, last, starts, sets);
    const std::size_t from = ir::offset_of(first) / 64,
                      count = std::min(words_ - from, CollectiveSet::Words().size());
    for (const NodeId n : p.nodes()) {
      CollectiveSet set = sets[n];
      for (const Step& s : p.steps_of(n)) {
        if (!starts(s)) continue;
        std::copy_n(set.words().begin(), count, &rows_[ir::offset_of(s.collective) * words_ + from]);
        if (s.collective >= first && s.collective < last) set.set(s.collective - first);
      }
    }
  });
}

}  // namespace braid::analysis
