// The extern kernel `non_max_suppression` (runtime/host/non_max_suppression.h).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/kernels/source_text.h"
#include "ir/extern_registry.h"

namespace braid::codegen {
namespace {

using ir::DType;

std::string refuses(const ir::Graph& graph, const ir::ExternKernel& kernel) {
  if (kernel.reads.size() != 5 || kernel.writes.size() != 2)
    return "takes boxes, scores, most, threshold and lowest, and makes two tensors";
  const DType reads[] = {DType::f32, DType::f32, DType::i64, DType::f32, DType::f32};
  for (std::size_t k = 0; k < kernel.reads.size(); ++k) {
    if (graph[kernel.reads[k].buffer].dtype != reads[k]) return "takes float32, and int64 for most";
    if (k >= 2 && !kernel.reads[k].sizes.empty()) return "takes scalars for most, threshold and lowest";
  }
  const std::vector<ir::Expr>&boxes = kernel.reads[0].sizes, &scores = kernel.reads[1].sizes,
        &selected = kernel.writes[0].sizes;
  if (boxes.size() != 3 || scores.size() != 3 || !boxes[2].is_constant(4) ||
      !ir::provably_equal(boxes[0], scores[0]) || !ir::provably_equal(boxes[1], scores[2]))
    return "takes boxes [images, n, 4] and scores [images, classes, n]";
  for (const ir::TensorRef& ref : kernel.writes) {
    if (graph[ref.buffer].dtype != DType::i64) return "makes int64";
  }
  if (selected.size() != 2 || !selected[1].is_constant(3) || !kernel.writes[1].sizes.empty())
    return "makes boxes [room, 3] and their number";
  for (const char* name : {"center", "filter"}) {
    const auto flag = kernel.attributes.find(name);
    if (flag == kernel.attributes.end() || !std::holds_alternative<std::int64_t>(flag->second))
      return "needs the integers center and filter";
  }
  return {};
}

struct Box {
  double y1, x1, y2, x2;  // y1 <= y2, x1 <= x2

  double area() const { return (y2 - y1) * (x2 - x1); }
};

Box box_at(const std::vector<float>& boxes, std::size_t index, bool by_center) {
  const float* f = boxes.data() + 4 * index;
  const double b[] = {f[0], f[1], f[2], f[3]};
  if (by_center) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

// Returns the area of the intersection divided by that of the union.
double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1),
               width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (!(height > 0) || !(width > 0) || !(a.area() > 0) || !(b.area() > 0)) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

void interpret(ir::ExternCall& call) {
  const std::vector<float> boxes = call.reads[0].values<float>(), scores = call.reads[1].values<float>();
  const std::int64_t most = call.reads[2].values<std::int64_t>()[0];
  const double threshold = call.reads[3].values<float>()[0];
  const float lowest = call.reads[4].values<float>()[0];
  const auto& attributes = call.op.as<ir::ExternKernel>()->attributes;
  const bool by_center = std::get<std::int64_t>(attributes.at("center")) != 0,
             filters = std::get<std::int64_t>(attributes.at("filter")) != 0;
  const std::int64_t images = call.reads[1].sizes[0], classes = call.reads[1].sizes[1];
  const auto n = static_cast<std::size_t>(call.reads[1].sizes[2]);
  std::vector<std::int64_t> selected;
  for (std::int64_t of = 0; of < images * classes; ++of) {
    const float* score = scores.data() + static_cast<std::size_t>(of) * n;
    const auto box = [&](std::size_t k) {
      return box_at(boxes, static_cast<std::size_t>(of / classes) * n + k, by_center);
    };
    std::vector<std::size_t> order, kept;
    for (std::size_t k = 0; k < n; ++k) {
      if (!filters || score[k] > lowest) order.push_back(k);
    }
    // NaN comes last.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::isnan(score[a]) || std::isnan(score[b]) ? !std::isnan(score[a]) && std::isnan(score[b])
                                                          : score[a] > score[b];
    });
    for (const std::size_t k : order) {
      if (std::ssize(kept) >= most) break;
      const bool covered = std::any_of(kept.begin(), kept.end(), [&](std::size_t other) {
        return overlap(box(k), box(other)) > threshold;
      });
      if (covered) continue;
      kept.push_back(k);
      selected.insert(selected.end(), {of / classes, of % classes, static_cast<std::int64_t>(k)});
    }
  }
  const auto count = static_cast<std::int64_t>(selected.size()) / 3, room = call.writes[0].sizes[0];
  ir::internal_check(count <= room, "{} boxes are selected, but there is room for {}", count, room);
  selected.resize(static_cast<std::size_t>(3 * room));
  call.writes[0] = ir::make_tensor(DType::i64, {room, 3}, selected);
  call.writes[1] = ir::make_tensor(DType::i64, {}, std::vector{count});
}

// A sort of each class's scores, and a comparison with a few selected boxes. Asked for calls that are
// refused, too.
double flops(const ir::ExternShapes& shapes) {
  constexpr double kFlopsPerScore = 50;
  if (shapes.reads.size() < 2) return 0;
  double count = 1;
  for (const std::int64_t size : shapes.reads[1]) count *= static_cast<double>(size);
  return count * kFlopsPerScore;
}

const ir::RegisterExternKernel kKernel{{
    .symbol = "non_max_suppression",
    .interpret = interpret,
    .refuses = refuses,
    .kernel_class = ir::KernelClass::gather,
    .flops = flops,
    .sources = host_sources("non_max_suppression"),
}};

}  // namespace
}  // namespace braid::codegen
