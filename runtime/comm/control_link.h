// One connection between two ranks' processes: whole messages over a TCP socket that never blocks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/comm/control_message.h"
#include "runtime/comm/socket.h"
#include "runtime/comm/status.h"

namespace braid::rt::control {

struct Message {
  Kind kind = Kind::count;
  std::string fields;
};

class Link {
 public:
  explicit Link(Socket socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.fd(); }
  std::string peer_address() const;

  // Queues a message and sends what the socket takes.
  void send(Kind kind, std::string_view fields);
  void flush();
  bool pending() const { return !out_.empty(); }

  // Reads what has arrived. Messages that came before the end can still be taken.
  void receive();
  std::optional<Message> next();
  // The peer has closed the connection, or has sent something that is no message.
  bool ended() const { return ended_; }
  bool nonsense() const { return nonsense_; }

 private:
  Socket socket_;
  std::string in_, out_;
  bool ended_ = false, nonsense_ = false;
};

// Where rank 0 listens.
struct Address {
  std::string host;
  int port = 0;  // 0: any that is free; the listener's is then known from port_of()

  std::string text() const { return host + ":" + std::to_string(port); }
};

// Listens until it is closed. If the host's address is none of this machine's, listens on all addresses: a
// name may stand for another address outside.
Status listen_at(const Address& address, Socket* out);
int port_of(const Socket& listener);
// A connection, or an empty socket with what went wrong, at the latest at the deadline.
Socket connect_to(const Address& address, int64_t deadline_ns, std::string* why);

}  // namespace braid::rt::control
