#include "pipeline/channel_choice.h"

#include <gtest/gtest.h>

#include "pipeline/add_send_recv.h"
#include "pipeline/generators.h"
#include "pipeline/known_schedules.h"
#include "pipeline/search.h"
#include "pipeline/search_costs.h"
#include "pipeline/simulate.h"
#include "pipeline/timed_transfers.h"
#include "tests/pipeline/random_search_problem.h"

namespace braid::pipeline {
namespace {

constexpr QueuePolicy kPolicies[] = {{QueuePolicy::Kind::rank, 0},
                                     {QueuePolicy::Kind::pair, 0},
                                     {QueuePolicy::Kind::edge, 0},
                                     {QueuePolicy::Kind::rank, 2},
                                     {QueuePolicy::Kind::edge, 1}};

SearchProblem problem(std::uint64_t seed) {
  RandomProblemOptions options;
  options.microbatches_most = 6;
  SearchProblem p = random_search_problem(
      seed, options, seed % 3 == 0 ? std::vector<std::int32_t>{0, 1, 1, 0} : std::vector<std::int32_t>{});
  for (std::int64_t& cap : p.byte_cap) cap *= 2;
  return p;
}

TEST(ChannelChoice, IsProvedAndSimulatedUnderEveryPolicyAndNotBelowTheBound) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed)
    for (const QueuePolicy policy : kPolicies) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", channels " << to_string(policy));
      const SearchProblem p = problem(seed);
      SearchOptions options;
      options.channels = policy;
      options.simulations = 40;
      const SearchResult r = search(p, known_schedules(p), options);
      const ChannelChoice& e = r.executable;
      EXPECT_EQ(e.certificate.policy, policy);
      EXPECT_EQ(check_certificate(e.lowered, e.certificate), "");
      EXPECT_EQ(simulate(e.lowered, simulation_costs(p), policy).makespan, e.simulated);
      EXPECT_GE(e.simulated, r.lower_bound);
      EXPECT_LE(e.simulated, e.first_candidate);
      const Evaluation model = evaluate(p, e.orders);
      ASSERT_EQ(model.status, Evaluation::Status::ok);  // keeps the caps as well
      EXPECT_GE(e.simulated, model.makespan);
    }
}

TEST(ChannelChoice, IsNotLongerThanAnyKnownScheduleUnderTheSameChannels) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const QueuePolicy policy : kPolicies) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", channels " << to_string(policy));
      SearchProblem p = problem(seed);
      p.byte_cap.clear();
      const std::vector<NamedSchedule> known = known_schedules(p);
      SearchOptions options;
      options.channels = policy;
      options.simulations = 0;
      const SearchResult r = search(p, known, options);
      for (std::size_t j = 0; j < known.size(); ++j) {
        if (r.known[j].status != KnownOutcome::Status::fits) continue;
        const PipelineSchedule lowered = add_timed_send_recv(p, from_rows(p, known[j].schedule));
        EXPECT_LE(r.executable.simulated, simulate(lowered, simulation_costs(p), policy).makespan)
            << known[j].name;
        // The rows that 'braid pipeline simulate --schedule' shows: idle cells move RECVs.
        const PipelineSchedule published = add_send_recv(in_problem_kinds(p, known[j].schedule));
        EXPECT_LE(r.executable.simulated, simulate(published, simulation_costs(p), policy).makespan)
            << known[j].name;
      }
    }
}

// The idle cells of the published rows move RECVs, here to where no queue costs anything.
TEST(ChannelChoice, KnownSchedulesCountWithTheirIdleCells) {
  PipelineCosts costs = parse_costs(R"({"version": 1, "link": {"latency_us": 3, "gb_s": 2}, "stages": [
      {"forward_us": 9, "backward_input_us": 19, "backward_weight_us": 8, "forward_bytes": 2591, "backward_bytes": 1906},
      {"forward_us": 9, "backward_input_us": 9, "backward_weight_us": 16, "forward_bytes": 3799, "backward_bytes": 704},
      {"forward_us": 10, "backward_input_us": 1, "backward_weight_us": 1, "forward_bytes": 2453, "backward_bytes": 1562}]})",
                                    "costs.json", 3);
  const SearchProblem p = search_problem(costs, {0, 1, 2}, 3, 3, true);
  SearchOptions options;
  options.channels = {QueuePolicy::Kind::rank, 1};
  options.costs = &costs;
  const SearchResult r = search(p, known_schedules(p), options);
  const PipelineSchedule zero_bubble = find_generator("ZB1P").generate({3, 3, 3});
  EXPECT_LE(r.executable.simulated, simulate(add_send_recv(zero_bubble), costs, options.channels).makespan);
}

// The model is the simulation of rows without transfers: "a value arrives latency + bytes / bandwidth after
// its action has ended, whatever else is under way".
TEST(SearchModel, IsTheSimulationOfRowsThatOnlyCompute) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const SearchProblem p = problem(seed);
    const SearchResult r = search(p, {}, {.simulations = 0});
    EXPECT_EQ(simulate(r.compute, simulation_costs(p)).makespan, r.makespan);
  }
}

TEST(SearchModel, IsWhatTheChannelsDoWhereTransfersTakeNoTime) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed)
    for (const QueuePolicy policy : kPolicies) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", channels " << to_string(policy));
      SearchProblem p = problem(seed);
      for (auto* delays : {&p.forward_delay, &p.backward_delay})
        for (analysis::Time& t : *delays) t = {};
      const SearchResult r = search(p, {}, {.channels = policy, .simulations = 0});
      EXPECT_EQ(r.executable.simulated, r.makespan);
      EXPECT_EQ(r.executable_source, "search");
    }
}

TEST(SearchCosts, ComeFromAndGoToTheCostsOfAPipeline) {
  PipelineCosts costs;
  costs.link = {analysis::Time::from_us(5), 10};
  costs.stages.assign(4, {});
  for (std::size_t s = 0; s < 4; ++s) {
    StageCosts& c = costs.stages[s];
    c.forward = analysis::Time::from_us(10 + static_cast<double>(s));
    c.backward_input = analysis::Time::from_us(12);
    c.backward_weight = analysis::Time::from_us(8);
    c.full_backward = analysis::Time::from_us(19);
    c.activation_bytes = 100;
    c.weight_bytes = 40;
    c.forward_bytes = 20000;
    c.backward_bytes = 50000;
  }
  const SearchProblem p = search_problem(costs, {0, 1, 1, 0}, 2, 4, true);
  EXPECT_EQ(p.forward_delay[0], analysis::Time::from_us(7));
  EXPECT_EQ(p.backward_delay[0], analysis::Time::from_us(10));
  EXPECT_EQ(p.forward_delay[1], analysis::Time{});
  EXPECT_EQ(p.stages[2].weight_bytes, 40);
  EXPECT_EQ(search_problem(costs, {0, 1, 1, 0}, 2, 4, false).stages[0].backward_input,
            analysis::Time::from_us(19));
  const SearchResult r = search(p, {}, {.simulations = 0});
  EXPECT_EQ(simulate(r.compute, costs).makespan, r.makespan);
  EXPECT_EQ(simulate(r.compute, simulation_costs(p)).makespan, r.makespan);
}

}  // namespace
}  // namespace braid::pipeline
