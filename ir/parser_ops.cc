#include <fmt/format.h>

#include <algorithm>

#include "ir/collective_table.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/kernel_parts.h"
#include "ir/operation_check.h"
#include "ir/parser_impl.h"
#include "ir/text_defaults.h"

namespace braid::ir {

ScheduleNode Parser::schedule_node() {
  const bool fused = at_word("fused"), grouped = at_word("grouped");
  if (!fused && !grouped) return ScheduleNode::single(operation());
  const Nest nest(*this);
  const Token start = next();
  ScheduleNode node;
  node.kind = fused ? ScheduleNode::Kind::fused : ScheduleNode::Kind::grouped;
  if (!at_punct("{") && !at_word("after")) node.name = name();
  if (grouped && accept_word("after")) {
    comma_separated([&] {
      const Token t = peek();
      node.after.push_back(name());
      if (!node_groups_.contains(node.after.back()))
        fail(errors::kUnknownName, t, fmt::format("there is no earlier group '{}'", node.after.back()),
             "name an earlier group at the top level");
    });
    if (depth_ > 1)
      fail(errors::kBadStructure, start,
           "'after' applies only to groups at the top level: the order of members is fixed");
  }
  expect_punct("{");
  while (!accept_punct("}")) {
    if (accept_word("buffer")) {
      buffer_declaration(StorageKind::activation);
    } else {
      node.members.push_back(schedule_node());
    }
  }
  if (grouped && depth_ == 1) node_groups_.insert(node.name);
  return node;
}

OpId Parser::operation() {
  const Token start = peek();
  Operation op;
  if (peek().kind == TokenKind::value) {
    comma_separated([&] { op.outputs.push_back(buffer_declaration(StorageKind::activation)); });
    expect_punct("=");
  }
  std::string given;
  op.kernel = kernel(op, given);
  op.name = given.empty() ? default_op_name(graph_, op) : given;
  if (op.name.empty())
    fail(errors::kSyntaxError, start, "an operation without results requires a name", "add: as NAME");
  if (ops_.count(op.name))
    fail(errors::kDeclaredTwice, start, fmt::format("operation '{}' is declared twice", op.name));
  const std::string wanted = op.name;
  const OpId id = graph_.add_op(std::move(op));
  graph_[id].name = wanted;
  ops_.emplace(wanted, id);
  if (const std::optional<TypeError> e = check_operation(graph_, id)) fail(start, *e);
  return id;
}

std::string Parser::clauses(Operation& op) {
  std::string given;
  for (;;) {
    if (accept_word("as")) {
      given = name();
    } else if (accept_word("from")) {
      comma_separated([&] { op.origins.push_back(name()); });
    } else if (accept_word("cost")) {
      Cost cost;
      expect_punct("(");
      while (!accept_punct(")")) {
        if (const auto named = kernel_class_named(peek().text); named && accept_word(to_string(*named))) {
          cost.kernel_class = named;
        } else {
          double* item = accept_word("ns")      ? &cost.ns
                         : accept_word("flops") ? &cost.flops
                         : accept_word("bytes") ? &cost.bytes
                                                : nullptr;
          if (!item) fail_expected("ns, flops, bytes or a class of kernels");
          *item = floating();
        }
        if (!at_punct(")")) expect_punct(",");
      }
      op.cost = cost;
    } else {
      return given;
    }
  }
}

namespace {

template <class E>
std::optional<E> enumerator(std::string_view text) {
  for (int k = 0; k <= static_cast<int>(E::last); ++k) {
    if (text == to_string(static_cast<E>(k))) return static_cast<E>(k);
  }
  return std::nullopt;
}

std::optional<ReduceKind> reduce_kind_of(const Token& t) {
  return t.kind == TokenKind::word ? enumerator<ReduceKind>(t.text) : std::nullopt;
}

// "max, arg_max, sum or average"
template <class E>
std::string choices() {
  std::string text(to_string(E{}));
  for (int k = 1; k <= static_cast<int>(E::last); ++k) {
    const E e = static_cast<E>(k);
    text += fmt::format("{}{}", e == E::last ? " or " : ", ", to_string(e));
  }
  return text;
}

}  // namespace

Kernel Parser::loops(Operation& op, std::string& given, bool reduction) {
  Loops k;
  const Token start = peek();
  if (op.outputs.size() != 1)
    fail(errors::kWrongCount, start, fmt::format("a loop must have one result, got {}", op.outputs.size()));
  if (reduction) {
    const std::optional<ReduceKind> kind = reduce_kind_of(peek());
    if (!kind) fail_expected("sum, prod, max or min");
    next();
    k.reduce = *kind;
  }
  const std::vector<Expr> kept = at_punct("[") ? size_list() : graph_[op.outputs[0]].sizes;
  k.sizes = kept;
  if (reduction) {
    expect_word("over");
    const std::vector<Expr> over = size_list();
    if (over.empty()) fail(errors::kWrongCount, start, "a reduction must reduce at least one index");
    k.reduced = static_cast<int>(over.size());
    k.sizes.insert(k.sizes.end(), over.begin(), over.end());
    row_major(k.sizes, start);
  }
  given = clauses(op);
  const BodyContext context{k.sizes.size(), std::nullopt};
  k.body = body(context, k.sizes, "store");
  const Token at = peek();
  if (accept_word("at")) {
    // The address may use values of the body, but only kept indices.
    const BodyContext store{kept.size(), std::nullopt};
    scope_ = {&store, &k.body, &values_};
    k.store_index = expr();
    scope_ = {};
  } else if (const std::optional<Expr> index = default_index(graph_, op.outputs[0], kept)) {
    k.store_index = *index;
  } else {
    fail(errors::kOperandShapes, at, "the loop's sizes differ from its result's: say where to store",
         "store %VALUE at INDEX");
  }
  values_.clear();
  expect_punct("}");
  return k;
}

LoopBody Parser::body(const BodyContext& context, std::span<const Expr> sizes, std::string_view end) {
  LoopBody out;
  values_.clear();
  expect_punct("{");
  while (!at_word(end)) {
    scope_ = {&context, &out, &values_};
    instr(out, context, sizes);
  }
  scope_ = {};
  next();
  out.result = value_ref();
  return out;
}

ValueId Parser::value_ref() {
  const Token t = next();
  if (t.kind != TokenKind::value) fail(errors::kSyntaxError, t, "expected a value: %NUMBER");
  const auto it = values_.find(t.text);
  if (it == values_.end())
    fail(errors::kUnknownName, t, fmt::format("value %{} is not defined before its use", t.text));
  return it->second;
}

void Parser::operands(Instr& i, const Token& code) {
  const int count = row_of(i.code).operands;
  for (int n = 0; n < count; ++n) {
    if (n > 0) {
      if (!at_punct(","))
        fail(errors::kWrongCount, code, fmt::format("{} takes {} operands", code.text, count));
      next();
    }
    i.operands.push_back(value_ref());
  }
  if (i.code == OpCode::check_index) {
    expect_punct(",");
    i.index = expr();
  } else if (at_punct(",")) {
    fail(errors::kWrongCount, code, fmt::format("{} takes {} operands", code.text, count));
  }
}

void Parser::instr(LoopBody& body, const BodyContext& context, std::span<const Expr> sizes) {
  const Token target = next();
  if (target.kind != TokenKind::value)
    fail(errors::kSyntaxError, target, "expected an instruction: %NUMBER = ...");
  if (values_.count(target.text))
    fail(errors::kDeclaredTwice, target, fmt::format("value %{} is defined twice", target.text));
  expect_punct("=");
  const Token code = next();
  const std::optional<OpCode> known =
      code.kind == TokenKind::word ? opcode_from_string(code.text) : std::nullopt;
  if (!known) fail(errors::kSyntaxError, code, fmt::format("'{}' is not an instruction", code.text));
  Instr i;
  i.code = *known;
  std::optional<DType> type;
  switch (*known) {
    case OpCode::load: {
      const Token at = peek();
      i.buffer = buffer_ref();
      type = graph_[i.buffer].dtype;
      i.index = load_index(i.buffer, sizes, at);
      if (accept_word("if")) i.operands.push_back(value_ref());
      break;
    }
    case OpCode::constant:
      type = dtype();
      i.literal = literal(*type);
      break;
    case OpCode::index:
      type = dtype();
      i.index = expr();
      break;
    case OpCode::acc:
      type = dtype();
      break;
    case OpCode::cast:
    case OpCode::bitcast:
      type = dtype();
      i.operands.push_back(value_ref());
      break;
    default:
      operands(i, code);
  }
  i.dtype = type ? *type : *result_type(body, i);
  body.instrs.push_back(std::move(i));
  if (const std::optional<TypeError> e = check_instr(graph_, body, body.instrs.size() - 1, context))
    fail(code, *e);
  values_.emplace(target.text, ValueId{static_cast<std::int32_t>(body.instrs.size() - 1)});
}

// "%x": the element at the loop's indices; "%x[e]": element offset e; "%x[a, b]": one index per dimension.
Expr Parser::load_index(BufferId buffer, std::span<const Expr> sizes, const Token& at) {
  if (!at_punct("[")) {
    const std::optional<Expr> index = default_index(graph_, buffer, sizes);
    if (!index) {
      fail(errors::kOperandShapes, at,
           fmt::format("the loop's sizes differ from those of '%{}': say which element to load",
                       graph_[buffer].name),
           "load %BUFFER[INDEX]");
    }
    return *index;
  }
  const std::vector<Expr> indices = expr_list();
  if (indices.size() == 1) return indices[0];
  const std::vector<Expr> strides = strides_of(graph_, buffer);
  if (indices.size() != strides.size()) {
    fail(errors::kWrongCount, at,
         fmt::format("got {} indices for a tensor of rank {}", indices.size(), strides.size()));
  }
  Expr index = 0;
  for (std::size_t k = 0; k < indices.size(); ++k)
    index = checked(index + times(indices[k], strides[k], at), at);
  return index;
}

void Parser::set_whole(TensorRef& result, const Operation& op) const {
  if (!op.outputs.empty()) result = whole(graph_, op.outputs[0]);
}

void Parser::set_whole(std::vector<TensorRef>& results, const Operation& op) const {
  for (BufferId b : op.outputs) results.push_back(whole(graph_, b));
}

std::vector<std::int64_t> Parser::integers() {
  std::vector<std::int64_t> out;
  expect_punct("[");
  while (!accept_punct("]")) {
    out.push_back(integer());
    if (!at_punct("]")) expect_punct(",");
  }
  return out;
}

std::vector<Window> Parser::windows(std::size_t count, const std::vector<std::int64_t>* taps) {
  std::vector<Window> out(count);
  const Token start = peek();
  const auto check = [&](std::size_t given) {
    if (given != count)
      fail(errors::kWrongCount, start, fmt::format("got {} numbers for {} spatial dimensions", given, count));
  };
  const auto fill = [&](std::int64_t Window::*member, const std::vector<std::int64_t>& numbers) {
    check(numbers.size());
    for (std::size_t d = 0; d < count; ++d) out[d].*member = numbers[d];
  };
  if (taps != nullptr) {
    fill(&Window::taps, *taps);
  } else {
    expect_word("window");
    fill(&Window::taps, integers());
  }
  if (accept_word("stride")) fill(&Window::stride, integers());
  if (accept_word("dilation")) fill(&Window::dilation, integers());
  if (accept_word("pad")) {
    const std::vector<Expr> pads = expr_list();
    check(pads.size());
    for (std::size_t d = 0; d < count; ++d) out[d].pad = pads[d];
  }
  return out;
}

std::vector<Window> Parser::windows_of(const Convolution& k, const Token& start) {
  if (k.a.sizes.size() < 3 || k.b.sizes.size() != k.a.sizes.size() + 1) {
    fail(errors::kOperandShapes, start,
         "the operands of a convolution are [n, spatial..., channels] and [groups, taps..., channels, "
         "results]");
  }
  std::vector<std::int64_t> taps;
  for (std::size_t d = 1; d + 2 < k.b.sizes.size(); ++d) {
    if (!k.b.sizes[d].is_constant())
      fail(errors::kOperandShapes, start, "the number of taps of a window must be known");
    taps.push_back(k.b.sizes[d].constant());
  }
  return windows(taps.size(), &taps);
}

std::vector<Window> Parser::windows_of(const Pooling& k, const Token& start) {
  if (k.x.sizes.size() < 3)
    fail(errors::kOperandShapes, start, "the operand of a pool is [n, spatial..., channels]");
  return windows(k.x.sizes.size() - 2, nullptr);
}

struct Parser::FieldStart {
  Operation& op;
  Token token;
  bool after_operand = false;
};

template <class K>
bool Parser::field(FieldStart& at, K&, const OneResult& f) {
  const std::size_t results = at.op.outputs.size();
  if (results != 1)
    fail(errors::kWrongCount, at.token, fmt::format("{} must have one result, got {}", f.kernel, results));
  return true;
}

template <class K, Role role, class F, class M>
bool Parser::field(FieldStart& at, K& k, const Field<role, F, M>& f) {
  if constexpr (role == Role::body) {
    return false;  // comes later
  } else if constexpr (role == Role::attribute) {
    const bool peer = std::is_same_v<K, CollectiveKernel> && f.word == "root";
    if (!f.word.empty() && !accept_word(f.word) && !(peer && accept_word("peer"))) return false;
    attribute(at, k, k.*f.member);
  } else {
    if (role == Role::operand && std::is_same_v<M, TensorRef>) {
      if (std::exchange(at.after_operand, true)) expect_punct(",");
    } else if (f.word.empty() ? !at_punct("(") : !accept_word(f.word)) {
      return false;
    }
    if constexpr (std::is_same_v<M, std::vector<TensorRef>>)
      k.*f.member = tensor_refs();
    else
      k.*f.member = tensor_ref();
  }
  return true;
}

template <class K, class M>
void Parser::attribute(const FieldStart& at, K& k, M& value) {
  if constexpr (std::is_same_v<M, bool>) {
    value = true;
  } else if constexpr (std::is_same_v<M, double>) {
    value = std::get<double>(literal(DType::f64));
  } else if constexpr (std::is_same_v<M, int>) {
    value = small_integer();
  } else if constexpr (std::is_same_v<M, Expr> || std::is_same_v<M, std::optional<Expr>>) {
    value = uniform_expr();
  } else if constexpr (std::is_same_v<M, std::string>) {
    if (peek().kind == TokenKind::string) value = next().text;
  } else if constexpr (std::is_same_v<M, ExternAttributes>) {
    attributes(value);
  } else if constexpr (std::is_same_v<M, std::vector<Window>>) {
    value = windows_of(k, at.token);
  } else if constexpr (std::is_same_v<M, ReduceKind>) {
    reduce(k);
  } else if constexpr (std::is_same_v<M, GroupId>) {
    value = group_ref();
  } else if constexpr (std::is_same_v<M, OpId>) {
    value = op_ref();
  } else if constexpr (std::is_same_v<M, UndefinedRows>) {
    value = undefined_rows();
  } else if constexpr (std::is_same_v<M, Algorithm>) {
    value = algorithm_of(k.kind);
  } else if constexpr (!std::is_same_v<M, CollectiveKind>) {  // which is the name of the kernel
    const std::optional<M> known = peek().kind == TokenKind::word ? enumerator<M>(peek().text) : std::nullopt;
    if (!known) fail_expected(choices<M>());
    next();
    value = *known;
  }
}

template <class K>
bool Parser::field(FieldStart&, K& k, const Either<K>& f) {
  if (!accept_word(f.word)) {
    if (!accept_word(f.flag_word)) return false;
    k.*f.flag = true;
  }
  k.*f.member = std::get<double>(literal(DType::f64));
  return true;
}

void Parser::body_field(Product& k, std::optional<LoopBody>& epilogue) {
  if (!accept_word("epilogue")) return;
  const BodyContext context{k.out.sizes.size(), accumulator_of(graph_[k.a.buffer].dtype)};
  epilogue = body(context, k.out.sizes, "return");
  expect_punct("}");
}

void Parser::body_field(Product& k, std::vector<PostOp>& steps) {
  if (!k.epilogue || !accept_word("as")) return;
  do steps.push_back(post_op());
  while (accept_punct(","));
}

void Parser::body_field(Recurrence& k, std::vector<LoopBody>& activations) {
  const BodyContext context{0, accumulator_of(graph_[k.gates.buffer].dtype)};
  while (accept_word("activation")) {
    activations.push_back(body(context, {}, "return"));
    expect_punct("}");
  }
}

template <class K>
K Parser::with_fields(Operation& op, std::string& given, K k) {
  FieldStart at{op, peek()};
  for_each_field(k, [&](auto f, auto& member) {
    if constexpr (f.kRole == Role::result) set_whole(member, op);
  });
  std::apply(
      [&](const auto&... fields) {
        if constexpr (requires { K::kAnyOrder; }) {
          ((fields.word.empty() && field(at, k, fields)), ...);
          while (((!fields.word.empty() && field(at, k, fields)) || ...)) continue;
        } else {
          (field(at, k, fields), ...);
        }
      },
      K::kFields);
  given = clauses(op);
  for_each_field(k, [&](auto f, auto& member) {
    if constexpr (f.kRole == Role::body) body_field(k, member);
  });
  values_.clear();
  return k;
}

UndefinedRows Parser::undefined_rows() {
  const Token name = next();
  if (const auto rows = enumerator<UndefinedRows>(name.text)) return *rows;
  fail(errors::kSyntaxError, name,
       fmt::format("undefined rows are {}, not '{}'", choices<UndefinedRows>(), name.text));
}

PostOp Parser::post_op() {
  PostOp op;
  op.result = value_ref();
  expect_punct("=");
  const Token name = next();
  const std::optional<PostOp::Kind> kind = enumerator<PostOp::Kind>(name.text);
  if (!kind) fail(errors::kSyntaxError, name, fmt::format("'{}' is not a step of an epilogue", name.text));
  op.kind = *kind;
  if (op.kind == PostOp::Kind::scale) op.factor = std::get<double>(literal(DType::f64));
  if (PostOp::takes_operand(op.kind)) op.operand = value_ref();
  return op;
}

void Parser::attributes(ExternAttributes& attributes) {
  expect_punct("(");
  while (!accept_punct(")")) {
    const Token t = peek();
    const std::string key = name();
    expect_punct("=");
    std::variant<std::int64_t, double, std::string> value;
    if (peek().kind == TokenKind::string) {
      value = next().text;
    } else {
      const Token& number = peek(at_punct("-") ? 1 : 0);
      const bool is_integer = number.kind == TokenKind::number &&
                              number.text.find_first_not_of("0123456789") == std::string::npos;
      if (is_integer) {
        value = integer();
      } else {
        value = std::get<double>(literal(DType::f64));
      }
    }
    if (!attributes.emplace(key, std::move(value)).second)
      fail(errors::kDeclaredTwice, t, fmt::format("attribute '{}' is given twice", key));
    if (!at_punct(")")) expect_punct(",");
  }
}

void Parser::reduce(CollectiveKernel& k) {
  if (const std::optional<ReduceKind> reduce = reduce_kind_of(peek())) {
    k.reduce = *reduce;
    next();
  } else if (row_of(k.kind).reduces) {
    fail_expected("sum, prod, max, min or avg");
  }
}

Algorithm Parser::algorithm_of(CollectiveKind kind) {
  const Token t = peek();
  const std::string asked = name();
  if (const std::optional<Algorithm> known = algorithm_named(asked)) return *known;
  fail(errors::kBadStructure, t, fmt::format("{} has no algorithm '{}'", to_string(kind), asked));
}

template <class... K>
bool Parser::named_kernel(std::string_view word, Operation& op, std::string& given,
                          std::variant<K...>& kernel) {
  const auto is_of = [&]<class T>(std::type_identity<T>) {
    if constexpr (requires { T::kName; }) {
      if (word != T::kName) return false;
      kernel = with_fields(op, given, T());
      return true;
    }
    return false;
  };
  return (is_of(std::type_identity<K>()) || ...);
}

Kernel Parser::region_kernel(Operation& op, std::string& given, RegionKind kind) {
  const Nest nest(*this);
  RegionKernel k;
  k.kind = kind;
  const Token start = peek();
  if (kind == RegionKind::repeat) k.trips = uniform_expr();
  k.operands = buffer_refs();
  given = clauses(op);
  k.regions.push_back(region(op.outputs.size()));
  if (kind == RegionKind::branch) {
    expect_word("else");
    k.regions.push_back(region(op.outputs.size()));
  }
  return k;
}

Kernel Parser::kernel(Operation& op, std::string& given) {
  const Token t = peek();
  if (t.kind != TokenKind::word) fail_expected("a statement or an operation");
  next();
  if (t.text == "pointwise") return loops(op, given, false);
  if (t.text == "reduction") return loops(op, given, true);
  Kernel named_one;
  if (named_kernel(t.text, op, given, named_one)) return named_one;
  if (const auto kind = enumerator<RegionKind>(t.text)) return region_kernel(op, given, *kind);
  if (const auto kind = collective_kind(t.text))
    return with_fields(op, given, CollectiveKernel{.kind = *kind});
  fail(errors::kSyntaxError, t, fmt::format("'{}' is neither a statement nor an operation", t.text));
}

Region Parser::region(std::size_t results) {
  Region r;
  expect_punct("{");
  while (!at_punct("}") && !at_word("yield")) {
    if (accept_word("buffer")) {
      buffer_declaration(StorageKind::activation);
    } else {
      r.ops.push_back(operation());
    }
  }
  const Token t = peek();
  if (accept_word("yield")) comma_separated([&] { r.yields.push_back(buffer_ref()); });
  if (r.yields.size() != results)
    fail(errors::kWrongCount, t,
         fmt::format("the region yields {} values for {} results", r.yields.size(), results));
  expect_punct("}");
  return r;
}

}  // namespace braid::ir
