#include "tests/support/collective_forms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/element.h"
#include "tests/frontend/models.h"
#include "tests/support/collective_cases.h"

namespace braid::test {
namespace {

struct Form {
  std::string name;        // of the output
  std::string node;        // "ai.braid.AllReduce", or with attributes
  Reference reference;     // of the first input, x
  bool coalesced = false;  // of x and z = x + x: two results
};

// All forms over a group of n; `group` has its attributes, or nothing.
std::vector<Form> forms(int n, const std::string& group) {
  const auto node = [&](const std::string& op, std::vector<std::string> attributes) {
    if (!group.empty()) attributes.push_back(group);
    return attributes.empty() ? "ai.braid." + op
                              : fmt::format("ai.braid.{} <{}>", op, fmt::join(attributes, ", "));
  };
  std::vector<Form> out;
  for (const char* op : {"sum", "avg", "min", "max", "prod"}) {
    out.push_back({std::string("all_reduce_") + op,
                   node("AllReduce", {fmt::format("reduce_op = \"{}\"", op)}), reduced(op)});
    out.push_back({std::string("reduce_scatter_") + op,
                   node("ReduceScatter", {"axis = 1", fmt::format("reduce_op = \"{}\"", op)}),
                   scattered(op, 1)});
  }
  out.push_back({"all_reduce_product", node("AllReduce", {"reduce_op = \"product\""}), reduced("prod")});
  out.push_back({"all_reduce_coalesced", node("AllReduce", {}), reduced("sum"), true});
  const bool sized = group.find("group_size") != std::string::npos;
  out.push_back(
      {"all_gather",
       node("AllGather", sized ? std::vector<std::string>{} : std::vector{fmt::format("group_size = {}", n)}),
       gathered(0)});
  out.push_back({"all_gather_1", node("AllGather", {"axis = -1"}), gathered(1)});
  out.push_back({"all_gather_coalesced", node("AllGather", {"axis = 1"}), gathered(1), true});
  out.push_back({"reduce_scatter", node("ReduceScatter", {}), scattered("sum", 0)});
  out.push_back({"reduce_scatter_coalesced", node("ReduceScatter", {"axis = 1"}), scattered("sum", 1), true});
  out.push_back({"all_to_all", node("AllToAll", {}), exchanged(0, 0)});
  out.push_back({"all_to_all_0_1", node("AllToAll", {"split_axis = 0", "concat_axis = 1"}), exchanged(0, 1)});
  out.push_back({"all_to_all_1_0", node("AllToAll", {"split_axis = 1", "concat_axis = 0"}), exchanged(1, 0)});
  out.push_back(
      {"shard_dim_alltoall", node("ShardDimAllToAll", {"gather_dim = 0", "shard_dim = 1"}), exchanged(1, 0)});
  std::vector<int> split(static_cast<std::size_t>(n * n));
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < n; ++k)  // most to itself, nothing to the next one
      split[static_cast<std::size_t>(i * n + (i + k) % n)] = k == 0   ? n + 1 + (n > 1 ? 1 : 0)
                                                             : k == 1 ? 0
                                                                      : 1;
  }
  out.push_back({"all_to_all_uneven",
                 node("AllToAll", {fmt::format("split_sizes = [{}]", fmt::join(split, ", "))}),
                 exchanged_unevenly(split)});
  for (int root : {0, n - 1}) {
    out.push_back({fmt::format("broadcast_{}{}", root, root == 0 ? "" : "_last"),
                   node("Broadcast", {fmt::format("root = {}", root)}), from_member(root)});
    if (n == 1) break;
  }
  // A ring, and one message from the last to the first.
  std::vector<int> ring;
  for (int i = 0; i < n; ++i) ring.insert(ring.end(), {i, (i + 1) % n});
  out.push_back({"batch_send_recv",
                 node("BatchSendRecv", {fmt::format("pairs = [{}]", fmt::join(ring, ", "))}),
                 [n](const Matrices& in, int me) { return in[static_cast<std::size_t>((me + n - 1) % n)]; }});
  out.push_back({"send_recv_one", node("BatchSendRecv", {fmt::format("pairs = [{}, 0]", n - 1)}),
                 [n](const Matrices& in, int me) {
                   return me == 0 ? in[static_cast<std::size_t>(n - 1)] : Matrix(in[0].rows, in[0].cols);
                 }});
  return out;
}

// Kernels that read peers' memory, asked for by name.
std::vector<Form> peer_reading_forms(const std::string& group) {
  const auto node = [&](const std::string& op, const std::string& algorithm, const std::string& more = "") {
    return fmt::format("ai.braid.{} <algorithm = \"{}\"{}{}>", op, algorithm, more,
                       group.empty() ? "" : ", " + group);
  };
  std::vector<Form> out;
  for (const std::string algorithm : {"one_shot", "two_shot"}) {
    for (const std::string op : {"sum", "avg", "min", "max", "prod"}) {
      out.push_back({fmt::format("all_reduce_{}_{}", algorithm, op),
                     node("AllReduce", algorithm, fmt::format(", reduce_op = \"{}\"", op)), reduced(op)});
    }
    out.push_back({fmt::format("all_reduce_{}_coalesced", algorithm), node("AllReduce", algorithm),
                   reduced("sum"), true});
  }
  for (const int axis : {0, 1}) {
    const std::string along = fmt::format(", axis = {}", axis);
    out.push_back(
        {fmt::format("all_gather_one_shot_{}", axis), node("AllGather", "one_shot", along), gathered(axis)});
    for (const std::string op : {"sum", "max"}) {
      out.push_back({fmt::format("reduce_scatter_one_shot_{}_{}", axis, op),
                     node("ReduceScatter", "one_shot", along + fmt::format(", reduce_op = \"{}\"", op)),
                     scattered(op, axis)});
    }
  }
  out.push_back({"all_gather_one_shot_coalesced", node("AllGather", "one_shot"), gathered(0), true});
  out.push_back(
      {"reduce_scatter_one_shot_coalesced", node("ReduceScatter", "one_shot"), scattered("sum", 0), true});
  return out;
}

// The forms of the other operator sets, over all ranks.
std::vector<Form> foreign_forms(int n) {
  const auto dist = [](const std::string& attributes) { return "DistCollective <" + attributes + ">"; };
  return {
      {"ms_all_reduce", "com.microsoft.AllReduce", reduced("sum")},
      {"ms_all_gather", fmt::format("com.microsoft.AllGather <group_size = {}>", n), gathered(0)},
      {"ms_all_to_all", fmt::format("com.microsoft.AllToAll <group_size = {}>", n), exchanged(0, 0)},
      {"trt_all_reduce", dist("collective_operation = \"all_reduce\", reduce_op = \"max\""), reduced("max")},
      {"trt_reduce_scatter",
       dist(fmt::format("collective_operation = \"reduce_scatter\", reduce_op = \"sum\", nb_rank = {}", n)),
       scattered("sum", 0)},
      {"trt_broadcast", dist(fmt::format("collective_operation = \"broadcast\", root = {}", n - 1)),
       from_member(n - 1)},
      // A group for each rank.
      {"trt_alone", dist("collective_operation = \"all_reduce\", reduce_op = \"sum\", group_size = 1"),
       [](const Matrices& in, int me) { return in[static_cast<std::size_t>(me)]; }},
      // Pairs, where the number is even.
      {"trt_pairs",
       dist(fmt::format("collective_operation = \"all_gather\", group_size = {}", n % 2 == 0 ? 2 : n)),
       [n](const Matrices& in, int me) {
         if (n % 2 != 0) return joined(in, 0);
         const auto first = static_cast<std::size_t>(me / 2 * 2);
         return joined({in[first], in[first + 1]}, 0);
       }},
      {"trt_broadcast_pairs",
       dist(fmt::format("collective_operation = \"broadcast\", root = {}, group_size = {}", n > 1 ? 1 : 0,
                        n % 2 == 0 ? 2 : n)),
       [n](const Matrices& in, int me) {
         if (n % 2 != 0) return in[n > 1 ? 1 : 0];
         return in[static_cast<std::size_t>(me / 2 * 2 + 1)];
       }},
  };
}

// All of `forms` in one program; `rows`: of the operand.
CollectiveCase onnx_case(const std::string& name, int ranks, const std::vector<Form>& forms,
                         const ir::Parts& parts, int rows) {
  const int cols = static_cast<int>(parts[0].size());
  std::vector<std::string> nodes = {"z = Add(x, x)"}, outputs;
  for (const Form& f : forms) {
    const std::string second = f.coalesced ? f.name + "_z" : "";
    nodes.push_back(fmt::format("{}{}{} = {} (x{})", f.name, f.coalesced ? ", " : "", second, f.node,
                                f.coalesced ? ", z" : ""));
    outputs.push_back(fmt::format("float[a_{0}, b_{0}] {0}", f.name));
    if (f.coalesced) outputs.push_back(fmt::format("float[a_{0}, b_{0}] {0}", second));
  }
  // Waiting for what has been waited for is the identity.
  nodes.push_back(fmt::format("waited_once = ai.braid.WaitTensor({})", forms[0].name));
  nodes.push_back("waited = ai.braid.WaitTensor(waited_once)");
  outputs.push_back("float[a_waited, b_waited] waited");
  const std::string text = fmt::format("g (float[{}, {}] x) => ({}) {{ {} }}", rows, cols,
                                       fmt::join(outputs, ", "), fmt::join(nodes, "\n"));
  CaseWriter c(name, parts, random_matrices(ranks, rows, cols));
  for (const Form& f : forms) {
    c.expect(f.reference);
    if (!f.coalesced) continue;
    c.expect([&](Matrices in, int me) {
      for (Matrix& m : in) {
        for (float& v : m.values) v *= 2;
      }
      return f.reference(in, me);
    });
  }
  c.expect(forms[0].reference);
  return c.finish(frontend::import_text(text, {.ranks = ranks}));
}

// One model of all operator sets, each of which reads what another one made.
CollectiveCase mixed_case(int ranks) {
  struct Stage {
    std::string name, node;
    Reference reference;  // of the stage before
  };
  const std::vector<Stage> stages = {
      {"ms_reduced", "com.microsoft.AllReduce", reduced("sum")},
      {"gathered", "ai.braid.AllGather <axis = 1>", gathered(1)},
      {"trt_scattered", "DistCollective <collective_operation = \"reduce_scatter\", reduce_op = \"max\">",
       scattered("max", 0)},
      {"ms_gathered", fmt::format("com.microsoft.AllGather <group_size = {}>", ranks), gathered(0)},
      {"exchanged", "ai.braid.AllToAll <split_axis = 1, concat_axis = 0>", exchanged(1, 0)},
      {"trt_broadcast",
       fmt::format("DistCollective <collective_operation = \"broadcast\", root = {}>", ranks - 1),
       from_member(ranks - 1)},
  };
  const int rows = 2 * ranks, cols = ranks;
  std::vector<std::string> nodes, outputs;
  std::string last = "x";
  for (const Stage& stage : stages) {
    nodes.push_back(fmt::format("{} = {} ({})", stage.name, stage.node, last));
    outputs.push_back(fmt::format("float[a_{0}, b_{0}] {0}", stage.name));
    last = stage.name;
  }
  Matrices values = random_matrices(ranks, rows, cols);
  CaseWriter c(fmt::format("mixed_{}", ranks), {all_ranks(ranks)}, values);
  for (const Stage& stage : stages) {
    Matrices results;
    for (int me = 0; me < ranks; ++me) results.push_back(stage.reference(values, me));
    values = std::move(results);
    c.expect([&](const Matrices&, int me) { return values[static_cast<std::size_t>(me)]; });
  }
  const std::string text = fmt::format("g (float[{}, {}] x) => ({}) {{ {} }}", rows, cols,
                                       fmt::join(outputs, ", "), fmt::join(nodes, "\n"));
  return c.finish(frontend::import_text(text, {.ranks = ranks}));
}

}  // namespace

std::vector<CollectiveCase> onnx_collective_cases(int ranks) {
  std::vector<CollectiveCase> out;
  const ir::Parts all = {all_ranks(ranks)};
  out.push_back(onnx_case(fmt::format("forms_{}", ranks), ranks, forms(ranks, ""), all, 2 * ranks));
  out.push_back(
      onnx_case(fmt::format("foreign_forms_{}", ranks), ranks, foreign_forms(ranks), all, 2 * ranks));
  out.push_back(mixed_case(ranks));
  std::vector<Form> of_nothing = forms(ranks, "");
  std::erase_if(of_nothing, [](const Form& f) { return f.name == "all_to_all_uneven"; });  // says its rows
  out.push_back(onnx_case(fmt::format("empty_{}", ranks), ranks, of_nothing, all, 0));
  for (const Subgroup& some : subgroups(ranks)) {
    out.push_back(onnx_case(fmt::format("forms_{}_{}", ranks, some.name), ranks,
                            forms(some.size(), some.attributes()), some.parts, 2 * some.size()));
  }
  return out;
}

std::vector<CollectiveCase> peer_reading_collective_cases(int ranks) {
  std::vector<CollectiveCase> out;
  out.push_back(onnx_case(fmt::format("peer_reading_{}", ranks), ranks, peer_reading_forms(""),
                          {all_ranks(ranks)}, 2 * ranks));
  for (const Subgroup& some : subgroups(ranks)) {
    out.push_back(onnx_case(fmt::format("peer_reading_{}_{}", ranks, some.name), ranks,
                            peer_reading_forms(some.attributes()), some.parts, 2 * some.size()));
  }
  for (CollectiveCase& c : in_place_collective_cases(ranks, true)) out.push_back(std::move(c));
  return out;
}

std::vector<CollectiveCase> collective_cases(int ranks) {
  std::vector<CollectiveCase> out = onnx_collective_cases(ranks);
  for (CollectiveCase& c : in_place_collective_cases(ranks)) {
    c.in_place = true;
    out.push_back(std::move(c));
  }
  return out;
}

void expect_results(const CollectiveCase& c, const std::vector<std::vector<ir::Tensor>>& outputs,
                    const std::string& engine) {
  ASSERT_EQ(outputs.size(), c.expected.size()) << engine;
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    ASSERT_EQ(outputs[r].size(), c.expected[r].size()) << engine;
    for (std::size_t k = 0; k < outputs[r].size(); ++k) {
      if (!c.expected[r][k]) continue;
      const ir::Tensor &got = outputs[r][k], &want = *c.expected[r][k];
      const std::string where =
          fmt::format("{} by {}, rank {}, output '{}'", c.name, engine, r, c.schedule.graph.outputs[k].name);
      ASSERT_EQ(got.dtype, want.dtype) << where;
      ASSERT_EQ(got.sizes, want.sizes) << where;
      const std::vector<float> x = got.values<float>(), y = want.values<float>();
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_LE(std::abs(x[i] - y[i]), 1e-5F * std::max(1.0F, std::abs(y[i])))
            << where << ", element " << i << ": " << x[i] << " instead of " << y[i];
      }
    }
  }
}

}  // namespace braid::test
