// ReverseSequence: the first elements of every sequence in reverse order, the rest as they are.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_reverse_sequence(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::int64_t time_axis = c.int_attribute("time_axis", 0),
                     batch_axis = c.int_attribute("batch_axis", 1);
  if (time_axis < 0 || time_axis > 1 || batch_axis != 1 - time_axis) {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attributes 'time_axis' and 'batch_axis' are {} and {}, expected 0 and "
                       "1 or 1 and 0",
                       time_axis, batch_axis));
  }
  if (c.rank(0) < 2 || c.rank(1) != 1) {
    c.fail(errors::kShapeMismatch,
           fmt::format("the input has rank {} and the lengths have rank {}, expected at least 2 "
                       "and 1",
                       c.rank(0), c.rank(1)));
  }
  const auto time = static_cast<std::size_t>(time_axis), batch = static_cast<std::size_t>(batch_axis);
  const TensorBox x = c.input(0), lengths = c.input(1);
  l.require_equal(lengths.sizes()[0], x.sizes()[batch]);
  c.set_output(0, l.generate(x.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId read = l.load(b, lengths, at.subspan(batch, 1));
    const ValueId length = b.check_index(b.cast(read, DType::i64), x.sizes()[time] + 1);
    const ValueId here = b.index(at[time]);
    const ValueId mirrored = b.binary(OpCode::sub, length, b.index(at[time] + 1));
    std::vector<Expr> source(at.begin(), at.end());
    source[time] = b.as_index(b.where(b.binary(OpCode::lt, here, length), mirrored, here));
    return l.load(b, x, source);
  }));
}

}  // namespace

std::span<const OpSpec> reverse_sequence_ops() {
  static const OpSpec ops[] = {
      {"", "ReverseSequence", 10, kNewestOpset, kAllTypes, lower_reverse_sequence, work::gather(3),
       rule::kReverseSequence, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
