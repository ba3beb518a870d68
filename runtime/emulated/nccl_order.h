// Whether all ranks order their collectives in a way that can complete, from the order of the calls alone.
//
// NCCL with NCCL_LAUNCH_ORDER_IMPLICIT runs a device's collectives in the order in which the host issued
// them, over all communicators and streams; transfers of one group run together. This class simulates that:
// it has a queue per device, and a collective that is at the head of the queues of all its ranks leaves them.
// The calls that remain do not depend on the timing. If some of them wait for each other in a circle, ranks
// use communicators (or sends and receives) in different orders. On a GPU that is a deadlock, even if the
// streams happen to let it pass here, or there on most days.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace braid::emulated {

class CollectiveOrder {
 public:
  // A collective, or a transfer between two ranks: the same on all its ranks.
  struct Key {
    const void* group;
    int from, to;  // of a transfer; otherwise -1
    uint64_t number;
    auto operator<=>(const Key&) const = default;
  };
  struct Call {
    Key key;
    std::vector<int> devices;  // of its ranks
    std::string text;          // as this rank calls it
  };

  // The next calls of a device, which run together.
  void issue(int device, std::vector<Call> calls);
  // Reports a circle, if there is one. For a text that is the same in each run, all calls must have been
  // made.
  void report();
  // No rank of the communicator will call any more. Its calls that wait are kept until `forget_ended`.
  void ended(const void* group);
  void forget_ended();
  void forget_all();

 private:
  using Batch = std::vector<Call>;
  static const Call* find(const Batch& batch, const Key& key);
  bool has_issued(int device, const Key& key) const;
  bool in_front(int device, const Key& key) const;
  void play(std::vector<int> devices);
  const Call* waits_for(int device, int other) const;

  std::mutex mutex_;
  std::map<int, std::deque<Batch>> queues_;  // by device
  std::set<const void*> ended_;
};

CollectiveOrder& collective_order();

}  // namespace braid::emulated
