// Connects ranks that are threads of one process, with the same functions that processes have
// (BraidCudaHostPeers).
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda_host.h"

namespace braid::rt::cuda {

class HostThreads {
 public:
  explicit HostThreads(int ranks) : progress_(static_cast<size_t>(ranks)), failures_(progress_.size()) {
    for (int r = 0; r < ranks; ++r) ends_.push_back({this, r});
  }

  BraidCudaHostPeers peers(int rank) {
    BraidCudaHostPeers peers = {};
    peers.user = &ends_[static_cast<size_t>(rank)];
    peers.rank = peers.local_rank = rank;
    peers.broadcast = [](void* user, void* data, uint64_t bytes, char* text, uint64_t text_bytes) {
      const End end = *static_cast<End*>(user);
      return end.all->broadcast(end.rank, static_cast<char*>(data), bytes, text, text_bytes);
    };
    peers.reached = [](void* user, uint64_t progress) {
      const End end = *static_cast<End*>(user);
      end.all->change([&](HostThreads& all) { all.progress_[static_cast<size_t>(end.rank)] = progress; });
    };
    peers.device_at = [](void*, uint64_t, uint64_t) {};
    peers.await_all = [](void* user, uint64_t progress, int64_t, char* text, uint64_t bytes) {
      return static_cast<End*>(user)->all->await_all(progress, text, bytes);
    };
    peers.lost = [](void* user) { return static_cast<End*>(user)->all->lost(); };
    // Which of two threads fails first is a matter of timing: each tells its own error.
    peers.missing = [](void*, int, char* text, uint64_t) { return *text = '\0', 0; };
    peers.failed = [](void* user, const char* text, int consequence) {
      const End end = *static_cast<End*>(user);
      if (consequence == 0)
        end.all->change([&](HostThreads& all) { all.failures_[static_cast<size_t>(end.rank)] = text; });
    };
    return peers;
  }

 private:
  struct End {
    HostThreads* all;
    int rank;
  };

  template <class Change>
  void change(const Change& make) {
    const std::lock_guard lock(mutex_);
    make(*this);
    changed_.notify_all();
  }

  // With the mutex held.
  int failures(char* text, uint64_t bytes) const {
    int count = 0;
    std::string named;
    for (size_t r = 0; r < failures_.size(); ++r) {
      if (failures_[r].empty()) continue;
      named += (count++ > 0 ? "; rank " : "rank ") + std::to_string(r) + " has failed: " + failures_[r];
    }
    if (text != nullptr) std::snprintf(text, bytes, "%s", named.c_str());
    return count;
  }

  int lost() {
    const std::lock_guard lock(mutex_);
    return failures(nullptr, 0);
  }

  int await_all(uint64_t progress, char* text, uint64_t bytes) {
    std::unique_lock lock(mutex_);
    const auto there = [&] {
      return std::all_of(progress_.begin(), progress_.end(), [&](uint64_t each) { return each >= progress; });
    };
    changed_.wait(lock, [&] { return there() || failures(nullptr, 0) > 0; });
    return there() || failures(text, bytes) == 0;
  }

  int broadcast(int rank, char* data, uint64_t bytes, char* text, uint64_t text_bytes) {
    if (rank == 0) {
      change([&](HostThreads& all) { all.data_.assign(data, data + bytes); });
      return 1;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !data_.empty() || failures(nullptr, 0) > 0; });
    if (data_.empty()) return failures(text, text_bytes) == 0;
    std::copy(data_.begin(), data_.end(), data);
    return 1;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<char> data_;  // of the only broadcast
  std::vector<uint64_t> progress_;
  std::vector<std::string> failures_;
  std::deque<End> ends_;
};

}  // namespace braid::rt::cuda
