// The costs of a pipeline schedule's actions: times per stage and kind, links between ranks, bytes per stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/costs/time.h"
#include "pipeline/action.h"
#include "pipeline/schedule.h"

namespace braid::pipeline {

// The costs of one stage and one micro-batch; parameters and gradients exist once per stage.
struct StageCosts {
  analysis::Time forward, backward_input, backward_weight;
  analysis::Time full_backward;
  analysis::Time unshard, reduce_grad;  // collectives that overlap computation; zero if nothing is sharded
  std::int64_t activation_bytes = 0;    // held from the start of F
  std::int64_t weight_bytes = 0;        // the part of them that remains after I, until the end of W
  std::int64_t forward_bytes = 0;       // what SEND_F of this stage sends
  std::int64_t backward_bytes = 0;      // what SEND_B of this stage sends
  std::int64_t parameter_bytes = 0;     // from UNSHARD to RESHARD; the whole step if a row has neither
  std::int64_t gradient_bytes = 0;      // from the first W or B to the end

  friend bool operator==(const StageCosts&, const StageCosts&) = default;
};

// A transfer takes latency + bytes / bandwidth.
struct Link {
  analysis::Time latency;
  double gb_s = 0;  // 1e9 bytes per second; 0: no limit

  friend bool operator==(const Link&, const Link&) = default;
};

struct LinkBetween {
  std::int32_t from = 0, to = 0;  // ranks
  Link link;

  friend bool operator==(const LinkBetween&, const LinkBetween&) = default;
};

struct PipelineCosts {
  PerStage<StageCosts> stages;
  Link link;                       // between ranks that `links` does not name
  std::vector<LinkBetween> links;  // ascending by (from, to)
  // The time of OVERLAP_F_B relative to the sum of its members; at least that of the longest one.
  analysis::Permille overlap = 1000;
  analysis::Permille slowdown = 1000;  // of computation during a transfer of the same rank
  bool shared_links = false;           // concurrent transfers from, or to, one rank share its bandwidth

  analysis::Time of(Action compute) const;  // one action, no container
  // The time of a SEND between two ranks, capped at 46 days.
  analysis::Time transfer(Action send, std::int32_t from, std::int32_t to) const;

  friend bool operator==(const PipelineCosts&, const PipelineCosts&) = default;
};

// F, I and W take one unit (1 us) each, B takes two and transfers none; an activation is one byte, and W
// needs all of it.
PipelineCosts unit_costs(const PipelineSchedule& schedule);

// {"version": 1, "stages": [{"forward_us": 10, "backward_input_us": 12, "backward_weight_us": 8, ...}, ...],
//  "link": {"latency_us": 5, "gb_s": 25}, "links": [{"from": 0, "to": 1, "latency_us": 9, "gb_s": 12}],
//  "overlap": 0.8, "slowdown": 1.05, "shared_links": true}
// Missing keys are zero or as above, full_backward_us defaults to the sum of both parts; a single entry of
// "stages" applies to all. User errors BR0001, BR0860 (not JSON) and BR0861, with line and column.
PipelineCosts read_costs(const std::string& path, int stages);
PipelineCosts parse_costs(const std::string& text, const std::string& file, int stages);

}  // namespace braid::pipeline
