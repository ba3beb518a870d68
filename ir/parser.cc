#include "ir/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/element.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/parser_impl.h"
#include "ir/text_defaults.h"

namespace braid::ir {

Schedule parse_schedule(std::string_view text, std::string file_name) {
  return Parser(text, std::move(file_name)).parse();
}

Schedule Parser::parse() {
  expect_word("graph");
  graph_.name = name();
  named_ = true;
  while (peek().kind != TokenKind::end) {
    const Token start = peek();
    try {
      if (!header_statement()) schedule_.nodes.push_back(schedule_node());
    } catch (const UserError& e) {
      // Overflowing sizes are found deep inside expressions: report where they are written.
      if (e.location().line > 0) throw;
      fail(errors::kBadExpression, start, e.message(), e.hint());
    }
  }
  resolve_aliases();
  return std::move(schedule_);
}

bool Parser::header_statement() {
  if (accept_word("dim")) return dim(), true;
  if (accept_word("guard")) return guard(), true;
  if (accept_word("mesh")) return mesh(), true;
  if (accept_word("group")) return group(), true;
  if (accept_word("storage")) return storage(), true;
  if (accept_word("input")) return input(), true;
  if (accept_word("constant")) return constant(), true;
  if (accept_word("output")) return output(), true;
  if (accept_word("plan")) return plan(), true;
  if (accept_word("buffer")) {
    buffer_declaration(StorageKind::activation);
    return true;
  }
  if (accept_word("ranks")) {
    const Token t = peek();
    graph_.ranks = small_integer();
    if (graph_.ranks < 1 || graph_.ranks > kMaxRanks)
      fail(errors::kBadStructure, t, fmt::format("the number of ranks must lie in [1, {}]", kMaxRanks));
    if (!graph_.mesh.empty() || !graph_.groups.empty())
      fail(errors::kBadStructure, t, "the number of ranks comes before the mesh and the groups");
    return true;
  }
  if (accept_word("channels")) {
    for (const ChannelPolicy p :
         {ChannelPolicy::global, ChannelPolicy::communicator, ChannelPolicy::pair, ChannelPolicy::edge}) {
      if (accept_word(to_string(p))) {
        schedule_.channels = p;
        return true;
      }
    }
    fail_expected("global, communicator, pair or edge");
  }
  return false;
}

void Parser::dim() {
  const Token t = peek();
  const std::string dim_name = name();
  expect_word("in");
  expect_punct("[");
  Bounds b;
  b.min = integer();
  expect_punct(",");
  b.max = integer();
  expect_punct("]");
  if (b.min < 0 || b.max < b.min || b.max > kUnbounded)
    fail(errors::kBadStructure, t, fmt::format("invalid bounds [{}, {}] of a dimension", b.min, b.max),
         "0 <= MIN <= MAX <= 2^62");
  if (dims_.count(dim_name))
    fail(errors::kDeclaredTwice, t, fmt::format("dimension '{}' is declared twice", dim_name));
  dims_.emplace(dim_name, graph_.add_dim(dim_name, b));
}

void Parser::guard() {
  Guard g;
  g.lhs = uniform_expr();
  if (accept_punct("<=")) {
    g.relation = Guard::Relation::less_equal;
  } else {
    expect_punct("==");
  }
  g.rhs = uniform_expr();
  if (accept_word("from")) g.origin = name();
  graph_.guards.push_back(std::move(g));
}

void Parser::mesh() {
  const Token t = peek();
  if (!graph_.mesh.empty()) fail(errors::kDeclaredTwice, t, "the program has a mesh already");
  expect_punct("[");
  comma_separated([&] {
    MeshAxis axis;
    axis.name = name();
    expect_punct("=");
    axis.size = small_integer();
    graph_.mesh.push_back(std::move(axis));
  });
  expect_punct("]");
  if (const std::string fault = mesh_fault(graph_.mesh, graph_.ranks); !fault.empty())
    fail(errors::kBadStructure, t, fault, "declare the number of ranks before the mesh: ranks N");
}

// The index of an axis of the mesh.
int Parser::axis_ref() {
  const Token t = peek();
  const std::string axis = name();
  const auto found =
      std::find_if(graph_.mesh.begin(), graph_.mesh.end(), [&](const MeshAxis& a) { return a.name == axis; });
  if (found == graph_.mesh.end()) {
    fail(errors::kUnknownName, t, fmt::format("the mesh has no axis '{}'", axis),
         "declare it before its use: mesh [NAME=SIZE, ...]");
  }
  return static_cast<int>(found - graph_.mesh.begin());
}

void Parser::group() {
  const Token t = next();
  if (t.kind != TokenKind::group) fail(errors::kSyntaxError, t, "expected a group: @name");
  expect_punct("=");
  CommGroup group{t.text, {}};
  if (accept_word("axis")) {
    std::vector<int> axes;
    comma_separated([&] {
      const Token at = peek();
      const int axis = axis_ref();
      if (std::find(axes.begin(), axes.end(), axis) != axes.end())
        fail(errors::kBadStructure, at, fmt::format("axis '{}' occurs twice in the group", at.text));
      axes.push_back(axis);
    });
    group.parts = parts_along(graph_.mesh, axes);
  } else {
    expect_punct("[");
    if (at_punct("[")) {
      comma_separated([&] {
        expect_punct("[");
        group.parts.push_back(rank_list());
      });
      expect_punct("]");
    } else {
      group.parts.push_back(rank_list());
    }
    if (const std::string fault = group.fault(graph_.ranks); !fault.empty())
      fail(errors::kBadStructure, t, fault);
  }
  if (groups_.count(t.text))
    fail(errors::kDeclaredTwice, t, fmt::format("group '@{}' is declared twice", t.text));
  groups_.emplace(t.text, graph_.add_partition(t.text, std::move(group.parts)));
}

// Up to and including the closing bracket.
std::vector<int> Parser::rank_list() {
  std::vector<int> ranks;
  std::set<int> seen;
  comma_separated([&] {
    const Token at = peek();
    const int rank = small_integer();
    if (rank < 0 || rank >= graph_.ranks) {
      fail(errors::kBadStructure, at,
           fmt::format("rank {} is out of range: there are {} ranks", rank, graph_.ranks),
           "declare the number of ranks before the groups: ranks N");
    }
    if (!seen.insert(rank).second)
      fail(errors::kBadStructure, at, fmt::format("rank {} occurs twice in the group", rank));
    ranks.push_back(rank);
  });
  expect_punct("]");
  return ranks;
}

std::pair<CommBufferKind, std::vector<GroupId>> Parser::comm_clause() {
  expect_punct("(");
  CommBufferKind kind = CommBufferKind::symmetric;
  if (accept_word("registered")) {
    kind = CommBufferKind::registered;
  } else {
    expect_word("symmetric");
  }
  std::vector<GroupId> groups;
  while (accept_punct(",")) groups.push_back(group_ref());
  expect_punct(")");
  return {kind, std::move(groups)};
}

namespace {

std::optional<StorageKind> storage_kind_of(const Token& t) {
  if (t.kind != TokenKind::word) return std::nullopt;
  for (const StorageKind k : {StorageKind::input, StorageKind::output, StorageKind::constant,
                              StorageKind::activation, StorageKind::comm}) {
    if (t.text == to_string(k)) return k;
  }
  return std::nullopt;
}

}  // namespace

void Parser::storage() {
  const Token t = next();
  if (t.kind != TokenKind::storage) fail(errors::kSyntaxError, t, "expected a storage: $name");
  expect_punct(":");
  Storage s;
  s.name = t.text;
  const std::optional<StorageKind> kind = storage_kind_of(peek());
  if (!kind) fail_expected("input, output, constant, activation or comm");
  next();
  s.kind = *kind;
  if (*kind == StorageKind::comm) std::tie(s.comm_kind, s.groups) = comm_clause();
  const std::vector<Expr> bytes = size_list();
  if (bytes.size() != 1) fail(errors::kWrongCount, t, "a storage has one size: [BYTES]");
  s.bytes = bytes[0];
  const StorageId id = new_storage(std::move(s), t);
  if (accept_word("alias")) aliases_.emplace_back(id, next());
}

StorageId Parser::new_storage(Storage storage, const Token& at) {
  if (storages_.count(storage.name))
    fail(errors::kDeclaredTwice, at, fmt::format("storage '${}' is declared twice", storage.name));
  const std::string wanted = storage.name;
  const StorageId id = graph_.add_storage(std::move(storage));
  graph_[id].name = wanted;  // the table of names may have given it a suffix
  storages_.emplace(wanted, id);
  return id;
}

BufferId Parser::new_buffer(Buffer buffer, const Token& at) {
  if (buffers_.count(buffer.name))
    fail(errors::kDeclaredTwice, at, fmt::format("buffer '%{}' is declared twice", buffer.name));
  const std::string wanted = buffer.name;
  const BufferId id = graph_.add_buffer(std::move(buffer));
  graph_[id].name = wanted;
  buffers_.emplace(wanted, id);
  return id;
}

void Parser::resolve_aliases() {
  for (const auto& [id, target] : aliases_) graph_[id].alias_of = storage_ref(target);
  for (const auto& [id, target] : aliases_) {
    StorageId s = id;
    for (std::size_t steps = 0; graph_[s].alias_of.valid(); s = graph_[s].alias_of) {
      if (++steps > graph_.storages.size())
        fail(errors::kBadStructure, target, "storages alias each other in a cycle");
    }
  }
}

StorageId Parser::storage_ref(const Token& t) const {
  if (t.kind != TokenKind::storage) fail(errors::kSyntaxError, t, "expected a storage: $name");
  const auto it = storages_.find(t.text);
  if (it == storages_.end()) fail(errors::kUnknownName, t, fmt::format("unknown storage '${}'", t.text));
  return it->second;
}

BufferId Parser::buffer_declaration(StorageKind context) {
  const Token t = next();
  if (t.kind != TokenKind::value) fail(errors::kSyntaxError, t, "expected a buffer: %name");
  Buffer b;
  b.name = t.text;
  b.layout = FixedLayout{};
  bool typed = false;
  if (accept_punct(":")) {
    typed = true;
    b.dtype = dtype();
    b.sizes = size_list();
  }
  if (!typed && !at_word("mutates")) fail_expected("': TYPE[SIZES]' or 'mutates %buffer'");
  if (accept_word("mutates")) {
    const BufferId of = buffer_ref();
    b.layout = MutationOutput{of};
    if (!typed) {
      b.dtype = graph_[of].dtype;
      b.sizes = graph_[of].sizes;
    } else if (b.dtype != graph_[of].dtype) {
      fail(errors::kWrongType, t, "a mutation must have the type of the buffer that it mutates");
    }
    return new_buffer(std::move(b), t);
  }
  layout_clauses(b, context, t);
  return new_buffer(std::move(b), t);
}

// "input", "constant" and "output" are also the first words of statements, in which a buffer follows. An
// output's buffer has no type, while an operation's result, which may follow the clause, has one.
bool Parser::starts_statement() const {
  if (peek(1).kind != TokenKind::value) return false;
  if (!at_word("output")) return at_word("input") || at_word("constant");
  return !is(peek(2), TokenKind::punct, ":") && !is(peek(2), TokenKind::word, "mutates");
}

// Clauses after the type, in any order: layout, storage kind, storage, alias.
void Parser::layout_clauses(Buffer& b, StorageKind context, const Token& at) {
  std::optional<std::vector<Expr>> strides;
  std::optional<StorageKind> kind;
  std::optional<Token> on, alias;
  bool no_storage = false;
  for (;;) {
    if (accept_word("flexible")) {
      b.layout = FlexibleLayout{};
    } else if (accept_word("no_memory")) {
      b.layout = NoneLayout{};
    } else if (accept_word("multi_output")) {
      b.layout = MultiOutputLayout{};
    } else if (accept_word("no_storage")) {
      no_storage = true;
    } else if (accept_word("strides")) {
      const Token t = peek();
      strides = uniform_list();
      if (strides->size() != b.sizes.size())
        fail(errors::kWrongCount, t,
             fmt::format("got {} strides for {} sizes", strides->size(), b.sizes.size()));
    } else if (accept_word("in")) {
      NonOwningLayout view{buffer_ref(), 0, {}};
      if (accept_word("at")) view.offset = expr();
      if (graph_[view.base].dtype != b.dtype)
        fail(errors::kWrongType, at, "a view must have the type of its base");
      b.layout = std::move(view);
    } else if (accept_word("comm")) {
      auto [comm_kind, groups] = comm_clause();
      b.layout = CommBufferLayout{{}, comm_kind, std::move(groups)};
    } else if (accept_word("on")) {
      on = next();
    } else if (accept_word("alias")) {
      alias = next();
    } else if (const std::optional<StorageKind> k = storage_kind_of(peek()); k && !starts_statement()) {
      kind = k;
      next();
    } else {
      break;
    }
  }
  const std::vector<Expr> row = row_major(b.sizes, at);
  if (auto* f = std::get_if<FixedLayout>(&b.layout)) f->strides = strides.value_or(row);
  if (auto* v = std::get_if<NonOwningLayout>(&b.layout)) v->strides = strides.value_or(row);
  if (auto* c = std::get_if<CommBufferLayout>(&b.layout)) c->strides = strides.value_or(row);
  if (owns(b) && !no_storage) {
    make_storage(b, kind, context, on ? &*on : nullptr, alias ? &*alias : nullptr, at);
  } else if (on || alias || kind) {
    if (owns(b) || alias || kind)
      fail(errors::kBadStructure, at, "a buffer without memory of its own cannot name a storage");
    b.storage = storage_ref(*on);
  }
}

void Parser::make_storage(Buffer& b, std::optional<StorageKind> kind, StorageKind context, const Token* on,
                          const Token* alias, const Token& at) {
  if (on) {
    if (kind || alias)
      fail(errors::kBadStructure, at, "kind and alias of a storage belong in its declaration");
    b.storage = storage_ref(*on);
    return;
  }
  Storage s;
  s.name = b.name;
  if (const auto* c = std::get_if<CommBufferLayout>(&b.layout)) {
    s.kind = StorageKind::comm;
    s.comm_kind = c->kind;
    s.groups = c->groups;
  } else {
    s.kind = kind.value_or(context);
  }
  s.bytes = default_bytes(b);
  b.storage = new_storage(std::move(s), at);
  if (alias) aliases_.emplace_back(b.storage, *alias);
}

void Parser::input() {
  if (peek().kind == TokenKind::value && is(peek(1), TokenKind::word, "again")) {
    const BufferId b = buffer_ref();
    expect_word("again");
    graph_.inputs.push_back(named<GraphInput>(b));
    return;
  }
  const BufferId b = buffer_declaration(StorageKind::input);
  graph_.inputs.push_back(named<GraphInput>(b));
}

void Parser::output() {
  const BufferId b = buffer_ref();
  graph_.outputs.push_back(named<GraphOutput>(b));
  if (!accept_word("classes")) return;
  expect_punct("(");
  do graph_.outputs.back().classes.push_back(name());
  while (accept_punct(","));
  expect_punct(")");
}

template <class Interface>
Interface Parser::named(BufferId b) {
  Interface result{accept_word("as") ? name() : graph_[b].name, b, {}};
  if (!accept_word("part")) return result;
  result.part.emplace();
  result.part->state = name();
  expect_word("of");
  result.part->whole = expr_list();
  return result;
}

void Parser::constant() {
  const Token at = peek();
  const BufferId b = buffer_declaration(StorageKind::constant);
  const StorageId s = graph_[b].storage;
  if (!s.valid() || graph_[s].kind != StorageKind::constant)
    fail(errors::kBadStructure, at, "a constant requires a storage of kind constant");
  if (accept_punct("=")) graph_[s].data = constant_data(b, at);
}

ConstantData Parser::constant_data(BufferId b, const Token& at) {
  Expr numel = 1;
  for (const Expr& s : graph_[b].sizes) numel = numel * s;
  if (!numel.is_constant() || !graph_[graph_[b].storage].bytes.is_constant())
    fail(errors::kBadConstant, at, "the sizes of a constant must be constant");
  ConstantData data;
  if (accept_word("file")) {
    expect_punct("(");
    data.file = name();
    expect_punct(",");
    data.file_offset = integer();
    expect_punct(")");
    if (data.file_offset < 0 || data.file.empty())
      fail(errors::kBadConstant, at, "a file requires a name and an offset of at least 0");
    return data;
  }
  std::vector<std::vector<std::byte>> entries;
  const auto entry = [&] {
    if (accept_word("elided")) {
      data.elided.push_back(hexadecimal());
    } else {
      // All of the memory: rows may have gaps.
      const std::int64_t bytes = graph_[graph_[b].storage].bytes.constant();
      entries.push_back(constant_values(graph_[b].dtype, bytes / size_of(graph_[b].dtype)));
    }
  };
  if (accept_word("per_rank")) {
    expect_punct("(");
    comma_separated(entry);
    expect_punct(")");
    const std::size_t count = entries.size() + data.elided.size();
    if (count != static_cast<std::size_t>(graph_.ranks)) {
      fail(errors::kBadConstant, at,
           fmt::format("the constant has {} entries for {} ranks", count, graph_.ranks));
    }
  } else {
    entry();
  }
  if (!entries.empty() && !data.elided.empty())
    fail(errors::kBadConstant, at, "all entries of a constant must be elided, or none");
  if (!entries.empty()) {
    auto owner = std::make_shared<const std::vector<std::vector<std::byte>>>(std::move(entries));
    for (const std::vector<std::byte>& e : *owner) data.per_rank.emplace_back(e);
    data.owner = owner;
  }
  return data;
}

std::vector<std::byte> Parser::constant_values(DType dtype, std::int64_t count) {
  const Token at = peek();
  const auto item = static_cast<std::size_t>(size_of(dtype));
  std::vector<std::byte> bytes;
  const auto value = [&] {
    std::byte element[8] = {};
    if (accept_word("bits")) {
      const std::uint64_t v = hexadecimal();
      for (std::size_t k = 0; k < item; ++k) element[k] = static_cast<std::byte>(v >> (8 * k));
    } else {
      const Token t = peek();
      LoopBody typed;
      typed.instrs.push_back({OpCode::constant, dtype});
      typed.instrs[0].literal = literal(dtype);
      if (check_instr(graph_, typed, 0, {}))
        fail(errors::kBadConstant, t, fmt::format("the value does not fit {}", to_string(dtype)));
      write_element(dtype, element, typed.instrs[0].literal);
    }
    bytes.insert(bytes.end(), element, element + item);
  };
  if (accept_word("splat")) {
    expect_punct("(");
    value();
    expect_punct(")");
    if (static_cast<std::uint64_t>(count) > kMaxSplatBytes / item)
      fail(errors::kBadConstant, at, fmt::format("a splat of {} elements is too large", count));
    const std::vector<std::byte> one = bytes;
    bytes.clear();
    for (std::int64_t i = 0; i < count; ++i) bytes.insert(bytes.end(), one.begin(), one.end());
    return bytes;
  }
  expect_punct("[");
  if (!accept_punct("]")) {
    comma_separated(value);
    expect_punct("]");
  }
  if (bytes.size() / item != static_cast<std::uint64_t>(count)) {
    fail(errors::kBadConstant, at, fmt::format("got {} values for {} elements", bytes.size() / item, count));
  }
  return bytes;
}

void Parser::plan() {
  MemoryPlan p;
  expect_word("arena");
  p.arena_bytes = integer();
  expect_word("comm");
  p.comm_bytes = integer();
  expect_word("live_peak");
  p.live_peak_bytes = integer();
  expect_punct("{");
  while (!accept_punct("}")) {
    const Token t = next();
    const StorageId s = storage_ref(t);
    expect_punct(":");
    Placement at;
    if (accept_word("comm")) {
      at.space = MemorySpace::comm;
    } else {
      expect_word("arena");
    }
    at.offset = integer();
    expect_word("bytes");
    at.bytes = integer();
    expect_word("steps");
    at.first_step = small_integer();
    expect_punct("..");
    at.last_step = small_integer();
    if (!p.placements.emplace(s, at).second)
      fail(errors::kDeclaredTwice, t, fmt::format("storage '${}' is placed twice", t.text));
  }
  schedule_.plan = std::move(p);
}

// -----------------------------------------------------------------------------------------------------------
// uses

BufferId Parser::buffer_ref() {
  const Token t = next();
  if (t.kind != TokenKind::value) fail(errors::kSyntaxError, t, "expected a buffer: %name");
  const auto it = buffers_.find(t.text);
  if (it == buffers_.end()) fail(errors::kUnknownName, t, fmt::format("unknown buffer '%{}'", t.text));
  return it->second;
}

GroupId Parser::group_ref() {
  const Token t = next();
  if (t.kind != TokenKind::group) fail(errors::kSyntaxError, t, "expected a group: @name");
  const auto it = groups_.find(t.text);
  if (it == groups_.end())
    fail(errors::kUnknownName, t, fmt::format("unknown group '@{}'", t.text),
         "declare it: group @NAME = [RANKS]");
  return it->second;
}

OpId Parser::op_ref() {
  const Token t = peek();
  const auto it = ops_.find(name());
  if (it == ops_.end()) fail(errors::kUnknownName, t, fmt::format("unknown operation '{}'", t.text));
  return it->second;
}

TensorRef Parser::tensor_ref() {
  if (accept_word("transpose")) {
    expect_punct("(");
    const Token t = peek();
    const std::optional<TensorRef> r = transposed(whole(graph_, buffer_ref()));
    if (!r) fail(errors::kOperandShapes, t, "only tensors of rank 2 and above can be transposed");
    expect_punct(")");
    return *r;
  }
  TensorRef r = whole(graph_, buffer_ref());
  if (accept_word("at")) r.offset = expr();
  if (at_punct("[")) {
    const Token t = peek();
    r.sizes = size_list();
    r.strides = row_major(r.sizes, t);
  }
  if (accept_word("strides")) {
    const Token t = peek();
    r.strides = uniform_list();
    if (r.strides.size() != r.sizes.size())
      fail(errors::kWrongCount, t,
           fmt::format("got {} strides for {} sizes", r.strides.size(), r.sizes.size()));
  }
  return r;
}

std::vector<TensorRef> Parser::tensor_refs() {
  std::vector<TensorRef> out;
  expect_punct("(");
  if (accept_punct(")")) return out;
  comma_separated([&] { out.push_back(tensor_ref()); });
  expect_punct(")");
  return out;
}

std::vector<BufferId> Parser::buffer_refs() {
  std::vector<BufferId> out;
  expect_punct("(");
  if (accept_punct(")")) return out;
  comma_separated([&] { out.push_back(buffer_ref()); });
  expect_punct(")");
  return out;
}

}  // namespace braid::ir
