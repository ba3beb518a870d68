#include "tests/pipeline/random_schedule.h"

#include <algorithm>

#include "ir/error.h"
#include "pipeline/add_send_recv.h"
#include "pipeline/add_wait_send.h"
#include "pipeline/transfers.h"
#include "pipeline/validate.h"

namespace braid::test {

using namespace braid::pipeline;
using enum ActionKind;

namespace {

int below(std::mt19937& random, int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

bool accepted(const PipelineSchedule& s, bool transfers) {
  try {
    validate(s, {.transfers = transfers});
  } catch (const ir::UserError&) {
    return false;
  }
  return true;
}

// Cells as pieces, so that whole containers move.
std::vector<Row> pieces(const Row& row) {
  std::vector<Row> out;
  for (std::size_t p = 0; p < row.size(); p += cell_size(row, p))
    out.emplace_back(row.begin() + static_cast<long>(p),
                     row.begin() + static_cast<long>(p + cell_size(row, p)));
  return out;
}
Row joined(const std::vector<Row>& cells) {
  Row out;
  for (const Row& c : cells) out.insert(out.end(), c.begin(), c.end());
  return out;
}

void swap_neighbours(std::mt19937& random, PipelineSchedule& s) {
  Row& row = s.rows[static_cast<std::size_t>(below(random, s.ranks()))];
  auto cells = pieces(row);
  if (cells.size() < 2) return;
  const auto i = static_cast<std::size_t>(below(random, static_cast<int>(cells.size()) - 1));
  std::swap(cells[i], cells[i + 1]);
  row = joined(cells);
}

// Puts runs of transfers into BATCH_P2P.
void batch_transfers(std::mt19937& random, PipelineSchedule& s) {
  for (Row& row : s.rows) {
    Row out;
    for (std::size_t p = 0; p < row.size();) {
      std::size_t n = 0;
      while (p + n < row.size() && n < 4 && (is_send(row[p + n].kind) || is_recv(row[p + n].kind))) ++n;
      n = n >= 2 && below(random, 2) == 0
              ? 2 + static_cast<std::size_t>(below(random, static_cast<int>(n) - 1))
              : 0;
      if (n > 0) out.push_back({batch_p2p, -1, static_cast<int>(n)});
      for (n = std::max(n, cell_size(row, p)); n > 0; --n) out.push_back(row[p++]);
    }
    row = out;
  }
}

}  // namespace

PipelineSchedule random_compute(std::mt19937& random, const RandomScheduleOptions& o) {
  PipelineSchedule s;
  const int ranks = 1 + below(random, o.max_ranks);
  const int stages = ranks * (1 + below(random, o.max_stages_per_rank));
  s.microbatches = 1 + below(random, o.max_microbatches);
  s.rows.resize(static_cast<std::size_t>(ranks));
  for (int i = 0; i < stages; ++i) s.rank_of_stage.push_back(i < ranks ? i : below(random, ranks));
  std::ranges::shuffle(s.rank_of_stage, random);

  // Any action whose needs are done, until all are: then one order of all ranks exists.
  IdVector<StageMicrobatch, KindSet> done(stage_microbatches(s));
  const auto has = [&](int stage, int m, KindSet set) {
    return (done[stage_microbatch(s, {forward, stage, m})] & set) != 0;
  };
  const bool split = o.split_backward && below(random, 2) == 0;
  for (;;) {
    std::vector<Action> ready;
    for (int st = 0; st < stages; ++st)
      for (int m = 0; m < s.microbatches; ++m) {
        if (!has(st, m, bit(forward))) {
          if (st == 0 || has(st - 1, m, bit(forward))) ready.push_back({forward, st, m});
        } else if (!has(st, m, kInputGradient)) {
          if (st + 1 == stages || has(st + 1, m, kInputGradient))
            ready.push_back({split ? backward_input : full_backward, st, m});
        } else if (has(st, m, bit(backward_input)) && !has(st, m, bit(backward_weight))) {
          ready.push_back({backward_weight, st, m});
        }
      }
    if (ready.empty()) break;
    const Action a = ready[static_cast<std::size_t>(below(random, static_cast<int>(ready.size())))];
    Row& row = s.rows[s.rank_of_stage[a.stage]];
    if (o.idle && below(random, 5) == 0) row.push_back({});
    if (o.overlap && below(random, 4) == 0) {
      // A second one that is ready at the same time.
      std::erase_if(ready,
                    [&](Action b) { return b == a || s.rank_of_stage[b.stage] != s.rank_of_stage[a.stage]; });
      if (!ready.empty()) {
        const Action b = ready[static_cast<std::size_t>(below(random, static_cast<int>(ready.size())))];
        row.insert(row.end(), {{overlap_f_b, -1, 2}, a, b});
        for (const Action x : {a, b}) done[stage_microbatch(s, x)] |= bit(x.kind);
        continue;
      }
    }
    row.push_back(a);
    done[stage_microbatch(s, a)] |= bit(a.kind);
  }
  return s;
}

PipelineSchedule random_lowered(std::mt19937& random, const RandomScheduleOptions& o, bool keep_valid) {
  PipelineSchedule s = add_send_recv(random_compute(random, o));
  if (o.waits) s = add_wait_send(s);
  for (int i = 0; i < o.swaps; ++i) {
    PipelineSchedule swapped = s;
    swap_neighbours(random, swapped);
    if (!keep_valid || accepted(swapped, true)) s = std::move(swapped);
  }
  if (o.batches) {
    PipelineSchedule batched = s;
    batch_transfers(random, batched);
    if (!keep_valid || accepted(batched, true)) s = std::move(batched);
  }
  return s;
}

}  // namespace braid::test
