// Convolutions, pools, samples and recurrent layers: batch and channels. Space is not split: windows overlap.
#include <algorithm>

#include "frontend/sharding/local.h"

namespace braid::frontend::sharding {
namespace {

using ir::ReduceKind;

// Input k is per output channel: one dimension.
void add_per_channel(const NodeView& node, std::vector<Occurrence>& at, int k, std::int64_t inner = 1) {
  if (node.has_input(k) && node.rank(k) == 1 && !node.size(k, 0).is_constant(1))
    at.push_back(in(k, 0, {inner}));
}

// The places of the operands.
struct Form {
  int input = 0, weights = 1, bias = 2;
  bool transposed =
      false;           // weights [inputs, outputs / groups, ...], otherwise [outputs, inputs / groups, ...]
  bool linear = true;  // the sum over input channels may be split
  std::vector<int> per_channel;  // other inputs with one number per output channel
  std::vector<int> like_output;  // other inputs of the output's sizes
  int channels = 1;              // their dimension in input, result, and what is like it
  // Its dimension in the weights: where those of the first channel are, outputs first unless transposed.
  int second_of_weights = 1;
};

Factors convolution(const NodeView& node, const Form& form) {
  Factors f;
  const std::int64_t groups = node.int_attribute("group", 1);
  const int channels = form.channels, out_of_weights = form.transposed ? form.second_of_weights : 0,
            in_of_weights = form.transposed ? 0 : form.second_of_weights;
  const auto inputs = static_size(node.size(form.input, channels)),
             outputs = static_size(node.out_size(0, channels));
  std::vector<Occurrence> batch = {in(form.input, 0), out(0, 0)};
  for (const int k : form.like_output) {
    if (node.has_input(k)) batch.push_back(in(k, 0));
  }
  add(f, node.size(form.input, 0), "batch", std::move(batch));
  if (!inputs || !outputs || groups < 1 || *inputs % groups != 0 || *outputs % groups != 0) return f;
  const std::int64_t in_group = *inputs / groups, out_group = *outputs / groups;
  std::vector<Occurrence> at;
  const std::int64_t inner = groups == 1 ? 1 : out_group;
  if (groups == 1) {
    at = {in(form.weights, out_of_weights), out(0, channels)};
  } else {
    at = {in(form.input, channels, {in_group}), in(form.weights, 0, {form.transposed ? in_group : out_group}),
          out(0, channels, {out_group})};
  }
  add_per_channel(node, at, form.bias, inner);
  for (const int k : form.per_channel) add_per_channel(node, at, k, inner);
  for (const int k : form.like_output) {
    if (node.has_input(k)) at.push_back(in(k, channels, {inner}));
  }
  add(f, groups == 1 ? *outputs : groups, groups == 1 ? "channels" : "groups", std::move(at));
  if (!form.linear) return f;
  if (groups == 1) {
    if (std::optional<Letter> sum = letter_of(*inputs, "inputs")) {
      sum->at = {in(form.input, channels), in(form.weights, in_of_weights)};
      sum->reduce = ReduceKind::sum;
      if (node.has_input(form.bias)) sum->pending_inputs = {form.bias};
      f.letters.push_back(std::move(*sum));
    }
  }
  for (const int k : {form.input, form.weights}) {
    Linear linear{{k}, {ReduceKind::sum}};
    if (node.has_input(form.bias)) linear.inputs.push_back(form.bias);
    f.linear.push_back(std::move(linear));
  }
  return f;
}

Factors conv(const NodeView& node, const Rule&) { return convolution(node, {}); }
Factors conv_transpose(const NodeView& node, const Rule&) {
  Form form;
  form.transposed = true;
  return convolution(node, form);
}
Factors fused_conv(const NodeView& node, const Rule&) {
  Form form;
  form.linear = false;
  form.like_output = {3};
  return convolution(node, form);
}
Factors conv_integer(const NodeView& node, const Rule&) {
  Form form;
  form.linear = false;
  form.bias = -1;
  form.per_channel = {3};
  return convolution(node, form);
}
// Inputs: x, its scale and zero point, weights, theirs, the result's, bias.
Factors qlinear_conv(const NodeView& node, const Rule&) {
  Form form;
  form.linear = false;
  form.weights = 3;
  form.bias = 8;
  form.per_channel = {4, 5};
  if (node.int_attribute("channels_last", 0) != 0) form.channels = node.rank(0) - 1;
  return convolution(node, form);
}
// Channels of input, result and residual are last; those of the weights are where their producer has them.
Factors channels_last(const NodeView& node, bool weights_too) {
  Form form;
  form.linear = false;
  form.like_output = {3};
  form.channels = node.rank(0) - 1;
  if (weights_too) form.second_of_weights = node.rank(1) - 1;
  return convolution(node, form);
}
Factors nhwc_conv(const NodeView& node, const Rule&) { return channels_last(node, true); }
Factors nhwc_fused_conv(const NodeView& node, const Rule&) { return channels_last(node, false); }

// x, weights, offsets, bias, mask: the offsets are of windows, the same in all channels unless they have
// groups of their own.
Factors deformed_conv(const NodeView& node, const Rule&) {
  Form form;
  form.bias = 3;
  Factors f = convolution(node, form);
  const bool own_offsets = node.int_attribute("offset_group", 1) != 1;
  f.linear.clear();
  std::erase_if(f.letters, [&](const Letter& letter) {
    return own_offsets && (letter.name == "groups" || letter.name == "inputs");
  });
  for (Letter& letter : f.letters) {
    if (letter.name != "batch") continue;
    letter.at.push_back(in(2, 0));
    if (node.has_input(4)) letter.at.push_back(in(4, 0));
  }
  return f;
}

// [batch, channels, time] with weights per channel, a bias and the state before the input; the result and the
// state after it.
Factors causal_conv(const NodeView& node, const Rule&) {
  Factors f;
  for (const auto& [name, dim] : {std::pair("batch", 0), std::pair("channels", 1)}) {
    std::vector<Occurrence> at = {in(0, dim), out(0, dim), out(1, dim)};
    if (node.has_input(3)) at.push_back(in(3, dim));
    if (dim == 1) {
      at.push_back(in(1, 0));
      if (node.has_input(2)) at.push_back(in(2, 0));
    }
    add(f, node.size(0, dim), name, std::move(at));
  }
  return f;
}

// Columns [batch, channels * block, blocks] to images.
Factors columns_to_images(const NodeView& node, const Rule&) {
  Factors f;
  add(f, node.size(0, 0), "batch", {in(0, 0), out(0, 0)});
  const auto channels = static_size(node.out_size(0, 1)), rows = static_size(node.size(0, 1));
  if (channels && rows && *channels > 0)
    add(f, *channels, "channels", {in(0, 1, {*rows / *channels}), out(0, 1)});
  return f;
}

// Axes that keep their sizes.
Factors center_crop_pad(const NodeView& node, const Rule&) {
  const auto axes = node.ints_attribute("axes");
  if (!axes) return {};
  std::set<int> changed;
  for (const std::int64_t a : *axes) changed.insert(NodeView::axis(a, node.rank(0)));
  return {broadcast_letters(node, {0}, changed), {}};
}

void write_group(LocalNode& local) {
  const bool split = local.letter != nullptr && local.letter->name == "groups";
  onnx::NodeProto& node = local.emit();
  if (split) set_int(node, "group", local.view.int_attribute("group", 1) / local.ranks());
}

// The other outputs are positions in the whole tensor.
Factors pool(const NodeView& node, const Rule&) {
  if (node.has_output(1)) return {};
  std::set<int> spatial;
  for (int d = 2; d < node.rank(0); ++d) spatial.insert(d);
  return {broadcast_letters(node, {0}, spatial), {}};
}

Factors split_batch(const NodeView& node, const Rule&) {
  Factors f;
  add(f, node.size(0, 0), "batch", {in(0, 0), out(0, 0)});
  return f;
}

// [batch, channels, ...] at the points of [batch, ...].
Factors grid_sample(const NodeView& node, const Rule&) {
  Factors f;
  add(f, node.size(0, 0), "batch", {in(0, 0), in(1, 0), out(0, 0)});
  add(f, node.size(0, 1), "channels", {in(0, 1), out(0, 1)});
  return f;
}

// Regions of interest: x [batch, channels, ...], regions [n, 4], the region's image [n].
Factors roi_align(const NodeView& node, const Rule&) {
  Factors f;
  add(f, node.size(0, 1), "channels", {in(0, 1), out(0, 1)});
  add(f, node.size(1, 0), "regions", {in(1, 0), in(2, 0), out(0, 0)});
  return f;
}

// By scales, dimensions that keep their size pass; by sizes they would have to become local.
Factors resize(const NodeView& node, const Rule&) {
  Factors f;
  if (node.has_input(3) || node.attribute("axes") != nullptr) return f;
  if (node.string_attribute("coordinate_transformation_mode", "") == "tf_crop_and_resize") return f;
  for (int d = 0; d < std::min(2, node.rank(0)); ++d) {
    if (node.size(0, d).is_constant() && node.size(0, d) == node.out_size(0, d))
      add(f, node.size(0, d), "d" + std::to_string(d), {in(0, d), out(0, d)});
  }
  return f;
}

// x, W, R, B, lengths, first states. `layout` 1 has the batch first.
Factors recurrence(const NodeView& node, const Rule&) {
  const bool first = node.int_attribute("layout", 0) != 0;
  const int batch = first ? 0 : 1;
  std::optional<Letter> letter = letter_of(node.size(0, batch), "batch");
  if (!letter) return {};
  letter->at = {in(0, batch)};
  if (node.has_input(4)) letter->at.push_back(in(4, 0));
  for (const int k : {5, 6}) {
    if (node.has_input(k)) letter->at.push_back(in(k, batch));
  }
  for (int k = 0; k < node.outputs(); ++k) letter->at.push_back(out(k, k == 0 && !first ? 2 : batch));
  Factors f;
  f.letters.push_back(std::move(*letter));
  return f;
}

constexpr const char* kStates =
    "only the batch is split: every step needs the whole state of the one before, and directions differ in "
    "order";
constexpr const char* kSpace = "space stays whole: windows overlap";

}  // namespace

namespace rule {
constexpr Rule kCausalConv = {causal_conv, Pending::none, nullptr, "time stays whole"};
constexpr Rule kCenterCropPad = {center_crop_pad, Pending::none, nullptr,
                                 "axes that are cropped or padded stay whole"};
constexpr Rule kCol2Im = {columns_to_images, Pending::none, nullptr, "space stays whole: blocks overlap"};
constexpr Rule kConv = {conv, Pending::none, write_group, kSpace};
constexpr Rule kConvInteger = {conv_integer, Pending::none, write_group, kSpace};
constexpr Rule kConvTranspose = {conv_transpose, Pending::none, write_group, kSpace};
constexpr Rule kDeformConv = {deformed_conv, Pending::none, write_group, kSpace};
constexpr Rule kDepthSpace = {split_batch, Pending::none, nullptr, "channels and space stay whole: they mix"};
constexpr Rule kFusedConv = {fused_conv, Pending::none, write_group, kSpace};
constexpr Rule kGridSample = {grid_sample, Pending::none, nullptr, "space stays whole"};
constexpr Rule kNhwcConv = {nhwc_conv, Pending::none, write_group, kSpace};
constexpr Rule kNhwcFusedConv = {nhwc_fused_conv, Pending::none, write_group, kSpace};
constexpr Rule kPool = {pool, Pending::none, nullptr, kSpace};
constexpr Rule kQLinearConv = {qlinear_conv, Pending::none, write_group, kSpace};
constexpr Rule kRecurrence = {recurrence, Pending::none, nullptr, kStates};
constexpr Rule kResize = {resize, Pending::none, nullptr,
                          "only batch and channels of a resize by scales are split"};
constexpr Rule kRoiAlign = {roi_align};
constexpr Rule kUpsample = {resize, Pending::none, nullptr, "only batch and channels are split"};
}  // namespace rule

}  // namespace braid::frontend::sharding
