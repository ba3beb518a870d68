// Connections between the processes of one user on this machine: messages that arrive in order, and word of
// processes that have ended.
//
// Each process listens on a socket without a file (Linux' abstract namespace), so that nothing is left
// behind, however the process ends. Its name is random, and sockets of other users are refused. A connection
// has one direction, lives as long as both processes do, and is closed by the kernel when one of them ends in
// any way. One thread per process sends and receives, so that no caller waits for a process that is stopped.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace braid::emulated {

// A message to one or several processes.
struct Message {
  explicit Message(std::string body);
  std::string bytes;           // the length, then the body
  std::atomic<int> unsent{0};  // processes whose kernel buffers do not hold all of it yet
};

// Called on the thread of the connections.
struct LinkEvents {
  std::function<void(const std::string& from, std::string_view body)> received;
  // The process has ended, or no process listens there. May be called more than once.
  std::function<void(const std::string& address)> lost;
};

class Links {
 public:
  explicit Links(LinkEvents events);

  // The address of this process, random; empty if it cannot listen.
  const std::string& address() const { return address_; }

  // Never waits. Drops a message to a process that has ended.
  void post(const std::string& to, std::shared_ptr<Message> message);
  // Notices from now on if that process ends.
  void watch(const std::string& address);
  // Waits until the message is sent, or dropped, or `over`.
  void await_sent(const Message& message, const std::function<bool()>& over);

  // Around fork, which would keep connections open that end with this process: `close_all` in the child.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void close_all();

 private:
  struct Outgoing {
    int fd = -1;  // -1: not connected yet
    std::deque<std::shared_ptr<Message>> queue;
    size_t sent = 0;      // of the first
    bool failed = false;  // the process has ended
  };
  struct Incoming {
    int fd;
    std::string from;  // empty until the first message
    std::string bytes;
  };

  Outgoing& outgoing(const std::string& to);
  void wake();
  void run();
  void accept_all();
  bool read_all(Incoming& in);
  void receive_all();
  bool send_all(const std::string& to, Outgoing& out);
  void send_to_all();
  void drop(const std::string& address);
  std::vector<std::string> wait();

  const LinkEvents events_;
  std::string address_;
  int listener_ = -1, wake_ = -1;
  std::mutex mutex_;
  std::condition_variable sent_;
  std::map<std::string, Outgoing> outgoing_;  // by address
  std::deque<Incoming> incoming_;             // changed by the thread only
};

}  // namespace braid::emulated
