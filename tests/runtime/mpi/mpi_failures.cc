#include "tests/runtime/mpi/mpi_failures.h"

#include <signal.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "tests/runtime/comm_cases.h"

namespace braid::rt::testing {
namespace {

void expect(const Status& status, StatusCode code, std::initializer_list<const char*> parts) {
  EXPECT_EQ(status.code, code) << status.message;
  for (const char* part : parts)
    EXPECT_NE(status.message.find(part), std::string::npos) << part << " in " << status.message;
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Returns the error that a rank outside of any call gets when the World fails.
Status heard(const World& world) {
  for (int k = 0; k < 10'000 && world.last_error().ok(); ++k) sleep_ms(2);
  return world.last_error();
}

CollectiveCall sum(std::vector<float>& data, size_t count) {
  return {.kind = CollectiveKind::all_reduce,
          .count = count,
          .input = data.data(),
          .output = data.data(),
          .label = "/mlp/Sum"};
}

// A group of all, which has done collective 0: on the slowest rank perhaps not, if the World fails in
// collective 1 of the others meanwhile.
Communicator* warm_group(World& world, const std::string& name = "tp") {
  Communicator* all = make_group(world, first_ranks(world.size()), name);
  std::vector<float> data(8);
  const Status first = all->run(sum(data, 8));
  EXPECT_EQ(first.message, first.ok() ? "" : world.last_error().message);
  return all;
}

void mismatch_count(World& world) {
  Communicator* all = warm_group(world);
  std::vector<float> data(8);
  const Status status = all->run(sum(data, world.rank() == 2 ? 7 : 8));
  expect(status, StatusCode::disagreement,
         {"collective 1", "'tp'", "f32 x 7", "f32 x 8", "rank 2", "/mlp/Sum"});
  expect(all->run(sum(data, 8)), StatusCode::disagreement, {"f32 x 7"});
}

void mismatch_kind(World& world) {
  Communicator* all = warm_group(world);
  std::vector<float> in(32), out(32);
  const bool odd = world.rank() == 1;
  const CollectiveCall call{.kind = odd ? CollectiveKind::all_gather : CollectiveKind::all_to_all,
                            .count = 8,
                            .input = in.data(),
                            .output = out.data(),
                            .label = odd ? "/attention/Gather" : "/moe/Exchange"};
  expect(all->run(call), StatusCode::disagreement,
         {"collective 1", "'tp'", "rank 1", "all_gather '/attention/Gather'", "all_to_all '/moe/Exchange'"});
}

void mismatch_message(World& world) {
  Communicator* all = warm_group(world);
  std::vector<float> data(8);
  CollectiveCall call{.kind = CollectiveKind::send,
                      .peer = 3,
                      .count = 8,
                      .input = data.data(),
                      .output = data.data(),
                      .label = "/stage/Hidden"};
  if (world.rank() == 3) {
    call.kind = CollectiveKind::recv;
    call.peer = 1;
    call.dtype = DType::f64;
    call.count = 4;
  }
  const Status status = world.rank() % 2 == 1 ? all->run(call) : heard(world);
  expect(status, StatusCode::disagreement,
         {"'tp'", "rank 1", "rank 3", "f32 x 8", "f64 x 4", "/stage/Hidden"});
}

void stall(World& world) {
  Communicator* all = warm_group(world);
  std::vector<float> data(8);
  const Status status = world.rank() == 1 ? heard(world) : all->run(sum(data, 8));
  expect(status, StatusCode::timed_out, {"rank 1 has not started it", "'tp'", "collective 1", "/mlp/Sum"});
}

void stall_message(World& world) {
  Communicator* all = warm_group(world);
  std::vector<float> data(8);
  const CollectiveCall call{
      .kind = CollectiveKind::recv, .peer = 2, .count = 8, .output = data.data(), .label = "/stage/Hidden"};
  const Status status = world.rank() == 0 ? all->run(call) : heard(world);
  expect(status, StatusCode::timed_out, {"rank 2 has not started it", "'tp'", "recv", "/stage/Hidden"});
}

// Ranks outside the group hear of it too.
void stall_part(World& world) {
  (void)warm_group(world);
  Communicator* part = world.rank() < 3 ? make_group(world, {2, 0, 1}, "part") : nullptr;
  std::vector<float> data(8);
  const Status status = world.rank() == 0 || world.rank() == 3 ? heard(world) : part->run(sum(data, 8));
  expect(status, StatusCode::timed_out, {"rank 0 has not started it", "'part'", "collective 0", "/mlp/Sum"});
}

void missing(World& world) {
  Communicator* all = nullptr;
  const Status status = world.rank() == 3 ? heard(world) : world.group(first_ranks(world.size()), "tp", &all);
  expect(status, StatusCode::timed_out, {"never joined", "'tp'", "rank 3"});
}

void fingerprint(World& world) {
  Communicator* all = make_group(world, first_ranks(world.size()), "tp");
  const Status same = all->compare_fingerprint(7, "same");
  EXPECT_EQ(same.message, same.ok() ? "" : world.last_error().message);  // as in warm_group
  const bool odd = world.rank() == 1;
  expect(all->compare_fingerprint(odd ? 1 : 2, odd ? "one plan" : "another plan"), StatusCode::disagreement,
         {"ranks 0 2 3 ", "ranks 1 ", "one plan", "another plan"});
}

void abort_all(World& world) {
  Communicator* all = make_group(world, first_ranks(world.size()), "tp");
  std::vector<float> data(8);
  if (world.rank() == 3) all->abort("the user pressed a key");
  expect(all->run(sum(data, 8)), StatusCode::aborted, {"rank 3", "the user pressed a key"});
}

}  // namespace

bool run_failure(const std::string& scenario, World& world) {
  static const std::map<std::string, void (*)(World&)> scenarios = {{"mismatch_count", mismatch_count},
                                                                    {"mismatch_kind", mismatch_kind},
                                                                    {"mismatch_message", mismatch_message},
                                                                    {"stall", stall},
                                                                    {"stall_message", stall_message},
                                                                    {"stall_part", stall_part},
                                                                    {"missing", missing},
                                                                    {"fingerprint", fingerprint},
                                                                    {"abort", abort_all}};
  const auto found = scenarios.find(scenario);
  if (found != scenarios.end()) found->second(world);
  return found != scenarios.end();
}

void kill_a_rank(const std::string& kind, World& world) {
  Communicator* all = warm_group(world);
  std::vector<float> in(1 << 20), out(1 << 20);
  CollectiveCall call{.kind = CollectiveKind::all_reduce,
                      .count = in.size() / 4,
                      .input = in.data(),
                      .output = out.data(),
                      .label = "/mlp/Sum"};
  if (kind == "broadcast") call.kind = CollectiveKind::broadcast;
  if (kind == "all_to_all") call.kind = CollectiveKind::all_to_all;
  if (kind == "recv") {
    call.kind = world.rank() == 2 ? CollectiveKind::send : CollectiveKind::recv;
    call.peer = world.rank() == 2 ? 0 : 2;
  }
  if (world.rank() == 2) {
    std::printf("rank 2 begins %s\n", kind.c_str());
    std::fflush(stdout);
    Ticket ticket;
    // Begun, and not ended: of a group, rank 2 has not even been heard.
    if (kind != "group") (void)all->start(call, &ticket);
    raise(SIGKILL);
  }
  Communicator* again = nullptr;
  (void)(kind == "group" ? world.group(first_ranks(world.size()), "again", &again) : all->run(call));
  for (;;) sleep_ms(100);  // only the end of the job ends this rank
}

}  // namespace braid::rt::testing
