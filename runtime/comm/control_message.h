// Messages between the ranks' processes (control_channel.h): a frame of magic, kind and length, then fields,
// all of a fixed byte order. A message may contain anything, so a Reader never reads beyond its text, and
// reports whether it was whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braid::rt::control {

enum class Kind : uint32_t {
  challenge,  // rank 0 to every process that connects: version, nonce
  hello,      // the answer: my rank, run, subject and nonce, proof that I know the secret
  welcome,    // rank 0, once all are there: the ranks' processes, proof
  refusal,    // rank 0: code and text, proof
  beat,       // to rank 0: how far I am, and my device
  roster,     // rank 0: the progress of all ranks, and which are lost
  data,       // rank 0: bytes for all
  bye,        // my connection ends; with an error if I have failed
  count
};

constexpr uint32_t kMagic = 0x43445242;  // "BRDC"
constexpr uint32_t kVersion = 2;
constexpr size_t kHeaderBytes = 12;
constexpr uint32_t kMostBytes = 1 << 20;  // of a message
constexpr uint32_t kMostText = 1000;      // of a field

class Writer {
 public:
  Writer& number(uint64_t value, int bytes = 8) {
    for (int k = 0; k < bytes; ++k) text_ += static_cast<char>(value >> 8 * k & 0xff);
    return *this;
  }
  Writer& text(std::string_view value) {
    value = value.substr(0, kMostText);
    number(value.size(), 4);
    text_ += value;
    return *this;
  }
  // Without a length.
  Writer& raw(std::string_view value) {
    text_ += value;
    return *this;
  }
  const std::string& done() const { return text_; }

 private:
  std::string text_;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  uint64_t number(int bytes = 8) {
    const std::string_view field = raw(static_cast<size_t>(bytes));
    uint64_t value = 0;
    for (size_t k = field.size(); k-- > 0;) value = value << 8 | static_cast<unsigned char>(field[k]);
    return value;
  }
  std::string text() {
    const uint64_t size = number(4);
    return std::string(raw(size > kMostText ? rest_.size() + 1 : static_cast<size_t>(size)));
  }
  std::string_view raw(size_t bytes) {
    if (bytes > rest_.size()) {
      whole_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view field = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return field;
  }
  // All fields were there, and nothing else.
  bool whole() const { return whole_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool whole_ = true;
};

}  // namespace braid::rt::control
