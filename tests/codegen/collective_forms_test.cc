// Every form of every collective as an ONNX node, on 1, 2, 3, 4 and 8 ranks and on subgroups: interpreter
// (before the passes, and after them on planned memory) and compiled programs against a reference in this
// file.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "codegen/compile.h"
#include "runtime/comm/bootstrap.h"
#include "tests/codegen/compiled.h"
#include "tests/frontend/models.h"

namespace braid::test {
namespace {

struct Matrix {
  int rows = 0, cols = 0;
  std::vector<float> values;
  Matrix(int r, int c) : rows(r), cols(c), values(static_cast<std::size_t>(r * c)) {}
  float& at(int r, int c) { return values[static_cast<std::size_t>(r * cols + c)]; }
  float at(int r, int c) const { return values[static_cast<std::size_t>(r * cols + c)]; }
};
Matrix fill(int rows, int cols, const std::function<float(int, int)>& f) {
  Matrix m(rows, cols);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) m.at(r, c) = f(r, c);
  }
  return m;
}

using Inputs = std::vector<Matrix>;  // x of each member, in the order of the group
// What the member at this position gets.
using Reference = std::function<Matrix(const Inputs&, int me)>;

struct Form {
  std::string name;        // of the output
  std::string node;        // "ai.braid.AllReduce", or with attributes
  Reference reference;     // of the first input, x
  bool coalesced = false;  // of x and z = x + x: two results
};

Reference reduced(const std::string& op) {
  return [op](const Inputs& in, int) {
    return fill(in[0].rows, in[0].cols, [&](int r, int c) {
      float v = in[0].at(r, c);
      for (std::size_t k = 1; k < in.size(); ++k) {
        const float w = in[k].at(r, c);
        if (op == "sum" || op == "avg") v += w;
        if (op == "prod") v *= w;
        if (op == "max") v = std::max(v, w);
        if (op == "min") v = std::min(v, w);
      }
      return op == "avg" ? v / static_cast<float>(in.size()) : v;
    });
  };
}
Matrix part(const Matrix& m, int axis, int k, int n) {
  const int rows = axis == 0 ? m.rows / n : m.rows, cols = axis == 1 ? m.cols / n : m.cols;
  return fill(rows, cols,
              [&](int r, int c) { return axis == 0 ? m.at(r + k * rows, c) : m.at(r, c + k * cols); });
}
Matrix joined(const Inputs& parts, int axis) {
  const int n = static_cast<int>(parts.size()), rows = parts[0].rows, cols = parts[0].cols;
  return fill(axis == 0 ? rows * n : rows, axis == 1 ? cols * n : cols, [&](int r, int c) {
    return axis == 0 ? parts[static_cast<std::size_t>(r / rows)].at(r % rows, c)
                     : parts[static_cast<std::size_t>(c / cols)].at(r, c % cols);
  });
}
Reference gathered(int axis) {
  return [axis](const Inputs& in, int) { return joined(in, axis); };
}
Reference scattered(const std::string& op, int axis) {
  return [=](const Inputs& in, int me) {
    return part(reduced(op)(in, me), axis, me, static_cast<int>(in.size()));
  };
}
Reference exchanged(int split, int concat) {
  return [=](const Inputs& in, int me) {
    Inputs parts;
    for (const Matrix& m : in) parts.push_back(part(m, split, me, static_cast<int>(in.size())));
    return joined(parts, concat);
  };
}
// Member i sends split[i*n + j] rows to member j.
Reference exchanged_unevenly(std::vector<int> split) {
  return [split = std::move(split)](const Inputs& in, int me) {
    Matrix out(0, in[0].cols);
    const int n = static_cast<int>(in.size());
    for (int i = 0; i < n; ++i) {
      const int* row = split.data() + i * n;
      const int begin = std::accumulate(row, row + me, 0) * out.cols;
      const std::vector<float>& from = in[static_cast<std::size_t>(i)].values;
      out.values.insert(out.values.end(), from.begin() + begin, from.begin() + begin + row[me] * out.cols);
      out.rows += row[me];
    }
    return out;
  };
}

// All forms over a group of n; `group` is its attribute, or nothing.
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
  out.push_back({"all_gather", node("AllGather", {fmt::format("group_size = {}", n)}), gathered(0)});
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
                   node("Broadcast", {fmt::format("root = {}", root)}),
                   [root](const Inputs& in, int) { return in[static_cast<std::size_t>(root)]; }});
    if (n == 1) break;
  }
  // A ring, and one message from the last to the first.
  std::vector<int> ring;
  for (int i = 0; i < n; ++i) ring.insert(ring.end(), {i, (i + 1) % n});
  out.push_back({"batch_send_recv",
                 node("BatchSendRecv", {fmt::format("pairs = [{}]", fmt::join(ring, ", "))}),
                 [n](const Inputs& in, int me) { return in[static_cast<std::size_t>((me + n - 1) % n)]; }});
  out.push_back({"send_recv_one", node("BatchSendRecv", {fmt::format("pairs = [{}, 0]", n - 1)}),
                 [n](const Inputs& in, int me) {
                   return me == 0 ? in[static_cast<std::size_t>(n - 1)] : Matrix(in[0].rows, in[0].cols);
                 }});
  return out;
}

struct Case {
  std::vector<Form> forms;
  std::vector<int> group;
};

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
       [n](const Inputs& in, int) { return in[static_cast<std::size_t>(n - 1)]; }},
      // A group for each rank.
      {"trt_alone", dist("collective_operation = \"all_reduce\", reduce_op = \"sum\", group_size = 1"),
       [](const Inputs& in, int me) { return in[static_cast<std::size_t>(me)]; }},
      // Pairs, where the number is even.
      {"trt_pairs",
       dist(fmt::format("collective_operation = \"all_gather\", group_size = {}", n % 2 == 0 ? 2 : n)),
       [n](const Inputs& in, int me) {
         if (n % 2 != 0) return joined(in, 0);
         const auto first = static_cast<std::size_t>(me / 2 * 2);
         return joined({in[first], in[first + 1]}, 0);
       }},
  };
}

class CollectiveForms : public testing::TestWithParam<int> {};

TEST_P(CollectiveForms, EqualTheReference) {
  const int n = GetParam();
  std::vector<int> world(static_cast<std::size_t>(n));
  std::iota(world.begin(), world.end(), 0);
  std::vector<Case> cases = {{forms(n, ""), world}, {foreign_forms(n), world}};
  if (n > 2) {  // all but rank 0, backwards
    const std::vector<int> some(world.rbegin(), world.rend() - 1);
    cases.push_back({forms(n - 1, fmt::format("group = [{}]", fmt::join(some, ", "))), some});
  }
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const Case& c = cases[k];
    const int members = static_cast<int>(c.group.size()), rows = 2 * members, cols = members;
    std::vector<std::string> nodes = {"z = Add(x, x)"}, outputs;
    for (const Form& f : c.forms) {
      const std::string second = f.coalesced ? f.name + "_z" : "";
      nodes.push_back(fmt::format("{}{}{} = {} (x{})", f.name, f.coalesced ? ", " : "", second, f.node,
                                  f.coalesced ? ", z" : ""));
      outputs.push_back(fmt::format("float[a_{0}, b_{0}] {0}", f.name));
      if (f.coalesced) outputs.push_back(fmt::format("float[a_{0}, b_{0}] {0}", second));
    }
    // Waiting for what has been waited for is the identity.
    nodes.push_back(fmt::format("waited_once = ai.braid.WaitTensor({})", c.forms[0].name));
    nodes.push_back("waited = ai.braid.WaitTensor(waited_once)");
    outputs.push_back("float[a_waited, b_waited] waited");
    const std::string text = fmt::format("g (float[{}, {}] x) => ({}) {{ {} }}", rows, cols,
                                         fmt::join(outputs, ", "), fmt::join(nodes, "\n"));
    ir::Schedule schedule = frontend::import_text(text, {.ranks = n});
    std::vector<std::vector<ir::Tensor>> inputs;
    for (int r = 0; r < n; ++r)
      inputs.push_back(
          {random_tensor(ir::DType::f32, {rows, cols}, 17 + static_cast<std::uint64_t>(r), true)});
    Inputs of_member;
    for (int r : c.group) {
      of_member.emplace_back(rows, cols);
      of_member.back().values = inputs[static_cast<std::size_t>(r)][0].values<float>();
    }
    Inputs doubled = of_member;
    for (Matrix& m : doubled) {
      for (float& v : m.values) v *= 2;
    }
    const auto check = [&](const std::vector<std::vector<ir::Tensor>>& got, const std::string& how) {
      for (int me = 0; me < members; ++me) {
        const int rank = c.group[static_cast<std::size_t>(me)];
        std::size_t at = 0;
        const auto expect = [&](const Matrix& want, const std::string& name) {
          expect_close(got[static_cast<std::size_t>(rank)].at(at++),
                       ir::make_tensor(ir::DType::f32, {want.rows, want.cols}, want.values), 1e-5,
                       fmt::format("{} of {} ranks, {}, rank {}", name, n, how, rank));
        };
        for (const Form& f : c.forms) {
          expect(f.reference(of_member, me), f.name);
          if (f.coalesced) expect(f.reference(doubled, me), f.name + "_z");
        }
        expect(c.forms[0].reference(of_member, me), "waited");
      }
    };
    check(ir::run(schedule, inputs).outputs, "interpreter");
    optimise(schedule, CompileOptions{});
    ir::InterpreterOptions planned;
    planned.use_plan = true;
    planned.order_seed = 5;
    check(ir::run(schedule, inputs, planned).outputs, "interpreter after the passes");

    Compiled compiled("-O1");
    const std::string name = fmt::format("forms_{}_{}", n, k);
    compiled.add_schedule(name, std::move(schedule));
    compiled.build();
    std::vector<std::vector<ir::Tensor>> got(static_cast<std::size_t>(n));
    rt::LaunchOptions launch;
    launch.world = rt::world_options(*compiled.table(name));
    const rt::Status status = rt::launch_threads(n, launch, [&](rt::World& w) {
      rt::Program program = compiled.open(name, &w);
      const auto r = static_cast<std::size_t>(w.rank());
      for (int step = 0; step < 3; ++step) got[r] = compiled.run(program, inputs[r]);
      return 0;
    });
    ASSERT_TRUE(status.ok()) << status.message;
    check(got, "compiled");
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveForms, testing::Values(1, 2, 3, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace braid::test
