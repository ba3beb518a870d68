#include "runtime/emulated/nccl_order.h"

#include <algorithm>
#include <utility>

#include "runtime/emulated/finding_list.h"

namespace braid::emulated {

const CollectiveOrder::Call* CollectiveOrder::find(const Batch& batch, const Key& key) {
  for (const Call& call : batch)
    if (call.key == key) return &call;
  return nullptr;
}

bool CollectiveOrder::has_issued(int device, const Key& key) const {
  const auto queue = queues_.find(device);
  return queue != queues_.end() &&
         std::any_of(queue->second.begin(), queue->second.end(),
                     [&](const Batch& batch) { return find(batch, key) != nullptr; });
}

bool CollectiveOrder::in_front(int device, const Key& key) const {
  const auto queue = queues_.find(device);
  return queue != queues_.end() && !queue->second.empty() && find(queue->second.front(), key) != nullptr;
}

void CollectiveOrder::play(std::vector<int> devices) {
  while (!devices.empty()) {
    std::deque<Batch>& queue = queues_[devices.back()];
    if (queue.empty()) {
      devices.pop_back();
      continue;
    }
    const auto ready = std::find_if(queue.front().begin(), queue.front().end(), [&](const Call& call) {
      return std::all_of(call.devices.begin(), call.devices.end(),
                         [&](int device) { return in_front(device, call.key); });
    });
    if (ready == queue.front().end()) {
      devices.pop_back();
      continue;
    }
    const Call call = *ready;
    for (const int device : call.devices) {
      Batch& front = queues_[device].front();
      std::erase_if(front, [&](const Call& each) { return each.key == call.key; });
      if (!front.empty()) continue;
      queues_[device].pop_front();
      devices.push_back(device);
    }
  }
}

void CollectiveOrder::issue(int device, std::vector<Call> calls) {
  if (calls.empty()) return;
  std::lock_guard lock(mutex_);
  queues_[device].push_back(std::move(calls));
  if (queues_[device].size() == 1) play({device});
}

// Returns the first call at the head of `device`'s queue that `other` has issued after another call that
// still waits.
const CollectiveOrder::Call* CollectiveOrder::waits_for(int device, int other) const {
  const auto queue = queues_.find(device);
  if (queue == queues_.end() || queue->second.empty()) return nullptr;
  for (const Call& call : queue->second.front())
    if (std::count(call.devices.begin(), call.devices.end(), other) != 0 && has_issued(other, call.key) &&
        !in_front(other, call.key))
      return &call;
  return nullptr;
}

void CollectiveOrder::report() {
  std::lock_guard lock(mutex_);
  for (const auto& [start, queue] : queues_) {
    // Depth first, by ascending devices.
    std::vector<int> path{start}, seen{start};
    const auto next_of = [&](int device, int after) {
      for (const auto& [other, unused] : queues_)
        if (other > after && waits_for(device, other) != nullptr) return other;
      return -1;
    };
    std::vector<int> latest{-1};  // tried from each of the path
    while (!path.empty()) {
      const int next = latest.back() = next_of(path.back(), latest.back());
      if (next < 0) {
        path.pop_back();
        latest.pop_back();
        continue;
      }
      const auto begin = std::find(path.begin(), path.end(), next);
      if (begin == path.end()) {
        if (std::count(seen.begin(), seen.end(), next) != 0) continue;
        path.push_back(next);
        seen.push_back(next);
        latest.push_back(-1);
        continue;
      }
      const std::vector<int> circle(begin, path.end());
      std::string text = "a deadlock, if the device runs collectives in the order of their calls: ";
      for (size_t i = 0; i < circle.size(); ++i) {
        const int device = circle[i], previous = circle[(i + circle.size() - 1) % circle.size()];
        const Call& late = *waits_for(previous, device);
        const Call& early = *waits_for(device, circle[(i + 1) % circle.size()]);
        std::string late_text;
        for (const Batch& batch : queues_.at(device))
          if (const Call* mine = find(batch, late.key)) late_text = mine->text;
        text += (i == 0 ? "rank " : ", rank ") + std::to_string(device) + " calls " + early.text +
                " before " + late_text;
      }
      finding_list().add(FindingKind::kCollectiveOrder, text);
      return;
    }
  }
}

void CollectiveOrder::ended(const void* group) {
  std::lock_guard lock(mutex_);
  ended_.insert(group);
}

void CollectiveOrder::forget_ended() {
  std::lock_guard lock(mutex_);
  std::vector<int> devices;
  for (auto& [device, queue] : queues_) {
    for (Batch& batch : queue)
      std::erase_if(batch, [&](const Call& call) { return ended_.count(call.key.group) != 0; });
    std::erase_if(queue, [](const Batch& batch) { return batch.empty(); });
    devices.push_back(device);
  }
  ended_.clear();
  play(std::move(devices));
}

void CollectiveOrder::forget_all() {
  std::lock_guard lock(mutex_);
  queues_.clear();
  ended_.clear();
}

CollectiveOrder& collective_order() {
  static CollectiveOrder* instance = new CollectiveOrder;
  return *instance;
}

}  // namespace braid::emulated
