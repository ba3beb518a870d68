#include "runtime/emulated/step_scope.h"

#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/launch_result.h"
#include "runtime/emulated/nccl_host.h"
#include "runtime/emulated/step_record.h"
#include "runtime/emulated/stream.h"

namespace braid::emulated {
namespace {

std::string label() {
  const HostThread& host = host_thread();
  return host.label.empty() ? "" : " [" + host.label + "]";
}
std::string where() { return label() + " on rank " + std::to_string(host_thread().device); }

}  // namespace

StepScope::StepScope(cudaStream_t caller) : record_(new StepRecord(caller)) {
  host_thread().step = record_.get();
}

StepScope::~StepScope() {
  if (host_thread().step == record_.get()) host_thread().step = nullptr;
}

void StepScope::done() {
  if (host_thread().step == record_.get()) host_thread().step = nullptr;
  record_->done();
}

StepRecord::StepRecord(cudaStream_t caller) : caller_(find_stream(caller)) {
  if (caller_ != nullptr) before_ = caller_->issued()[caller_->lane.thread];
}

void StepRecord::enqueued(CUstream_st& stream, const std::string& name, uint32_t number,
                          const VectorClock& issued) {
  const bool first = latest_.count(&stream) == 0;
  latest_[&stream] = {number, name + label() + " on " + stream.lane.text};
  if (!first || caller_ == nullptr || &stream == caller_ || issued[caller_->lane.thread] >= before_) return;
  finding_list().add(FindingKind::kStepScope, latest_[&stream].name +
                                                  " does not follow what was on the caller's stream " +
                                                  std::to_string(caller_->ordinal) + " before the step");
}

void StepRecord::failed(const char* call, const std::string& error) {
  if (failure_.empty()) failure_ = call + where() + " returned '" + error + "'";
}

void StepRecord::done() const {
  if (!failure_.empty())
    finding_list().add(FindingKind::kUnchecked,
                       failure_ + " within a step, and the step goes on and reports success");
  if (in_nccl_group())
    finding_list().add(FindingKind::kStepScope, "a step of rank " + std::to_string(host_thread().device) +
                                                    " ends between ncclGroupStart and ncclGroupEnd");
  if (caller_ == nullptr) return;
  const VectorClock issued = caller_->issued();
  for (const auto& [stream, work] : latest_)
    if (stream != caller_ && issued[stream->lane.thread] < work.number)
      finding_list().add(FindingKind::kStepScope,
                         "the caller's stream " + std::to_string(caller_->ordinal) +
                             " does not wait for the last work that a step puts on another stream, " +
                             work.name);
}

void not_within_step(const char* call) {
  if (host_thread().step == nullptr) return;
  finding_list().add(FindingKind::kStepScope, call + where() + " within a step");
}

void report_unchecked_launch(const char* kernel) {
  finding_list().add(FindingKind::kUnchecked,
                     "nobody looks at whether the launch of " + std::string(kernel) + where() + " succeeded");
}

}  // namespace braid::emulated
