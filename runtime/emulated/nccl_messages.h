// Messages as bytes. Both sides are the same library on the same machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace braid::emulated {

enum class MessageKind : uint8_t { kJoin, kRanks, kRefused, kCall, kWithdrawal, kHostCall, kEnd, kFailure };

class MessageWriter {
 public:
  MessageWriter(MessageKind kind, const std::string& key) { *this << kind << key; }

  template <class T>
  requires std::is_trivially_copyable_v<T> MessageWriter& operator<<(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  MessageWriter& operator<<(std::string_view text) {
    *this << text.size();
    bytes_ += text;
    return *this;
  }
  MessageWriter& operator<<(const std::string& text) { return *this << std::string_view(text); }
  MessageWriter& operator<<(const std::vector<int64_t>& list) {
    *this << list.size();
    for (const int64_t value : list) *this << value;
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Missing fields read as zeros.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_trivially_copyable_v<T> T read() {
    T value{};
    const std::string_view part = take(sizeof value);
    std::memcpy(&value, part.data(), part.size());
    return value;
  }
  std::string read_text() { return std::string(take(read<size_t>())); }
  std::vector<int64_t> read_list() {
    std::vector<int64_t> list;
    for (size_t left = read<size_t>(); left > 0 && !bytes_.empty(); --left) list.push_back(read<int64_t>());
    return list;
  }

 private:
  std::string_view take(size_t size) {
    const std::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(part.size());
    return part;
  }
  std::string_view bytes_;
};

}  // namespace braid::emulated
