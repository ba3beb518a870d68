#include "ir/interpreter_collectives.h"

#include <algorithm>

#include "ir/collective_table.h"
#include "ir/element.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/scalar.h"

namespace braid::ir {
namespace {

using Bytes = std::vector<std::byte>;

bool same_memory(const ByteView& a, const ByteView& b) {
  const auto range = [](const ByteView& v) {
    std::int64_t last = v.offset + size_of(v.dtype);
    for (std::size_t k = 0; k < v.sizes.size(); ++k)
      last += std::max<std::int64_t>(v.sizes[k] - 1, 0) * v.strides[k];
    return std::pair(v.storage + v.offset, v.storage + last);
  };
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto [a0, a1] = range(a);
  const auto [b0, b1] = range(b);
  return a0 < b1 && b0 < a1;
}

Bytes reduce(ReduceKind kind, DType type, const std::vector<Bytes>& parts) {
  const auto item = static_cast<std::size_t>(size_of(type));
  // The mean of integers is that of their sum in 64 bits, as in the engines
  // (runtime/comm/communicator.h).
  const bool wide = kind == ReduceKind::avg && is_integer(type);
  const DType sum_type = !wide ? type : is_signed_integer(type) ? DType::i64 : DType::u64;
  Bytes out(parts[0].size());
  for (std::size_t at = 0; at < out.size(); at += item) {
    Scalar sum = to_scalar(read_element(type, parts[0].data() + at));
    for (std::size_t r = 1; r < parts.size(); ++r)
      sum = fold(kind, sum_type, sum, to_scalar(read_element(type, parts[r].data() + at)));
    if (kind == ReduceKind::avg) {
      const auto n = static_cast<std::int64_t>(parts.size());
      sum = is_float(type) ? Scalar{sum.d / static_cast<double>(n), 0}
                           : apply(OpCode::div, sum_type, sum, Scalar{0, n});
    }
    write_element(type, out.data() + at, to_literal(type, rounded(type, sum)));
  }
  return out;
}

Bytes slab(const Bytes& bytes, std::size_t k, std::size_t of) {
  const auto each = static_cast<std::ptrdiff_t>(bytes.size() / of);
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(k) * each;
  return {begin, begin + each};
}

// Returns what party `me` gets in output i, given input i of all parties.
Bytes result(const Exchange& e, std::size_t me, std::size_t i, std::vector<Bytes> inputs) {
  const Exchange::Party& party = e.parties[me];
  const CollectiveRow& row = row_of(e.kind);
  if (row.from_root()) inputs = {inputs[static_cast<std::size_t>(party.kernel->root)]};
  if (row.in == Blocks::all) {
    for (Bytes& in : inputs) in = slab(in, me, e.parties.size());
  }
  if (row.reduces) return reduce(party.kernel->reduce, party.outputs[i].dtype, inputs);
  Bytes out = std::move(inputs[0]);
  for (std::size_t k = 1; k < inputs.size(); ++k) out.insert(out.end(), inputs[k].begin(), inputs[k].end());
  return out;
}

// Returns the inputs of a party, or the outputs of one that only receives.
const std::vector<ByteView>& operands(const Exchange::Party& p) {
  return row_of(p.kernel->kind).in == Blocks::none ? p.outputs : p.inputs;
}

std::string describe(const Exchange::Party& p) {
  std::string sizes;
  for (const ByteView& v : operands(p)) {
    sizes += fmt::format("{}{} {}", sizes.empty() ? "" : ", ", v.numel(), to_string(v.dtype));
  }
  return fmt::format("rank {}: '{}', {} {} of {}", p.rank, p.op->name, to_string(p.kernel->kind),
                     to_string(p.kernel->reduce), sizes);
}

bool agree(const Exchange::Party& a, const Exchange::Party& b) {
  const CollectiveKernel &x = *a.kernel, &y = *b.kernel;
  if (row_of(x.kind).point_to_point != row_of(y.kind).point_to_point) return false;
  if (row_of(x.kind).point_to_point) {
    if (x.kind == y.kind) return false;
  } else if (x.kind != y.kind || x.reduce != y.reduce || x.root != y.root || x.blocking != y.blocking) {
    return false;
  }
  const auto &p = operands(a), &q = operands(b);
  return std::equal(p.begin(), p.end(), q.begin(), q.end(), [](const ByteView& v, const ByteView& w) {
    return v.dtype == w.dtype && v.numel() == w.numel();
  });
}

}  // namespace

bool Exchange::all_started() const {
  return std::all_of(parties.begin(), parties.end(), [](const Party& p) { return p.op != nullptr; });
}

bool Exchange::all_done() const {
  return std::all_of(parties.begin(), parties.end(), [](const Party& p) { return p.done; });
}

std::string Exchange::missing(bool results) const {
  std::string out;
  for (const Party& p : parties) {
    if (results ? p.done : p.op != nullptr) continue;
    out += fmt::format("{}{}", out.empty() ? "rank " : ", ", p.rank);
  }
  return out;
}

Exchange* Exchanges::start(RankMemory& memory, const Operation& op, const CollectiveKernel& kernel) {
  const std::vector<int>* part = memory.graph()[kernel.group].part_of(memory.rank());
  if (part == nullptr) return nullptr;
  const std::vector<int>& ranks = *part;
  const auto found = std::find(ranks.begin(), ranks.end(), memory.rank());
  auto me = static_cast<std::size_t>(found - ranks.begin());
  std::vector<int> members = ranks;
  if (row_of(kernel.kind).point_to_point) {
    const int other = ranks[static_cast<std::size_t>(kernel.root)];
    if (other == memory.rank()) return nullptr;
    const bool send = kernel.kind == CollectiveKind::send;
    members = send ? std::vector<int>{memory.rank(), other} : std::vector<int>{other, memory.rank()};
    me = send ? 0 : 1;
  }
  const std::string key = fmt::format("{}{}|{}", row_of(kernel.kind).point_to_point ? "to:" : "",
                                      fmt::join(members, ","), fmt::join(ranks, ","));
  const std::size_t number = started_[{key, memory.rank()}]++;
  std::vector<std::unique_ptr<Exchange>>& all = exchanges_[key];
  if (number >= all.size()) {
    all.push_back(std::make_unique<Exchange>());
    all.back()->kind = kernel.kind;
    for (int r : members) {
      all.back()->parties.emplace_back();
      all.back()->parties.back().rank = r;
    }
  }
  Exchange& e = *all[number];
  Exchange::Party& party = e.parties[me];
  party.op = &op;
  party.kernel = &kernel;
  party.memory = &memory;
  for (const TensorRef& r : kernel.inputs) party.inputs.push_back(memory.view(r));
  for (const TensorRef& r : kernel.outputs) party.outputs.push_back(memory.view(r));
  for (const Exchange::Party& other : e.parties) {
    if (!other.op || &other == &party) continue;
    if (!agree(party, other)) {
      user_error(errors::kCollectivesDiffer, {{}, op.name, {}},
                 fmt::format("collective {} of group '{}' differs between ranks: {}; {}", number,
                             memory.graph()[kernel.group].name, describe(other), describe(party)));
    }
  }
  e.at_once |= kernel.blocking;
  for (const ByteView& out : party.outputs) {
    const bool in_place = std::any_of(party.inputs.begin(), party.inputs.end(),
                                      [&](const ByteView& in) { return same_memory(in, out); });
    e.at_once |= in_place;
    if (!in_place) memory.poison(out, op.name);
  }
  return &e;
}

void Exchanges::finish(Exchange& e, int rank, bool keep) {
  const auto copy_inputs = [](Exchange::Party& p) {
    if (p.copy) return;
    p.copy.emplace();
    for (const ByteView& v : p.inputs) p.copy->push_back(p.memory->read(v, p.op->name));
  };
  if (e.at_once) {
    for (Exchange::Party& p : e.parties) copy_inputs(p);
  }
  std::size_t me = 0;
  while (e.parties[me].rank != rank) ++me;
  Exchange::Party& party = e.parties[me];
  internal_check(!party.done, "'{}' is waited for twice", party.op->name);
  for (std::size_t i = 0; i < party.outputs.size(); ++i) {
    std::vector<Bytes> inputs;
    for (const Exchange::Party& p : e.parties) {
      if (i < p.inputs.size())
        inputs.push_back(p.copy ? (*p.copy)[i] : p.memory->read(p.inputs[i], p.op->name));
    }
    party.memory->write(party.outputs[i], result(e, me, i, std::move(inputs)), party.op->name);
  }
  party.done = true;
  if (!keep) copy_inputs(party);
}

}  // namespace braid::ir
