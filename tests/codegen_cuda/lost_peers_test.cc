// A rank that stops, or whose step fails, in each kind of collective: the others get an error in time that
// names it, and all ranks can clear up.
#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <random>

#include "tests/codegen_cuda/lost_peer_cases.h"
#include "tests/codegen_cuda/program_rank.h"
#include "tests/codegen_cuda/run_case.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Loss { kStalls, kFails };

// A rank that is lost within its step number `step`, between the two collectives.
struct Plan {
  Loss loss = Loss::kStalls;
  int rank = 0, step = 0;
  bool graphs = false;
  bool waits = false;  // every rank waits after each step, otherwise after the last
};

class Scene {
 public:
  explicit Scene(const Plan& plan) : plan_(plan) {}

  // On the host thread of a rank, in the middle of a step.
  const char* moment() {
    if (rank_of_thread != plan_.rank || ++moments_ <= plan_.step) return nullptr;
    std::unique_lock lock(mutex_);
    lost_ = true;
    changed_.notify_all();
    if (plan_.loss == Loss::kStalls) changed_.wait(lock, [&] { return survivors_gone_; });
    return "this rank is lost";
  }
  // The callback of a launcher: it hears of the loss a little later than the rank is lost.
  static int missing(void* user, int, char* text, uint64_t bytes) {
    Scene& scene = *static_cast<Scene*>(user);
    std::unique_lock lock(scene.mutex_);
    if (!scene.changed_.wait_for(lock, std::chrono::seconds(20), [&] { return scene.lost_; })) return 0;
    std::snprintf(text, bytes, "rank %d (process 4711 on here) has ended", scene.plan_.rank);
    return 1;
  }
  void survivor_gone(int survivors) {
    std::lock_guard lock(mutex_);
    if (++gone_ < survivors) return;
    survivors_gone_ = true;
    changed_.notify_all();
  }

  static inline thread_local int rank_of_thread = -1;

 private:
  const Plan plan_;
  int moments_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool lost_ = false, survivors_gone_ = false;
  int gone_ = 0;
};

constexpr int kLostSteps = 6;

class LostPeers : public CudaCase {
 protected:
  // The result and message of each rank's last call.
  struct Outcome {
    BraidStatus status = BRAID_OK;
    std::string message;
    bool communicator_works = false;
  };
  static std::vector<Outcome> play(const LostPeerCase& c, const Plan& plan) {
    Scene scene(plan);
    moment = [&](void*) { return scene.moment(); };
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::vector<Outcome> outcomes(static_cast<size_t>(c.ranks));
    const std::vector<std::string> errors = run_ranks(c.ranks, [&](int rank) -> const char* {
      Scene::rank_of_thread = rank;
      Outcome& outcome = outcomes[static_cast<size_t>(rank)];
      BraidCudaCreateInfo info = {};
      info.timeout_ms = rank == plan.rank ? 3000 : 500;
      info.graphs = plan.graphs ? 1 : -1;
      info.missing = Scene::missing;
      info.missing_user = &scene;
      ProgramRank self(*program_of(c.name), rank, id, info);
      self.prepare({});
      const std::vector<const void*> inputs = {
          self.floats(std::vector<float>(4 * static_cast<size_t>(c.ranks), 2))};
      const std::vector<void*> outputs = {self.floats(std::vector<float>(static_cast<size_t>(c.outputs())))};
      for (int step = 0; step < kLostSteps && self.ok() && outcome.status == BRAID_OK; ++step) {
        outcome.status = self.run(inputs, outputs);
        if (outcome.status == BRAID_OK && (plan.waits || step + 1 == kLostSteps))
          outcome.status = self.synchronize(-1);
      }
      outcome.message = self.message;
      self.destroy();
      if (rank != plan.rank) scene.survivor_gone(c.ranks - 1);
      outcome.communicator_works = self.communicator_works();
      return self.ok() ? nullptr : "failed";
    });
    moment = nullptr;
    EXPECT_THAT(errors, ::testing::Each(IsEmpty()));
    return outcomes;
  }

  static void expect_named(const LostPeerCase& c, const Plan& plan) {
    SCOPED_TRACE(fmt::format("{}, rank {} {} in step {}{}{}", c.name, plan.rank,
                             plan.loss == Loss::kStalls ? "stalls" : "fails", plan.step,
                             plan.graphs ? ", graphs" : "", plan.waits ? ", waiting" : ""));
    const std::vector<Outcome> outcomes = play(c, plan);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
      EXPECT_TRUE(outcome.communicator_works) << "rank " << rank;
      if (rank == plan.rank) {
        EXPECT_EQ(outcome.status, BRAID_LIBRARY_ERROR) << outcome.message;
        EXPECT_THAT(outcome.message, HasSubstr("this rank is lost"));
      } else {
        EXPECT_EQ(outcome.status, BRAID_COMM_ERROR) << outcome.message;
        EXPECT_THAT(outcome.message,
                    HasSubstr(fmt::format(": rank {} (process 4711 on here) has ended", plan.rank)));
      }
    }
  }
};

TEST_F(LostPeers, AreNamedInEveryKindOfCollective) {
  for (const LostPeerCase& c : lost_peer_cases()) {
    if (c.algorithm != "library") continue;
    expect_named(c,
                 {.loss = c.ranks % 2 == 0 ? Loss::kStalls : Loss::kFails, .rank = c.ranks - 1, .step = 1});
    EXPECT_THAT(found(), IsEmpty());
  }
}

TEST_F(LostPeers, AreNamedAtRandomMoments) {
  const std::vector<LostPeerCase> cases = lost_peer_cases();
  for (std::uint64_t k = 0; k < static_cast<std::uint64_t>(random_cases(12)); ++k) {
    const std::uint64_t seed = first_seed() + k;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const LostPeerCase& c = cases[random() % cases.size()];
    emulated::options().max_delay = std::chrono::microseconds(seed % 2 == 0 ? 200 : 0);
    emulated::options().seed = seed;
    expect_named(c,
                 {.loss = random() % 2 == 0 ? Loss::kStalls : Loss::kFails,
                  .rank = static_cast<int>(random() % static_cast<std::uint64_t>(c.ranks)),
                  .step = static_cast<int>(random() % 3),  // of later ones a replay may be all that there is
                  .graphs = random() % 2 == 0,
                  .waits = random() % 2 == 0});
    found();
  }
}

}  // namespace
}  // namespace braid::test
