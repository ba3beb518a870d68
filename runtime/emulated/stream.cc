#include "runtime/emulated/stream.h"

#include <pthread.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/emulated/block.h"
#include "runtime/emulated/graph.h"
#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/nccl_order.h"
#include "runtime/emulated/options.h"
#include "runtime/emulated/planned_memory.h"
#include "runtime/emulated/step_record.h"

namespace braid::emulated {
namespace {

struct Handles {
  std::mutex mutex;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::map<int, std::unique_ptr<Device>> devices;
};

Handles& handles() {
  static Handles* instance = new Handles;
  return *instance;
}

}  // namespace

void Recording::finish(const VectorClock& at) {
  {
    std::lock_guard lock(mutex);
    clock = at;
    time = std::chrono::steady_clock::now();
    done = true;
  }
  changed.notify_all();
}

void Recording::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
}

bool Recording::is_done() {
  std::lock_guard lock(mutex);
  return done;
}

void Device::fail(cudaError_t e) {
  int none = cudaSuccess;
  error.compare_exchange_strong(none, e);
}

bool valid_device(int index) { return index >= 0 && index < options().devices; }

Device& device_at(int index) {
  Handles& h = handles();
  std::lock_guard lock(h.mutex);
  auto& device = h.devices[index];
  if (!device) {
    device = std::make_unique<Device>();
    device->index = index;
  }
  return *device;
}

Device& current_device() { return device_at(host_thread().device); }

CUstream_st* find_stream(cudaStream_t handle) {
  // 0, cudaStreamLegacy (1) and cudaStreamPerThread (2): one stream per device.
  if (reinterpret_cast<uintptr_t>(handle) <= 2) {
    Device& device = current_device();
    std::unique_lock lock(device.mutex);
    if (device.legacy == nullptr) {
      lock.unlock();
      auto* stream = new CUstream_st(device, -1, cudaStreamDefault, 0);
      lock.lock();
      device.legacy = stream;
    }
    return device.legacy;
  }
  Handles& h = handles();
  std::lock_guard lock(h.mutex);
  return h.streams.count(handle) != 0 ? handle : nullptr;
}

CUevent_st* find_event(cudaEvent_t handle) {
  Handles& h = handles();
  std::lock_guard lock(h.mutex);
  return h.events.count(handle) != 0 ? handle : nullptr;
}

CUevent_st* make_event(unsigned flags) {
  auto* event = new CUevent_st;
  event->flags = flags;
  std::lock_guard lock(handles().mutex);
  handles().events.insert(event);
  return event;
}

bool destroy_event(CUevent_st* event) {
  {
    std::lock_guard lock(handles().mutex);
    if (handles().events.erase(event) == 0) return false;
  }
  delete event;
  return true;
}

LiveHandles live_handles() {
  Handles& h = handles();
  std::lock_guard lock(h.mutex);
  LiveHandles live;
  for (const CUstream_st* stream : h.streams)
    if (stream->ordinal >= 0) live.streams.push_back(stream->lane.text);
  live.events = static_cast<int>(h.events.size());
  return live;
}

cudaError_t result(cudaError_t error, const char* call) {
  if (error == cudaSuccess || error == cudaErrorNotReady) return error;
  host_thread().last_error = error;
  if (StepRecord* step = host_thread().step) step->failed(call, cudaGetErrorString(error));
  return error;
}

cudaError_t sticky_error() { return static_cast<cudaError_t>(current_device().error.load()); }

Lane::Lane(std::string name) : thread(checker().add_thread(name)), text(std::move(name)) {}

LogicalThread Lane::of_block(unsigned block) {
  // Named like the lane: findings do not mention blocks, and a name per block would give many findings.
  while (block_threads.size() <= block) block_threads.push_back(checker().add_thread(text));
  return block_threads[block];
}

cudaError_t enqueue_operation(CUstream_st& stream, std::string name,
                              std::function<std::unique_ptr<Fault>(TaskContext&)> run) {
  stream.must_be_launched(name);
  if (const cudaError_t error = implicit_while_capturing(stream, name.c_str()); error != cudaSuccess)
    return error;
  stream.enqueue({WorkKind::kOperation, name, [name, run = std::move(run)](TaskContext& context) {
                    const Checker::Operation operation =
                        checker().begin(context.lane.thread, context.clock, name, context.label);
                    const std::unique_ptr<Fault> fault = run(context);
                    checker().finish(operation, context.accesses.finish());
                    if (fault) report_fault(context, name, *fault);
                    return !fault;
                  }});
  return cudaSuccess;
}

static cudaError_t error_of(FindingKind kind) {
  switch (kind) {
    case FindingKind::kIllegalAccess:
      return cudaErrorIllegalAddress;
    case FindingKind::kKernelTimeOut:
      return cudaErrorLaunchTimeout;
    default:
      return cudaErrorLaunchFailure;
  }
}

void report_fault(TaskContext& context, const std::string& name, const Fault& fault) {
  std::string text = name;
  if (!context.label.empty()) text += " [" + context.label + "]";
  finding_list().add(fault.kind, text + " on " + context.lane.text + ", " + fault.text);
  context.stream.device.fail(error_of(fault.kind));
}

void reset_devices() {
  std::vector<CUstream_st*> streams;
  {
    std::lock_guard lock(handles().mutex);
    streams.assign(handles().streams.begin(), handles().streams.end());
  }
  for (CUstream_st* stream : streams) delete stream;
  {
    std::lock_guard lock(handles().mutex);
    for (auto& [index, device] : handles().devices) {
      device->error = cudaSuccess;
      device->legacy = nullptr;
    }
  }
  collective_order().forget_all();
  checker().forget();
  device_memory().restart_ordinals();
  take_findings();
  host_thread().last_error = cudaSuccess;
  host_thread().label.clear();
  host_thread().node = -1;
  host_thread().step = nullptr;
  host_thread().declared = nullptr;
}

}  // namespace braid::emulated

using namespace braid::emulated;

CUstream_st::CUstream_st(Device& device, int ordinal, unsigned flags, int priority)
    : device(device),
      ordinal(ordinal),
      flags(flags),
      priority(priority),
      lane("rank " + std::to_string(device.index) + " stream " +
           (ordinal < 0 ? std::string("0 (legacy default)") : std::to_string(ordinal))),
      delays_(options().seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(device.index) * 1000003u +
              static_cast<uint64_t>(ordinal + 1)) {
  worker_ = std::thread([this] { work(); });  // may throw: then the stream is not registered yet
  {
    std::lock_guard lock(handles().mutex);
    handles().streams.insert(this);
  }
  std::lock_guard lock(device.mutex);
  device.streams.push_back(this);
}

CUstream_st::~CUstream_st() {
  if (const auto captured = capture()) captured->leave(*this);
  {
    std::lock_guard lock(handles().mutex);
    handles().streams.erase(this);
  }
  {
    std::lock_guard lock(device.mutex);
    device.streams.erase(std::find(device.streams.begin(), device.streams.end(), this));
  }
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void CUstream_st::enqueue(Work work) {
  if (host_thread().declared != nullptr)  // also in replays
    work.task = in_step(host_thread().declared, std::move(work.task));
  if (const auto captured = capture()) {
    CUgraphNode_st node{
        work.kind, work.name, host_thread().label, host_thread().node, 0, {}, work.asynchronous, {}, nullptr};
    node.make = [work = std::move(work)] { return work; };
    captured->add(*this, std::move(node));
    return;
  }
  VectorClock issued;
  uint32_t number = 0;
  const auto others = implicitly_before();
  for (CUstream_st* other : others) issued.join(other->issued());
  {
    std::lock_guard lock(mutex_);
    issued_.join(issued);
    issued_.join(host_thread().issued);
    number = issued_[lane.thread] + 1;
    issued_.set(lane.thread, number);
    issued = issued_;
  }
  if (StepRecord* step = host_thread().step) step->enqueued(*this, work.name, number, issued);
  std::vector<std::shared_ptr<Recording>> first;
  for (CUstream_st* other : others) {
    if (!other->idle()) {
      first.push_back(other->record());
      continue;
    }
    first.push_back(std::make_shared<Recording>());
    first.back()->finish(other->clock_when_idle());
  }
  if (!first.empty()) {
    work.task = [first = std::move(first), task = std::move(work.task)](TaskContext& context) {
      for (const auto& recording : first) {
        recording->wait();
        context.clock.join(recording->clock);
      }
      return task(context);
    };
  }
  push(std::move(work.task), work.asynchronous, std::move(work.if_failed));
}

// Stream 0 and blocking streams order each other, as on a GPU.
std::vector<CUstream_st*> CUstream_st::implicitly_before() {
  std::vector<CUstream_st*> others;
  if ((flags & cudaStreamNonBlocking) != 0) return others;
  std::lock_guard lock(device.mutex);
  if (this == device.legacy || ordinal < 0) {
    for (CUstream_st* other : device.streams)
      if (other != this && (other->flags & cudaStreamNonBlocking) == 0) others.push_back(other);
  } else if (device.legacy != nullptr) {
    others.push_back(device.legacy);
  }
  return others;
}

void CUstream_st::wait_for(std::shared_ptr<Recording> recording) {
  {
    std::lock_guard lock(mutex_);
    issued_.join(recording->issued);
  }
  push(
      [recording = std::move(recording)](TaskContext& context) {
        recording->wait();
        context.clock.join(recording->clock);
        return true;
      },
      true, nullptr);
}

void CUstream_st::push(Task task, bool asynchronous, std::function<void()> if_failed) {
  HostThread& host = host_thread();
  std::unique_lock lock(mutex_);
  queue_.push_back({std::move(task), std::move(if_failed), host.now(), host.label, host.node});
  const uint64_t target = ++enqueued_;
  if (asynchronous) pending_asynchronous_ = enqueued_;
  changed_.notify_all();
  if (options().deterministic && pending_asynchronous_ <= finished_)
    changed_.wait(lock, [&] { return finished_ >= target; });
}

void CUstream_st::work() {
  pthread_setname_np(pthread_self(),
                     ("r" + std::to_string(device.index) + "s" + std::to_string(ordinal)).c_str());
  AccessSet accesses;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    VectorClock clock = clock_;
    lock.unlock();
    if (options().max_delay.count() > 0)
      std::this_thread::sleep_for(
          std::chrono::microseconds(delays_() % static_cast<uint64_t>(options().max_delay.count())));
    clock.join(next.host_clock);
    if (device.error.load() == cudaSuccess) {
      TaskContext context{*this, lane, accesses, clock, std::move(next.label), next.node};
      if (!next.task(context)) device.fail(cudaErrorUnknown);  // unless it has said why: because of a peer
    } else if (next.if_failed) {
      next.if_failed();
    }
    next = Queued{};
    lock.lock();
    clock_ = std::move(clock);
    ++finished_;
    changed_.notify_all();
  }
}

cudaError_t CUstream_st::synchronize() {
  std::unique_lock lock(mutex_);
  const uint64_t target = enqueued_;
  changed_.wait(lock, [&] { return finished_ >= target; });
  host_thread().follow(clock_);
  host_thread().issued.join(issued_);
  return static_cast<cudaError_t>(device.error.load());
}

std::shared_ptr<Capture> CUstream_st::capture() {
  std::lock_guard lock(mutex_);
  return capture_;
}

void CUstream_st::set_capture(std::shared_ptr<Capture> capture) {
  std::lock_guard lock(mutex_);
  capture_ = std::move(capture);
}

void CUstream_st::begin_launch(const void* by, std::string what) {
  std::lock_guard lock(mutex_);
  launching_.emplace(by, std::move(what));
}

void CUstream_st::end_launch(const void* by) {
  std::lock_guard lock(mutex_);
  launching_.erase(by);
}

void CUstream_st::must_be_launched(const std::string& use) {
  std::lock_guard lock(mutex_);
  if (!launching_.empty())
    finding_list().add(FindingKind::kInvalidUse,
                       use + " on " + lane.text + " comes before " + launching_.begin()->second);
}

VectorClock CUstream_st::issued() {
  std::lock_guard lock(mutex_);
  return issued_;
}

void CUstream_st::wait_until_idle() {
  std::unique_lock lock(mutex_);
  const uint64_t target = enqueued_;
  changed_.wait(lock, [&] { return finished_ >= target; });
}

bool CUstream_st::idle() {
  std::lock_guard lock(mutex_);
  return finished_ == enqueued_;
}

VectorClock CUstream_st::clock_when_idle() {
  std::lock_guard lock(mutex_);
  return clock_;
}

std::shared_ptr<Recording> CUstream_st::record() {
  auto recording = std::make_shared<Recording>();
  if (const auto captured = capture()) {
    recording->nodes = captured->frontier(*this);
    recording->capture = captured;
    return recording;
  }
  std::lock_guard lock(mutex_);
  issued_.join(host_thread().issued);
  recording->issued = issued_;
  queue_.push_back({[recording](TaskContext& context) {
                      recording->finish(context.clock);
                      return true;
                    },
                    [recording] { recording->finish({}); },
                    host_thread().now(),
                    {}});
  ++enqueued_;
  changed_.notify_all();
  return recording;
}
