// Programs with collectives of one kind, before and after a moment at which a test may stall a rank or fail
// its step.
#include "tests/codegen_cuda/lost_peer_cases.h"

#include <fmt/format.h>

#include "ir/extern_registry.h"
#include "ir/parser.h"
#include "passes/runner.h"
#include "tests/codegen_cuda/cases.h"

namespace braid::test {
namespace {

// y = x. On the device the test's function is asked first, on the host thread that enqueues the step.
void register_moment() {
  if (ir::find_extern_kernel("moment") != nullptr) return;
  ir::register_extern_kernel({
      .symbol = "moment",
      .interpret = [](ir::ExternCall& call) { call.writes[0].bytes = call.reads[0].bytes; },
      .refuses = [](const ir::Graph&, const ir::ExternKernel&) { return std::string(); },
      .kernel_class = ir::KernelClass::copy,
      .sources = {{"cuda", R"(const char* braid_test_moment(void* stream);
static const char* moment(const BraidExternCall* call) {
  if (const char* why = braid_test_moment(call->stream)) return why;
  const cudaError_t e = cudaMemcpyAsync(call->writes[0].data, call->reads[0].data, 4 * call->reads[0].sizes[0],
                                        cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(call->stream));
  return e == cudaSuccess ? nullptr : cudaGetErrorString(e);
})"}},
  });
}

// Returns a collective called `name` of %from, with the result %to. For a transfer from rank 0 to rank 1 only
// rank 1 has a result, so the program goes on with the operand.
std::string collective(const LostPeerCase& c, const char* name, const char* from, const char* to) {
  if (c.kind == "transfer") {
    return fmt::format(
        "send @all (%{1}) peer 1 as {0}_out from \"/{0}\"\n"
        "%{2}: f32[{3}] comm(symmetric, @all) = recv @all peer 0 as {0} from \"/{0}\"\n"
        "%{2}.1 mutates %{2} = wait {0}\nrelease {0}\nwait {0}_out\nrelease {0}_out\n",
        name, from, to, 4 * c.ranks);
  }
  const bool reduces = c.kind == "all_reduce" || c.kind == "reduce_scatter";
  return fmt::format(
      "%{2}: f32[{3}] comm(symmetric, @all) = {4}{5} @all (%{1}){6} algorithm {7} as {0} from \"/{0}\"\n"
      "%{2}.1 mutates %{2} = wait {0}\nrelease {0}\n",
      name, from, to, c.outputs(), c.kind, reduces ? " sum" : "", c.kind == "broadcast" ? " root 0" : "",
      c.algorithm);
}

ir::Schedule program(const LostPeerCase& c) {
  register_moment();
  const bool transfer = c.kind == "transfer";
  std::string all;
  for (int r = 0; r < c.ranks; ++r) all += (r == 0 ? "" : ", ") + std::to_string(r);
  const std::string text = fmt::format(
      "graph g\nranks {0}\ngroup @all = [{1}]\ninput %x: f32[{2}]\n"
      "%a: f32[{2}] comm(symmetric, @all) = pointwise {{ %0 = load %x %1 = neg %0 store %1 }}\n{3}"
      "%m: f32[{4}] = extern \"moment\" reads(%{5})\n"
      "%b: f32[{2}] comm(symmetric, @all) = pointwise {{ %0 = load %m [mod(i0, {4})] %1 = neg %0 store %1 "
      "}}\n{6}"
      "%y: f32[{4}] output = pointwise {{ %0 = load %{7} store %0 }}\noutput %y\n",
      c.ranks, all, 4 * c.ranks, collective(c, "first", "a", "r"), c.outputs(), transfer ? "a" : "r.1",
      collective(c, "second", "b", "s"), transfer ? "b" : "s.1");
  ir::Schedule schedule = ir::parse_schedule(text, "g");
  passes::run_passes(schedule, passes::parse_pass_list("plan_memory{in_place_collective_bytes=0}"));
  return schedule;
}

}  // namespace

std::vector<LostPeerCase> lost_peer_cases() {
  std::vector<LostPeerCase> out;
  for (int ranks : {2, 3, 4}) {
    for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"})
      out.push_back({fmt::format("lost_{}_{}", kind, ranks), kind, "library", ranks});
  }
  out.push_back({"lost_transfer_2", "transfer", "library", 2});
  out.push_back({"lost_one_shot_3", "all_reduce", "one_shot", 3});
  out.push_back({"lost_two_shot_3", "all_reduce", "two_shot", 3});
  return out;
}

void add_lost_peer_cases(std::vector<Case>& out) {
  // On one rank, for tests of what an instance does around its steps.
  out.push_back({"negated",
                 [] {
                   Net net;
                   const ir::Expr n = net.graph.add_dim("n", {1, 64});
                   net.lowering.output("y", net.unary(ir::OpCode::neg, net.input("x", ir::DType::f32, {n})));
                   return net.finish();
                 },
                 {},
                 "lost_peers"});
  for (const LostPeerCase& c : lost_peer_cases())
    out.push_back({c.name, [c] { return program(c); }, {}, "lost_peers"});
}

}  // namespace braid::test

const char* braid_test_moment(void* stream) {
  return braid::test::moment == nullptr ? nullptr : braid::test::moment(stream);
}
