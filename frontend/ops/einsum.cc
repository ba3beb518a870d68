// Einsum: products summed over indices. Operands are taken from left to right, each pair as one matrix
// product over the indices that both have and that are not needed afterwards.
#include <algorithm>

#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::ReduceKind;

// A tensor whose axes have labels: letters, or negative numbers for the axes of an ellipsis, -1 the last one.
struct Labelled {
  TensorBox box;
  std::vector<int> labels;

  std::optional<std::size_t> axis_of(int label) const {
    const auto found = std::find(labels.begin(), labels.end(), label);
    if (found == labels.end()) return std::nullopt;
    return static_cast<std::size_t>(found - labels.begin());
  }
  Expr size_of(int label) const { return box.sizes()[*axis_of(label)]; }
};

bool contains(const std::vector<int>& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::vector<int> parse_labels(OpContext& c, const std::string& term, int ellipsis_rank) {
  std::vector<int> labels;
  for (std::size_t k = 0; k < term.size(); ++k) {
    if (term[k] == '.') {
      if (term.compare(k, 3, "...") != 0)
        c.fail(errors::kInvalidAttribute, fmt::format("'{}' is not a term of an equation", term));
      for (int d = ellipsis_rank; d > 0; --d) labels.push_back(-d);
      k += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[k]))) {
      labels.push_back(term[k]);
    } else {
      c.fail(errors::kInvalidAttribute, fmt::format("'{}' is not a term of an equation", term));
    }
  }
  return labels;
}

struct Equation {
  std::vector<std::string> terms;
  std::optional<std::string> result;
};

Equation parse_equation(std::string text) {
  std::erase(text, ' ');
  Equation equation;
  if (const std::size_t arrow = text.find("->"); arrow != std::string::npos) {
    equation.result = text.substr(arrow + 2);
    text.erase(arrow);
  }
  for (std::size_t start = 0;;) {
    const std::size_t comma = text.find(',', start);
    equation.terms.push_back(text.substr(start, comma == std::string::npos ? comma : comma - start));
    if (comma == std::string::npos) return equation;
    start = comma + 1;
  }
}

// A label that occurs twice takes the diagonal.
Labelled with_distinct_labels(OpContext& c, Labelled x) {
  ir::Lowering& l = c.lowering();
  for (std::size_t k = 0; k < x.labels.size(); ++k) {
    for (std::size_t j = k + 1; j < x.labels.size();) {
      if (x.labels[j] != x.labels[k]) {
        ++j;
        continue;
      }
      l.require_equal(x.box.sizes()[k], x.box.sizes()[j]);
      std::vector<Expr> sizes = x.box.sizes();
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(j));
      const TensorBox whole = x.box;
      x.box = l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
        std::vector<Expr> source(at.begin(), at.end());
        source.insert(source.begin() + static_cast<std::ptrdiff_t>(j), at[k]);
        return l.load(b, whole, source);
      });
      x.labels.erase(x.labels.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
  return x;
}

Labelled summed(OpContext& c, Labelled x, const std::vector<int>& needed) {
  std::vector<int> axes, labels;
  for (std::size_t k = 0; k < x.labels.size(); ++k) {
    if (contains(needed, x.labels[k])) {
      labels.push_back(x.labels[k]);
    } else {
      axes.push_back(static_cast<int>(k));
    }
  }
  if (axes.empty()) return x;
  const DType dtype = x.box.dtype();
  ir::Lowering& l = c.lowering();
  return {l.cast(l.reduce(l.cast(x.box, compute_type(dtype)), ReduceKind::sum, axes, false), dtype), labels};
}

TensorBox permuted(OpContext& c, const Labelled& x, const std::vector<int>& order) {
  std::vector<int> axes;
  for (int label : order) axes.push_back(static_cast<int>(*x.axis_of(label)));
  return c.lowering().permute(x.box, axes);
}

std::vector<int> joined(std::initializer_list<const std::vector<int>*> parts) {
  std::vector<int> all;
  for (const std::vector<int>* part : parts) all.insert(all.end(), part->begin(), part->end());
  return all;
}

Expr total(const Labelled& x, const std::vector<int>& labels) {
  Expr n = 1;
  for (int label : labels) n = n * x.size_of(label);
  return n;
}

// The product of two operands. Sizes of 1 that are broadcast (in an ellipsis) are expanded first.
Labelled product(OpContext& c, Labelled a, Labelled b, const std::vector<int>& needed) {
  ir::Lowering& l = c.lowering();
  a = summed(c, std::move(a), joined({&needed, &b.labels}));
  b = summed(c, std::move(b), joined({&needed, &a.labels}));
  std::vector<int> batch, contracted, left, right;
  for (int label : a.labels) {
    (!contains(b.labels, label) ? left : contains(needed, label) ? batch : contracted).push_back(label);
  }
  for (int label : b.labels) {
    if (!contains(a.labels, label)) right.push_back(label);
  }
  for (int label : joined({&batch, &contracted})) {
    const Expr p = a.size_of(label), q = b.size_of(label);
    if (p == q) continue;
    for (auto [x, size, other] : {std::tuple(&a, p, q), std::tuple(&b, q, p)}) {
      if (!size.is_constant(1)) continue;
      std::vector<Expr> sizes = x->box.sizes();
      sizes[*x->axis_of(label)] = other;
      x->box = l.expand(x->box, sizes);
    }
    l.require_equal(a.size_of(label), b.size_of(label));
  }
  std::vector<Expr> sizes;
  for (int label : batch) sizes.push_back(a.size_of(label));
  const std::vector<Expr> batch_sizes = sizes;
  for (int label : left) sizes.push_back(a.size_of(label));
  for (int label : right) sizes.push_back(b.size_of(label));
  const std::vector<int> labels = joined({&batch, &left, &right});
  if (contracted.empty()) {
    // Nothing to sum: an elementwise product of broadcast operands.
    TensorBox x = permuted(c, a, joined({&batch, &left})), y = permuted(c, b, joined({&batch, &right}));
    for (std::size_t k = 0; k < right.size(); ++k) x = l.unsqueeze(x, static_cast<int>(x.rank()));
    for (std::size_t k = 0; k < left.size(); ++k) y = l.unsqueeze(y, static_cast<int>(batch.size()));
    return {binary(l, OpCode::mul, x, y), labels};
  }
  const Expr m = total(a, left), n = total(b, right), k = total(a, contracted);
  const auto matrices = [&](TensorBox x, Expr rows, Expr columns) {
    std::vector<Expr> shape = batch_sizes;
    shape.push_back(rows);
    shape.push_back(columns);
    return l.reshape(std::move(x), shape);
  };
  const TensorBox x = matrices(permuted(c, a, joined({&batch, &left, &contracted})), m, k);
  const TensorBox y = matrices(permuted(c, b, joined({&batch, &contracted, &right})), k, n);
  return {l.reshape(l.matmul(x, y), sizes), labels};
}

void lower_einsum(OpContext& c) {
  const Equation equation = parse_equation(c.string_attribute("equation", ""));
  if (static_cast<int>(equation.terms.size()) != c.input_count()) {
    c.fail(errors::kInvalidAttribute,
           fmt::format("the equation has {} terms for {} inputs", equation.terms.size(), c.input_count()));
  }
  std::vector<Labelled> operands;
  int ellipsis_rank = 0;
  for (int k = 0; k < c.input_count(); ++k) {
    const std::string& term = equation.terms[static_cast<std::size_t>(k)];
    const auto letters = std::count_if(term.begin(), term.end(), [](char ch) { return ch != '.'; });
    const int hidden = term.find('.') == std::string::npos ? 0 : c.rank(k) - static_cast<int>(letters);
    ellipsis_rank = std::max(ellipsis_rank, hidden);
    Labelled x{c.input(k), parse_labels(c, term, hidden)};
    if (x.labels.size() != x.box.rank()) {
      c.fail(errors::kShapeMismatch,
             fmt::format("the term '{}' does not match input {} of rank {}", term, k, x.box.rank()));
    }
    operands.push_back(with_distinct_labels(c, std::move(x)));
  }
  std::vector<int> result;
  if (equation.result) {
    result = parse_labels(c, *equation.result, ellipsis_rank);
  } else {
    // The ellipsis, then the letters that occur once, in alphabetical order.
    std::vector<int> letters;
    for (const std::string& term : equation.terms) {
      for (char ch : term) {
        if (ch != '.') letters.push_back(ch);
      }
    }
    std::sort(letters.begin(), letters.end());
    for (int d = ellipsis_rank; d > 0; --d) result.push_back(-d);
    for (int letter : letters) {
      if (std::count(letters.begin(), letters.end(), letter) == 1) result.push_back(letter);
    }
  }
  Labelled product_so_far = operands[0];
  for (std::size_t k = 1; k < operands.size(); ++k) {
    std::vector<int> needed = result;
    for (std::size_t j = k + 1; j < operands.size(); ++j) {
      needed.insert(needed.end(), operands[j].labels.begin(), operands[j].labels.end());
    }
    product_so_far = product(c, std::move(product_so_far), operands[k], needed);
  }
  product_so_far = summed(c, std::move(product_so_far), result);
  for (int label : result) {
    if (!product_so_far.axis_of(label))
      c.fail(errors::kInvalidAttribute, "the result has an index that occurs in no term");
  }
  c.set_output(0, permuted(c, product_so_far, result));
}

}  // namespace

std::span<const OpSpec> einsum_ops() {
  static const OpSpec ops[] = {
      {"", "Einsum", 12, kNewestOpset, kNumbers, lower_einsum, work::einsum(), rule::kEinsum, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
