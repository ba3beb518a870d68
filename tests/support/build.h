// Small graphs, op by op, for tests that need more control than a text or many graphs at once.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace braid::test {

struct Builder {
  ir::Schedule schedule;
  ir::Graph& graph = schedule.graph;
  ir::ExprPool& pool = *schedule.graph.pool;

  ir::BufferId input(const std::string& name, std::vector<ir::Expr> sizes, ir::DType dtype = ir::DType::f32) {
    const ir::BufferId b = graph.add_owned(name, dtype, std::move(sizes), ir::StorageKind::input);
    graph.inputs.push_back({name, b});
    return b;
  }
  void output(const std::string& name, ir::BufferId b) { graph.outputs.push_back({name, b}); }
  ir::BufferId activation(const std::string& name, std::vector<ir::Expr> sizes,
                          ir::DType dtype = ir::DType::f32) {
    return graph.add_owned(name, dtype, std::move(sizes));
  }
  ir::BufferId result(const std::string& name, std::vector<ir::Expr> sizes,
                      ir::DType dtype = ir::DType::f32) {
    const ir::BufferId b = graph.add_owned(name, dtype, std::move(sizes), ir::StorageKind::output);
    graph.outputs.push_back({name, b});
    return b;
  }

  // Row-major element index of a buffer at the loop's own first indices.
  ir::Expr at(ir::BufferId b) {
    ir::Expr e = 0;
    const std::vector<ir::Expr> strides = ir::strides_of(graph, b);
    for (std::size_t k = 0; k < strides.size(); ++k) {
      if (!graph[b].sizes[k].is_constant(1)) e = e + pool.index(k) * strides[k];
    }
    return e;
  }

  ir::OpId emit(ir::Operation op) {
    const ir::OpId id = graph.add_op(std::move(op));
    schedule.nodes.push_back(ir::ScheduleNode::single(id));
    return id;
  }

  // out[i] = sum of inputs[i]: each input has the sizes of out, or fewer dimensions (its first ones).
  ir::OpId add(const std::string& name, ir::BufferId out, std::vector<ir::BufferId> inputs) {
    ir::BodyBuilder body(pool);
    std::optional<ir::ValueId> sum;
    for (ir::BufferId in : inputs) {
      const ir::ValueId v = body.load(in, graph[in].dtype, at(in));
      sum = sum ? body.binary(ir::OpCode::add, *sum, v) : v;
    }
    const ir::ValueId value = body.cast(sum ? *sum : body.constant_of(graph[out].dtype, 1), graph[out].dtype);
    ir::Loops loops{graph[out].sizes, 0, ir::ReduceKind::sum, body.finish(value), at(out)};
    return emit({name, std::move(loops), {out}, {}, {}});
  }

  // out[i0..] = reduce over the last dimension of `in`.
  ir::OpId reduce(const std::string& name, ir::BufferId out, ir::BufferId in,
                  ir::ReduceKind kind = ir::ReduceKind::sum) {
    ir::BodyBuilder body(pool);
    const ir::ValueId v = body.load(in, graph[in].dtype, at(in));
    ir::Loops loops{graph[in].sizes, 1, kind, body.finish(v), at(out)};
    return emit({name, std::move(loops), {out}, {}, {}});
  }

  ir::OpId gemm(const std::string& name, ir::BufferId out, ir::BufferId a, ir::BufferId b) {
    return emit(
        {name, ir::Gemm{ir::whole(graph, a), ir::whole(graph, b), ir::whole(graph, out), {}}, {out}, {}, {}});
  }

  // start, wait and release of an all-reduce in place; answers the name of the result.
  ir::BufferId all_reduce(const std::string& name, ir::BufferId x, ir::GroupId group) {
    ir::CollectiveKernel k;
    k.group = group;
    const ir::BufferId started = graph.add_mutation(x, name + "_started");
    k.inputs = {ir::whole(graph, x)};
    k.outputs = {ir::whole(graph, started)};
    const ir::OpId start = emit({name, k, {started}, {}, {}});
    const ir::BufferId done = graph.add_mutation(started, name + "_done");
    emit({name + "_wait", ir::WaitKernel{start}, {done}, {}, {}});
    emit({name + "_release", ir::ReleaseKernel{start}, {}, {}, {}});
    return done;
  }

  ir::BufferId comm(const std::string& name, std::vector<ir::Expr> sizes, ir::GroupId group) {
    const ir::BufferId b = graph.add_owned(name, ir::DType::f32, std::move(sizes), ir::StorageKind::comm);
    graph[graph[b].storage].groups = {group};
    graph[b].layout =
        ir::CommBufferLayout{ir::contiguous_strides(graph[b].sizes), ir::CommBufferKind::symmetric, {group}};
    return b;
  }
};

}  // namespace braid::test
