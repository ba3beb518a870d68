#include "runtime/emulated/kernel_operation.h"

#include <utility>

namespace braid::emulated {

KernelOperation::KernelOperation(TaskContext& context, std::string name)
    : context_(context),
      name_(std::move(name)),
      whole_(checker().begin(context.lane.thread, context.clock, name_, context.label)),
      begin_(context.clock) {}

void KernelOperation::begin_block(unsigned block) {
  block_ = block;
  if (by_blocks_) block_clock_ = begin_;
}

void KernelOperation::end_block() {
  if (!by_blocks_) return;
  flush();
  end_.join(block_clock_);
}

bool KernelOperation::goes_by_blocks() {
  if (!by_blocks_ && block_ == 0) {
    by_blocks_ = true;
    block_clock_ = begin_;
  }
  return by_blocks_;
}

VectorClock KernelOperation::raise() {
  flush();
  return block_clock_;
}

void KernelOperation::lower(const VectorClock& clock) {
  flush();
  block_clock_.join(clock);
}

void KernelOperation::flush() {
  AccessRanges ranges = context_.accesses.finish();
  if (ranges.empty()) return;
  const auto part = checker().begin(context_.lane.of_block(block_), block_clock_, name_, context_.label);
  checker().finish(part, std::move(ranges));
}

void KernelOperation::finish() {
  end_block();  // of a kernel that was given up: its present block
  context_.clock.join(end_);
  checker().finish(whole_, context_.accesses.finish());
}

}  // namespace braid::emulated
