// Kernels that read peers' memory, on the emulated device.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "codegen/cuda/emit.h"
#include "driver/compile.h"
#include "ir/collective_table.h"
#include "ir/parser.h"
#include "passes/kernel_choice.h"
#include "runtime/emulated/nccl_api.h"
#include "tests/codegen_cuda/run_case.h"
#include "tests/support/user_error.h"

namespace braid::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class PeerKernels : public CudaCase {};

TEST_F(PeerKernels, AnySizeFromOneElementToMoreThanOnePassOfTheGrid) {
  for (const char* algorithm : {"one_shot", "two_shot"}) {
    for (int ranks : {2, 3}) {
      for (std::int64_t n : {std::int64_t{1}, std::int64_t{7}, std::int64_t{4099}, kMostPeerElements}) {
        const std::string name = "peers_" + std::to_string(ranks) + "_any_size_" + algorithm;
        SCOPED_TRACE(name + ", " + std::to_string(n) + " elements");
        RunOptions options;
        options.steps = n < 10 ? 3 : 1;
        expect_equal(run_case(name, {{"n", n}}, options), 0);
        ASSERT_THAT(found(), IsEmpty());
      }
    }
  }
}

TEST_F(PeerKernels, EveryElementTypeAndReduction) {
  for (const char* algorithm : {"one_shot", "two_shot"}) {
    for (ir::DType dtype : kPeerTypes) {
      const std::string name = "peers_" + std::string(to_string(dtype)) + "_" + algorithm;
      SCOPED_TRACE(name);
      expect_equal(run_case(name), 0);
      ASSERT_THAT(found(), IsEmpty());
    }
  }
}

TEST_F(PeerKernels, WhatLiesBehindAResultIsLeftAlone) {
  for (const char* name : {"peers_parts_one_shot", "peers_parts_two_shot"}) {
    expect_equal(run_case(name), 0);
    ASSERT_THAT(found(), IsEmpty()) << name;
  }
}

TEST_F(PeerKernels, NothingRacesWhateverTheTiming) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    emulated::options().max_delay = std::chrono::microseconds(300);
    emulated::options().seed = seed;
    RunOptions options;
    options.steps = 2;
    options.seed = seed;
    options.own_stream = seed % 2 == 0;
    for (const char* name : {"peers_3_any_size_one_shot", "peers_3_any_size_two_shot"})
      expect_equal(run_case(name, {{"n", 9001}}, options), 0);
    ASSERT_THAT(found(), IsEmpty()) << "seed " << seed;
  }
}

// A rank that never runs its step: the other one is told after its time-out, and can clear up.
TEST_F(PeerKernels, AStepThatAPeerDoesNotTakePartInEndsWithItsInstance) {
  const BraidCudaProgram& program = *program_of("peers_2_any_size_one_shot");
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::atomic<bool> ended = false;
  BraidStatus waited = BRAID_OK;
  std::string message;
  const std::vector<std::string> errors = run_ranks(2, [&](int rank) -> const char* {
    const std::shared_ptr<void> at_end(nullptr, [&](void*) { ended = ended || rank == 0; });
    ncclComm_t comm = nullptr;
    if (cudaSetDevice(rank) != cudaSuccess || ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess)
      return "no communicator";
    BraidCudaCreateInfo info = {};
    info.abi_version = BRAID_CUDA_ABI_VERSION;
    info.struct_size = sizeof(info);
    info.comm = comm;
    BraidCudaInstance* instance = nullptr;
    if (program.create(&info, &instance) != BRAID_OK) return program.last_error(nullptr);
    const int64_t n = 100;
    if (program.prepare(instance, &n) != BRAID_OK) return program.last_error(instance);
    void* memory = nullptr;
    if (cudaMalloc(&memory, 16 * 100 * sizeof(float)) != cudaSuccess) return "no memory";
    if (rank == 0) {
      float* const values = static_cast<float*>(memory);
      if (cudaMemset(memory, 0, 16 * 100 * sizeof(float)) != cudaSuccess) return "no memory";
      const void* inputs[] = {values, values + 100};
      void* outputs[] = {values + 300, values + 400, values + 500, values + 600};
      if (program.run(instance, inputs, outputs, nullptr) != BRAID_OK) return program.last_error(instance);
      waited = program.synchronize(instance, 100);
      message = program.last_error(instance);
    }
    while (rank == 1 && !ended) std::this_thread::yield();  // its memory is still there
    program.destroy(instance);
    cudaFree(memory);
    ncclCommDestroy(comm);
    return nullptr;
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
  EXPECT_EQ(waited, BRAID_COMM_ERROR);
  EXPECT_THAT(message, HasSubstr("not done after 100 ms"));
  found();  // what the given-up step left undone was read in no order
}

// NCCL then answers a registration with something that is no window.
TEST_F(PeerKernels, WithoutSymmetricMemoryOneRankReadsItsOwnAndSeveralAreRefused) {
  emulated::options().symmetric = false;
  for (const char* name : {"peer_reading_1", "peer_reading_in_place_1"}) {
    expect_equal(run_case(name), 0);
    ASSERT_THAT(found(), IsEmpty()) << name;
  }
  EXPECT_THAT(run_case("peer_reading_2").message, AllOf(HasSubstr("read the memory of all its 2 ranks"),
                                                        HasSubstr("reaches 1 by load and store")));
}

// ---- what is refused, and that the passes know it

std::string emitted(const std::string& text) {
  ir::Schedule s = ir::parse_schedule(text, "t");
  CompileOptions options;
  options.target = "cuda";
  options.passes = "plan_memory";
  optimise(s, options);
  return codegen::cuda::emit_cuda(s, {.name = "t"}).body;
}

TEST_F(PeerKernels, ThereAreThoseThatThePassesCountOn) {
  for (ir::CollectiveKind kind :
       {ir::CollectiveKind::all_reduce, ir::CollectiveKind::all_gather, ir::CollectiveKind::reduce_scatter,
        ir::CollectiveKind::broadcast, ir::CollectiveKind::all_to_all}) {
    const ir::Algorithms known = passes::engine_kernels(passes::CommEngine::nccl, kind);
    for (const ir::Algorithm algorithm : ir::row_of(kind).algorithms.list()) {
      const bool counted_on = known.contains(algorithm) || algorithm == ir::Algorithm::automatic;
      const bool scatters = kind == ir::CollectiveKind::reduce_scatter,
                 gathers = kind == ir::CollectiveKind::all_gather;
      const bool reduces = scatters || kind == ir::CollectiveKind::all_reduce;
      const std::string call =
          fmt::format("{}{} @all (%x){} algorithm {}", to_string(kind), reduces ? " sum" : "",
                      kind == ir::CollectiveKind::broadcast ? " root 0" : "", to_string(algorithm));
      const std::string text = fmt::format(
          "graph t\nranks 2\ngroup @all = [0, 1]\ninput %in: f32[8]\n"
          "%x: f32[8] comm(symmetric, @all) = pointwise {{ %0 = load %in store %0 }}\n"
          "%r: f32[{0}] comm(symmetric, @all) = {1} as c\n%r.1 mutates %r = wait c\nrelease c\n"
          "%y: f32[{0}] output = pointwise {{ %0 = load %r.1 store %0 }}\noutput %y\n",
          gathers    ? 16
          : scatters ? 4
                     : 8,
          call);
      const std::string error = error_of([&] { emitted(text); });
      if (counted_on) {
        EXPECT_EQ(error, "no error") << call;
      } else {
        EXPECT_THAT(error, AllOf(HasSubstr("BR0645"), HasSubstr(std::string(to_string(algorithm))))) << call;
      }
    }
  }
}

// Where sizes decide whether they do, the verifier lets it pass, and the program would find out too late.
TEST_F(PeerKernels, AResultThatMayOverlapItsOperandIsRefused) {
  const auto program = [](const char* algorithm) {
    return fmt::format(
        "graph t\nranks 2\ngroup @all = [0, 1]\ndim n in [1, 8]\ndim m in [1, 8]\n"
        "input %in: f32[n]\ninput %other: f32[m]\nbuffer %base: f32[m + n] comm(symmetric, @all)\n"
        "%a: f32[n] in %base = pointwise {{ %0 = load %in store %0 }}\n"
        "%r: f32[n] in %base at m = all_reduce sum @all (%a) algorithm {} as c\n"
        "%r.1 mutates %r = wait c\nrelease c\n"
        "%y: f32[n] output = pointwise {{ %0 = load %r.1 store %0 }}\noutput %y\n",
        algorithm);
  };
  for (const char* algorithm : {"one_shot", "two_shot"}) {
    EXPECT_THAT(error_of([&] { emitted(program(algorithm)); }),
                AllOf(HasSubstr("BR0645"), HasSubstr("'c'"), HasSubstr("operand 'a'")));
  }
  EXPECT_EQ(error_of([&] { emitted(program("library")); }), "no error");
}

// The groups whose members must be able to read each other's memory: `create` refuses a world where they
// cannot, so a group that only the library serves must not be among them.
TEST_F(PeerKernels, OnlyGroupsThatUseThemAreHeldToBeInReach) {
  const auto program = [](const char* of_pair, const char* of_all) {
    return fmt::format(
        "graph t\nranks 3\ngroup @pair = [0, 1]\ngroup @all = [0, 1, 2]\ninput %in: f32[8]\n"
        "%a: f32[8] comm(symmetric, @pair) = pointwise {{ %0 = load %in store %0 }}\n"
        "%a.1 mutates %a = all_reduce sum @pair (%a) algorithm {} as c\n"
        "%a.2 mutates %a.1 = wait c\nrelease c\n"
        "%b: f32[8] comm(symmetric, @all) = pointwise {{ %0 = load %a.2 store %0 }}\n"
        "%b.1 mutates %b = all_reduce sum @all (%b) algorithm {} as d\n"
        "%b.2 mutates %b.1 = wait d\nrelease d\n"
        "%y: f32[8] output = pointwise {{ %0 = load %b.2 store %0 }}\noutput %y\n",
        of_pair, of_all);
  };
  EXPECT_THAT(emitted(program("one_shot", "library")), HasSubstr("kPeerGroups[] = {true, false};"));
  EXPECT_THAT(emitted(program("library", "two_shot")), HasSubstr("kPeerGroups[] = {false, true};"));
  EXPECT_THAT(emitted(program("library", "library")), Not(HasSubstr("kPeerGroups")));
}

}  // namespace
}  // namespace braid::test
