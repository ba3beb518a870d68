#include "pipeline/search_costs.h"

#include "ir/error.h"

namespace braid::pipeline {

SearchProblem search_problem(const PipelineCosts& costs, RankOfStage rank_of_stage, std::int32_t ranks,
                             std::int32_t microbatches, bool split_backward, PerRank<std::int64_t> byte_cap) {
  ir::internal_check(costs.stages.size() == rank_of_stage.size(),
                     "search_problem: {} stages have costs, {} a rank", costs.stages.size(),
                     rank_of_stage.size());
  SearchProblem p;
  p.ranks = ranks;
  p.microbatches = microbatches;
  p.split_backward = split_backward;
  p.byte_cap = std::move(byte_cap);
  for (const StageCosts& c : costs.stages)
    p.stages.push_back({c.forward, split_backward ? c.backward_input : c.full_backward,
                        split_backward ? c.backward_weight : analysis::Time{}, c.activation_bytes,
                        c.weight_bytes});
  for (int s = 0; s + 1 < count_of(rank_of_stage); ++s) {
    const int from = rank_of_stage[s], to = rank_of_stage[s + 1];
    const auto delay = [&](Action send, std::int32_t a, std::int32_t b) {
      return a == b ? analysis::Time{} : costs.transfer(send, a, b);
    };
    p.forward_delay.push_back(delay({ActionKind::send_forward, s, 0}, from, to));
    p.backward_delay.push_back(delay({ActionKind::send_backward, s + 1, 0}, to, from));
  }
  p.rank_of_stage = std::move(rank_of_stage);
  return p;
}

PipelineCosts simulation_costs(const SearchProblem& p) {
  PipelineCosts costs;
  costs.link.gb_s = 1000;
  for (const int s : p.stages.ids()) {
    const SearchStage& stage = p.stages[s];
    StageCosts c;
    c.forward = stage.forward;
    c.backward_input = c.full_backward = stage.backward_input;
    c.backward_weight = stage.backward_weight;
    if (s < count_of(p.forward_delay)) c.forward_bytes = p.forward_delay[s].ps;
    if (s > 0) c.backward_bytes = p.backward_delay[s - 1].ps;
    costs.stages.push_back(c);
  }
  return costs;
}

}  // namespace braid::pipeline
