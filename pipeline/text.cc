#include "pipeline/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::pipeline {
namespace {

constexpr std::array<std::string_view, 17> kNames = {"",
                                                     "F",
                                                     "I",
                                                     "W",
                                                     "B",
                                                     "SEND_F",
                                                     "RECV_F",
                                                     "SEND_B",
                                                     "RECV_B",
                                                     "UNSHARD",
                                                     "RESHARD",
                                                     "REDUCE_GRAD",
                                                     "WAIT_SEND_F",
                                                     "WAIT_SEND_B",
                                                     "WAIT_REDUCE_GRAD",
                                                     "OVERLAP_F_B",
                                                     "BATCH_P2P"};

constexpr const char* kForms =
    "write <stage><kind><micro-batch> with F, I, W, B, SEND_F, RECV_F, SEND_B, RECV_B, WAIT_SEND_F, "
    "WAIT_SEND_B, <stage><kind> with UNSHARD, RESHARD, REDUCE_GRAD, WAIT_REDUCE_GRAD, "
    "(<action>;<action>)OVERLAP_F_B or (<transfer>;<transfer>)BATCH_P2P";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_kind_letter(char c) { return (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Text of the input as messages show it: shortened and without control characters.
std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string shown;
  for (const char c : text.substr(0, kLongest)) {
    shown +=
        c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return "'" + shown + (text.size() > kLongest ? "..." : "") + "'";
}

class CellParser {
 public:
  CellParser(std::string_view text, const TextLocation& location) : text_(text), location_(location) {}

  void parse(Row& row) {
    while (!text_.empty() && is_blank(text_.back())) text_.remove_suffix(1);
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    first_ = at_;
    if (at_ == text_.size()) {
      row.push_back({});
    } else if (text_[at_] == '(') {
      container(row);
    } else {
      row.push_back(action());
    }
    if (at_ != text_.size())
      fail(errors::kBadCell, at_, fmt::format("{} follows the action", quoted(text_.substr(at_))));
  }

 private:
  Action action() {
    const std::int32_t stage = number("a stage");
    const std::size_t name = at_;
    const ActionKind kind = this->kind();
    if (is_container(kind))
      fail(errors::kBadContainer, name, "the members of a container must precede its name in parentheses");
    const bool more = at_ < text_.size() && is_digit(text_[at_]);
    if (!has_microbatch(kind)) {
      if (more) fail(errors::kBadCell, at_, fmt::format("{} takes no micro-batch", kind_name(kind)));
      return {kind, stage, -1};
    }
    if (!more) fail(errors::kBadCell, at_, fmt::format("the micro-batch of {} is missing", kind_name(kind)));
    return {kind, stage, number("a micro-batch")};
  }

  void container(Row& row) {
    const std::size_t header = row.size(), open = at_;
    row.push_back({});
    do {
      ++at_;
      if (at_ < text_.size() && text_[at_] == '(') fail(errors::kBadContainer, at_, "containers do not nest");
      row.push_back(action());
    } while (at_ < text_.size() && text_[at_] == ';');
    if (at_ == text_.size() || text_[at_] != ')')
      fail(errors::kBadContainer, at_, "expected ';' or ')' after a member");
    const std::size_t name = ++at_;
    const ActionKind kind = this->kind();
    if (!is_container(kind))
      fail(errors::kBadContainer, name, fmt::format("{} is not a container", kind_name(kind)));
    const std::size_t members = row.size() - header - 1;
    if (members < 2) fail(errors::kBadContainer, open, "a container must have at least two members");
    for (std::size_t k = header + 1; k < row.size(); ++k) {
      const ActionKind m = row[k].kind;
      if (kind == ActionKind::overlap_f_b ? !is_compute(m) : !is_send(m) && !is_recv(m)) {
        fail(errors::kBadContainer, open,
             fmt::format("{} cannot be in {}", to_string(row[k]), kind_name(kind)));
      }
    }
    row[header] = {kind, -1, static_cast<std::int32_t>(members)};
  }

  ActionKind kind() {
    const std::size_t begin = at_;
    const std::string_view batch = kind_name(ActionKind::batch_p2p);  // the one name with a digit
    if (text_.substr(at_).starts_with(batch)) at_ += batch.size();
    while (at_ < text_.size() && is_kind_letter(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) {
      fail(errors::kBadCell, begin,
           begin == text_.size() ? "the kind of action is missing"
                                 : fmt::format("{} is not a kind of action", quoted(text_.substr(begin))));
    }
    const auto found = std::find(kNames.begin() + 1, kNames.end(), name);
    if (found == kNames.end()) {
      fail(errors::kBadCell, begin, fmt::format("{} is not a kind of action", quoted(name)),
           name == "BW" ? "files of 2024 write B for I, and BW for B: rename both" : kForms);
    }
    return static_cast<ActionKind>(found - kNames.begin());
  }

  std::int32_t number(std::string_view what) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    if (digits.empty()) {
      fail(errors::kBadCell, begin,
           begin == text_.size() ? fmt::format("expected {}", what)
                                 : fmt::format("expected {} at {}", what, quoted(text_.substr(begin))));
    }
    if (digits.size() > 1 && digits[0] == '0')
      fail(errors::kBadCell, begin, fmt::format("{} has leading zeros", quoted(digits)));
    std::int32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || value == std::numeric_limits<std::int32_t>::max()) {
      fail(errors::kNumberTooLarge, begin, fmt::format("{} is too large for {}", quoted(digits), what),
           fmt::format("the largest is {}", std::numeric_limits<std::int32_t>::max() - 1));
    }
    return value;
  }

  [[noreturn]] void fail(int code, std::size_t at, const std::string& what, const char* hint) const {
    fail(code, at, what, std::string(hint));
  }
  [[noreturn]] void fail(int code, std::size_t at, const std::string& what,
                         const std::string& hint = kForms) const {
    ir::Location location{.file = std::string(location_.file)};
    location.line = std::max(location_.rank, 0) + 1;
    location.column = location_.column + static_cast<int>(at);
    const std::string cell = quoted(text_.substr(first_));
    ir::user_error(code, location,
                   location_.rank < 0
                       ? fmt::format("{}: {}", cell, what)
                       : fmt::format("rank {}, cell {}, {}: {}", location_.rank, location_.cell, cell, what),
                   hint);
  }

  std::string_view text_;
  const TextLocation& location_;
  std::size_t at_ = 0;
  std::size_t first_ = 0;
};

void append_number(std::string& text, std::int32_t number) {
  char digits[12];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  text.append(digits, end);
}

}  // namespace

void parse_cell(std::string_view text, Row& row, const TextLocation& location) {
  CellParser(text, location).parse(row);
}

Action parse_action(std::string_view text) {
  Row row;
  parse_cell(text, row);
  if (row.size() != 1 || row[0].kind == ActionKind::idle) {
    ir::user_error(errors::kBadCell, {.line = 1, .column = 1},
                   fmt::format("{}: expected one action", quoted(text)), kForms);
  }
  return row[0];
}

std::string_view kind_name(ActionKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

void append_action(std::string& text, Action action) {
  if (action.kind == ActionKind::idle) return;
  if (!is_container(action.kind)) append_number(text, action.stage);
  text += kind_name(action.kind);
  if (has_microbatch(action.kind)) append_number(text, action.microbatch);
}

void append_cell(std::string& text, const Row& row, std::size_t position) {
  if (is_container(row[position].kind)) {
    char before = '(';
    for (const Action m : members(row, position)) {
      text += before;
      append_action(text, m);
      before = ';';
    }
    text += ')';
  }
  append_action(text, row[position]);
}

}  // namespace braid::pipeline
