// Ids that can be incremented, and tables that are indexed by them, so that no index is cast.
//
//   for (NodeId n : problem.nodes()) begin[n] = ...;       IdVector<NodeId, Time> begin(problem.nodes());
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "ir/ids.h"

namespace braid::ir {

template <class Tag>
constexpr Id<Tag>& operator++(Id<Tag>& id) {
  ++id.index;
  return id;
}
template <class Tag>
constexpr Id<Tag>& operator--(Id<Tag>& id) {
  --id.index;
  return id;
}
template <class Tag>
constexpr Id<Tag> operator++(Id<Tag>& id, int) {
  return {id.index++};
}
template <class Tag>
constexpr Id<Tag> operator--(Id<Tag>& id, int) {
  return {id.index--};
}
template <class Tag>
constexpr Id<Tag> operator+(Id<Tag> id, std::int32_t by) {
  return {id.index + by};
}
template <class Tag>
constexpr Id<Tag> operator-(Id<Tag> id, std::int32_t by) {
  return {id.index - by};
}
template <class Tag>
constexpr std::int32_t operator-(Id<Tag> a, Id<Tag> b) {
  return a.index - b.index;
}

// The position in a table of an Id, or of a number that stands for one (a rank, a stage).
template <class Tag>
constexpr std::size_t offset_of(Id<Tag> id) {
  return static_cast<std::size_t>(id.index);
}
constexpr std::size_t offset_of(std::integral auto number) { return static_cast<std::size_t>(number); }
template <class I>
constexpr I id_at(std::size_t offset) {
  if constexpr (std::integral<I>) {
    return static_cast<I>(offset);
  } else {
    return {static_cast<std::int32_t>(offset)};
  }
}
// The number of entries as an int, for arithmetic.
template <class Table>
constexpr int count_of(const Table& table) {
  return static_cast<int>(std::size(table));
}
// An entry of a plain vector that is indexed by this id.
template <class T>
constexpr T& at(std::vector<T>& table, auto id) {
  return table[offset_of(id)];
}
template <class T>
constexpr const T& at(const std::vector<T>& table, auto id) {
  return table[offset_of(id)];
}

// Half open: first, first + 1, ..., last - 1.
template <class I>
class IdRange {
 public:
  class iterator {
   public:
    using value_type = I;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::bidirectional_iterator_tag;
    using reference = I;
    using pointer = void;
    constexpr iterator() = default;
    constexpr explicit iterator(I id) : id_(id) {}
    constexpr I operator*() const { return id_; }
    constexpr iterator& operator++() {
      ++id_;
      return *this;
    }
    constexpr iterator& operator--() {
      --id_;
      return *this;
    }
    constexpr iterator operator++(int) { return iterator(id_++); }
    constexpr iterator operator--(int) { return iterator(id_--); }
    constexpr bool operator==(const iterator&) const = default;

   private:
    I id_{};
  };

  constexpr IdRange(I first, I last) : first_(first), last_(last) {}
  constexpr iterator begin() const { return iterator(first_); }
  constexpr iterator end() const { return iterator(last_); }
  constexpr std::size_t size() const { return offset_of(last_ - first_); }
  constexpr bool empty() const { return first_ == last_; }

 private:
  I first_, last_;
};
// The ids 0, 1, ... of a table with `count` entries.
template <class I>
constexpr IdRange<I> first_ids(int count) {
  return {I{0}, I{count}};
}

// A vector with one entry per id.
template <class I, class T>
class IdVector : public std::vector<T> {
 public:
  using Base = std::vector<T>;
  using Base::Base;
  IdVector() = default;
  explicit IdVector(Base entries) : Base(std::move(entries)) {}
  explicit IdVector(IdRange<I> of, const T& value = T{}) : Base(of.size(), value) {}
  using Base::assign;
  void assign(IdRange<I> of, const T& value) { Base::assign(of.size(), value); }

  typename Base::reference operator[](I id) { return Base::operator[](offset_of(id)); }
  typename Base::const_reference operator[](I id) const { return Base::operator[](offset_of(id)); }
  // The id after the last one.
  I end_id() const { return id_at<I>(Base::size()); }
  IdRange<I> ids() const { return {id_at<I>(0), end_id()}; }
  // The entries of first, first + 1, ..., last - 1.
  std::span<const T> slice(I first, I last) const {
    return std::span<const T>(*this).subspan(offset_of(first), offset_of(last - first));
  }
};

template <class I, class T>
class IdSpan : public std::span<T> {
 public:
  using std::span<T>::span;
  IdSpan(std::span<T> entries) : std::span<T>(entries) {}  // implicit, as for std::span
  template <class U>
  IdSpan(const IdVector<I, U>& table) : std::span<T>(table) {}
  T& operator[](I id) const { return std::span<T>::operator[](offset_of(id)); }
  I end_id() const { return id_at<I>(this->size()); }
  IdRange<I> ids() const { return {id_at<I>(0), end_id()}; }
};

// A list per id, contiguous in memory; filled in the order of the ids.
template <class I, class T>
class IdLists {
 public:
  std::span<const T> operator[](I id) const {
    const std::size_t n = offset_of(id);
    return std::span<const T>(entries_).subspan(first_[n], first_[n + 1] - first_[n]);
  }
  std::span<T> operator[](I id) {
    const std::size_t n = offset_of(id);
    return std::span<T>(entries_).subspan(first_[n], first_[n + 1] - first_[n]);
  }
  // add() appends to the list that is being filled; close() ends it.
  void add(T entry) { entries_.push_back(std::move(entry)); }
  void close() { first_.push_back(entries_.size()); }
  // Appends a whole list.
  template <class List>
  void push_back(const List& list) {
    entries_.insert(entries_.end(), std::begin(list), std::end(list));
    close();
  }
  IdRange<I> ids() const { return {id_at<I>(0), id_at<I>(first_.size() - 1)}; }
  I end_id() const { return id_at<I>(first_.size() - 1); }

 private:
  std::vector<T> entries_;
  std::vector<std::size_t> first_ = {0};
};

}  // namespace braid::ir

template <class I>
inline constexpr bool std::ranges::enable_view<braid::ir::IdRange<I>> = true;
template <class I>
inline constexpr bool std::ranges::enable_borrowed_range<braid::ir::IdRange<I>> = true;
