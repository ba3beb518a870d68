#include "passes/joined_constants.h"

#include <algorithm>
#include <cstring>

namespace braid::passes {

using namespace ir;

BufferId JoinedConstants::found(const std::vector<Part>& parts, std::size_t rank) const {
  const auto same = [&](const auto& made) {
    return made.first == parts && graph_[made.second].sizes.size() == rank;
  };
  const auto made = std::find_if(made_.begin(), made_.end(), same);
  return made == made_.end() ? BufferId{} : made->second;
}

TensorRef JoinedConstants::rows(const std::vector<Part>& parts) {
  if (const BufferId made = found(parts, parts[0].ref.sizes.size()); made.valid()) return whole(graph_, made);
  const TensorRef& first = parts[0].ref;
  std::vector<Expr> sizes = first.sizes;
  std::int64_t rows = 0;
  for (const Part& part : parts) rows += part.rows;
  sizes[sizes.size() - 2] = rows;
  const Buffer& given = graph_[first.buffer];
  const BufferId id = graph_.add_padded(given.name + ".merged", given.dtype, sizes, StorageKind::constant);
  const std::vector<Expr> strides = strides_of(graph_, id);
  const std::int64_t row_bytes = strides[sizes.size() - 2].constant() * size_of(graph_[id].dtype);
  graph_[graph_[id].storage].data = bytes_of(parts, sizes.size() - 2, row_bytes);
  made_.emplace_back(parts, id);
  return whole(graph_, id);
}

BufferId JoinedConstants::row(const std::vector<Part>& parts) {
  if (const BufferId made = found(parts, 1); made.valid()) return made;
  const Buffer given = graph_[parts[0].ref.buffer];
  std::int64_t elements = 0;
  for (const Part& part : parts) elements += part.rows;
  const BufferId id =
      graph_.add_owned(given.name + ".merged", given.dtype, {elements}, StorageKind::constant);
  graph_[graph_[id].storage].data = bytes_of(parts, 1, size_of(given.dtype));
  made_.emplace_back(parts, id);
  return id;
}

// Concatenates the bytes of all parts, part after part, for each element of the batch.
ConstantData JoinedConstants::bytes_of(const std::vector<Part>& parts, std::size_t joined,
                                       std::int64_t row_bytes) const {
  std::size_t ranks = 1;
  std::vector<ConstantData> data;
  std::int64_t rows = 0;
  for (const Part& part : parts) {
    data.push_back(packer_.bytes_of(part.ref, part.ref.sizes.size() - 1));
    ranks = std::max(ranks, data.back().per_rank.size());
    rows += part.rows;
  }
  std::int64_t batch = 1;
  for (std::size_t d = 0; d < joined; ++d) batch *= parts[0].ref.sizes[d].constant();
  std::vector<std::vector<std::byte>> out(
      ranks, std::vector<std::byte>(static_cast<std::size_t>(batch * rows * row_bytes)));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::byte* to = out[rank].data();
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const std::int64_t given = parts[p].ref.sizes[joined].constant() * row_bytes;
        std::memcpy(to, data[p].of_rank(static_cast<int>(rank)).data() + b * given,
                    static_cast<std::size_t>(given));
        to += parts[p].rows * row_bytes;
      }
    }
  }
  return own_bytes_of_ranks(std::move(out));
}

}  // namespace braid::passes
