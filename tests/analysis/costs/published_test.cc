// Published measurements, computed again through the cost models and the simulator. Every input that a test
// needs stands in it, with where it was published.
#include <gtest/gtest.h>

#include "analysis/costs/collective_model.h"
#include "analysis/costs/cost_model.h"
#include "analysis/simulator.h"
#include "tests/support/build.h"

namespace braid::analysis {
namespace {

using ir::CollectiveKind;
using ir::DType;

// A rank's program of kernels without bodies and collectives.
struct Program {
  test::Builder b;
  int made = 0;

  ir::BufferId buffer(std::int64_t bytes) {
    return b.activation("b" + std::to_string(made++), {bytes}, DType::i8);
  }
  // A matrix product. Reads buffers, answers the one that it writes.
  ir::BufferId product(ir::Cost cost, const std::vector<ir::BufferId>& reads = {}, std::int64_t bytes = 1) {
    const ir::BufferId out = buffer(bytes);
    ir::ExternKernel k{.callee = "gemm", .writes = {ir::whole(b.graph, out)}};
    for (ir::BufferId r : reads) k.reads.push_back(ir::whole(b.graph, r));
    cost.kernel_class = KernelClass::gemm;
    b.emit({"gemm" + std::to_string(made), k, {out}, {}, cost});
    return out;
  }
  struct Started {
    ir::OpId op;
    ir::BufferId out;
  };
  // `bytes` as CollectiveShape counts them; a negative time: what the machine says.
  Started start(CollectiveKind kind, ir::GroupId group, std::int64_t bytes, double ns = -1,
                ir::BufferId in = {}) {
    const auto n = static_cast<std::int64_t>(b.graph[group].size());
    ir::CollectiveKernel k{.kind = kind, .group = group};
    if (!in.valid()) {
      in = b.input("in" + std::to_string(made++), {kind == CollectiveKind::all_gather ? bytes / n : bytes},
                   DType::i8);
    }
    const ir::BufferId out = buffer(kind == CollectiveKind::reduce_scatter ? bytes / n : bytes);
    k.inputs = {ir::whole(b.graph, in)};
    k.outputs = {ir::whole(b.graph, out)};
    ir::Operation op{"collective" + std::to_string(made), k, {out}, {}, {}};
    if (ns >= 0) op.cost = ir::Cost{.ns = ns};
    return {b.emit(std::move(op)), out};
  }
  ir::BufferId wait(Started s) {
    const ir::BufferId done = b.graph.add_mutation(s.out, "done" + std::to_string(made++));
    b.emit({"wait" + std::to_string(made), ir::WaitKernel{s.op}, {done}, {}, {}});
    return done;
  }
  Time makespan(const CostModel& model) const {
    const Problem problem = make_problem(b.schedule, model);
    return simulate_makespan(problem, identity_order(problem.size()));
  }
  ir::GroupId group(int n, int stride = 1) {
    std::vector<int> ranks;
    for (int r = 0; r < n; ++r) ranks.push_back(r * stride);
    b.graph.ranks = std::max(b.graph.ranks, ranks.back() + 1);
    return b.graph.add_group("group", ranks);
  }
};

ir::Cost ms(double t) { return {.ns = t * 1e6}; }

Machine without_contention(Machine m) {
  for (ClassEfficiency& c : m.classes) c.slowdown = 1000;
  m.collectives.slowdown = 1000;
  return m;
}

// -----------------------------------------------------------------------------------------------------------
// V1: Flux, docs/performance.md. Dense MLP on 8 x L20 (PCIe), fp16, TP 8, M 4096, K 12288, N 49152.

struct FluxRow {
  const char* name;
  double gemm_ms, comm_ms, serial_ms;  // torch and NCCL
  double flux_gemm_ms, flux_ms;
};
constexpr FluxRow kGatherGemm = {"AG+GEMM", 5.746, 11.200, 16.946, 5.316, 5.903};
constexpr FluxRow kGemmScatter = {"GEMM+RS", 5.392, 12.273, 17.664, 5.389, 5.730};

Program flux(const FluxRow& row, bool overlapped) {
  Program p;
  const ir::GroupId group = p.group(8);
  const bool gather = &row == &kGatherGemm;
  const double ns = row.comm_ms * 1e6;
  if (overlapped) {  // two streams: neither needs the other's result
    const auto s =
        p.start(gather ? CollectiveKind::all_gather : CollectiveKind::reduce_scatter, group, 800, ns);
    p.product(ms(row.flux_gemm_ms));
    p.wait(s);
  } else if (gather) {
    p.product(ms(row.gemm_ms), {p.wait(p.start(CollectiveKind::all_gather, group, 800, ns))});
  } else {
    const ir::BufferId x = p.product(ms(row.gemm_ms), {}, 800);
    p.wait(p.start(CollectiveKind::reduce_scatter, group, 800, ns, x));
  }
  return p;
}

TEST(Flux, OneAfterTheOtherIsTheSum) {
  const CostModel model(without_contention(load_machine("a100")));
  for (const FluxRow* row : {&kGatherGemm, &kGemmScatter}) {
    // Published with three digits: the second row's parts add up to one unit of the last digit more.
    EXPECT_NEAR(flux(*row, false).makespan(model).ms(), row->serial_ms, 0.0011) << row->name;
  }
}

TEST(Flux, TwoStreamsAreTheLongerOfTheTwo) {
  const CostModel model(without_contention(load_machine("a100")));
  EXPECT_EQ(flux(kGatherGemm, true).makespan(model), Time::from_ms(11.200));
  EXPECT_EQ(flux(kGemmScatter, true).makespan(model), Time::from_ms(12.273));
}

// 100.66 MB, 7/8 of it over the wire; the transport is the one that Flux's own totals need, 15.4 GB/s.
TEST(Flux, SixteenTilesOverAFasterTransportAreWithinSixPercentOfIt) {
  constexpr int kTiles = 16;
  constexpr std::int64_t kBytes = std::int64_t{4096} * 12288 * 2 / kTiles;
  Machine m = without_contention(load_machine("a100"));
  m.launch_us = 0;
  m.collectives = {.model = CollectiveModelKind::shared_memory,
                   .link_gb_s = 15.4 * 8 / 7 * 2,
                   .symmetric = SymmetricKernels{1e-3, 1e-3, 1}};
  const CostModel model(m);
  Program gather;
  const ir::GroupId group = gather.group(8);
  std::vector<Program::Started> tiles;
  for (int t = 0; t < kTiles; ++t) tiles.push_back(gather.start(CollectiveKind::all_gather, group, kBytes));
  for (const auto& tile : tiles) gather.product(ms(kGatherGemm.flux_gemm_ms / kTiles), {gather.wait(tile)});
  EXPECT_NEAR(gather.makespan(model).ms(), 6.05, 0.01);
  EXPECT_NEAR(gather.makespan(model).ms() / kGatherGemm.flux_ms, 1, 0.06);
}

// -----------------------------------------------------------------------------------------------------------
// V2: torchtitan benchmarks, 8 x H100 96 GB per node, one 400 Gb/s card per GPU; sequences of 8192.

// A training step under FSDP: parameters gathered in bf16 for the forward and again for the backward pass,
// gradients scattered in fp32, one unit per layer and one for the rest. The next unit is gathered while this
// one computes.
struct Fsdp {
  int layers = 0;
  double parameters = 0;
  double rest = 0;  // of them outside of layers
  double step_ms = 0;
};
// 8B: d 4096, 32/8 heads, ffn 14336, vocabulary 128256.
constexpr Fsdp kLlama8B = {32, 8.03e9, 2 * 128256.0 * 4096,
                           2457.5};  // 5762 -> 6667 tok/s with compile: 16384 / 6667
constexpr Fsdp kLlama70B = {80, 70.6e9, 2 * 128256.0 * 8192, 0};

std::vector<double> units(const Fsdp& f, double shards) {
  std::vector<double> result(static_cast<std::size_t>(f.layers), (f.parameters - f.rest) / f.layers / shards);
  result.push_back(f.rest / shards);
  return result;
}
std::int64_t sharded(double bytes, int n) { return static_cast<std::int64_t>(bytes / n) * n; }

struct Communication {
  double ms = 0;
  double wire_ms = 0;  // without latencies
};
Communication fsdp_communication(const Machine& m, const Fsdp& f, double tensor_parallel,
                                 const std::vector<int>& ranks) {
  const CostModel model(m);
  Communication sum;
  const auto add = [&](CollectiveKind kind, DType dtype, double bytes) {
    const CollectiveCost c = model.collective(
        {.kind = kind, .dtype = dtype, .bytes = static_cast<std::int64_t>(bytes), .ranks = ranks});
    sum.ms += c.time.ms();
    sum.wire_ms += c.floor.ms();
  };
  for (const double parameters : units(f, tensor_parallel)) {
    add(CollectiveKind::all_gather, DType::bf16, 2 * parameters);
    add(CollectiveKind::all_gather, DType::bf16, 2 * parameters);
    add(CollectiveKind::reduce_scatter, DType::f32, 4 * parameters);
  }
  return sum;
}

Program fsdp_step(const Fsdp& f, int n) {
  Program p;
  const ir::GroupId group = p.group(n);
  const std::vector<double> all = units(f, 1);
  const auto gather = [&](double parameters) {
    return p.start(CollectiveKind::all_gather, group, sharded(2 * parameters, n));
  };
  const auto compute = [&](double parameters, double share, ir::BufferId weights, std::int64_t bytes) {
    return p.product(ms(f.step_ms * share * parameters / f.parameters), {weights}, bytes);
  };
  Program::Started next = gather(all[0]);
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Program::Started now = next;
    next = gather(all[k + 1 < all.size() ? k + 1 : k]);
    compute(all[k], 1.0 / 3, p.wait(now), 1);
  }
  std::vector<Program::Started> gradients;
  for (std::size_t k = all.size(); k-- > 0;) {
    const Program::Started now = next;
    if (k > 0) next = gather(all[k - 1]);
    const std::int64_t bytes = sharded(4 * all[k], n);
    const ir::BufferId gradient = compute(all[k], 2.0 / 3, p.wait(now), bytes);
    gradients.push_back(p.start(CollectiveKind::reduce_scatter, group, bytes, -1, gradient));
  }
  for (const auto& g : gradients) p.wait(g);
  return p;
}

std::vector<int> ranks_with_stride(int n, int stride = 1) {
  std::vector<int> result;
  for (int r = 0; r < n; ++r) result.push_back(r * stride);
  return result;
}

TEST(TorchTitan, Fsdp128GpusTakeUpTo80MsMoreThan8) {
  const Machine m = load_machine("h100");
  // Observed: +57.7 ms with compile, +79.6 eager, +34.8 in float8.
  const double without_overlap = fsdp_communication(m, kLlama8B, 1, ranks_with_stride(128)).ms -
                                 fsdp_communication(m, kLlama8B, 1, ranks_with_stride(8)).ms;
  EXPECT_GT(without_overlap, 0);
  EXPECT_LT(without_overlap, 80);
  const CostModel model(m);
  const double overlapped =
      fsdp_step(kLlama8B, 128).makespan(model).ms() - fsdp_step(kLlama8B, 8).makespan(model).ms();
  EXPECT_GT(overlapped, 0);
  EXPECT_LT(overlapped, without_overlap);
}

TEST(TorchTitan, Fsdp8CommunicationIsTheWireTimeOfARingOverNvlink) {
  // 64.2 GB, 7/8 of them at 370 GB/s: 0.152 s, and 0.003 s of latency.
  const Communication c = fsdp_communication(load_machine("h100"), kLlama8B, 1, ranks_with_stride(8));
  EXPECT_NEAR(c.wire_ms, 152, 1);
  EXPECT_NEAR(c.ms, 155, 1);
}

TEST(TorchTitan, Llama70BFsdp32TimesTp8IsAbout1400MsFromTopologyAlone) {
  // TP fills the node, so every FSDP group has one rank and one card per node: 47 to 50 GB/s, 0.36 + 0.36 +
  // 0.73 s.
  const Communication c = fsdp_communication(load_machine("h100"), kLlama70B, 8, ranks_with_stride(32, 8));
  EXPECT_GT(c.wire_ms, 1370);
  EXPECT_LT(c.wire_ms, 1460);
  // 243 collectives of 31 network steps; our addition to the published estimate.
  EXPECT_NEAR(c.ms - c.wire_ms, 243 * (8.4 + 31 * 14.0) * 1e-3, 1);
}

// -----------------------------------------------------------------------------------------------------------
// V3: gpt-fast, tensor-parallel decode, batch 1, bf16, 8 x A100-80GB at 330 W, hybrid cube mesh.

struct Decode {
  int layers;
  std::int64_t width;
  double weight_bytes;
};
constexpr Decode kLlama2_7B = {32, 4096, 2 * 6.74e9}, kLlama2_70B = {80, 8192, 2 * 68.98e9};

// Two products with an all-reduce of the activations each per layer.
double decode_ms(const Machine& m, const Decode& model, int tp) {
  Program p;
  const ir::GroupId group = tp > 1 ? p.group(tp) : ir::GroupId{};
  ir::BufferId x = p.product({.flops = 0, .bytes = 0}, {}, 2 * model.width);
  for (int k = 0; k < 2 * model.layers; ++k) {
    x = p.product({.flops = 0, .bytes = model.weight_bytes / tp / (2 * model.layers)}, {x}, 2 * model.width);
    if (tp > 1) x = p.wait(p.start(CollectiveKind::all_reduce, group, 2 * model.width, -1, x));
  }
  return p.makespan(CostModel(m)).ms();
}

TEST(GptFast, LatencyFittedOn7BPredicts70BWithinFivePercent) {
  Machine m = without_contention(load_machine("a100"));
  m.launch_us = 0;
  m.collectives.measured.clear();
  ClassEfficiency& gemm = m.classes[static_cast<std::size_t>(KernelClass::gemm)];
  // 7B alone: 104.9 tokens/s, so 9.53 ms for the weights. Latencies of all-reduces of 8 KB at TP 2, 4, 8 from
  // 168.84, 254.02 and 328.43 tokens/s.
  gemm.memory = kLlama2_7B.weight_bytes / (1e3 / 104.9) / 1e6 / m.memory_gb_s;
  EXPECT_NEAR(decode_ms(m, kLlama2_7B, 1), 1e3 / 104.9, 1e-3);
  for (const auto& [tp, tokens_per_s] :
       std::vector<std::pair<int, double>>{{2, 168.84}, {4, 254.02}, {8, 328.43}}) {
    const double us = (1e3 / tokens_per_s - 1e3 / 104.9 / tp) * 1e3 / (2 * kLlama2_7B.layers);
    m.collectives.measured.push_back(
        {.kind = CollectiveKind::all_reduce, .ranks = tp, .points = {{2 * kLlama2_7B.width, us}}});
    EXPECT_NEAR(decode_ms(m, kLlama2_7B, tp), 1e3 / tokens_per_s, 1e-2) << tp;
  }
  // 70B at TP 2 (21.32 tokens/s) fits the bandwidth of larger products; TP 4 and 8 are predicted: 38.01
  // and 62.50.
  const double latency =
      decode_ms(m, kLlama2_70B, 2) - kLlama2_70B.weight_bytes / 2 / (m.memory_gb_s * gemm.memory * 1e6);
  gemm.memory = kLlama2_70B.weight_bytes / 2 / ((1e3 / 21.32 - latency) * 1e6) / m.memory_gb_s;
  EXPECT_NEAR(decode_ms(m, kLlama2_70B, 2), 1e3 / 21.32, 1e-2);
  EXPECT_NEAR(decode_ms(m, kLlama2_70B, 4) / (1e3 / 38.01), 1, 0.05);
  EXPECT_NEAR(decode_ms(m, kLlama2_70B, 8) / (1e3 / 62.50), 1, 0.05);
}

// -----------------------------------------------------------------------------------------------------------
// V4: GraphTrainer (torchtitan#3434), expert-parallel all-to-all of DSv3-16B on 32 GPUs, 16384 tokens per
// rank, balanced routing; 130 all-to-alls, 260 when split in two.

struct Split {
  const char* name;
  double comm_ms, hidden;  // published
  double tokens_per_s;
};

TEST(GraphTrainer, HidingAsMuchAsPublishedPredictsTheStepWithinThreePercent) {
  constexpr double kTokens = 16384;
  constexpr double kBaseMs = kTokens / 8086 * 1e3, kBaseExposedMs = 477.6 * 0.994;
  const CostModel model(without_contention(load_machine("h100")));
  for (const Split& s : {Split{"batch", 555.4, 0.860, 10257}, Split{"sequence", 534.8, 0.867, 10131}}) {
    constexpr int kCollectives = 260;
    Program p;
    const ir::GroupId group = p.group(32);
    const double compute = kBaseMs - kBaseExposedMs, covered = s.comm_ms * s.hidden;
    for (int k = 0; k < kCollectives; ++k) {
      const auto started = p.start(CollectiveKind::all_to_all, group, 3200, s.comm_ms / kCollectives * 1e6);
      p.product(ms(covered / kCollectives));
      p.product(ms((compute - covered) / kCollectives), {p.wait(started)});
    }
    EXPECT_NEAR(p.makespan(model).ms() / (kTokens / s.tokens_per_s * 1e3), 1, 0.03) << s.name;
  }
}

}  // namespace
}  // namespace braid::analysis
