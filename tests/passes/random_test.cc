// Random programs through random lists of passes: the interpreter must find the same bits before and after,
// with memory where the plan puts it, fused nodes run point by point in random order, and ranks in random
// order.
//
// BRAID_TEST_SEED sets the first seed, BRAID_RANDOM_SCALE multiplies the number of programs.
#include "tests/support/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "ir/collective_order.h"
#include "ir/dependencies.h"
#include "ir/error.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "passes/forward_copies.h"
#include "passes/forward_parts.h"
#include "passes/plan_memory.h"
#include "passes/runner.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_transfers.h"
#include "tests/support/schedule_changes.h"

namespace braid::test {
namespace {

using passes::Pass;

// Fusion that minds no sizes: these programs are tiny.
constexpr const char* kVertical = "fuse_vertical{min_outer=1,small_inner=1000000}";

// A pass with some of its options changed: switches thrown, numbers from tiny to large.
std::string with_random_options(const Pass& pass, std::mt19937_64& random) {
  if (pass.name() == "split_collectives") {  // says itself how many parts, or how large
    constexpr const char* parts[] = {"chunks=2", "chunks=3", "chunks=7,min_bytes=40", "max_bytes=40"};
    return pass.name() + "{" + parts[random() % 4] + "}";
  }
  if (pass.name() == "select_kernels") {  // kernels of both engines, and waits dropped
    constexpr const char* some[] = {
        "", "policy=inductor,engine=nccl", "policy=inductor,engine=shared_memory,threshold_bytes=100",
        "policy=inductor,engine=shared_memory,blocking_below_us=11", "blocking_below_us=1000000"};
    return pass.name() + "{" + some[random() % 5] + "}";
  }
  std::string options;
  const auto set = [&](const std::string& name, const std::string& value) {
    options += (options.empty() ? "" : ",") + name + "=" + value;
  };
  for (const passes::OptionInfo& o : pass.options()) {
    const std::string& value = o.default_value;
    if (o.name == "budget" && pass.name() == "braid_schedule") {
      set(o.name, "20");  // these programs are tiny, and there are many of them
    } else if (random() % 2 == 0) {
      continue;
    } else if (o.name.ends_with("alignment")) {
      set(o.name, random() % 2 == 0 ? "256" : "1024");
    } else if (value == "true" || value == "false") {
      set(o.name, random() % 2 == 0 ? "true" : "false");
    } else if (value.find('.') != std::string::npos || o.name == "cap_mb" || o.name == "factor") {
      constexpr const char* numbers[] = {"0.0002", "0.01", "1.0", "20.0"};
      set(o.name, numbers[random() % 4]);
    } else if (value.find_first_not_of("0123456789") == std::string::npos) {
      constexpr const char* numbers[] = {"1", "2", "7", "1000000"};
      set(o.name, numbers[random() % 4]);
    }
  }
  return options.empty() ? pass.name() : pass.name() + "{" + options + "}";
}

std::vector<std::string> random_passes(std::uint64_t seed) {
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15u);
  if (random() % 4 == 0)
    return {"dead_code",       "forward_copies", "forward_parts", "fuse_epilogues", kVertical,
            "fuse_horizontal", "raise_outputs",  "merge_loops",   "sink_releases"};
  const std::vector<Pass> all = passes::pass_registry().all();
  std::vector<std::string> out;
  for (std::size_t n = 1 + random() % 6; n > 0; --n) {
    const std::size_t k = random() % (all.size() + 1);
    out.push_back(k == all.size() ? "shuffle" : with_random_options(all[k], random));
  }
  return out;
}

std::vector<Pass> make_passes(const std::vector<std::string>& names, std::uint64_t seed) {
  std::vector<Pass> out;
  for (const std::string& name : names) {
    if (name == "shuffle") {
      // Starts of different communicators may change places, where the channel policy leaves them free.
      out.push_back(Pass("shuffle", [seed](ir::Schedule& s) { return shuffle_nodes(s, seed); }));
    } else {
      out.push_back(passes::parse_pass_list(name)[0]);
    }
  }
  constexpr const char* plans[] = {"plan_memory{exact_limit=0}", "plan_memory{in_place_collective_bytes=0}",
                                   "plan_memory"};
  out.push_back(passes::parse_pass_list(plans[seed % 3])[0]);
  return out;
}

using Fault = std::function<void(ir::Schedule&)>;
using Maker = RandomProgram (*)(std::uint64_t seed, int steps);

// Empty if all is well.
std::string difference(std::uint64_t seed, int steps, const std::vector<std::string>& names,
                       const Fault& fault = {}, Maker make = random_program) {
  const RandomProgram program = make(seed, steps);
  try {
    const ir::InterpreterResult before = ir::run(program.schedule, program.inputs, {.order_seed = seed});
    ir::Schedule schedule = program.schedule;
    // The expressions are shared, the graph is a copy of its own.
    passes::run_passes(schedule, make_passes(names, seed), {.check_unchanged = true});
    if (fault) fault(schedule);
    unroll_fused(schedule, program.dims, seed);
    const ir::InterpreterResult after =
        ir::run(schedule, program.inputs, {.use_plan = true, .order_seed = seed + 1});
    for (std::size_t rank = 0; rank < before.outputs.size(); ++rank) {
      for (std::size_t k = 0; k < before.outputs[rank].size(); ++k) {
        if (!(before.outputs[rank][k] == after.outputs[rank][k])) {
          return "rank " + std::to_string(rank) + ", output " + program.schedule.graph.outputs[k].name +
                 " differs";
        }
      }
    }
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

// Fewer operations and passes, as long as it still fails.
std::string shrunk(std::uint64_t seed, int steps, std::vector<std::string> names,
                   Maker make = random_program) {
  for (int fewer = 1; fewer < steps; ++fewer) {
    if (!difference(seed, fewer, names, {}, make).empty()) {
      steps = fewer;
      break;
    }
  }
  for (std::size_t k = 0; k < names.size();) {
    std::vector<std::string> without = names;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(k));
    if (difference(seed, steps, without, {}, make).empty()) {
      ++k;
    } else {
      names = without;
    }
  }
  std::string out = "seed " + std::to_string(seed) + ", " + std::to_string(steps) +
                    " steps: " + difference(seed, steps, names, {}, make) + "\npasses:";
  for (const std::string& n : names) out += " " + n;
  RandomProgram program = make(seed, steps);
  out += "\n--- before\n" + ir::print(program.schedule);
  try {
    passes::run_passes(program.schedule, make_passes(names, seed), {.verify = false});
    out += "--- after\n" + ir::print(program.schedule);
  } catch (const std::exception& e) {
    out += std::string("--- ") + e.what();
  }
  return out;
}

int steps_of(std::uint64_t seed) { return 3 + static_cast<int>(seed % 23); }

TEST(RandomPrograms, KeepTheirMeaning) {
  for (int k = 0; k < random_cases(2000); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    const std::vector<std::string> names = random_passes(seed);
    if (!difference(seed, steps_of(seed), names).empty()) {
      FAIL() << shrunk(seed, steps_of(seed), names);
    }
  }
}

// Each pass by itself, and lists of them, on programs whose ranks send to each other.
TEST(RandomTransfers, KeepTheirMeaning) {
  const std::vector<Pass> all = passes::pass_registry().all();
  for (int k = 0; k < random_cases(400); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    const int steps = 3 + static_cast<int>(seed % 12);
    std::mt19937_64 random(seed);
    std::vector<std::string> names = random_passes(seed);
    // In turn, so that each is alone with some programs.
    if (k % 3 != 0) names = {with_random_options(all[static_cast<std::size_t>(k) % all.size()], random)};
    if (!difference(seed, steps, names, {}, random_transfers).empty()) {
      FAIL() << shrunk(seed, steps, names, random_transfers);
    }
  }
}

TEST(RandomTransfers, ExerciseWhatTheyAreFor) {
  int messages = 0, reductions = 0, moved = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    ir::Schedule s = random_transfers(seed, 3 + static_cast<int>(seed % 12)).schedule;
    for (const ir::Operation& op : s.graph.ops) {
      const auto* kernel = op.as<ir::CollectiveKernel>();
      if (kernel == nullptr) continue;
      messages += kernel->kind == ir::CollectiveKind::send;
      reductions += kernel->kind == ir::CollectiveKind::reduce_scatter;
    }
    const std::string before = ir::print(s);
    passes::run_passes(s, passes::parse_pass_list("simple_fsdp"));
    moved += ir::print(s) != before;
  }
  EXPECT_GT(messages, 200);
  EXPECT_GT(reductions, 20);
  EXPECT_GT(moved, 5);
}

TEST(RandomPrograms, AreReadBackFromTheirText) {
  for (int k = 0; k < random_cases(200); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    ir::Schedule schedule = random_program(seed, steps_of(seed)).schedule;
    passes::run_passes(schedule, make_passes(random_passes(seed), seed));
    const std::string text = ir::print(schedule);
    ASSERT_EQ(ir::print(ir::parse_schedule(text)), text);
  }
}

TEST(RandomPrograms, PassesAreDeterministic) {
  for (int k = 0; k < random_cases(100); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto text = [&] {
      ir::Schedule schedule = random_program(seed, steps_of(seed)).schedule;
      passes::run_passes(schedule, make_passes(random_passes(seed), seed));
      return ir::print(schedule);
    };
    ASSERT_EQ(text(), text());
  }
}

// How often do the things that are to be tested happen at all?
TEST(RandomPrograms, ExerciseWhatTheyAreFor) {
  int fused = 0, epilogues = 0, comm = 0, shared = 0, blocking = 0, coalesced = 0, of_views = 0, grouped = 0,
      forwarded = 0, parted = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    ir::Schedule s = random_program(seed, steps_of(seed)).schedule;
    for (const ir::ScheduleNode& node : s.nodes) grouped += node.kind == ir::ScheduleNode::Kind::grouped;
    forwarded += passes::ForwardCopies().run(s);
    parted += passes::ForwardParts().run(s);
    passes::run_passes(
        s, make_passes({"dead_code", "fuse_epilogues", kVertical, "fuse_horizontal", "merge_loops"}, seed));
    for (const ir::ScheduleNode& node : s.nodes) fused += node.kind == ir::ScheduleNode::Kind::fused;
    for (const ir::Operation& op : s.graph.ops) {
      const auto* gemm = op.as<ir::Gemm>();
      epilogues += gemm != nullptr && gemm->epilogue.has_value();
      const auto* collective = op.as<ir::CollectiveKernel>();
      if (collective == nullptr) continue;
      ++comm;
      blocking += collective->blocking;
      coalesced += collective->outputs.size() > 1;
      for (const ir::TensorRef& t : collective->inputs)
        of_views +=
            std::holds_alternative<ir::NonOwningLayout>(s.graph[ir::unmutated(s.graph, t.buffer)].layout);
    }
    std::set<std::pair<ir::MemorySpace, std::int64_t>> offsets;
    for (const auto& [storage, place] : s.plan->placements) offsets.insert({place.space, place.offset});
    shared += offsets.size() < s.plan->placements.size();
  }
  EXPECT_GT(fused, 100);
  EXPECT_GT(epilogues, 20);
  EXPECT_GT(comm, 100);
  EXPECT_GT(parted, 2);  // forward_parts_test.cc has more
  EXPECT_GT(shared, 40);
  EXPECT_GT(blocking, 20);
  EXPECT_GT(coalesced, 20);
  EXPECT_GT(of_views, 20);
  EXPECT_GT(grouped, 20);
  EXPECT_GT(forwarded, 20);
}

// ---- planted faults: the net must catch them

// Does the fault show in at least one of some programs?
bool is_caught(const std::vector<std::string>& names, const std::function<void(ir::Schedule&)>& fault) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    if (!difference(seed, steps_of(seed), names, fault).empty()) return true;
  }
  return false;
}

TEST(PlantedFaults, LifetimeThatEndsOneStepEarlyIsCaught) {
  EXPECT_TRUE(is_caught({}, [](ir::Schedule& s) {
    for (auto& [storage, place] : s.plan->placements) {
      if (place.last_step > place.first_step) --place.last_step;
    }
  }));
}

TEST(PlantedFaults, TwoLiveStoragesAtOneOffsetAreCaught) {
  EXPECT_TRUE(is_caught({}, [](ir::Schedule& s) {
    ir::Placement* longest = nullptr;
    for (auto& [storage, place] : s.plan->placements) {
      if (place.space != ir::MemorySpace::arena) continue;
      if (longest != nullptr && place.first_step > longest->first_step &&
          place.first_step < longest->last_step) {
        place.offset = longest->offset;
        s.plan->arena_bytes = std::max(s.plan->arena_bytes, place.offset + place.bytes);
        return;
      }
      if (longest == nullptr) longest = &place;
    }
  }));
}

TEST(PlantedFaults, CommunicationMemoryGivenAwayBeforeItsReleaseIsCaught) {
  EXPECT_TRUE(is_caught({}, [](ir::Schedule& s) {
    // Every slot at the beginning of the segment.
    for (auto& [storage, place] : s.plan->placements) {
      if (place.space == ir::MemorySpace::comm) place.offset = 0;
    }
  }));
}

TEST(PlantedFaults, SwappedNeighboursAreCaught) {
  EXPECT_TRUE(is_caught({}, [](ir::Schedule& s) {
    if (s.nodes.size() > 3) std::swap(s.nodes[s.nodes.size() / 2], s.nodes[s.nodes.size() / 2 - 1]);
  }));
}

// Only the runner catches this: two collectives change places as in a careless pass that ignores the other
// side, and memory may allow that. Passes that may reorder collectives may not do this either.
TEST(PlantedFaults, CollectivesThatChangePlacesAmongTransfersAreCaught) {
  int tried = 0;
  for (std::uint64_t seed = first_seed(); tried < random_cases(60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ir::Schedule s = random_transfers(seed, 10).schedule;
    const ir::Dependencies deps = ir::find_dependencies(s, {.channel_order = false});
    const auto start = [&](std::size_t k) { return s.graph[s.nodes[k].op].as<ir::CollectiveKernel>(); };
    // Adjacent starts of one queue that nothing but the queue orders.
    std::vector<std::size_t> places;
    for (std::size_t k = 0; k + 1 < s.nodes.size(); ++k) {
      if (start(k) == nullptr || start(k + 1) == nullptr || ir::name_of(s, static_cast<int>(k)).empty())
        continue;
      if (ir::queues_of(s, s.nodes[k].op) != ir::queues_of(s, s.nodes[k + 1].op)) continue;
      const auto before = deps.predecessors(static_cast<int>(k) + 1);
      if (std::ranges::none_of(before,
                               [&](const ir::Dependency& d) { return d.node == static_cast<int>(k); }))
        places.push_back(k);
    }
    if (places.empty()) continue;
    ++tried;
    const std::size_t at = places[seed % places.size()];
    const Pass careless(
        "careless",
        [at](ir::Schedule& schedule) {
          std::swap(schedule.nodes[at], schedule.nodes[at + 1]);
          return true;
        },
        true);
    EXPECT_THROW(passes::run_passes(s, std::vector<Pass>{careless}), ir::InternalError);
  }
}

TEST(PlantedFaults, FusionAcrossOuterPointsIsCaught) {
  // Reads of a fused node's own buffers go to the mirrored outer point.
  EXPECT_TRUE(is_caught({kVertical}, [](ir::Schedule& s) {
    for (const ir::ScheduleNode& node : s.nodes) {
      if (node.kind != ir::ScheduleNode::Kind::fused) continue;
      const std::vector<ir::OpId> ops = ir::ops_of(node);
      for (ir::OpId op : ops) {
        ir::Loops& loops = *s.graph[op].as<ir::Loops>();
        for (ir::Instr& instr : loops.body.instrs) {
          if (instr.code != ir::OpCode::load || s.graph[instr.buffer].producer != ops[0] ||
              loops.sizes.empty())
            continue;
          const ir::Expr first = s.graph.pool->index(0);
          instr.index = ir::substitute(instr.index, [&](ir::Expr e) -> std::optional<ir::Expr> {
            if (e == first) return loops.sizes[0] - 1 - first;
            return std::nullopt;
          });
        }
      }
    }
  }));
}

}  // namespace
}  // namespace braid::test
