// The recursive-descent parser behind ir/parser.h; split over parser*.cc.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/error_numbers.h"
#include "ir/lexer.h"
#include "ir/parser.h"
#include "ir/typing.h"

namespace braid::ir {

class Parser {
 public:
  Parser(std::string_view text, std::string file_name)
      : file_(std::move(file_name)), tokens_(tokenize(text, file_)), graph_(schedule_.graph) {}
  // For parse_expr: takes names from an existing graph.
  Parser(std::string_view text, Graph& graph);

  Schedule parse();
  Expr parse_lone_expr();

 private:
  // ---- tokens (parser_tokens.cc)
  const Token& peek(std::size_t ahead = 0) const;
  Token next();
  bool at_punct(std::string_view text) const { return is(peek(), TokenKind::punct, text); }
  bool at_word(std::string_view text) const { return is(peek(), TokenKind::word, text); }
  static bool is(const Token& t, TokenKind kind, std::string_view text) {
    return t.kind == kind && t.text == text;
  }
  bool accept_punct(std::string_view text);
  bool accept_word(std::string_view text);
  void expect_punct(std::string_view text);
  void expect_word(std::string_view text);
  [[noreturn]] void fail(int code, const Token& at, std::string message, std::string hint = {}) const;
  [[noreturn]] void fail_expected(std::string_view what) const;
  // Reports a violated rule of ir/typing.h or ir/operation_check.h.
  [[noreturn]] void fail(const Token& at, const TypeError& error) const;

  std::string name();  // word or string
  std::int64_t integer();
  int small_integer();  // fits int
  double floating();
  DType dtype();
  Literal literal(DType dtype);
  std::uint64_t hexadecimal();  // "(0x...)"

  // Parses a list "item, item, ...".
  template <class Fn>
  void comma_separated(Fn&& item) {
    do {
      item();
    } while (accept_punct(","));
  }

  // ---- expressions (parser_expr.cc)
  struct IndexScope {  // what symbols mean inside a body
    const BodyContext* context = nullptr;
    const LoopBody* body = nullptr;
    const std::unordered_map<std::string, ValueId>* values = nullptr;
  };
  Expr expr();
  Expr uniform_expr();  // equal on all ranks
  Expr sum();
  Expr factor();
  Expr atom();
  Expr call(const Token& function);
  Expr symbol(const Token& t);
  Expr checked(Expr e, const Token& at) const;        // bounded growth
  Expr times(Expr a, Expr b, const Token& at) const;  // bounded growth
  std::vector<Expr> expr_list();                      // "[" ... "]"
  std::vector<Expr> uniform_list();                   // equal on all ranks
  std::vector<Expr> list_of(const std::function<Expr()>& item);
  std::vector<Expr> size_list();  // non-negative, with a bounded product
  std::vector<Expr> row_major(const std::vector<Expr>& sizes, const Token& at) const;

  // ---- declarations (parser.cc)
  void statement();
  bool header_statement();
  void dim();
  void guard();
  void mesh();
  int axis_ref();
  void group();
  std::vector<int> rank_list();
  void storage();
  void input();
  void constant();
  template <class Interface>
  Interface named(BufferId b);  // "as" and "part" of an input or output
  void output();
  void plan();
  void resolve_aliases();
  BufferId buffer_declaration(StorageKind context);
  bool starts_statement() const;
  void layout_clauses(Buffer& buffer, StorageKind context, const Token& at);
  void make_storage(Buffer& buffer, std::optional<StorageKind> kind, StorageKind context, const Token* on,
                    const Token* alias, const Token& at);
  StorageId new_storage(Storage storage, const Token& at);
  BufferId new_buffer(Buffer buffer, const Token& at);
  std::pair<CommBufferKind, std::vector<GroupId>> comm_clause();
  ConstantData constant_data(BufferId buffer, const Token& at);
  std::vector<std::byte> constant_values(DType dtype, std::int64_t count);

  // ---- uses
  BufferId buffer_ref();
  GroupId group_ref();
  StorageId storage_ref(const Token& t) const;
  OpId op_ref();
  TensorRef tensor_ref();
  std::vector<TensorRef> tensor_refs();
  std::vector<BufferId> buffer_refs();

  // ---- operations (parser_ops.cc)
  ScheduleNode schedule_node();
  OpId operation();
  std::string clauses(Operation& op);  // the name, if one is given
  Kernel kernel(Operation& op, std::string& name);
  Kernel loops(Operation& op, std::string& name, bool reduction);
  // The kernel of this name, if one of `kernel`'s alternatives has it.
  template <class... K>
  bool named_kernel(std::string_view word, Operation& op, std::string& name, std::variant<K...>& kernel);
  // Parses the members of a kernel that has a list of them.
  template <class K>
  K with_fields(Operation& op, std::string& name, K kernel);
  // Each of these parses one entry of the list and returns whether it was there.
  struct FieldStart;
  template <class K>
  bool field(FieldStart& at, K& kernel, const OneResult& f);
  template <class K>
  bool field(FieldStart& at, K& kernel, const Either<K>& f);
  template <class K, Role role, class F, class M>
  bool field(FieldStart& at, K& kernel, const Field<role, F, M>& f);
  template <class K, class M>
  void attribute(const FieldStart& at, K& kernel, M& value);
  void body_field(Product& kernel, std::optional<LoopBody>& epilogue);
  void body_field(Product& kernel, std::vector<PostOp>& steps);
  void body_field(Recurrence& kernel, std::vector<LoopBody>& activations);
  void set_whole(TensorRef& result, const Operation& op) const;
  void set_whole(std::vector<TensorRef>& results, const Operation& op) const;
  std::vector<std::int64_t> integers();  // "[" ... "]"
  // "window [...] stride [...] dilation [...] pad [...]", one number per window. "window" is read only if
  // `taps` is null.
  std::vector<Window> windows(std::size_t count, const std::vector<std::int64_t>* taps);
  std::vector<Window> windows_of(const Convolution& kernel, const Token& start);
  std::vector<Window> windows_of(const Pooling& kernel, const Token& start);
  UndefinedRows undefined_rows();
  PostOp post_op();
  void attributes(ExternAttributes& attributes);
  void reduce(CollectiveKernel& kernel);
  Algorithm algorithm_of(CollectiveKind kind);
  Kernel region_kernel(Operation& op, std::string& name, RegionKind kind);
  Region region(std::size_t results);
  // Instructions up to `end` ("store" or "return") and the value named there.
  LoopBody body(const BodyContext& context, std::span<const Expr> sizes, std::string_view end);
  void operands(Instr& instr, const Token& code);
  void instr(LoopBody& body, const BodyContext& context, std::span<const Expr> sizes);
  ValueId value_ref();
  Expr load_index(BufferId buffer, std::span<const Expr> sizes, const Token& at);

  struct Nest {  // counts levels of recursion
    Nest(Parser& parser) : parser(parser) {
      if (++parser.depth_ > kMaxNesting)
        parser.fail(errors::kNestingTooDeep, parser.peek(), "nested too deeply");
    }
    ~Nest() { --parser.depth_; }
    Parser& parser;
  };

  std::string file_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;

  Schedule schedule_;
  Graph& graph_;
  bool named_ = false;
  std::unordered_map<std::string, Expr> dims_;
  std::unordered_map<std::string, GroupId> groups_;
  std::unordered_map<std::string, StorageId> storages_;
  std::unordered_map<std::string, BufferId> buffers_;
  std::unordered_map<std::string, OpId> ops_;
  std::unordered_set<std::string> node_groups_;       // grouped nodes at the top level
  std::vector<std::pair<StorageId, Token>> aliases_;  // may name storages declared later
  IndexScope scope_;
  std::unordered_map<std::string, ValueId> values_;  // of the body being parsed
};

}  // namespace braid::ir
