// Memory limits and kept lines of the search against trying all plans of small models.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "split/candidates.h"
#include "split/found_plan.h"
#include "split/kept_lines.h"
#include "split/machine_costs.h"
#include "split/memory_rows.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/split/two_products.h"

namespace braid::frontend::sharding {
namespace {

// Calls `visit` with every choice that is not forbidden, and its cost.
void for_all(const Problem& problem, const std::function<void(const Assignment&, Cost)>& visit) {
  Assignment choice = first_choice(problem);
  do {
    if (const Cost cost = price(problem, choice); cost != kForbidden) visit(choice, cost);
  } while (next_choice(problem, choice));
}

std::int64_t size(const ir::Expr& e) { return ir::bounds(e).max; }

TEST(ShardingLimits, MemoryLimitsGiveTheCheapestPlanWithin) {
  int binding = 0;
  // The last reads one weight twice, and may hold it in two states.
  const std::string tied = fmt::format(
      "g (float[4,8] x) => (float[4,8] y) <{}> {{ h = MatMul(x, w)\n r = Relu(h)\n y = MatMul(r, w) }}",
      weight("w", 8, 8));
  for (const std::string& text : {two_products("2", 8), two_products("32", 8), tied}) {
    with_graph(text, {}, [&](const Graph& graph) {
      for (const int ranks : {2, 4}) {
        const SplitSpace space(graph, ranks);
        const MemoryRows memory(graph, space, size);
        for (const unsigned seed : {0u, 1u, 2u}) {
          const Problem problem = space.problem(test_costs(seed));
          std::map<std::int64_t, Cost> cheapest;  // by bytes
          for_all(problem, [&](const Assignment& choice, Cost cost) {
            const auto [entry, fresh] = cheapest.try_emplace(memory.of_plan(choice), cost);
            if (!fresh) entry->second = std::min(entry->second, cost);
          });
          ASSERT_GT(cheapest.size(), 3u);
          EXPECT_EQ(memory.least(problem).bytes, cheapest.begin()->first);
          Cost best = kForbidden;
          const Cost free = solve(problem).cost;
          for (const auto& [bytes, cost] : cheapest) {
            Problem limited = problem;
            memory.limit(limited, bytes - 1);
            const Solution below = solve(limited);
            EXPECT_EQ(below.cost, best) << bytes;
            EXPECT_TRUE(below.proved());
            best = std::min(best, cost);
            binding += best > free ? 1 : 0;
          }
          EXPECT_EQ(best, free);
        }
      }
    });
  }
  EXPECT_GT(binding, 20);
}

// For every effort, no plan takes less than `bytes`, and one takes `reached`; both meet if the effort is
// large enough. The answer about a limit is true on both sides of the least.
TEST(ShardingLimits, LeastMemoryIsEnclosedByEveryBudget) {
  int open = 0, proved = 0;
  for (const std::string& text : {two_products("2", 8), two_products("32", 8)}) {
    with_graph(text, {}, [&](const Graph& graph) {
      for (const int ranks : {2, 4}) {
        const SplitSpace space(graph, ranks);
        const MemoryRows memory(graph, space, size);
        const Problem problem = space.problem(test_costs(1));
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        for_all(problem,
                [&](const Assignment& choice, Cost) { least = std::min(least, memory.of_plan(choice)); });
        EXPECT_LE(memory.of_smallest(), least);
        for (const std::int64_t budget : {0, 1, 100, 1000, 10'000, 100'000, 1 << 28}) {
          SolveOptions effort;
          effort.budget = budget;
          const LeastMemory found = memory.least(problem, effort);
          EXPECT_LE(found.bytes, least) << budget;
          EXPECT_GE(found.reached, least) << budget;
          if (!found.choice.empty()) {
            EXPECT_EQ(memory.of_plan(found.choice), found.reached);
            EXPECT_NE(price(problem, found.choice), kForbidden);
          }
          (found.proved() ? proved : open) += 1;
        }
        const LeastMemory below = memory.least(problem, {}, least - 1),
                          enough = memory.least(problem, {}, least);
        EXPECT_GT(below.bytes, least - 1);
        EXPECT_EQ(enough.reached, least);
        EXPECT_LE(below.bytes, least);
      }
    });
  }
  EXPECT_GT(open, 0);
  EXPECT_GT(proved, 4);
}

// Each layer is a product and one back to the first width, so the least is known: a rank's parts of all
// weights, and a small tensor or two beside them.
TEST(ShardingLimits, LeastMemoryOfManyLayers) {
  constexpr int kLayers = 48, kHidden = 16;
  std::string weights, nodes, x = "x";
  for (int k = 0; k < kLayers; ++k) {
    weights += fmt::format("{}{}, {}", k ? ", " : "", weight(fmt::format("up{}", k), kHidden, 2 * kHidden),
                           weight(fmt::format("down{}", k), 2 * kHidden, kHidden));
    const std::string y = k + 1 == kLayers ? "y" : fmt::format("x{}", k);
    nodes += fmt::format(
        "h{0} = MatMul({1}, up{0})\n r{0} = Relu(h{0})\n d{0} = MatMul(r{0}, down{0})\n {2} = "
        "Softmax(d{0})\n ",
        k, x, y);
    x = y;
  }
  with_graph("g (float[2,16] x) => (float[2,16] y) <" + weights + "> {" + nodes + "}", {},
             [](const Graph& graph) {
               for (const int ranks : {2, 4}) {
                 const SplitSpace space(graph, ranks);
                 const MemoryRows memory(graph, space, size);
                 const LeastMemory least = memory.least(space.problem(test_costs()));
                 const std::int64_t in_parts = 4 * kLayers * 2 * kHidden * 2 * kHidden / ranks;
                 EXPECT_GE(least.bytes, in_parts);
                 EXPECT_LT(least.reached, in_parts + 4 * 5 * 2 * 2 * kHidden);
                 EXPECT_LE(least.reached - least.bytes, least.bytes / 100);
               }
             });
}

// All rows have more than 2^50 bytes: as costs they could not be added up. The need of the largest row is
// known all the same.
TEST(ShardingLimits, OfMoreBytesThanCanBeAddedUpOnlyABoundIsKnown) {
  with_graph(two_products("4", 8), {}, [&](const Graph& graph) {
    const SplitSpace space(graph, 2);
    const MemoryRows memory(graph, space, [](const ir::Expr&) { return std::int64_t{1} << 25; });
    const LeastMemory least = memory.least(space.problem(test_costs()));
    EXPECT_TRUE(least.choice.empty());
    EXPECT_FALSE(least.proved());
    EXPECT_GE(least.bytes, std::int64_t{1} << 50);
    EXPECT_EQ(least.bytes, memory.of_smallest());
  });
}

// On a space that is searched one axis after another: holds the least, and the plans of a limit, against
// those of all axes at once.
TEST(ShardingLimits, AxesInTurnKeepLimits) {
  const Mesh mesh = parse_mesh("dp=2,tp=2", "mesh");
  SpaceOptions few;
  few.cells = 0;
  int reached = 0, limited = 0;
  for (const std::string& text : {two_products("4", 8), two_products("64", 8)}) {
    with_graph(text, {}, [&](const Graph& graph) {
      const SplitSpace whole(graph, mesh), large(graph, mesh, few);
      ASSERT_FALSE(whole.large());
      ASSERT_TRUE(large.large());
      for (const int communication : {1, 30, 1000, 3000}) {
        const SplitCosts costs = split_costs(analysis::cost_model_for("cpu"), {communication, 0});
        const Problem problem = whole.problem(costs);
        const MemoryRows memory(graph, whole, size), of_large(graph, large, size);
        const LeastMemory least = memory.least(problem),
                          turns = least_in_turn(graph, large, costs, 0, {}, {});
        ASSERT_TRUE(least.proved());
        EXPECT_LE(turns.bytes, least.bytes);
        EXPECT_GE(turns.reached, least.bytes);
        EXPECT_EQ(of_large.of_plan(turns.choice), turns.reached);
        reached += turns.reached == least.bytes ? 1 : 0;
        const std::int64_t most = of_large.of_plan(solved_in_turn(large, costs).solution.choice);
        for (std::int64_t limit = turns.reached; limit < most; limit += 64) {
          const LeastMemory within = least_in_turn(graph, large, costs, limit, {}, {});
          ASSERT_LE(within.reached, limit);
          const SpaceSolution found = solved_in_turn(
              large, costs, {}, within.choice,
              [&](const SplitSpace& part, Problem& p) { MemoryRows(graph, part, size).limit(p, limit); });
          EXPECT_LE(of_large.of_plan(found.solution.choice), limit);
          Problem restricted = problem;
          memory.limit(restricted, limit);
          EXPECT_GE(large.described(costs, found).price(graph, costs), solve(restricted).cost);
          ++limited;
        }
      }
    });
  }
  EXPECT_GT(reached, 0);
  EXPECT_GT(limited, 8);
}

// A weight that two nodes read and that is less than a thousandth of the limit gets no row, but counts: no
// plan that is found takes more than the limit.
TEST(ShardingLimits, WhatIsTooSmallForARowCounts) {
  const std::string text = fmt::format(
      "g (float[1,128] x) => (float[1,128] y) <{}, {}, float[16] small = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "
      "11, 12, 13, "
      "14, 15, 16}}, int64[2] apart = {{16, 16}}, int64[2] flat = {{1, 256}}> {{ h = MatMul(x, up)\n a = "
      "Reshape(h, "
      "apart)\n b = Add(a, small)\n c = Mul(b, small)\n d = Reshape(c, flat)\n y = MatMul(d, down) }}",
      weight("up", 128, 256), weight("down", 256, 128));
  int decided = 0, plans = 0;
  with_graph(text, {}, [&](const Graph& graph) {
    for (const int ranks : {2, 4}) {
      const auto machine = analysis::cost_model_for("h100");
      const SplitCosts costs = split_costs(machine);
      const SplitSpace space(graph, ranks);
      const MemoryRows memory(graph, space, size);
      const Problem problem = space.problem(costs);
      const std::int64_t least = memory.least(problem).reached;
      // Each limit is a little less than what the last plan takes.
      std::int64_t taken = memory.of_plan(solve(problem).choice);
      while (taken - 16 >= least) {
        const std::int64_t limit = taken - 16;
        Problem limited = problem;
        memory.limit(limited, limit);
        Assignment choice = solve(limited).choice;
        choice.resize(problem.variables.size());
        decided += memory.of_plan(choice) > limit ? 1 : 0;
        SearchOptions options;
        options.bounds = false;
        options.cheapest_only = true;
        options.memory = limit;
        const FoundPlans found = find_plans(graph, {Mesh::line(ranks)}, machine, options).front();
        ASSERT_FALSE(found.plans.empty()) << limit;
        for (const FoundPlan& plan : found.plans) ASSERT_LE(memory.of_plan(plan.choice), limit);
        taken = memory.of_plan(found.plans.front().choice);
        ++plans;
      }
    }
  });
  EXPECT_EQ(plans, 2);
  EXPECT_EQ(decided, 2);
}

// A plan that cuts the same on all axes is one of a line of so many ranks, caches included. So the least of a
// mesh of even sizes is no larger, and a limit that the line keeps has a plan.
TEST(ShardingLimits, MeshesTakeNoMoreThanTheirLine) {
  const std::string caches =
      "g (float[2,8,4,8] q, float[2,8,4,8] past, float[2,8,1,8] new) => (float[2,8,4,8] y, float[2,8,5,8] "
      "present) { present = Concat<axis=2>(past, new)\n kt = Transpose<perm=[0,1,3,2]>(present)\n scores = "
      "MatMul(q, kt)\n weights = Softmax<axis=-1>(scores)\n y = MatMul(weights, present) }";
  int kept = 0;
  for (const std::string& text : {two_products("8", 16), two_products("64", 16), caches}) {
    with_graph(text, {}, [&](const Graph& graph) {
      for (const char* axes : {"dp=2,tp=2", "a=2,b=2,c=2", "a=4,b=2"}) {
        SpaceOptions few{.caches = Caches::in_parts};
        few.cells = 0;
        const Mesh mesh = parse_mesh(axes, "mesh");
        const SplitSpace large(graph, mesh, few), line(graph, mesh.ranks(), Caches::in_parts);
        ASSERT_TRUE(large.large());
        const SplitCosts costs = split_costs(analysis::cost_model_for("cpu"));
        const LeastMemory of_line = MemoryRows(graph, line, size).least(line.problem(costs)),
                          turns = least_in_turn(graph, large, costs, 0, {}, {});
        ASSERT_TRUE(of_line.proved());
        EXPECT_LE(turns.reached, of_line.bytes) << axes;
        EXPECT_LE(turns.bytes, turns.reached);
        SearchOptions options;
        options.caches = true;
        options.bounds = false;
        options.memory = of_line.bytes;
        const FoundPlans found = find_plans(graph, {mesh}, analysis::cost_model_for("cpu"), options).front();
        ASSERT_FALSE(found.plans.empty()) << axes;
        EXPECT_LE(found.plans.front().counted_bytes, of_line.bytes);
        ++kept;
      }
    });
  }
  EXPECT_EQ(kept, 9);
}

TEST(ShardingLimits, BytesOfPlansAsOnPaper) {
  with_graph(two_products("2", 8), {}, [](const Graph& graph) {
    const SplitSpace space(graph, 2);
    const MemoryRows memory(graph, space, size);
    SplitCosts costs = test_costs();
    // Everything whole: both weights, the input and the output; in the fullest row h is read and d computed.
    costs.node = [](const Graph&, const GraphNode&, const Strategy& s, int) -> Cost {
      return s.letter.valid() ? 1 : 0;
    };
    costs.step = [](const ConversionStep&, int) { return Cost{1}; };
    const Problem whole = space.problem(costs);
    EXPECT_EQ(memory.of_plan(solve(whole).choice), 4 * (128 + 128 + 16 + 16 + 32 + 16));
    // The least: halves of the weights and of h; d is half if its columns are split.
    EXPECT_EQ(memory.least(whole).bytes, 4 * (64 + 64 + 16 + 16 + 16 + 8));
  });
}

TEST(ShardingLimits, KeptLinesAreObeyedAndTheRestIsTheBest) {
  with_graph(two_products("4", 8), {}, [](const Graph& graph) {
    const SplitSpace space(graph, 2);
    const auto kept = [&](const std::string& lines) {
      return KeptLines(graph, space, parse_plan("plan 1\nranks 2\n" + lines, "k.plan"), "k.plan");
    };
    struct Case {
      const char* line;
      std::function<bool(const MeshPlan&)> holds;
    };
    const Case cases[] = {
        {"\"h\" = R\n", [](const MeshPlan& p) { return is_replicated(p.of_value("h")); }},
        {"\"h\" = S(0)\n", [](const MeshPlan& p) { return p.of_value("h")[0] == Spec::split(0); }},
        {"\"h\" = S(1)\n", [](const MeshPlan& p) { return p.of_value("h")[0] == Spec::split(1); }},
        {"\"d\" = P(sum)\n\"h\" = S(0)\n",
         [](const MeshPlan& p) {
           return p.of_value("d")[0].is_pending() && p.of_value("h")[0] == Spec::split(0);
         }},
        {"\"down\" -> \"d\" = S(0)\n", [](const MeshPlan& p) {
           return p.axes[0].of_reader("down", "d", 1, Spec::replicated()) == Spec::split(0);
         }}};
    for (const Case& c : cases) {
      for (const unsigned seed : {0u, 3u}) {
        const KeptLines lines = kept(c.line);
        const SplitChoice choice =
            space.choose(test_costs(seed), {}, [&](Problem& problem) { lines.restrict(problem); });
        ASSERT_TRUE(choice.solution.feasible());
        EXPECT_TRUE(c.holds(choice.plan)) << c.line << to_string(choice.plan);
        // The cheapest of all plans that keep the lines.
        Problem restricted = space.problem(test_costs(seed));
        lines.restrict(restricted);
        Cost best = kForbidden;
        for_all(restricted, [&](const Assignment&, Cost cost) { best = std::min(best, cost); });
        EXPECT_EQ(choice.solution.cost, best);
      }
    }
    const auto message = [&](const std::string& lines) {
      const ir::UserError error =
          error_of([&] { kept(lines).require_possible(space.problem(test_costs())); });
      EXPECT_EQ(error.code(), 482);
      return error.message();
    };
    EXPECT_NE(message("\"none\" = R\n").find("line 3: the model has no tensor 'none'"), std::string::npos);
    EXPECT_NE(message("\"h\" = S(7)\n").find("line 3: 'h' is S(7)"), std::string::npos);
    EXPECT_NE(message("\"x\" = S(0)\n").find("line 3: 'x' is S(0), but it is whole"), std::string::npos);
    EXPECT_NE(message("\"h\" -> \"y\" = R\n").find("line 3: 'y' does not read 'h'"), std::string::npos);
    // Each line is possible, but not both: columns of the product are not rows of it.
    EXPECT_NE(message("\"h\" = S(1)\n\"up\" -> \"h\" = R\n")
                  .find("line 4: 'up' is taken by 'h' as R, which contradicts"),
              std::string::npos);
    EXPECT_NO_THROW(
        kept("\"h\" = S(1)\n\"up\" -> \"h\" = S(1)\n").require_possible(space.problem(test_costs())));
  });
}

// Returns the least cost of all plans in which no reader of the conversion takes its result.
Cost cheapest_otherwise(const Graph& graph, const SplitSpace& space, const Problem& problem,
                        const PlanConversion& c) {
  Cost best = kForbidden;
  for_all(problem, [&](const Assignment& choice, Cost cost) {
    for (const VariableId v : space.node_variables()) {
      const GraphNode& node = graph.nodes[space.node_of(v)];
      if (std::find(c.readers.begin(), c.readers.end(), plan_name(graph, node)) == c.readers.end()) continue;
      for (int k = 0; k < count_of(node.inputs); ++k) {
        if (graph.values[node.inputs[k]].name == c.value &&
            to_string(space.taken_state(v, choice[v], k), space.mesh()) == c.to)
          return;
      }
    }
    best = std::min(best, cost);
  });
  return best;
}

// Holds the explanations of a conversion and of changes of the choice against all plans and the search
// itself.
TEST(ShardingLimits, ExplanationsAreThoseOfTheSearch) {
  int conversions = 0, flips = 0;
  for (const char* machine : {"cpu", "h100"}) {
    for (const int rows : {4, 64, 512}) {
      with_graph(two_products(std::to_string(rows), 16), {}, [&](const Graph& graph) {
        const auto costs = analysis::cost_model_for(machine);
        const SplitSpace space(graph, 2);
        const Problem problem = space.problem(split_costs(costs));
        for (const bool obey : {false, true}) {
          SearchOptions options;
          options.obey = obey;
          options.explain = true;
          FoundPlans found = std::move(find_plans(graph, {Mesh::line(2)}, costs, options)[0]);
          FoundPlan& plan = found.plans.front();
          price_alternatives(graph, Mesh::line(2), costs, options, plan);
          for (const PlanConversion& c : plan.conversions) {
            if (!c.otherwise) continue;
            ++conversions;
            EXPECT_EQ(c.otherwise->ps, cheapest_otherwise(graph, space, problem, c) - plan.predicted.ps)
                << c.value;
            if (!obey) {
              EXPECT_GE(c.otherwise->ps, 0);
            }
          }
          const Cost whole = obey ? Cost{1'000'000'000'000} : 0;
          const auto plan_at = [&](double link, double memory) {
            return to_string(
                space
                    .choose(split_costs(costs, {static_cast<int>(std::llround(1000 * link)), whole,
                                                static_cast<int>(std::llround(1000 * memory))}))
                    .plan);
          };
          EXPECT_EQ(plan_at(1, 1), plan.text);
          const auto check = [&](double factor, const auto& at) {
            if (factor == 0) return;
            ++flips;
            EXPECT_NE(at(factor), plan.text) << factor;
            EXPECT_EQ(at(std::pow(factor,
                                  factor > 1 ? 1 - 0.011 / std::log(factor) : 1 + 0.011 / std::log(factor))),
                      plan.text)
                << factor;
          };
          const auto link = [&](double f) { return plan_at(f, 1); };
          const auto memory = [&](double f) { return plan_at(1, f); };
          check(found.flips.link_slower, link);
          check(found.flips.link_faster, link);
          check(found.flips.memory_slower, memory);
          check(found.flips.memory_faster, memory);
        }
      });
    }
  }
  EXPECT_GT(conversions, 4);
  EXPECT_GT(flips, 4);
}

// Under a limit of memory the alternative to a conversion keeps the limit, too, on one axis and on two; or
// there is a reason why it has no price.
TEST(ShardingLimits, AlternativesKeepTheLimit) {
  int priced = 0, dearer = 0, impossible = 0, several = 0;
  for (const char* machine : {"cpu", "h100"}) {
    for (const char* on : {"tp=2", "dp=2,tp=2"}) {
      const Mesh mesh = parse_mesh(on, "mesh");
      with_graph(two_products("64", 16), {}, [&](const Graph& graph) {
        const auto costs = analysis::cost_model_for(machine);
        const SplitSpace space(graph, mesh, {});
        ASSERT_FALSE(space.large());
        const MemoryRows memory(graph, space, split_costs(costs).size);
        const Problem problem = space.problem(split_costs(costs));
        const std::int64_t least = memory.least(problem).bytes,
                           whole = bytes_of_all(graph, split_costs(costs));
        for (std::int64_t limit = least; limit < whole; limit += (whole - least) / 8) {
          SCOPED_TRACE(fmt::format("{} {} {}", machine, on, limit));
          Problem limited = problem;
          memory.limit(limited, limit);
          SearchOptions options;
          options.memory = limit;
          FoundPlans found = std::move(find_plans(graph, {mesh}, costs, options)[0]);
          ASSERT_FALSE(found.plans.empty());
          FoundPlan& plan = found.plans.front();
          price_alternatives(graph, mesh, costs, options, plan);
          for (const PlanConversion& c : plan.conversions) {
            EXPECT_NE(c.otherwise.has_value(), !c.unpriced.empty()) << c.value;
            const bool returned = std::find(c.readers.begin(), c.readers.end(), "") != c.readers.end();
            if (returned) {
              EXPECT_FALSE(c.otherwise);
              continue;
            }
            const Cost best = cheapest_otherwise(graph, space, limited, c);
            if (best == kForbidden) {
              EXPECT_FALSE(c.otherwise);
              EXPECT_NE(c.unpriced.find("no plan"), std::string::npos) << c.unpriced;
              ++impossible;
              continue;
            }
            ASSERT_TRUE(c.otherwise) << c.unpriced;
            EXPECT_EQ(c.otherwise->ps, best - plan.predicted.ps) << c.value;
            ++priced;
            dearer += best > cheapest_otherwise(graph, space, problem, c) ? 1 : 0;
            several += mesh.size() > 1 ? 1 : 0;
          }
        }
      });
    }
  }
  EXPECT_GT(priced, 4);
  EXPECT_GT(dearer, 0);
  EXPECT_GT(impossible, 0);
  EXPECT_GT(several, 0);
}

}  // namespace
}  // namespace braid::frontend::sharding
